"""A command that writes a CSV of how each program ranks the networks of each board, and draws it.

python -m zcbench.tools.cross RESULTS PROGRAM.json ... --figure cross.svg > cross.csv
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..datasets import data_folder
from ..errors import ZcbenchError
from ..evolution.study.cross import cross, picture
from ..evolution.study.found import read


def main(arguments: Sequence[str]) -> int:
    """Write the table as CSV to standard output; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m zcbench.tools.cross", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("results", type=Path, help="folder of scores")
    parser.add_argument("programs", type=Path, nargs="+", help="program files")
    parser.add_argument("--with", dest="others", default="", help="other proxies to show, with commas; by default all")
    parser.add_argument("--figure", type=Path, help="SVG file to draw")
    given = parser.parse_args(arguments)
    try:
        others = [name.strip() for name in given.others.split(",") if name.strip()]
        cells = cross(given.results, [read(path) for path in given.programs], data_folder(None), others)
        if given.figure:
            picture(given.figure, cells)
    except ZcbenchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(
        pd.DataFrame([dataclasses.asdict(cell) for cell in cells]).to_csv(index=False, float_format="%.4f")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
