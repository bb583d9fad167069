from __future__ import annotations

import json
import struct
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from zcbench.__main__ import main
from zcbench.bench.report.tracking.wandb import Session, _asked, digest, scores_artifact, scores_of, track
from zcbench.bench.results.ranking import select, summarise
from zcbench.bench.scoring.runner import run
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve


def records(path: Path) -> list[Any]:
    """Read an offline run, LevelDB framing around protobuf records: a private format, read by this test alone."""
    from wandb.proto import wandb_internal_pb2

    content, position, pending, found = path.read_bytes(), 7, b"", []
    while position + 7 <= len(content):
        if 32768 - position % 32768 < 7:  # no header fits in the rest of a block
            position += 32768 - position % 32768
            continue
        _, length, kind = struct.unpack("<IHB", content[position : position + 7])
        if position + 7 + length > len(content):  # still being written
            break
        pending += content[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in {1, 4}:  # whole, or the last piece
            record = wandb_internal_pb2.Record()
            record.ParseFromString(pending)
            found.append(record)
            pending = b""
    return found


def finished(folder: Path) -> list[Any]:
    """Read an offline run; wandb writes the last block after it has said that it is finished."""
    (log,) = folder.glob("*.wandb")
    deadline = time.monotonic() + 60
    found = records(log)
    while not any(r.HasField("exit") for r in found) and time.monotonic() < deadline:
        time.sleep(0.05)
        found = records(log)
    return found


def lines_of(folder: Path, entry: dict[str, Any]) -> list[dict[str, Any]]:
    table = json.loads((folder / "files" / entry["path"]).read_text())
    return [dict(zip(table["columns"], line, strict=True)) for line in table["data"]]


# wandb leaves sockets and files to the interpreter's end.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_offline_run_can_be_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_MODE")
    for name in ("WANDB_API_KEY", "WANDB_RUN_ID"):  # the second may be left by another run of this process
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "nobody"))
    monkeypatch.setenv("WANDB_PROJECT", "our-project")
    monkeypatch.setenv("WANDB_ENTITY", "our-team")
    study = resolve(
        StudyConfig(
            name="our board v3",
            dataset="cifar10-samples",
            accuracy="analog-baseline",
            proxies=["params", "vote"],
            sample=12,
            batch_sizes=[2],
            seeds=[0, 1],
            out=str(tmp_path / "results"),
        )
    )
    run(study)
    rows = select(Store(study.out), study.recipe)
    rankings = summarise(study.recipe, rows)
    line = track(study, rows, rankings)

    assert line.startswith("W&B offline; to upload: wandb sync ")
    folder = Path(line.rsplit(" ", 1)[1])
    found = finished(folder)
    start = next(r.run for r in found if r.HasField("run"))
    config = {update.key: json.loads(update.value_json) for update in start.config.update}
    assert (start.project, start.entity, start.job_type) == ("our-project", "our-team", "study")
    assert start.display_name == "our board v3"
    assert start.run_group.startswith("our board v3 ")
    assert config["batches"] == {f"2/{seed}": study.batches[2, seed].hash for seed in (0, 1)}
    assert config["environment"]["torch"]

    summary = {
        "/".join(item.nested_key) or item.key: json.loads(item.value_json) for r in found for item in r.summary.update
    }
    first = rankings[0]
    for field in ("rho", "rho_low", "tau", "tau_high"):
        assert summary[f"{first.proxy}/batch2/{field}"] == pytest.approx(getattr(first.correlation, field))
    assert summary["vote/batch2/coverage"] == 1
    assert summary["vote/batch2/ms"] > 0

    history: dict[str, dict[str, Any]] = {}
    for record in found:
        for item in record.history.item:
            *path, field = list(item.nested_key) or [item.key]
            history.setdefault("/".join(path), {})[field] = json.loads(item.value_json)
    tables = {name: value for name, value in history.items() if value.get("_type") == "table-file"}
    lines = lines_of(folder, tables["correlations"])
    assert [line["proxy"] for line in lines] == [ranking.proxy for ranking in rankings]
    assert [line["pool"] for line in lines] == [ranking.pool for ranking in rankings]
    assert [line["rho"] for line in lines] == pytest.approx([ranking.correlation.rho for ranking in rankings])
    scatters = {key: value for key, value in tables.items() if "scatter" in key}
    everything = {"params", "vote", "synflow", "jacob_cov", "snip"}
    assert {name for name in everything if any(f"/{name}/" in key for key in scatters)} == everything
    points = lines_of(folder, next(value for key, value in scatters.items() if "params" in key))
    assert [list(point) for point in points] == [["score", "accuracy", "architecture"]] * 24
    seeds = sorted((line["proxy"], line["seed"]) for line in lines_of(folder, tables["seeds"]))
    assert seeds == sorted((name, seed) for name in everything for seed in (0, 1))
    (bars,) = [lines_of(folder, value) for key, value in tables.items() if key.startswith("tau/")]
    assert [line["proxy"] for line in bars] == [line["proxy"] for line in lines]
    assert "<svg" in (folder / "files" / history["tau with intervals/batch2"]["path"]).read_text()

    artifacts = [r.request.log_artifact.artifact for r in found if r.request.HasField("log_artifact")]
    artifacts += [r.artifact for r in found if r.HasField("artifact")]
    entry = next(e for a in artifacts if a.type == "scores" for e in a.manifest.contents)
    assert entry.path == "scores.parquet"
    assert pq.read_table(entry.local_path).num_rows == len(rows)

    # The same study again is the same run; `wandb sync` updates it.
    again = Path(track(study, rows, rankings).rsplit(" ", 1)[1])
    assert again.name.rsplit("-", 1)[1] == folder.name.rsplit("-", 1)[1] == start.run_id


class Run:
    """What a run of W&B does with the artifacts that it uses."""

    def __init__(self, offline: bool) -> None:
        self.offline, self.used, self.config = offline, [], {}  # type: ignore[var-annotated]

    def use_artifact(self, artifact: Any) -> None:
        self.used.append(artifact)


# wandb leaves sockets and files to the interpreter's end.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_leaderboard_is_mirrored_offline(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results, out = str(tmp_path / "results"), str(tmp_path / "leaderboard")
    study = ["--sample", "12", "--batch_sizes", "[2]", "--proxies", "params", "--resamples", "20"]
    assert main(["run", *study, "--tracker", "none", "--out", results]) == 0
    assert main(["leaderboard", "--results", results, "--out", out, "--tracker", "wandb"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("W&B offline")]
    found = finished(Path(line.rsplit(" ", 1)[1]))
    start = next(r.run for r in found if r.HasField("run"))
    assert (start.job_type, start.display_name) == ("leaderboard", "leaderboard of results")
    settings = {u.key or "/".join(u.nested_key) for r in found for u in r.config.update}
    assert "used/scores-nb201-cifar10-samples" in settings
    artifacts = [r.request.log_artifact.artifact for r in found if r.request.HasField("log_artifact")]
    artifacts += [r.artifact for r in found if r.HasField("artifact")]
    paths = {entry.path for a in artifacts if a.type == "leaderboard" for entry in a.manifest.contents}
    assert paths == {"index.html", "leaderboard.csv", "overview.csv"}


def test_a_leaderboard_says_which_scores_it_is_made_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"dataset": "cifar10-samples", "accuracy": "analog-baseline", "sample": 12, "batch_sizes": [2]}
    study = resolve(StudyConfig(proxies=["params"], out=str(tmp_path), **given))  # type: ignore[arg-type]
    run(study)
    logged = scores_artifact(study.recipe, select(Store(study.out), study.recipe))
    (used,) = scores_of(tmp_path)
    # W&B knows an artifact by its digest: the leaderboard reads the version that the study has logged.
    assert (used.name, used.type, used.digest) == (logged.name, "scores", logged.digest)
    session = Session(tmp_path, "leaderboard", {})
    for offline in (True, False):
        monkeypatch.setattr(session, "_run", Run(offline))
        session.note = "started"
        session.use([used])
        assert session.run.used == ([] if offline else [used])
        assert session.note == "started"
    monkeypatch.setattr(session.run, "use_artifact", None)
    session.use([used])  # a mirror that fails costs a line
    assert session.note.startswith("not tracked: TypeError")


def test_runs_of_one_configuration_are_a_group(tmp_path: Path) -> None:
    def study(**changes: Any) -> Any:
        given = {"dataset": "cifar10-samples", "accuracy": "analog-baseline", "proxies": ["params"], "sample": 3}
        return resolve(StudyConfig(**(given | {"batch_sizes": [2], "out": str(tmp_path)} | changes)))

    def both(**changes: Any) -> tuple[str, str]:
        made = study(**changes)
        return digest(_asked(made)), digest(made.recipe.document())

    group, run = both()
    assert both(workers=2, out=str(tmp_path / "other"), tracker="none") == (group, run)
    for changes in ({"seeds": [1]}, {"batch_sizes": [4]}):
        assert both(**changes)[0] == group
        assert both(**changes)[1] != run
    for changes in ({"proxies": ["macs"]}, {"sample": 4}, {"precision": "float64"}):
        assert both(**changes)[0] != group
        assert both(**changes)[1] != run


def test_what_an_agent_has_set_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb
    from zcbench.bench.report.tracking import Session

    given: dict[str, Any] = {}

    class Run:
        dir = "folder/files"

        def finish(self, exit_code: int) -> None:
            pass

    def init(**arguments: Any) -> Run:
        given.update(arguments)
        return Run()

    monkeypatch.setattr(wandb, "init", init)
    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("WANDB_PROJECT", "WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    ours = {"project": "zcbench", "name": "mine", "group": "ours", "id": "abc", "resume": "allow"}
    with Session(tmp_path, "study", {}, name="mine", group="ours", id="abc") as session:
        assert session.run is not None
    assert given | ours == given
    given.clear()
    for name in ("WANDB_PROJECT", "WANDB_NAME", "WANDB_RUN_GROUP", "WANDB_RUN_ID"):
        monkeypatch.setenv(name, "theirs")
    with Session(tmp_path, "study", {}, name="mine", group="ours", id="abc") as session:
        assert session.run is not None
    assert [given.get(name) for name in ours] == ["theirs", "theirs", "theirs", None, None]


def test_tracking_can_be_switched_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    study = resolve(
        StudyConfig(
            dataset="cifar10-samples",
            accuracy="analog-baseline",
            proxies=["params"],
            sample=3,
            batch_sizes=[2],
            out=str(tmp_path / "results"),
        )
    )
    run(study)
    rows = select(Store(study.out), study.recipe)
    assert track(study, rows, summarise(study.recipe, rows)) == "not tracked: WANDB_MODE is disabled"


def test_a_mirror_that_fails_costs_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb
    from zcbench.bench.report.tracking import Session

    def refuse(**_: Any) -> Any:
        raise wandb.errors.UsageError("api_key not configured\n(no-tty)")

    monkeypatch.setattr(wandb, "init", refuse)
    with Session(tmp_path, "study", {}) as session:
        assert session.run is None
    assert session.note == (
        "not tracked: UsageError: api_key not configured (no-tty); scores are kept, see --tracker none"
    )


@pytest.mark.parametrize("mode", ["Disabled", "disabled"])
def test_the_case_of_the_mode_does_not_matter(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from zcbench.bench.report.tracking import Session

    monkeypatch.setenv("WANDB_MODE", mode)
    with Session(tmp_path, "study", {}) as session:
        assert session.run is None
    assert session.note == "not tracked: WANDB_MODE is disabled"
