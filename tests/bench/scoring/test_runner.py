from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from zcbench.bench.report.table import terminal
from zcbench.bench.results.ranking import select, summarise
from zcbench.bench.scoring.parts import KEY
from zcbench.bench.scoring.runner import missing, run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve
from zcbench.errors import ConfigError, UnknownNameError
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import score_all

CHEAP = ["params", "l2_norm", "grad_norm", "jacob_cov", "naswot", "synflow"]

Rows = Callable[[Path], pd.DataFrame]


def config(out: Path, **changes: object) -> StudyConfig:
    return dataclasses.replace(
        StudyConfig(
            dataset="cifar10-samples",
            accuracy="analog-baseline",
            proxies=CHEAP,
            sample=4,
            batch_sizes=[2],
            out=str(out),
            tracker="none",
        ),
        **changes,  # type: ignore[arg-type]
    )


def scores(study_config: StudyConfig) -> pd.DataFrame:
    study = resolve(study_config)
    run(study)
    frame = select(Store(study.out), study.recipe).sort_values(list(KEY), ignore_index=True)
    return frame[[*KEY, "value", "status"]]


def fails() -> float:
    raise ArithmeticError("planted")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    return scores(config(tmp_path_factory.mktemp("one") / "results"))


def test_every_score_is_a_row_that_says_what_produced_it(reference: pd.DataFrame) -> None:
    assert len(reference) == 4 * len(CHEAP)
    assert not reference.isna().any(axis=None)
    assert set(reference["batch_hash"]).issubset({resolve(config(Path("unused"))).batches[2, 0].hash})
    assert set(reference["device"]) == {f"cpu {torch.backends.cpu.get_cpu_capability()}"}
    assert (reference["status"] == "ok").sum() >= 20


def test_two_workers_give_the_same_to_the_last_digit(reference: pd.DataFrame, tmp_path: Path) -> None:
    two = scores(config(tmp_path / "results", workers=2))
    pd.testing.assert_frame_equal(two, reference, check_exact=True)
    assert len(Store(tmp_path / "results").parts()) == 1  # one process writes


def test_a_class_has_the_scores_of_its_representative(tmp_path: Path) -> None:
    """Of the first 40 networks, several are of one class; each class is scored once, also after an interruption."""
    asked_for = config(tmp_path / "results", sample=40, proxies=["params", "naswot"], representatives=True)
    study = resolve(asked_for)
    space, names = study.space, study.recipe.architectures
    of = {name: space.architecture(space.representative(space.index(name))) for name in names}
    assert len(set(of.values())) < len(names)
    jobs = missing(study, Store(study.out))
    assert {job.architecture for job in jobs} == set(of.values())
    assert sorted(member for job in jobs for member in job.members) == sorted(names)
    found = scores(asked_for)
    assert set(found["protocol"]) == {"2 representatives"}
    assert missing(study, Store(study.out)) == []
    rankings = summarise(study.recipe, select(Store(study.out), study.recipe))
    assert "of networks that are one function, one was scored" in str(terminal(rankings, "").caption)
    batch = study.batches[2, 0]
    x = batch.x.contiguous(memory_format=space.memory_format)
    for name in [name for name, first in of.items() if name != first][:3]:
        net = space.build(of[name], study.images.task, seed=0)
        own = {s.proxy: s.value for s in score_all(net, x, batch.y, [PROXIES[n] for n in ("params", "naswot")], seed=0)}
        assert own == found[found["architecture"] == name].set_index("proxy")["value"].to_dict()


def test_a_space_without_classes_has_no_representatives(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nats_sss knows of no classes of equal networks"):
        resolve(config(tmp_path, space="nats_sss", accuracy="default", representatives=True))


def test_float64_is_another_score_of_nearly_the_same_value(reference: pd.DataFrame, tmp_path: Path) -> None:
    double = scores(config(tmp_path / "results", precision="float64"))
    assert set(double["device"]) == {f"cpu {torch.backends.cpu.get_cpu_capability()} float64"}
    np.testing.assert_allclose(double["value"], reference["value"], rtol=2e-3)
    exact = reference["proxy"].isin(["params"]).to_numpy()
    np.testing.assert_allclose(double["value"][exact], reference["value"][exact], rtol=1e-12)


def test_nothing_is_computed_twice(reference: pd.DataFrame, tmp_path: Path) -> None:
    first = config(tmp_path / "results", sample=2, proxies=CHEAP[:3])
    scores(first)
    assert missing(resolve(first), Store(Path(first.out))) == []
    more = resolve(config(tmp_path / "results"))
    lacking = {
        (job.architecture, name) for job in missing(more, Store(more.out)) for work in job.work for name in work.proxies
    }
    assert len(lacking) == 4 * len(CHEAP) - 2 * 3
    # Joined from two runs, in another order and with other neighbours: the same numbers.
    pd.testing.assert_frame_equal(scores(config(tmp_path / "results")), reference, check_exact=True)
    records = [json.loads(path.read_text()) for path in sorted((tmp_path / "results" / "runs").glob("*.json"))]
    assert sorted(record["scored"] for record in records) == [2, 4]
    assert records[0]["environment"]["torch"] == torch.__version__


def test_a_run_that_is_told_to_end_ends_with_the_network_under_way(tmp_path: Path, every_row: Rows) -> None:
    command = [sys.executable, "-m", "zcbench", "run", "--sample", "200", "--batch_sizes", "[4]", "--tracker", "none"]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not Store(tmp_path / "results").parts() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    process.terminate()
    assert process.wait(60) == 128 + signal.SIGTERM
    kept = every_row(tmp_path / "results")
    assert 0 < len(kept) < 12 * 200
    assert len(kept) % 12 == 0


def test_killed_and_started_again_it_ends_with_the_same_scores(tmp_path: Path, every_row: Rows) -> None:
    arguments = ["--sample", "12", "--batch_sizes", "[4]", "--tracker", "none", "--workers", "2"]

    def command(out: str) -> list[str]:
        return [sys.executable, "-m", "zcbench", "run", *arguments, "--out", out, "--format", "csv"]

    process = subprocess.Popen(command("killed"), cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while len(Store(tmp_path / "killed").parts()) < 4 and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = len(every_row(tmp_path / "killed"))
    assert 0 < kept < 12 * 12
    again = subprocess.run(command("killed"), cwd=tmp_path, capture_output=True, text=True, check=True)
    whole = subprocess.run(command("whole"), cwd=tmp_path, capture_output=True, text=True, check=True)
    # All but the cost column, which is a measurement.
    pd.testing.assert_frame_equal(*(_without_cost(done.stdout) for done in (again, whole)), check_exact=True)
    frames = [every_row(tmp_path / name).sort_values(list(KEY), ignore_index=True) for name in ("killed", "whole")]
    pd.testing.assert_frame_equal(frames[0][[*KEY, "value"]], frames[1][[*KEY, "value"]], check_exact=True)


def _without_cost(text: str) -> pd.DataFrame:
    import io

    return pd.read_csv(io.StringIO(text)).drop(columns="ms")


def test_seeds_and_protocol_batches(tmp_path: Path) -> None:
    frame = scores(
        config(tmp_path / "results", proxies=["l2_norm", "eznas_a"], sample=1, batch_sizes=[2, 3], seeds=[0, 1])
    )
    assert len(frame) == 2 * 2 * 2
    assert frame["batch_hash"].nunique() == 4
    assert frame.groupby("proxy")["value"].nunique().to_dict() == {"eznas_a": 4, "l2_norm": 2}


def test_networks_without_a_path_never_end_a_run(tmp_path: Path) -> None:
    # The first dead cell of this sample: its jacob_cov does not exist and its zen is minus infinity.
    study = resolve(config(tmp_path / "results", proxies=["params", "jacob_cov", "zen"]))
    dead = tuple(
        study.space.index(text)
        for text in (
            "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|none~0|none~1|none~2|",
            "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|",
        )
    )
    study = dataclasses.replace(study, indices=(*study.indices, *dead))
    run(study)
    rankings = {r.proxy: r for r in summarise(study.recipe, select(Store(study.out), study.recipe))}
    assert rankings["params"].coverage == 1
    assert rankings["jacob_cov"].coverage == pytest.approx(4 / 6)
    assert rankings["jacob_cov"].failures == {"nan": 2}
    assert rankings["zen"].failures == {"-inf": 2}
    assert rankings["jacob_cov"].correlation.n == 4


def test_a_proxy_that_raises_is_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every_row: Rows) -> None:
    monkeypatch.setitem(PROXIES._items, "params", dataclasses.replace(PROXIES["params"], function=fails))
    study = resolve(config(tmp_path / "results", proxies=["params", "l2_norm"], sample=2))
    run(study)
    rows = every_row(study.out).set_index("proxy")
    assert set(rows.loc["params", "status"]) == {"error"}
    assert set(rows.loc["params", "message"]) == {"ArithmeticError: planted"}
    assert np.isnan(rows.loc["params", "value"]).all()
    assert np.isfinite(rows.loc["l2_norm", "value"]).all()


def test_what_fails_is_tried_again_up_to_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PROXIES._items, "params", dataclasses.replace(PROXIES["params"], function=fails))
    study = resolve(config(tmp_path / "results", proxies=["params", "l2_norm"], sample=2, tries=2))
    for attempts in (1, 2, 2):
        run(study)
        rows = Store(study.out).rows(study.recipe).set_index("proxy")
        assert set(rows.loc["params", "attempts"]) == {attempts}
        assert set(rows.loc["l2_norm", "attempts"]) == {0}
    assert missing(study, Store(study.out)) == []
    more = dataclasses.replace(study, config=dataclasses.replace(study.config, tries=3))
    assert {work.proxies for job in missing(more, Store(study.out)) for work in job.work} == {("params",)}
    records = [json.loads(path.read_text()) for path in (study.out / "runs").glob("*.json")]
    assert [record["complete"] for record in records] == [False] * 3
    monkeypatch.undo()
    run(more)
    assert set(Store(study.out).rows(study.recipe)["status"]) == {"ok"}
    newest = max((study.out / "runs").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    assert json.loads(newest.read_text())["complete"] is True


def test_a_read_only_folder_with_nothing_to_do_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Permissions do not bind the superuser, so the answer of the system is planted."""
    study = resolve(config(tmp_path / "results", proxies=["params"], sample=2))
    run(study)
    before = sorted(path for path in study.out.rglob("*") if path.is_file())
    monkeypatch.setattr(Store, "is_writable", lambda _: False)
    run(study)
    assert "is read-only: nothing was to be computed, and this run is not recorded" in capsys.readouterr().err
    assert sorted(path for path in study.out.rglob("*") if path.is_file()) == before


def test_a_machine_of_another_kind_writes_no_score(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = resolve(config(tmp_path / "results", proxies=["params"], sample=2))
    assert study.recipe.torch == torch.__version__.partition("+")[0]
    monkeypatch.setattr("zcbench.bench.scoring.runner.torch_release", lambda: "9.9.9")
    run(study)
    (message,) = set(Store(study.out).rows(study.recipe)["message"])
    assert message.startswith("ConfigError: machine: expected one with cpu ")
    assert message.endswith(" and torch 9.9.9")


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"space": "nb20l"}, UnknownNameError, "did you mean nb201"),
        ({"dataset": "cifar-10"}, UnknownNameError, "did you mean cifar10"),
        ({"proxies": ["nasvot"]}, UnknownNameError, "did you mean naswot"),
        ({"accuracy": "test200"}, UnknownNameError, "did you mean test-200"),
        ({"proxies": ["zen", "zen"]}, ConfigError, "proxies.*zen twice"),
        ({"sample": 15_626}, ConfigError, "sample.*1 to 15625.*15626"),
        ({"sample": -1}, ConfigError, "sample.*1 to 15625.*-1"),
        ({"batch_sizes": [0]}, ConfigError, "batch_sizes.*1 to 20.*got 0"),
        ({"batch_sizes": [-4]}, ConfigError, "batch_sizes.*1 to 20.*got -4"),
        ({"batch_sizes": [21]}, ConfigError, "batch_sizes.*1 to 20.*got 21"),
        ({"batch_sizes": [2, 2]}, ConfigError, "batch_sizes.*2 twice"),
        ({"seeds": []}, ConfigError, "seeds"),
        ({"seeds": [-1]}, ConfigError, "seeds"),
        ({"seeds": [2**32]}, ConfigError, "seeds"),
        ({"sample_seed": -1}, ConfigError, "sample_seed"),
        ({"resamples": 0}, ConfigError, "resamples"),
        ({"version": 2}, ConfigError, "version"),
        ({"workers": 0}, ConfigError, "workers: expected 1 or more, got 0"),
        ({"tries": 0}, ConfigError, "tries: expected 1 or more, got 0"),
        ({"limit_s": -1.0}, ConfigError, "limit_s: expected 0 or more, got -1"),
        ({"limit_s": float("nan")}, ConfigError, "limit_s"),
        ({"memory_mib": -1}, ConfigError, "memory_mib"),
    ],
    ids=str,
)
def test_bad_studies_are_refused_before_anything_is_written(
    changes: dict[str, object], error: type[Exception], text: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=text):
        resolve(config(tmp_path / "results", **changes))
    assert list(tmp_path.iterdir()) == []


def test_a_gpu_that_is_absent_is_a_user_error(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has the GPU that the test expects to be absent")
    with pytest.raises(ConfigError, match="device: expected cpu or auto, got cuda"):
        resolve(config(tmp_path / "results", device="cuda"))


def test_spawned_workers_give_the_same(reference: pd.DataFrame, tmp_path: Path, every_row: Rows) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        "import sys\n"
        "from multiprocessing import get_context\n"
        "from zcbench.__main__ import main\n"
        "from zcbench.engine import local\n"
        "local._context = lambda: get_context('spawn')\n"
        "if __name__ == '__main__':\n"
        f"    sys.exit(main(['run', '--sample', '4', '--batch_sizes', '[2]', '--proxies', '{json.dumps(CHEAP)}',\n"
        "        '--tracker', 'none', '--workers', '2']))\n"
    )
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    subprocess.run([sys.executable, script], cwd=tmp_path, check=True, capture_output=True, env=environment)
    found = every_row(tmp_path / "results").sort_values(list(KEY), ignore_index=True)
    pd.testing.assert_frame_equal(found[[*KEY, "value", "status"]], reference, check_exact=True)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_gives_nearly_the_same_under_its_own_key(reference: pd.DataFrame, tmp_path: Path) -> None:
    found = scores(config(tmp_path / "results", device="cuda"))
    assert set(found["device"]) == {f"cuda {torch.cuda.get_device_name()}"}
    np.testing.assert_allclose(found["value"], reference["value"], rtol=1e-2)
