import dataclasses

import pytest
from zcbench.errors import ConfigError
from zcbench.evolution.search.asks import METHODS
from zcbench.evolution.search.keep import survivals
from zcbench.evolution.search.play import Run


def runs(score, proxy="made"):
    """Return the run of a pool of all forty networks."""
    return [Run("keep", proxy, 0, scored={(proxy, f"wide {i}"): score(i) for i in range(40)})]


def test_a_perfect_proxy_keeps_the_best_and_a_reversed_one_loses_them(benchmark_of):
    (best,) = survivals(runs(float), benchmark_of, top=4, fraction=0.1)
    (worst,) = survivals(runs(lambda i: -float(i)), benchmark_of, top=4, fraction=0.1)
    at = best.shares.index(0.1)
    assert best.kept[at].value == 1.0
    assert worst.kept[at].value == 0.0
    assert best.kept[0].value == 0.25  # 1 % of forty networks is one, which is one of the best four
    assert best.kept[-1].value == worst.kept[-1].value == 1.0


def test_networks_without_a_score_are_kept_last(benchmark_of):
    (found,) = survivals(runs(lambda i: float("nan") if i >= 36 else 1.0), benchmark_of, top=4, fraction=0.9)
    assert found.kept[found.shares.index(0.9)].value == 0.0


def test_what_is_kept_is_trained_in_any_order(setting, space):
    config = dataclasses.replace(setting.config, fraction=0.3)
    search = METHODS["keep"].search(dataclasses.replace(setting, config=config))
    question = next(search)
    trained = [search.send([float(space.index(n)) for n in question.networks]), *search]
    kept = sorted(question.networks, key=space.index, reverse=True)[:3]
    assert sorted(q.network for q in trained) == sorted(kept)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fraction": 0.0}, "fraction: expected above 0 and at most 1, got 0.0"),
        ({"top": 0}, "top: expected 1 to 10 networks, the size of the pool, got 0"),
        ({"top": 11}, "top: expected 1 to 10 networks, the size of the pool, got 11"),
        ({"pool": 41}, "pool: expected 0 to 40"),
    ],
)
def test_impossible_numbers_are_refused(config, space, changes, words):
    with pytest.raises(ConfigError, match=words):
        METHODS["keep"].check(dataclasses.replace(config, **changes), space)
