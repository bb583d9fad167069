"""What a leaderboard shows of a search: it is read from the files that the search wrote."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...bench.report.beside import Reached, Search
from ...errors import ResultsError, in_words
from .outcome import mean

#: Largest number of points of a curve.
POINTS = 60


def read(folder: Path) -> Search:
    """Return what a search found.

    Raises:
        ResultsError: The folder lacks `search.json` or `search.csv`, or they are torn or do not fit each other.
    """
    table, recipe = folder / "search.csv", folder / "search.json"
    if not table.is_file() or not recipe.is_file():
        raise ResultsError(
            f"searches: expected a folder with the search.csv and search.json of zcbench search, got {folder}"
        )
    try:
        document = json.loads(recipe.read_text("utf-8"))
        rows = pd.read_csv(table, keep_default_na=False).astype({"chosen_test": float, "trained": int, "repeat": int})
        return _search(document, rows)
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultsError(
            f"searches: {folder} is torn or of another zcbench ({in_words(error)}): "
            "search again with the same command; scores are kept"
        ) from None


def _search(document: Mapping[str, Any], rows: pd.DataFrame) -> Search:
    config, ((test, label),) = document["config"], document["test"].items()
    validation = next(iter(document["validation"]))
    names = (rows["method"] + " " + rows["proxy"]).str.strip()
    runs = {str(name): own for name, own in rows.groupby(names, sort=False)}
    if [each["name"] for each in document["outcomes"]] != list(runs):
        raise ValueError("the methods of search.json and search.csv differ")
    return Search(
        f"{config['space']} on {config['dataset']}, {test}",
        float(document["optimum"]),
        (
            f"{config['repeats']} repeats",
            f"{validation} guides" if validation != test else f"{test} guides too",
            f"what is shown is the {label}",
        ),
        tuple(_reached(each, runs[each["name"]]) for each in document["outcomes"]),
    )


def _reached(outcome: Mapping[str, Any], rows: pd.DataFrame) -> Reached:
    tests = rows.pivot(index="trained", columns="repeat", values="chosen_test").dropna()
    count = len(tests)
    steps = sorted(set(np.geomspace(1, count, POINTS).round().astype(int).tolist()))
    if tests.index.tolist() != list(range(1, count + 1)):
        raise ValueError("search.csv lacks a training")
    means = [mean(tests.loc[step].to_numpy()) for step in steps]
    return Reached(
        str(outcome["name"]),
        len(outcome["tests"]),
        float(outcome["trained"]),
        float(outcome["scored"]),
        _estimate(outcome["test"]),
        _estimate(outcome["gain"]),
        _number(outcome["better"]),
        tuple(steps),
        tuple((of.value, of.low, of.high) for of in means),
    )


def _estimate(record: Mapping[str, Any]) -> tuple[float, float, float]:
    return _number(record["value"]), _number(record["low"]), _number(record["high"])


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)
