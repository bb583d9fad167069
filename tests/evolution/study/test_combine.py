"""Tests of searches for aggregates whose best aggregate is known: accuracies follow a product of two ranks."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, rankdata
from zcbench.bench.scoring.parts import Row
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import PROTOCOL
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.errors import ConfigError, ProgramError, ResultsError, UnknownNameError, ZcbenchError
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.study import combine as module
from zcbench.evolution.study import resolve as resolve_module
from zcbench.evolution.study.combine import EVOLVED, LINEAR, RANDOM, TOP
from zcbench.evolution.study.config import EvolveConfig, Ground
from zcbench.evolution.study.found import read, register
from zcbench.evolution.study.resolve import resolve_search
from zcbench.proxies import AGGREGATES
from zcbench.spaces import SPACES

pytestmark = pytest.mark.usefixtures("_small")

PROXIES = ("params", "naswot", "snip")
ENGINE = EngineConfig(
    generations=4, population=60, parents=30, min_height=1, max_height=2, height_limit=4, parsimony=0.002, hall=5
)


def board(
    out,
    when="a",
    *,
    space="nb201",
    dataset="cifar10",
    accuracy="made",
    n=120,
    first=0,
    seed=0,
    seeds=(0,),
    proxies=PROXIES,
    aggregates=(),
    lower=(),
    power=1.0,
    failing=None,
    sample_of=None,
):
    """Write a run. `power` is the weight of naswot; the proxy `failing` lacks scores of most networks."""
    draw = np.random.default_rng(seed)
    scores = {proxy: np.exp(draw.normal(size=(n, len(seeds)))) for proxy in PROXIES}
    ranks = {proxy: rankdata(values.mean(1)) / n for proxy, values in scores.items()}
    truth = ranks["params"] * ranks["naswot"] ** power + 0.02 * draw.normal(size=n)
    names = [f"net{first + i:04}" for i in range(n)]
    work = tuple(Work(s, 16, tuple(proxies)) for s in seeds)
    recipe = Recipe(
        space=space,
        dataset=dataset,
        truth=f"cifar10/{accuracy}",
        label="made up",
        protocol=PROTOCOL,
        device="cpu",
        torch="2",
        accuracies=dict(zip(names, truth.tolist(), strict=True)),
        work=work,
        batches={(w.batch_size, w.seed): f"{space} {dataset} {when} {w.seed}" for w in work},
        versions=dict.fromkeys([*proxies, *aggregates], 1),
        lower=tuple(lower),
        aggregates=tuple(aggregates),
        batch_sizes=(16,),
        resamples=10,
        sample_of=sample_of or {},
    )
    store = Store(out)
    store.create()
    with store.writer() as writer:
        for column, w in enumerate(work):
            for proxy in proxies:
                values = np.array(scores[proxy][:, column]) * (-1 if proxy in lower else 1)
                if proxy == failing:
                    values[5:] = np.nan
                writer.add(
                    Row(*recipe.key(name, w, proxy), value, "ok" if np.isfinite(value) else "nan", "", 0.01, 1.0)
                    for name, value in zip(names, values.tolist(), strict=True)
                )
    record = {"recipe": recipe.document(), "sizes": {}, "environment": {"python": "3"}, "config": {"name": ""}}
    (out / "runs" / f"{when}.json").write_text(json.dumps(record))
    return recipe


def combine(config, **more):
    return module.combine(resolve_search(config), **more)


def configured(results):
    return EvolveConfig(
        over="ranks",
        results=str(results),
        grounds=[Ground("nb201", "cifar10", "made")],
        proxies=list(PROXIES),
        engine=ENGINE,
        out=str(results.parent / "out"),
        tracker="none",
    )


@pytest.fixture
def results(tmp_path):
    board(tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture
def config(results):
    return configured(results)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Return the configuration and the result of a search that several tests share."""
    results = tmp_path_factory.mktemp("done") / "results"
    board(results)
    config = configured(results)
    return config, combine(config)


def changed(config, engine=None, **changes):
    return dataclasses.replace(config, engine=dataclasses.replace(config.engine, **(engine or {})), **changes)


def test_the_product_of_ranks_is_found(done):
    _, found = done
    assert str(found.programs[EVOLVED]) == "mul(naswot, params)"
    (evolved,) = (o for o in found.outcomes if o.chosen == EVOLVED and o.pool.endswith("tested on"))
    singles = [o for o in found.outcomes if "single" in o.chosen and o.pool.endswith("tested on")]
    assert len(singles) == 2
    assert evolved.tau > max(o.tau for o in singles) + 0.1
    assert evolved.n == 60
    assert not found.notes


def test_over_logs_the_sum_is_found(config):
    found = combine(changed(config, {"generations": 6}, over="logs"))
    assert str(found.programs[EVOLVED]) == "add(naswot, params)"


def test_lower_scores_that_are_better_are_turned(config, tmp_path):
    board(tmp_path / "lower", lower=["naswot"])
    assert str(combine(changed(config, results=str(tmp_path / "lower"))).programs[EVOLVED]) == "mul(naswot, params)"


def test_same_seed_same_search(done, config):
    first, second = done[1], combine(config)
    assert first.state.hall == second.state.hall
    assert repr(first.outcomes) == repr(second.outcomes)  # a top of fewer than ten networks has NaN, equal to nothing
    assert first.programs == second.programs


def test_a_random_search_of_as_many_programs_stands_beside_it(done):
    config, found = done
    beside = json.loads(Path(config.out, "random", "state.json").read_text())
    assert len(beside["records"]) == len(found.state.records) == 5
    assert {len(beside["population"]), len(found.state.population)} == {60}
    assert beside["population"][0] != list(found.state.population[0])
    random_tau = max(values[0] for _, values in beside["hall"])
    assert found.state.hall[0][1][0] >= random_tau
    assert {o.chosen for o in found.outcomes} >= {EVOLVED, RANDOM, LINEAR}


def test_fitness_and_outcomes_are_taus_of_the_pools(done, every_row):
    """The coefficients equal those of scores that the test itself ranks and multiplies."""
    config, found = done
    results = Path(config.results)
    rows = every_row(results).pivot(index="architecture", columns="proxy", values="value")
    truth = pd.Series(json.loads((results / "runs" / "a.json").read_text())["recipe"]["accuracies"])
    order = np.random.RandomState(0).permutation(120)
    for part, chosen in (("fitted on", order[:60]), ("tested on", order[60:])):
        own = rows.iloc[chosen].rank() / 60
        tau = kendalltau(own["naswot"] * own["params"], truth[own.index]).statistic
        (got,) = (o for o in found.outcomes if o.chosen == EVOLVED and o.pool.endswith(part))
        assert got.tau == pytest.approx(tau, abs=1e-12)
        if part == "fitted on":
            assert found.state.hall[0][1][0] == pytest.approx(tau - 0.002 * 3)


def test_not_in_halves_it_is_fitted_on_all(config):
    found = combine(changed(config, {"generations": 0}, halves=False))
    assert {(o.pool, o.n) for o in found.outcomes} == {("nb201 on cifar10, cifar10/made", 120)}


def test_several_grounds_are_fitted_on_together(config, results):
    board(results, "b", dataset="cifar100", seed=1, power=2.0)
    board(results, "c", space="nds", seed=2)
    both = changed(config, grounds=[Ground("nb201", "cifar10"), Ground("nb201", "cifar100")])
    found = combine(both)
    fitted = [o.tau for o in found.outcomes if o.chosen == EVOLVED and o.pool.endswith("fitted on")]
    assert found.state.hall[0][1][0] == pytest.approx(min(fitted) - 0.002 * found.programs[EVOLVED].size)
    assert [o.pool.split(", ")[0] for o in found.outcomes if o.chosen == EVOLVED] == [
        *("nb201 on cifar10", "nb201 on cifar100") * 2,
        "nds on cifar10",
    ]


def test_no_network_of_a_test_was_fitted_on(config, results):
    """Other boards of the space lose the fitted networks; a board without others keeps all, and its name says so."""
    board(results, "b", dataset="cifar100", seed=1)  # the same networks
    board(results, "c", dataset="imagenet16-120", seed=2, n=60, first=100)  # 20 of the same networks and 40 others
    board(results, "d", space="nds", seed=3)  # networks of the same names, in another space
    order = np.random.RandomState(0).permutation(120)
    fitted = {f"net{i:04}" for i in order[:60]}
    short = {"generations": 0}
    found = {o.pool: o.n for o in combine(changed(config, short)).outcomes}
    assert found["nb201 on cifar10, cifar10/made, tested on"] == 60
    assert found["nb201 on cifar100, cifar10/made"] == 60
    assert found["nb201 on imagenet16-120, cifar10/made"] == 60 - len(fitted & {f"net{i:04}" for i in range(100, 160)})
    assert found["nds on cifar10, cifar10/made"] == 120
    whole = {o.pool: o.n for o in combine(changed(config, short, halves=False, out=config.out + "-whole")).outcomes}
    assert whole["nb201 on cifar100, cifar10/made, networks fitted on"] == 120
    assert whole["nb201 on imagenet16-120, cifar10/made"] == 40


def test_grounds_whose_halves_differ_share_no_network_either(config, results, monkeypatch):
    """One board lacks a few networks, so that its halves differ."""
    board(results, "b", dataset="cifar100", seed=1, n=115)
    kept = {}
    outcomes = module.outcomes

    def watched(programs, fitted, others, *given):
        kept["fitted"], kept["others"] = fitted, others
        return outcomes(programs, fitted, others, *given)

    monkeypatch.setattr(module, "outcomes", watched)
    grounds = [Ground("nb201", "cifar10"), Ground("nb201", "cifar100")]
    combine(changed(config, {"generations": 0}, grounds=grounds))
    fitted = {network for pool in kept["fitted"] for network in pool.networks}
    tested = {network for pool in kept["others"] for network in pool.networks}
    assert fitted
    assert tested
    assert not fitted & tested
    assert all(len(pool.networks) == len(pool.truth) for pool in (*kept["fitted"], *kept["others"]))


def test_of_several_boards_the_largest_is_taken(config, results):
    board(results, "b", n=150, seed=1)
    board(results, "c", n=200, seed=2, proxies=PROXIES[:2])
    found = combine(changed(config, {"generations": 0}))
    sizes = {o.pool: o.n for o in found.outcomes}
    assert sorted(n for pool, n in sizes.items() if pool.endswith(("fitted on", "tested on"))) == [75, 75]
    assert all(", board " in pool for pool in sizes)
    assert any("has no scores of snip" in note for note in found.notes)


def test_boards_that_are_of_no_use_are_noted(config, results):
    board(results, "b", space="nds", proxies=PROXIES[:2])
    board(results, "c", space="small", n=9)
    found = combine(changed(config, {"generations": 0}))
    assert len(found.notes) == 2
    assert any("nds on cifar10" in note and "has no scores of snip" in note for note in found.notes)
    assert any("small on cifar10" in note and "only 9 of 9" in note for note in found.notes)


def test_both_objectives_take_pareto(config):
    both = changed(config, {"pareto": True, "parsimony": 0.0}, objective="both", top=0.2)
    found = combine(both)
    assert list(found.programs) == [EVOLVED, RANDOM, LINEAR, TOP]
    assert all(len(values) == 3 for _, values in found.state.hall)
    tau, top = (max(values[i] for _, values in found.state.hall) for i in (0, 1))
    hall = {text: values for text, values in found.state.hall}
    assert hall[str(found.programs[EVOLVED])][0] == tau
    assert hall[str(found.programs[TOP])][1] == top
    with pytest.raises(ConfigError, match="pareto"):
        combine(changed(config, objective="both"))


@pytest.mark.parametrize("objective", ["top", "weighted"])
def test_other_objectives(config, objective):
    found = combine(changed(config, objective=objective, top=0.3))
    assert found.state.hall[0][1][0] > 0.3


def test_programs_are_read_and_registered(done):
    config, found = done
    paths = list(Path(config.out, "programs").iterdir())
    assert {str(read(path).tree()) for path in paths} == {str(program) for program in found.programs.values()}
    for path in paths:
        name = register(path)
        assert register(path) == name == path.stem  # the command line and the study both register the file
        assert set(AGGREGATES[name].members) <= set(PROXIES)
    frame = pd.read_parquet(Path(config.out, "outcomes.parquet"))
    pd.testing.assert_frame_equal(frame, pd.DataFrame([vars(outcome) for outcome in found.outcomes]), check_dtype=False)


def test_it_goes_on_and_is_not_taken_for_another(config, results):
    first = combine(changed(config, {"generations": 1}))
    seen = []
    assert combine(config, each=lambda state: seen.append(state.generation)).state.records[:2] == first.state.records
    assert seen == [2, 3, 4]
    for name, change in (
        ("over", {"over": "logs"}),
        ("halves, pools", {"halves": False}),
        ("proxies", {"proxies": ["snip", "naswot"]}),
        ("engine", {"engine": {"seed": 5}}),
        ("objective", {"objective": "top"}),
        ("pools, sample_seed", {"sample_seed": 1}),
    ):
        with pytest.raises(ResultsError, match=rf"another search \(.*{name.split(', ')[0]}.* differ\)"):
            combine(changed(config, **change))
    board(results, "b", n=121)  # now the largest board of this ground
    with pytest.raises(ResultsError, match=r"\(pools differ\)"):
        combine(config)


def test_by_default_terminals_are_what_all_boards_have(config, results):
    board(results, "b", dataset="cifar100", proxies=PROXIES[1:], seed=1)
    grounds = [Ground("nb201", "cifar10"), Ground("nb201", "cifar100")]
    combine(changed(config, {"generations": 0}, proxies=[], grounds=grounds))
    assert sorted(json.loads(Path(config.out, "state.json").read_text())["recipe"]["proxies"]) == ["naswot", "snip"]


def test_a_proxy_of_a_part_of_the_networks_is_a_terminal_only_by_name(config, tmp_path):
    board(tmp_path / "few", sample_of={"snip": 30})
    few = changed(config, {"generations": 0}, results=str(tmp_path / "few"), out=str(tmp_path / "a"), proxies=[])
    combine(few)
    assert json.loads((tmp_path / "a" / "state.json").read_text())["recipe"]["proxies"] == ["params", "naswot"]
    named = changed(few, proxies=["naswot", "snip"], out=str(tmp_path / "b"))
    search = resolve_search(named)
    assert sum(len(pool.truth) for pool in (*search.fitted, *search.others)) == 30


def test_aggregates_are_no_terminals(config, tmp_path):
    board(tmp_path / "pooled", aggregates=["vote"], proxies=[*PROXIES])
    pooled = changed(config, results=str(tmp_path / "pooled"))
    with pytest.raises(ConfigError, match="got the aggregate vote"):
        combine(changed(pooled, proxies=["params", "vote"]))


@pytest.mark.parametrize(
    ("change", "kind", "words"),
    [
        ({"grounds": []}, ConfigError, "grounds: expected at least one"),
        ({"sample_seed": -1}, ConfigError, "sample_seed: expected 0 to"),
        ({"top": 0.0}, ConfigError, "top: expected a share"),
        ({"engine": {"height_limit": 65}}, ConfigError, "height_limit of at most 64, got 65"),
        ({"grounds": [Ground("nb101", "cifar10")]}, ConfigError, r"no scores of nb101 .*: expected one of nb201 on"),
        ({"grounds": [Ground("nb201", "cifar100")]}, ConfigError, "no scores of nb201 on cifar100"),
        (
            {"grounds": [Ground("nb201", "cifar10", batch_size=4)]},
            ConfigError,
            "nb201: expected 0 with over=ranks, got 4",
        ),
        ({"grounds": [Ground("nb201", "cifar10", "best")]}, ConfigError, r"\(best\): expected one of .*cifar10/made"),
        ({"proxies": ["params", "synflow"]}, ConfigError, "has no scores of synflow"),
        ({"proxies": ["params", "synflw"]}, UnknownNameError, "did you mean synflow"),
        ({"proxies": ["params", "params"]}, ConfigError, "distinct"),
        ({"results": "nowhere"}, ResultsError, "got nowhere, which does not exist"),
        ({"engine": {"population": 1}}, ConfigError, "population >= 2"),
        ({"engine": {"start": ["mul(params, synflow)"]}}, ProgramError, "synflow"),
        ({"engine": {"start": ["mul(params)"]}}, ProgramError, "mul takes 2 arguments, got 1"),
        (
            {"proxies": ["params"], "engine": {"max_height": 1, "height_limit": 1, "population": 500}},
            ConfigError,
            "valid",
        ),
    ],
    ids=str,
)
def test_a_fault_is_one_line(config, change, kind, words, monkeypatch):
    monkeypatch.setattr("zcbench.evolution.engine.generations.PATIENCE", 10)
    with pytest.raises(kind, match=words) as caught:
        combine(changed(config, **change))
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ZcbenchError)


def test_a_proxy_without_scores_is_named(config, tmp_path):
    board(tmp_path / "failing", failing="snip")
    with pytest.raises(ConfigError, match=r"only 5 of 120 networks have all scores \(snip has 5\)"):
        combine(changed(config, results=str(tmp_path / "failing")))


def test_aggregates_by_class_are_fitted_on_what_is_not_sealed(config, monkeypatch):
    monkeypatch.setattr(SPACES["nb201"], "index", lambda self, architecture: int(architecture[3:]))
    monkeypatch.setattr(resolve_module, "part_of", lambda space, index: ("pool", "validation", "sealed")[index % 3])
    search = resolve_search(dataclasses.replace(config, split="classes"))
    (fitted,) = search.fitted
    assert {int(network[3:]) % 3 for network in fitted.networks} == {0, 1}
    assert len(fitted.networks) == 80
    assert [int(network[3:]) % 3 for network in search.others[0].networks] == [2] * 40
    assert search.recipe["split"] == "classes"
    assert "split" not in resolve_search(config).recipe
