"""Writes the page on the operations of programs.

python -m zcbench.tools.primitives > docs/primitives.md
"""

from __future__ import annotations

import sys
from typing import cast

from ..evolution.language.primitives import PRIMITIVES, Signature

HEAD = """# Primitives

Made from the registry by `python -m zcbench.tools.primitives > docs/primitives.md`; a test compares.

The operations of Akhauri et al., EZNAS, NeurIPS 2022, table 5: its number (*op*) and text, the number in the released
code (*code op*) and what that code does where it differs from here. Arguments are called A and B. *any* stands for
tensors, masks and scalars; scalars alone give a scalar. Two tensors are of one shape (matrix products apart), a scalar
goes with any tensor. The code's two random operations, 6 (adds noise) and 17 (draws normal weights), are not here.
"""


def page() -> str:
    """Return the page on the operations as Markdown."""
    lines = [
        "| name | op | code op | takes | gives | here | paper | released code, where it differs |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for p in sorted(PRIMITIVES.values(), key=lambda p: p.op or 0):
        signature = cast(Signature, p.kind)
        takes = "any" if signature.of_scalars else "tensors, masks"
        cells = [f"`{p.name}`", p.op, p.code_op, takes, signature.gives, p.summary.rstrip("."), f"`{p.paper}`", p.code]
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join([HEAD, *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(page())
