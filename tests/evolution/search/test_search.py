import dataclasses
import importlib.util
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest
from rich.console import Console
from zcbench.errors import ConfigError, UnknownNameError
from zcbench.evolution.search.asks import METHODS
from zcbench.evolution.search.search import search

ALL = ["random", "best", "aging", "aging.warmup", "aging.moves", "keep"]


def printed(tables):
    console = Console(file=io.StringIO(), width=80)
    for table in tables:
        console.print(table)
    return console.file.getvalue()


def files(config):
    return {path.name: path.read_bytes() for path in sorted(Path(config.out).iterdir()) if path.is_file()}


def scored(config):
    """Return the names of the networks whose scores are in the results folder."""
    parts = Path(config.results, "scores").rglob("[0-9]*.parquet")
    return {name for part in parts for name in pq.ParquetFile(part).read(["architecture"])["architecture"].to_pylist()}


def test_a_search_has_tables_rows_and_figures(config):
    tables, notes, _ = search(dataclasses.replace(config, method=ALL, proxy="params,snip", transfer="cifar100"))
    text = printed(tables)
    assert max(map(len, text.splitlines())) <= 80
    for name in ("random", "aging.moves snip", "best params", "optimum 89.00", "cifar100"):
        assert name in text
    assert "cifar10/valid-made guides, cifar10/test-made is reported" in notes
    assert set(files(config)) == {"search.csv", "search.json", "search.svg", "keep.csv", "keep.svg"}
    rows = pd.read_csv(Path(config.out, "search.csv"))
    assert len(rows[rows["method"] == "aging.warmup"]) == 2 * 3 * 8  # proxies, repeats, budget
    for _, run in rows.groupby(["method", "proxy", "repeat"], dropna=False):
        assert run["chosen_validation"].tolist() == run["validation"].cummax().tolist()
        assert run["best_test"].tolist() == run["test"].cummax().tolist()
    recipe = json.loads(Path(config.out, "search.json").read_text())
    assert recipe["config"]["seed"] == 0
    assert set(recipe["scores"]) == {"params", "snip"}
    assert recipe["seconds"].startswith("none")
    assert len(recipe["outcomes"]) == 10


def test_params_finds_the_optimum_of_this_space_and_random_does_not(config):
    (_, gains), _, _ = search(dataclasses.replace(config, method="random,best", pool=0, budget=1))
    recipe = json.loads(Path(config.out, "search.json").read_text())
    random_, best = recipe["outcomes"]
    assert best["test"]["value"] == 89.0
    assert random_["test"]["value"] < 89.0
    assert "+" in printed([gains])


@pytest.mark.parametrize("workers", [1, 2])
def test_a_search_that_is_killed_again_and_again_ends_with_the_same_files(config, tmp_path, workers):
    """Every method is in it, and the kills are at random moments of as many seconds as it takes."""
    pytest.importorskip("bayes_opt")
    numbers = {"budget": 14, "pool": 14, "population": None, "evaluations": 16, "proposals": 4, "iterations": 6}
    config = dataclasses.replace(config, method=[*METHODS], proxy=["hnas.grad"], workers=1, **numbers)
    started = time.monotonic()
    search(config)
    took_s = time.monotonic() - started
    assert {"search.csv", "keep.csv", "found.json", "fronts.json", "zen_hnas_grad.json"} <= files(config).keys()
    killed = dataclasses.replace(
        config, out=str(tmp_path / "other"), results=str(tmp_path / "other-results"), workers=workers
    )
    draw, kills = random.Random(workers), 0
    while kills < 4:
        child = os.fork()
        if not child:
            try:
                os.setsid()
                search(killed)
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(draw.uniform(0.1, took_s))
        os.kill(child, signal.SIGKILL)
        kills += 1
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
            break
    search(killed)
    assert files(killed) == files(config)


def test_what_is_scored_is_not_scored_again(config):
    config = dataclasses.replace(config, method="best", proxy="snip")
    _, first, _ = search(config)
    before = files(config)
    _, second, _ = search(config)
    assert first[-1].endswith(" networks scored now")
    assert second[-1].endswith(", 0 networks scored now")
    assert files(config) == before


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`")
@pytest.mark.slow
def test_ray_gives_the_same_files(config, tmp_path):
    """The space is one that workers of Ray know: they are new processes."""
    known = {"space": "nb201", "validation": "analog-baseline", "test": "analog-baseline"}
    config = dataclasses.replace(config, method="best", proxy="params", pool=2, budget=2, repeats=2, **known)
    search(config)
    other = dataclasses.replace(config, out=str(tmp_path / "ray"), results=str(tmp_path / "ray-results"), engine="ray")
    search(other)
    assert files(other) == files(config)


@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs the extra `cluster`")
@pytest.mark.skipif("ZCBENCH_KILLS" not in os.environ, reason="two minutes on an idle machine: tox -e faults")
@pytest.mark.slow
def test_a_search_on_ray_that_is_killed_ends_with_the_files_of_a_local_one(config, tmp_path):
    """The command is killed at random moments after its first score, its workers are left to Ray, and it goes on."""
    known = {"space": "nb201", "validation": "analog-baseline", "test": "analog-baseline"}
    numbers = {"budget": 12, "population": 11, "evaluations": 22, "proposals": 4, "repeats": 2, "batch_size": 16}
    methods = ["best", "aging.warmup", "aging.moves", "zen", "nsga2"]
    config = dataclasses.replace(config, method=methods, proxy=["snip"], pool=12, **known, **numbers)
    search(config)
    path = tmp_path / "search.json"
    folders = {"out": str(tmp_path / "ray"), "results": str(tmp_path / "ray-results")}
    on_ray = dataclasses.replace(config, engine="ray", workers=2, **folders)
    path.write_text(json.dumps(dataclasses.asdict(on_ray)))
    command = [sys.executable, "-m", "zcbench", "search", "--config", str(path)]
    draw, before = random.Random(0), 0
    for _ in range(2):
        running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while running.poll() is None and len(scored(on_ray)) <= before:
            time.sleep(0.05)
        time.sleep(draw.uniform(0, 2))
        running.kill()
        running.wait()
        before = len(scored(on_ray))
    assert before
    _, notes, _ = search(on_ray)
    assert files(on_ray) == files(config)
    assert int(notes[-1].split(", ")[1].split()[0]) < len(scored(config))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"budget": 0}, "budget: expected 1 trained network or more, got 0"),
        ({"repeats": 0}, "repeats: expected 1 or more, got 0"),
        ({"version": 2}, "version: expected 1, got 2"),
        ({"method": []}, "method: expected one or more of random, "),
        ({"method": "best", "proxy": []}, "proxy: expected the name of one that guides best, got none"),
        ({"method": "best,best"}, "method: expected distinct values, got best twice"),
        ({"method": "aging", "population": 41}, "population: expected 1 to 40 networks of wide, got 41"),
        ({"method": "aging", "space": "still"}, "still has no mutations"),
        ({"method": "best", "space": "broken", "proxy": "snip"}, "got snip, which failed on all"),
        ({"method": "hnas", "proxy": "params"}, "proxy: expected a metric of hnas"),
        ({"dataset": "noise-imagenet16-120"}, "wide has no accuracies for imagenet16-120"),
        ({"seconds": 10.0}, "seconds: expected an accuracy whose seconds of training are in a file of wide"),
    ],
)
def test_bad_input_is_one_line_and_writes_no_table(config, changes, words):
    with pytest.raises(ConfigError) as caught:
        search(dataclasses.replace(config, **changes))
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert not Path(config.out).exists()


@pytest.mark.parametrize(("name", "value"), [("method", "agin"), ("proxy", "snipp"), ("space", "nb2011")])
def test_unknown_names_are_refused(config, name, value):
    with pytest.raises(UnknownNameError, match="did you mean"):
        search(dataclasses.replace(config, **{name: value}))
