"""Tests of whole searches on small networks whose accuracies follow the number of weights."""

import dataclasses
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import kendalltau
from zcbench.bench.results.board import boards
from zcbench.datasets import DATASETS
from zcbench.errors import ConfigError, ProgramError, ResultsError, UnknownNameError, ZcbenchError
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.engine.fitness import NOTHING
from zcbench.evolution.study import discover as module
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.discover import BESIDE, KEPT
from zcbench.evolution.study.found import read
from zcbench.evolution.study.resolve import resolve_search
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

pytestmark = pytest.mark.usefixtures("_small")

ENGINE = EngineConfig(generations=2, population=8, parents=4, max_height=4, hall=5, seed=1)
GROUND = Ground("small", "cifar10-samples", "made")


@pytest.fixture(scope="module")
def statistics(tmp_path_factory):
    return str(tmp_path_factory.mktemp("statistics"))


@pytest.fixture
def search(tmp_path, statistics):
    """Return a function that makes configurations of short searches, which share their statistics."""
    base = EvolveConfig(
        grounds=[GROUND],
        pool=8,
        draw=4,
        test=0,
        out=str(tmp_path / "out"),
        statistics=statistics,
        engine=ENGINE,
        tracker="none",
    )

    def search(engine=None, **changes):
        return dataclasses.replace(base, engine=dataclasses.replace(ENGINE, **(engine or {})), **changes)

    return search


def discover(config, **more):
    return module.discover(resolve_search(config), **more)


def essence(discovery):
    """Return everything of a search that must be reproducible."""
    state = dataclasses.asdict(discovery.state)
    state["records"] = [record | {"wall_s": 0} for record in state["records"]]
    taus = [{r.proxy: r.correlation.tau for r in rankings} for rankings in discovery.tests]
    return json.dumps([state, [c.flat() for c in discovery.candidates], taus])


def files(folder):
    # A run that is killed while it writes leaves a hidden file, which nothing reads.
    return {path.name: path.read_text() for path in Path(folder, "programs").glob("[!.]*")}


def test_the_same_seed_is_the_same_search_whatever_the_workers(search, tmp_path):
    one, two = search(test=5, out=str(tmp_path / "one")), search(test=5, workers=2, out=str(tmp_path / "two"))
    first = essence(discover(one))
    assert essence(discover(two)) == first
    assert files(one.out) == files(two.out)
    other = search(engine={"seed": 2}, out=str(tmp_path / "other"))
    assert discover(other).state.hall != discover(one).state.hall


def test_statistics_made_anew_give_the_same_search(search, tmp_path):
    own = search(statistics=None, out=str(tmp_path / "own"), workers=2)
    assert essence(discover(own)) == essence(discover(search()))
    assert list(Path(own.out, "statistics").glob("*.safetensors"))


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_many_times_it_ends_as_if_it_had_not_been(search, tmp_path, workers):
    engine = {"generations": 8}
    whole = discover(search(engine, out=str(tmp_path / "whole")))
    # It has its own statistics, so that it is also killed while it collects them.
    killed = search(engine, out=str(tmp_path / "killed"), statistics=str(tmp_path / "statistics"), workers=workers)
    draw, kills = random.Random(workers), 0
    while kills < 8:
        child = os.fork()
        if not child:
            try:
                discover(killed, each=lambda state: time.sleep(0.03))
                os._exit(0)
            finally:
                os._exit(1)
        time.sleep(draw.uniform(0.05, 0.35))
        os.kill(child, signal.SIGKILL)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code == 0:
            break
        assert code == -signal.SIGKILL
        kills += 1
    assert kills > 2
    assert essence(discover(killed)) == essence(whole)
    assert files(killed.out) == files(search(out=str(tmp_path / "whole")).out)
    frames = [pd.read_parquet(Path(folder, "generations.parquet")) for folder in (killed.out, tmp_path / "whole")]
    pd.testing.assert_frame_equal(*[frame.drop(columns="wall_s") for frame in frames])


def test_more_generations_go_on_from_there(search, tmp_path):
    """On three networks many programs have equal fitness, and the hall of fame must keep their order."""
    whole = discover(search({"generations": 6}, draw=3, out=str(tmp_path / "whole")))
    assert len({values[0] for _, values in whole.state.hall}) < len(whole.state.hall)
    seen = []
    for generations in (0, 1, 1, 2, 3, 4, 6):
        config = search({"generations": generations}, draw=3)
        found = discover(config, each=lambda state: seen.append(state.generation))
    assert essence(found) == essence(whole)
    assert seen == [0, 1, 2, 3, 4, 5, 6]


def test_the_last_record_is_written_though_it_was_killed_before(search):
    config = search()
    discover(config)
    path = Path(config.out, "generations.parquet")
    whole = path.read_bytes()
    path.unlink()
    discover(config)
    assert path.read_bytes() == whole


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    return tmp_path_factory.mktemp("begun") / "out"


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("engine", {"engine": {"seed": 2}}),
        ("engine", {"engine": {"population": 9}}),
        ("engine", {"engine": {"start": ["mean(T3)"]}}),
        ("pool", {"pool": 9}),
        ("draw", {"draw": 5}),
        ("grounds", {"grounds": [dataclasses.replace(GROUND, accuracy="default")]}),
        ("grounds", {"grounds": [dataclasses.replace(GROUND, batch_size=2)]}),
        ("grounds_drawn", {"grounds_drawn": 1}),
        ("batch_sizes", {"batch_sizes": [1, 2]}),
        ("seeds", {"seeds": [1]}),
        ("sample_seed", {"sample_seed": 1}),
        ("collection", {"collection": "flow"}),
        ("dtype", {"dtype": "bfloat16"}),
        ("to_scalar", {"to_scalar": "l2"}),
        ("aggregation", {"aggregation": "depth"}),
        ("representation", {"representation": "sequential"}),
        ("objective", {"objective": "weighted"}),
        ("top", {"top": 0.5}),
        ("sign", {"sign": "same"}),
    ],
    ids=str,
)
def test_another_search_is_refused_by_what_differs_before_anything_is_collected(
    begun, search, name, change, tmp_path, monkeypatch
):
    if not begun.exists():
        discover(search({"generations": 0}, out=str(begun)))
    shutil.copytree(begun, tmp_path / "out")
    state = (tmp_path / "out" / "state.json").read_bytes()
    monkeypatch.setattr(module, "pools_of", lambda *_: pytest.fail("collected"))
    with pytest.raises(ResultsError, match=rf"holds another search \({name} differ\)"):
        discover(search(**change))
    assert (tmp_path / "out" / "state.json").read_bytes() == state


def test_what_changes_no_search_may_change(search, tmp_path):
    first = discover(search())
    free = search(
        workers=2, test=3, test_batch_size=2, tests=[Ground("small", "noise-cifar10", "made")], tracker="wandb"
    )
    free = dataclasses.replace(free, results="elsewhere", statistics=str(tmp_path / "moved"))
    again = discover(free)
    assert again.state == first.state
    assert [(r.dataset, r.batch_size) for r in again.tests[0]][:1] == [("noise-cifar10", 2)]


def test_a_ground_may_have_a_number_of_images_of_its_own(search):
    own = dataclasses.replace(GROUND, dataset="noise-cifar10", batch_size=2)
    discovery = discover(search({"generations": 1}, grounds=[GROUND, own], test=5))
    assert list(discovery.candidates[0].tau) == [
        "small on cifar10-samples, batch 1, seed 0",
        "small on noise-cifar10, batch 2, seed 0",
    ]
    assert discovery.candidates[0].found.batch_size == 1
    assert [tests[0].batch_size for tests in discovery.tests] == [1, 2]


def test_programs_of_grounds_with_their_own_numbers_of_images_are_scored_with_the_largest(search):
    grounds = [dataclasses.replace(GROUND, batch_size=2), dataclasses.replace(GROUND, batch_size=3)]
    assert resolve_search(search(grounds=grounds)).batch_size == 3
    assert resolve_search(search(grounds=[*grounds, GROUND])).batch_size == 1


def test_a_recipe_names_no_number_of_images_that_a_ground_lacks(search):
    # Folders and files of searches before this setting are those of the same searches.
    own = dataclasses.replace(GROUND, batch_size=2)
    recipe = resolve_search(search(grounds=[GROUND, own])).recipe
    assert recipe["grounds"] == [
        {"space": "small", "dataset": "cifar10-samples", "accuracy": "made"},
        {"space": "small", "dataset": "cifar10-samples", "accuracy": "made", "batch_size": 2},
    ]


def test_files_say_what_was_found(search):
    config = search(test=5, batch_sizes=[2], to_scalar="l2", aggregation="depth")
    discovery = discover(config)
    frame = pd.read_parquet(Path(config.out, "hall.parquet"))
    assert frame.to_dict("records") == [candidate.flat() for candidate in discovery.candidates]
    assert {text for text, _ in discovery.state.hall} <= set(frame["program"])
    assert frame["fitness"].is_monotonic_decreasing
    generations = pd.read_parquet(Path(config.out, "generations.parquet"))
    assert generations.to_dict("records") == [dataclasses.asdict(record) for record in discovery.state.records]
    best = discovery.candidates[:KEPT]
    assert set(files(config.out)) == {f"{candidate.found.name}.json" for candidate in best}
    for candidate in best:
        found = read(Path(config.out, "programs", f"{candidate.found.name}.json"))
        assert (found.name, found.program, found.direction) == (
            candidate.found.name,
            candidate.found.program,
            candidate.found.direction,
        )
        assert (found.batch_size, found.to_scalar, found.aggregation) == (2, "l2", "depth")
        assert found.recipe["tau"] == candidate.tau
        assert found.recipe["engine"]["seed"] == 1


def test_a_program_file_scores_as_the_search_did(search):
    """Its tau on the pool, from new networks that are scored as by a proxy, equals that of the search."""
    config = search(batch_sizes=[2], seeds=[3])
    candidate = discover(config).candidates[0]
    card = read(Path(config.out, "programs", f"{candidate.found.name}.json")).proxy()
    space, images = SPACES["small"](None), DATASETS["cifar10-samples"](None)
    batch = images.probe_batch(2, 3)
    pool = space.sample(8, 0)
    nets = [space.build(space.architecture(index), images.task, 3) for index in pool]
    x = batch.x.contiguous(memory_format=space.memory_format)
    scores = [score_all(net, x, batch.y, [card], seed=3)[0].value for net in nets]
    truth = space.truth("cifar10", "made").values[pool]
    assert candidate.tau == {"small on cifar10-samples, batch 2, seed 3": pytest.approx(kendalltau(scores, truth)[0])}
    assert candidate.fitness == pytest.approx(abs(kendalltau(scores, truth)[0]))


def test_the_test_is_on_networks_of_no_pool(search):
    config = search(test=5)
    (rankings,) = discover(config).tests
    assert {r.proxy for r in rankings} > set(BESIDE)
    assert sum(r.proxy.startswith("evolved-") for r in rankings) == KEPT
    assert {r.networks for r in rankings} == {5}
    (board,) = boards(Path(config.out, "scores"))
    space = SPACES["small"](None)
    tested = {space.index(name) for name in board.recipe.accuracies}
    assert tested == set(space.sample(13, 0)[8:])
    assert not tested & set(space.sample(8, 0))
    # Five networks are too few for a coefficient.
    assert np.isnan([r.correlation.tau for r in rankings]).all()


def test_register_machines_evolve_too(search):
    config = search(representation="sequential")
    discovery = discover(config)
    assert all(";" in text or text.replace(" ", "").isdecimal() for text, _ in discovery.state.hall)
    assert all(read(Path(config.out, "programs", name)).tree().args for name in files(config.out))
    assert essence(discover(config)) == essence(discovery)


def test_seeds_and_batch_sizes_are_grounds_of_their_own(search):
    drawn = []
    draw = module.NetworkProblem.draw

    def watched(self, rng):
        drawn.append(draw(self, rng))
        return drawn[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.NetworkProblem, "draw", watched)
        discovery = discover(search(batch_sizes=[1, 2], seeds=[0, 1], grounds_drawn=3))
    names = [f"small on cifar10-samples, batch {size}, seed {seed}" for seed in (0, 1) for size in (1, 2)]
    assert {tuple(candidate.tau) for candidate in discovery.candidates} == {tuple(names)}
    assert {len(grounds) for grounds in drawn} == {3}
    best = discovery.candidates[0]
    assert best.fitness == min(map(abs, best.tau.values()))


def test_one_sign_everywhere(search):
    upside_down = Ground("small", "noise-cifar10", "made")
    discovery = discover(search(sign="same", grounds=[GROUND, upside_down], draw=0))
    for candidate in discovery.candidates:
        tau = candidate.tau.values()
        assert candidate.fitness == max(min(tau), min(-t for t in tau))
    assert discovery.candidates[0].fitness > 0


def test_a_program_that_ranks_downwards_says_that_lower_is_better(search):
    """A program and its inverse have the same |tau|; their files state the direction."""
    start = ["numel(T3)", "inv(numel(T3))"]
    config = search({"generations": 0, "start": start, "population": 4})
    found = {c.found.program: c for c in discover(config).candidates}
    up, down = (found[text] for text in start)
    assert up.fitness == down.fitness > 0
    assert list(up.tau.values()) == [-t for t in down.tau.values()]
    assert (up.found.direction, down.found.direction) == ("higher", "lower")
    assert read(Path(config.out, "programs", f"{down.found.name}.json")).direction == "lower"


def test_pareto_keeps_small_programs(search):
    discovery = discover(search({"pareto": True}))
    for text, (fitness, size) in discovery.state.population:
        assert size == text.count("(") + text.count("T")
        assert -1 <= fitness <= 1


def test_names_tell_apart_what_scores_differently(search):
    names = {
        module._found(resolve_search(search(**change)), "mean(T3)", direction).name
        for direction in ("higher", "lower")
        for change in (
            {},
            {"collection": "flow"},
            {"to_scalar": "l2"},
            {"aggregation": "depth"},
            {"batch_sizes": [1, 4]},
        )
    }
    assert len(names) == 10
    assert module._found(resolve_search(search(out="elsewhere")), "mean(T3)", "higher").name in names


def test_two_searches_of_one_process_get_on(search, tmp_path):
    start = {"generations": 0, "start": ["numel(T3)"]}
    for number, change in enumerate(({}, {"batch_sizes": [2]}, {})):
        assert discover(search(start, test=3, out=str(tmp_path / str(number)), **change)).tests


def test_a_program_that_ranks_nothing_on_all_networks_is_no_find(search, monkeypatch):
    """A program without a score on a network that was never drawn stays in the hall of fame, but has no file."""
    coefficients = module.NetworkProblem.coefficients

    def holed(self, programs, drawn):
        found = coefficients(self, programs, drawn)
        if drawn == self.everything():
            found[1:] = float("nan")
        return found

    monkeypatch.setattr(module.NetworkProblem, "coefficients", holed)
    config = search(test=3)
    discovery = discover(config)
    assert [candidate.fitness > NOTHING for candidate in discovery.candidates].count(True) == 1
    assert len(files(config.out)) == 1
    assert sum(r.proxy.startswith("evolved-") for r in discovery.tests[0]) == 1
    assert len(pd.read_parquet(Path(config.out, "hall.parquet"))) == len(discovery.candidates)


def test_networks_that_are_left_out_are_noted(search):
    discovery = discover(search(grounds=[Ground("faulty", "cifar10-samples", "made")], pool=12))
    lost = sum(index % 3 == 0 for index in SPACES["faulty"](None).sample(12, 0))
    (note,) = discovery.notes
    assert 0 < lost < 9
    assert note.startswith(f"faulty on cifar10-samples, batch 1, seed 0: {lost} networks are left out")
    assert "no such kernel" in note


def test_networks_without_accuracy_are_left_out(search, monkeypatch):
    truth = SPACES["small"].read_truth

    def holed(self, task, which):
        found = truth(self, task, which)
        found.values[self.sample(8, 0)[2]] = float("nan")
        return found

    monkeypatch.setattr(SPACES["small"], "read_truth", holed)
    (note,) = discover(search()).notes
    assert note.endswith("1 networks are left out, such as: it has no accuracy")


@pytest.mark.parametrize(
    ("ground", "change", "words"),
    [
        (Ground("bare", "cifar10-samples", "made"), {}, r"only 0 of 8 networks .* instances of rcb \(.*triple\)"),
        (Ground("bare", "cifar10-samples", "made"), {"collection": "flow"}, r"only 0 of 8 .* of flow \(.*triple\)"),
        (Ground("scaleless", "cifar10-samples", "made"), {"collection": "cbr"}, r"only 0 of 8 .* of cbr \(.*scale"),
        (Ground("small", "cifar10-samples", "few"), {}, r"only \d of 8 networks"),
        (Ground("small", "cifar10-samples", "flat"), {}, r"all 8 networks .* have an accuracy of 90: expected"),
    ],
)
def test_a_ground_of_no_use_is_named(search, ground, change, words):
    with pytest.raises(ConfigError, match=rf"^grounds: .*{words}") as caught:
        discover(search(grounds=[ground], **change))
    assert f"{ground.space} on cifar10-samples" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"grounds": []}, ConfigError, "grounds: expected at least one"),
        ({"grounds": [Ground("smal", "cifar10-samples")]}, UnknownNameError, "did you mean small"),
        ({"grounds": [Ground("small", "cifar11-samples")]}, UnknownNameError, "cifar10-samples"),
        ({"grounds": [Ground("small", "cifar10-samples", "best")]}, ZcbenchError, "made"),
        ({"grounds": [Ground("nb201", "cifar10", "test-200")]}, ZcbenchError, "nothing-here"),
        (
            {"grounds": [dataclasses.replace(GROUND, batch_size=-1)]},
            ConfigError,
            "batch_size of small: expected 0 or more",
        ),
        ({"tests": [dataclasses.replace(GROUND, batch_size=-1)]}, ConfigError, "batch_size of small: .* got -1"),
        ({"grounds": [dataclasses.replace(GROUND, batch_size=None)]}, ConfigError, "batch_size of a ground: .* null"),
        ({"grounds": [dataclasses.replace(GROUND, dataset=None)]}, ConfigError, "dataset of a ground: .* got null"),
        ({"tests": [Ground("smal", "cifar10-samples")], "test": 5}, UnknownNameError, "did you mean small"),
        ({"pool": 2, "draw": 0}, ConfigError, "pool: expected 3 or more"),
        ({"draw": 9}, ConfigError, "a draw of 3 to that number"),
        ({"draw": 2}, ConfigError, "a draw of 3 to that number"),
        ({"draw": -1}, ConfigError, "a draw of 3 to that number"),
        ({"test": -1}, ConfigError, "expected"),
        ({"pool": 30, "test": 11}, ConfigError, r"small has 40 networks: .* got 30 \+ 11"),
        ({"pool": 41}, ConfigError, "small has 40 networks"),
        ({"grounds_drawn": -1}, ConfigError, "grounds_drawn"),
        ({"exact": -1}, ConfigError, "exact: expected 0 or more, got -1"),
        ({"seeds": []}, ConfigError, "at least one"),
        ({"seeds": [-1]}, ConfigError, "seeds"),
        ({"seeds": [1, 1]}, ConfigError, "distinct"),
        ({"batch_sizes": []}, ConfigError, "at least one"),
        ({"batch_sizes": [0]}, ZcbenchError, "0"),
        ({"batch_sizes": [21]}, ZcbenchError, "21"),
        ({"test_batch_size": 21, "test": 5}, ZcbenchError, "21"),
        ({"test_batch_size": -1, "test": 5}, ZcbenchError, "-1"),
        ({"sample_seed": -1}, ConfigError, "sample_seed"),
        ({"workers": 0}, ConfigError, "workers"),
        ({"objective": "both"}, ConfigError, "got both, which is only for aggregates"),
        ({"objective": "gain"}, ConfigError, "expected over layers and sign higher with gain, got statistics and any"),
        ({"objective": "partial", "over": "layers"}, ConfigError, "sign higher with partial, got layers and any"),
        ({"objective": "gain", "over": "layers", "sign": "higher", "rivals": []}, ConfigError, r"rivals: .* got \[\]"),
        ({"over": "layers", "rivals": ["sum(meco)"]}, ProgramError, "meco"),
        ({"over": "layers", "representation": "sequential"}, ConfigError, "representation: expected tree"),
        ({"engine": {"alike": 0.9}}, ConfigError, "expected alike=1 with over=statistics.* got 0.9"),
        ({"split": "classes", "test": 2}, ConfigError, "3 or more networks of the validation classes, got 2"),
        ({"split": "classes", "pool": 30, "test": 5}, ConfigError, "pool: small has 20 classes"),
        ({"over": "ranks", "members": -1}, ConfigError, "members: expected 0 or more"),
        ({"top": 0.0}, ConfigError, "top: expected a share"),
        ({"include": ["absent.py"]}, ConfigError, "absent.py"),
        ({"include": "absent.json"}, ProgramError, "absent.json"),
        ({"engine": {"population": 1}}, ConfigError, "population >= 2"),
        ({"engine": {"pareto": True, "parsimony": 0.1}}, ConfigError, "parsimony or pareto"),
        ({"engine": {"height_limit": 65}}, ConfigError, "height_limit of at most 64, got 65"),
        ({"engine": {"start": ["mean(T9)"]}}, ProgramError, "T9"),
        ({"engine": {"start": ["abs(abs(abs(abs(abs(T3)))))"], "height_limit": 4}}, ProgramError, "limit of 4"),
    ],
    ids=str,
)
def test_a_fault_is_one_line_and_comes_before_anything_is_made(search, change, kind, words, tmp_path, monkeypatch):
    monkeypatch.setenv("ZCBENCH_DATA", str(tmp_path / "nothing-here"))
    config = search(**{"statistics": None, **change})
    with pytest.raises(kind, match=words) as caught:
        discover(config)
    assert "\n" not in str(caught.value)
    assert not Path(config.out).exists()


def test_threads_are_as_before(search):
    torch.set_num_threads(2)
    try:
        discover(search({"generations": 0}))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_the_best_of_the_last_generation_is_a_candidate(search):
    """A hall of one may hold a program that was lucky early, so the best of the last generation is added."""
    discovery = discover(search({"hall": 1, "generations": 4}))
    texts = {candidate.found.program for candidate in discovery.candidates}
    last = max(discovery.state.population, key=lambda item: item[1])[0]
    assert texts == {discovery.state.hall[0][0], last}
