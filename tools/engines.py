"""Searches with different settings of the engine, compared seed by seed on networks that they did not see.

    python -m zcbench.tools.engines results-plain-* results-elite-* > engines.md

Every folder is a finished `zcbench evolve` by class. Folders whose settings differ in the seed alone are one row. Of
each search the program that is best on its own pools is taken, and its fitness on the validation classes counts: a
choice of an engine may read these, and nothing reads what is sealed. The first row is what all others are compared
with, seed by seed; the interval is that of Student's t over the seeds.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..bench.results.ablation import t_interval
from ..errors import ResultsError, ZcbenchError, one_line
from ..evolution.engine.fitness import NOTHING


class Search(NamedTuple):
    """A finished search.

    Attributes:
        recipe: All settings that influence it, but the seed of its engine.
        pool: Fitness of its best program on the pools.
        validation: Fitness of that program on the validation classes.
        programs: Number of programs that were measured.
    """

    recipe: dict[str, Any]
    seed: int
    pool: float
    validation: float
    size: int
    programs: int


def read(folder: Path) -> Search:
    """Return the search in a folder.

    Raises:
        ResultsError: The folder holds no finished search by class, or its best program ranks nothing on other classes.
    """
    try:
        state = json.loads((folder / "state.json").read_text("utf-8"))
        hall = pd.read_parquet(folder / "hall.parquet")
        recipe, records = dict(state["recipe"]), state["records"]
        engine = dict(recipe.pop("engine"))
        seed = engine.pop("seed")
        best = hall.loc[(hall["fitness"] - engine["parsimony"] * hall["size"]).idxmax()]
        values = float(best["fitness"]), float(best["validation"]), int(best["size"])
        if not values[1] > NOTHING:
            raise ValueError(f"its best program has no fitness on validation classes, {best['program']}")
        return Search({**recipe, "engine": engine}, seed, *values, len(records) * engine["population"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ResultsError(
            f"{folder}: expected the folder of a finished search by class ({one_line(str(error))[:90]})"
        ) from None


def compared(searches: Sequence[Search]) -> list[tuple[str, dict[int, Search]]]:
    """Return searches by the settings in which they differ from the first, in words, and by seed.

    Raises:
        ResultsError: Searches of two settings differ in their networks, or in something else than engine and draws.
    """
    first = _flat(searches[0].recipe)
    rows: dict[str, dict[int, Search]] = {}
    for search in searches:
        own = _flat(search.recipe)
        differing = sorted(key for key in {*first, *own} if first.get(key) != own.get(key))
        strange = [key for key in differing if not key.startswith("engine.") and key not in {"draw", "grounds_drawn"}]
        if strange:
            raise ResultsError(f"searches differ in {', '.join(strange)}: expected equal networks and objectives")
        title = ", ".join(f"{key.removeprefix('engine.')} {own.get(key)}" for key in differing) or "as the first"
        rows.setdefault(title, {})[search.seed] = search
    return list(rows.items())


def _flat(recipe: Mapping[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in recipe.items() if key != "engine"}
    return flat | {f"engine.{key}": value for key, value in recipe["engine"].items()}


def table(rows: Sequence[tuple[str, Mapping[int, Search]]]) -> str:
    """Return the comparison as a table in Markdown."""
    lines = [
        "| engine | seeds | programs a search | fitness on pools | fitness on validation classes | nodes | "
        "less the first, paired |",
        "| --- | --: | --: | --: | --: | --: | --- |",
    ]
    _, base = rows[0]
    for title, own in rows:
        pool, validation, size = np.mean([[s.pool, s.validation, s.size] for s in own.values()], axis=0)
        shared = sorted({*own} & {*base})
        gaps = np.array([own[seed].validation - base[seed].validation for seed in shared])
        low, high = t_interval(gaps)
        paired = f"{gaps.mean():+.3f} [{low:+.3f} {high:+.3f}]" if len(gaps) else "no seed in common"
        programs = "/".join(sorted({f"{search.programs:,}" for search in own.values()}))
        cells = [title, str(len(own)), programs, f"{pool:+.3f}", f"{validation:+.3f}", f"{size:.0f}"]
        lines.append(f"| {' | '.join([*cells, '' if own is base else paired])} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("expected FOLDER ... of searches")
    try:
        sys.stdout.write(table(compared([read(Path(folder)) for folder in sys.argv[1:]])))
    except ZcbenchError as error:
        sys.exit(str(error))
