"""A command that writes the page on the operations of programs.

python -m zcbench.tools.primitives > docs/primitives.md
"""

from __future__ import annotations

import sys
from typing import cast

from ..evolution.language.primitives import PRIMITIVES, Signature

HEAD = """# Primitives

`python -m zcbench.tools.primitives > docs/primitives.md` writes this page from the registry. A test compares the two.

The table lists the operations of Akhauri et al., EZNAS, NeurIPS 2022, table 5. *op* is the number in that table, and
*paper* its text. *code op* is the number in the released code, and the last column says where that code differs.
Arguments are called A and B. *any* means tensors, masks and scalars; the result of scalars alone is a scalar. Two
tensors must have the same shape (except in matrix products), and a scalar fits any tensor. Two random operations of the
code are left out: 6 (adds noise) and 17 (draws normal weights).
"""


def page() -> str:
    """Return the page on the operations, as Markdown."""
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
