from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from zcbench.bench.report.tracking.trackio import PROJECT, track
from zcbench.bench.report.tracking.wandb import named
from zcbench.bench.results.ranking import Ranking, select, summarise
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import Study, resolve


@pytest.fixture
def scored(tmp_path: Path) -> tuple[Study, list[Ranking]]:
    given: dict[str, Any] = {"dataset": "cifar10-samples", "accuracy": "analog-baseline", "tracker": "trackio"}
    study = resolve(
        StudyConfig(proxies=["params", "conv_count"], sample=12, batch_sizes=[2], out=str(tmp_path), **given)
    )
    run(study)
    return study, summarise(study.recipe, select(Store(study.out), study.recipe))


def test_without_trackio_a_line_says_how_to_get_it(
    scored: tuple[Study, list[Ranking]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "trackio", None)
    assert 'pip install "zcbench[trackio]"' in track(*scored)


# It leaves its data base open.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_study_is_one_run_that_is_updated(
    scored: tuple[Study, list[Ranking]], capsys: pytest.CaptureFixture[str]
) -> None:
    trackio = pytest.importorskip("trackio", reason='needs trackio: pip install "zcbench[trackio]"')
    for _ in range(2):
        assert track(*scored) == f"tracked; to look at it: trackio show --project {PROJECT}"
    assert capsys.readouterr().out == ""
    study, rankings = scored
    name, _, identity = named(study)
    (found,) = [each for each in trackio.Api().runs(PROJECT) if each.name == f"{name} {identity}"]
    first = rankings[0]
    logged = trackio.sqlite_storage.SQLiteStorage.get_logs(PROJECT, found.name)[-1]
    assert logged[f"{first.proxy}/batch{first.batch_size}/tau"] == pytest.approx(first.correlation.tau)
