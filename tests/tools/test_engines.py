from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from zcbench.errors import ResultsError
from zcbench.tools.engines import compared, read, table


def _search(folder: Path, seed: int, validation: float, **engine: object) -> Path:
    folder.mkdir()
    settings = {"population": 50, "elite": 0, "parsimony": 0.001, **engine, "seed": seed}
    recipe = {"grounds": ["nb201"], "objective": "gain", "draw": 0, "engine": settings}
    (folder / "state.json").write_text(json.dumps({"recipe": recipe, "records": [{}] * 4}))
    # The second program is the best on its pools once its size is paid for; the first leads on validation classes.
    rows = {
        "fitness": [0.10, 0.12, 0.125],
        "validation": [0.9, validation, 0.5],
        "size": [3, 4, 20],
        "program": ["sum(snip)"] * 3,
    }
    pd.DataFrame(rows).to_parquet(folder / "hall.parquet")
    return folder


def test_the_program_is_chosen_by_its_pools_alone(tmp_path: Path) -> None:
    found = read(_search(tmp_path / "a", 3, 0.05))
    assert (found.seed, found.pool, found.validation, found.size) == (3, 0.12, 0.05, 4)
    assert found.programs == 4 * 50


def test_seeds_of_one_engine_are_a_row_and_engines_are_paired_by_seed(tmp_path: Path) -> None:
    plain, elite = [0.01, 0.02, 0.04], [0.03, 0.03, 0.05]
    folders = [_search(tmp_path / f"p{seed}", seed, value) for seed, value in enumerate(plain)]
    folders += [_search(tmp_path / f"e{seed}", seed, value, elite=5) for seed, value in enumerate(elite)]
    rows = compared([read(folder) for folder in folders])
    assert [(title, len(own)) for title, own in rows] == [("as the first", 3), ("elite 5", 3)]
    gaps = np.subtract(elite, plain)
    low, high = stats.ttest_1samp(gaps, 0).confidence_interval()
    assert f"{gaps.mean():+.3f} [{low:+.3f} {high:+.3f}]" in table(rows).splitlines()[-1]


@pytest.mark.parametrize("validation", [-1.0, float("nan")])
def test_a_program_that_ranks_nothing_on_other_classes_is_no_number(tmp_path: Path, validation: float) -> None:
    with pytest.raises(ResultsError, match="no fitness on validation classes, sum"):
        read(_search(tmp_path / "a", 0, validation))


def test_searches_on_other_networks_are_refused(tmp_path: Path) -> None:
    first, second = _search(tmp_path / "a", 0, 0.1), _search(tmp_path / "b", 1, 0.1)
    state = json.loads((second / "state.json").read_text())
    state["recipe"]["grounds"] = ["nb_macro"]
    (second / "state.json").write_text(json.dumps(state))
    with pytest.raises(ResultsError, match="searches differ in grounds"):
        compared([read(first), read(second)])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"recipe": {"engine": {}}, "records": []}'])
def test_a_folder_without_a_finished_search(tmp_path: Path, content: str) -> None:
    folder = _search(tmp_path / "a", 0, 0.1)
    (folder / "state.json").write_text(content)
    with pytest.raises(ResultsError, match="expected the folder of a finished search by class"):
        read(folder)
