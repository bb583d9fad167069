"""A command that writes the class of every NAS-Bench-201 network to the file that the space reads.

python -m zcbench.tools.nb201.classes
"""

from __future__ import annotations

import numpy as np

from ...spaces.nb201.network import CLASSES, classes_by_function

if __name__ == "__main__":
    np.save(CLASSES, np.array(classes_by_function(), dtype=np.uint16))
