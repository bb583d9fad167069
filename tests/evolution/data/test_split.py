"""Tests of the parts of a space, and that a search is blind to what is sealed."""

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from zcbench.errors import ConfigError
from zcbench.evolution.data.split import draw, masked, part_of
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.engine.layers import joined
from zcbench.evolution.language.layers import scores
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.discover import discover
from zcbench.evolution.study.found import read
from zcbench.evolution.study.resolve import resolve_search
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES
from zcbench.spaces.nb201.space import NasBench201

pytestmark = pytest.mark.usefixtures("_small")

ENGINE = EngineConfig(generations=2, population=8, parents=4, elite=2, max_height=3, hall=5, seed=1)


@pytest.fixture
def paired():
    """A space in which every two networks are one function."""

    class Paired(SPACES["small"]):
        name = "paired17"  # whose twenty classes are 9 in the pool, 5 in validation and 6 sealed

        def representative(self, index):
            return index - index % 2

    SPACES.add("paired17", Paired)
    return Paired()


@pytest.fixture
def config(tmp_path, paired):
    return EvolveConfig(
        over="layers",
        split="classes",
        grounds=[Ground("paired17", "cifar10-samples", "made")],
        pool=6,
        draw=0,
        test=3,
        batch_sizes=[2],
        objective="tau",
        sign="higher",
        engine=ENGINE,
        out=str(tmp_path / "out"),
        statistics=str(tmp_path / "statistics"),
        tracker="none",
    )


def test_a_class_lies_in_one_part_as_a_whole():
    space = NasBench201()
    parts = {}
    for index in space.sample(600, 3):
        parts.setdefault(space.representative(index), set()).add(part_of(space, index))
    assert all(len(found) == 1 for found in parts.values())
    share = Counter(part for (part,) in parts.values())
    # 5, 2 and 3 tenths; three standard deviations of a binomial share of 500 classes are at most .07
    for part, expected in {"pool": 0.5, "validation": 0.2, "sealed": 0.3}.items():
        assert share[part] / len(parts) == pytest.approx(expected, abs=0.07)


def test_a_draw_has_one_network_of_each_class_and_nothing_of_another_part(paired):
    drawn = {part: draw(paired, part, 4, seed=2) for part in ("pool", "validation", "sealed")}
    flat = [index for indices in drawn.values() for index in indices]
    assert len({paired.representative(index) for index in flat}) == len(flat) == 12
    assert all(part_of(paired, index) == part for part, indices in drawn.items() for index in indices)
    assert draw(paired, "pool", 6, seed=2)[:4] == drawn["pool"]
    with pytest.raises(ConfigError, match=r"sealed: paired17 has 6 classes"):
        draw(paired, "sealed", 20)


def test_only_named_accuracies_are_left(paired):
    truth = masked(paired.truth("cifar10", "made"), [3, 5])
    assert np.isfinite(truth.values).nonzero()[0].tolist() == [3, 5]


def test_a_search_holds_no_sealed_accuracy(config):
    (study,) = resolve_search(config).grounds
    known = np.isfinite(study.truth.values).nonzero()[0]
    assert len(known) == 9
    assert {part_of(study.space, index) for index in known} == {"pool", "validation"}


@pytest.mark.parametrize("over", ["layers", "statistics"])
def test_sealed_accuracies_change_nothing_whatever_they_are(config, tmp_path, over, monkeypatch):
    def outcome(folder):
        changed = dataclasses.replace(config, over=over, out=str(tmp_path / folder))
        found = discover(resolve_search(changed))
        # what differs between runs is the time
        state = dataclasses.asdict(found.state)
        for record in state["records"]:
            del record["wall_s"]
        return state, [candidate.flat() for candidate in found.candidates]

    before = outcome("before")
    kind = SPACES["paired17"]
    honest = kind.read_truth

    def poisoned(self, task, which):
        truth = honest(self, task, which)
        values = truth.values.copy()
        sealed = [index for index in range(self.size) if part_of(self, index) == "sealed"]
        values[sealed] = -1000.0 * np.arange(len(sealed))
        return dataclasses.replace(truth, values=values)

    monkeypatch.setattr(kind, "read_truth", poisoned)
    after = outcome("after")
    np.testing.assert_equal(before, after)


def test_the_best_program_is_chosen_on_validation_classes(config):
    found = discover(resolve_search(config))
    values = [candidate.validation for candidate in found.candidates]
    assert values == sorted(values, reverse=True)
    assert set(found.candidates[0].kinds) == {
        *(kind for kind in ("tau", "gain", "partial", "top")),
        *(f"validation {kind}" for kind in ("tau", "gain", "partial", "top")),
    }
    assert found.tests == []


def test_what_a_program_measured_replaces_no_setting_in_its_file(config):
    resolved = resolve_search(config)
    best = discover(resolved).candidates[0]
    (file,) = Path(resolved.out, "programs").glob(f"{best.found.name}.json")
    settings = json.loads(json.dumps(dict(resolved.recipe)))
    chosen = {"test": len(resolved.grounds[0].indices) - resolved.pool, "least": best.kinds, "tau": best.tau}
    np.testing.assert_equal(read(file).recipe, settings | chosen)


def test_the_same_search_again_forgets_no_opening_and_no_choice(config):
    resolved = resolve_search(dataclasses.replace(config, test=4))
    best = discover(resolved).candidates[0]
    (file,) = Path(resolved.out, "programs").glob(f"{best.found.name}.json")
    written = read(file)
    dataclasses.replace(written, openings=[{"space": "small"}]).write(file)
    discover(resolve_search(config))
    again = read(file)
    assert again.openings == [{"space": "small"}]
    assert again.recipe["test"] == written.recipe["test"] == config.test + 1


def test_a_program_file_scores_as_the_search_did(config):
    resolved = resolve_search(config)
    (study,) = resolved.grounds
    best = discover(resolved).candidates[0].found
    handles = resolved.bank.build([(study.space, i) for i in study.indices], study.images, 2, 0)
    columns, networks = joined(handles)
    known = scores(best.tree(), columns, networks)
    batch = study.images.probe_batch(2, 0)
    for value, index in zip(known, study.indices, strict=True):
        net = study.space.build(study.space.architecture(index), study.images.task, 0)
        (score,) = score_all(net, batch.x, batch.y, [best.proxy()])
        assert score.status == "ok"
        assert score.value == pytest.approx(value, rel=1e-9)  # the last bit differs with the number of threads


def test_a_search_that_goes_on_is_the_same(config, tmp_path):
    def ends(folder, *generations):
        for last in generations:
            engine = dataclasses.replace(ENGINE, generations=last)
            state = discover(
                resolve_search(dataclasses.replace(config, engine=engine, out=str(tmp_path / folder)))
            ).state
        return state.population, state.hall, state.rng

    assert ends("in two steps", 1, 3) == ends("at once", 3)
