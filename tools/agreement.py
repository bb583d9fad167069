"""Comparison of the scores of a results folder with those of NASLib for the same networks.

    python -m zcbench.tools.agreement RESULTS nb201_zero_cost.csv

The file has one line per NAS-Bench-201 network, and columns `cifar10_<proxy>` with scores at batch size 64. It lacks
networks with operations that do not reach the output. Initialisation and images differ, so ranks are compared.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pandas as pd

from ..bench.results.board import boards
from ..bench.scoring.parts import KEY
from ..bench.scoring.store import Store
from ..bench.stats.coefficients import spearman
from ..errors import ResultsError, ZcbenchError

#: Names of NASLib by our names of proxies.
NASLIB = {
    "epe_nas": "epe_nas",
    "fisher": "fisher",
    "macs": "flops",
    "grad_norm": "grad_norm",
    "grasp": "grasp",
    "jacob_cov": "jacov",
    "l2_norm": "l2_norm",
    "naswot": "nwot",
    "naswot.as_released": "nwot",
    "params": "params",
    "plain": "plain",
    "snip": "snip",
    "synflow": "synflow",
    "zen": "zen",
}


def agreement(rows: pd.DataFrame, stored: pd.DataFrame) -> pd.DataFrame:
    """Return Spearman's rho between our scores and those of NASLib, and the number of common networks, by proxy.

    Args:
        rows: Rows of a store, of NAS-Bench-201 on CIFAR-10 with one seed and one batch size.
        stored: Table of NASLib.

    Raises:
        ResultsError: A network has several scores of one proxy, from several seeds or batch sizes.
    """
    if rows.duplicated(["proxy", "architecture"]).any():
        raise ResultsError(
            "results: expected one score per proxy and network, got several: use one seed and one batch size"
        )
    theirs = stored.set_index("arch_str")
    found = []
    for ours, name in NASLIB.items():
        scores = rows[rows["proxy"] == ours].set_index("architecture")["value"]
        both = pd.concat([scores, theirs[f"cifar10_{name}"].rename("stored")], axis=1, join="inner")
        both = both[both.abs().lt(float("inf")).all(axis=1) & both["stored"].ne(-1e8)]
        if len(both) > 2:
            rho = spearman(both["value"].to_numpy(), both["stored"].to_numpy())
            found.append({"proxy": ours, "NASLib": name, "networks": len(both), "rho": rho})
    return pd.DataFrame(found)


def scores(results: Path) -> pd.DataFrame:
    """Return the scores of NAS-Bench-201 networks on CIFAR-10 in a results folder, each once.

    Raises:
        ResultsError: The folder has no such run, or cannot be read.
    """
    store = Store(results)
    found = [b.recipe for b in boards(results) if b.recipe.space == "nb201" and b.recipe.dataset.startswith("cifar10")]
    if not found:
        raise ResultsError(f"results {results}: expected a run of nb201 on CIFAR-10, got none")
    return pd.concat([store.rows(recipe) for recipe in found]).drop_duplicates(list(KEY))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("expected RESULTS nb201_zero_cost.csv")
    try:
        table = agreement(scores(Path(sys.argv[1])), pd.read_csv(sys.argv[2]))
    except (ZcbenchError, OSError) as error:
        sys.exit(str(error))
    lines = [f"| {r.proxy} | {r.NASLib} | {r.networks} | {r.rho:.3f} |" for r in table.itertuples()]
    sys.stdout.write("\n".join(["| proxy | NASLib's | networks | Spearman |", "|---|---|---|---|", *lines]) + "\n")
