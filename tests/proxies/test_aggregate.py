from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import rankdata
from zcbench.errors import ConfigError, UnknownNameError
from zcbench.proxies import AGGREGATES, PROXIES
from zcbench.proxies.aggregate import only_proxies, pool_id, ranks, split

Scores = dict[str, NDArray[np.float64]]
RANKED = [name for name, card in AGGREGATES.items() if card.over == "ranks"]


def drawn(name: str, networks: int = 7) -> Scores:
    random = np.random.RandomState(0)
    return {member: random.randint(0, 5, networks).astype(float) for member in AGGREGATES[name].members}


def rank(values: NDArray[np.float64], i: int) -> float:
    """Return the mean rank of a value among its ties, 1 for the lowest."""
    return float(1 + sum(v < values[i] for v in values) + (sum(v == values[i] for v in values) - 1) / 2)


def test_ranks_are_those_of_scipy() -> None:
    random = np.random.RandomState(0)
    for values in (random.normal(size=50), random.randint(9, size=50) / 3.0, np.asarray([np.inf, 0.0, -0.0, -np.inf])):
        assert np.array_equal(ranks(values), rankdata(values))
    assert np.isnan(ranks(np.asarray([1.0, np.nan, 2.0]))).all()
    assert not len(ranks(np.zeros(0)))


@pytest.mark.parametrize("name", ["az_nas", "vkdnw_agg"])
def test_log_ranks_equal_ranks_by_counting(name: str) -> None:
    scores = drawn(name)
    expected = [sum(math.log(rank(values, i) / 7) for values in scores.values()) for i in range(7)]
    np.testing.assert_allclose(AGGREGATES[name].score(scores), expected, rtol=1e-12)


TIED = np.array([3.0, 1.0, 2.0, 2.0, 5.0])
TIED_RANKS = np.array([4.0, 1.0, 2.5, 2.5, 5.0])


@pytest.mark.parametrize("name", ["az_nas", "vkdnw_agg"])
def test_log_ranks_of_five_networks_with_ties(name: str) -> None:
    members = AGGREGATES[name].members
    scores = {member: TIED for member in members} | {members[-1]: -TIED}
    expected = (len(members) - 1) * np.log(TIED_RANKS / 5) + np.log((6 - TIED_RANKS) / 5)
    np.testing.assert_allclose(AGGREGATES[name].score(scores), expected, rtol=1e-12)


def test_te_nas_of_five_networks_with_ties() -> None:
    scores = {"ntk_condition": -TIED, "linear_regions": np.array([1.0, 1.0, 1.0, 0.0, 2.0])}
    np.testing.assert_array_equal(AGGREGATES["te_nas"].score(scores), TIED_RANKS + np.array([3, 3, 3, 1, 5]))


def test_ranks_of_jacob_cov_and_params_are_multiplied() -> None:
    scores = {"jacob_cov": np.array([-70.0, -65.0, -65.0]), "params": np.array([2e5, 1e5, 3e5])}
    np.testing.assert_array_equal(AGGREGATES["jacob_cov_params"].score(scores), [1 * 2, 2.5 * 1, 2.5 * 3])


def test_vote_of_a_cycle_is_a_draw() -> None:
    cycle = {"synflow": [3.0, 2.0, 1.0], "jacob_cov": [1.0, 3.0, 2.0], "snip": [2.0, 1.0, 3.0]}
    np.testing.assert_array_equal(AGGREGATES["vote"].score({m: np.array(v) for m, v in cycle.items()}), [1, 1, 1])


def test_te_nas_takes_low_condition_numbers_for_good() -> None:
    scores = {"ntk_condition": np.array([5.0, 100.0, 20.0]), "linear_regions": np.array([10.0, 30.0, 20.0])}
    np.testing.assert_array_equal(AGGREGATES["te_nas"].score(scores), [3 + 1, 1 + 3, 2 + 2])


def test_vote_counts_the_pairs_that_most_members_win() -> None:
    scores = drawn("vote", 300)
    rows = list(zip(*scores.values(), strict=True))
    expected = np.zeros(300)
    for i, j in itertools.permutations(range(300), 2):
        won = sum(np.sign(a - b) for a, b in zip(rows[i], rows[j], strict=True))
        expected[i] += 1.0 if won > 0 else 0.5 if won == 0 else 0.0
    np.testing.assert_array_equal(AGGREGATES["vote"].score(scores), expected)


@pytest.mark.parametrize("name", RANKED)
def test_the_direction_of_every_member_counts(name: str) -> None:
    card = AGGREGATES[name]
    better = {m: np.arange(5.0) if PROXIES[m].direction == "higher" else -np.arange(5.0) for m in card.members}
    assert card.direction == "higher"
    assert (np.diff(card.score(better)) > 0).all()
    for member in card.members:  # each member decides if the others are tied
        tied = dict.fromkeys(card.members, np.zeros(5)) | {member: better[member]}
        assert (np.diff(card.score(tied)) > 0).all()


@pytest.mark.parametrize("name", RANKED)
def test_only_the_order_of_scores_counts(name: str) -> None:
    scores = drawn(name, 9)
    stretched = {member: np.exp(50 * values) for member, values in scores.items()}
    np.testing.assert_array_equal(AGGREGATES[name].score(stretched), AGGREGATES[name].score(scores))


@pytest.mark.parametrize(
    ("name", "score"), [("az_nas", 0), ("vkdnw_agg", 0), ("te_nas", 2), ("vote", 0), ("jacob_cov_params", 1)]
)
def test_a_pool_of_one_has_a_score(name: str, score: float) -> None:
    assert AGGREGATES[name].score(drawn(name, 1)).tolist() == [score]
    assert AGGREGATES[name].score(drawn(name, 0)).tolist() == []


@pytest.mark.parametrize("name", RANKED)
def test_scores_change_with_the_pool_and_only_with_it(name: str) -> None:
    scores = drawn(name, 12)
    whole = AGGREGATES[name].score(scores)
    order = np.random.RandomState(1).permutation(12)
    turned = AGGREGATES[name].score({member: values[order] for member, values in scores.items()})
    np.testing.assert_array_equal(turned, whole[order])
    half = AGGREGATES[name].score({member: values[:6] for member, values in scores.items()})
    assert not np.array_equal(half, whole[:6])


@pytest.mark.parametrize("name", AGGREGATES)
def test_a_network_without_a_member_leaves_the_pool(name: str) -> None:
    scores = drawn(name, 8)
    rest = AGGREGATES[name].score({member: values[1:] for member, values in scores.items()})
    scores[AGGREGATES[name].members[0]][0] = np.nan
    found = AGGREGATES[name].score(scores)
    assert np.isnan(found[0])
    np.testing.assert_array_equal(found[1:], rest)
    empty = AGGREGATES[name].score({member: np.full(3, np.nan) for member in AGGREGATES[name].members})
    assert np.isnan(empty).all()


def test_minus_infinity_is_the_worst_rank() -> None:
    scores = drawn("az_nas")
    for member in scores:
        scores[member] = np.arange(7.0)
    scores["az_trainability"][6] = -np.inf
    ranks = [7, 7, 1, 7]
    assert AGGREGATES["az_nas"].score(scores)[6] == pytest.approx(sum(math.log(r / 7) for r in ranks), rel=1e-12)


@pytest.mark.parametrize("name", RANKED)
def test_the_infinite_worst_is_ranked_and_last(name: str) -> None:
    scores = drawn(name, 6)
    for member, values in scores.items():
        values[4] = -np.inf if PROXIES[member].direction == "higher" else np.inf
    found = AGGREGATES[name].score(scores)
    assert np.isfinite(found).all()
    assert found[4] == found.min()


def test_names_are_split_into_what_is_computed_and_what_is_ranked() -> None:
    proxies, aggregates = split(["naswot", "vote", "snip"])
    assert [p.name for p in proxies] == ["naswot", "snip", "synflow", "jacob_cov"]
    assert [a.name for a in aggregates] == ["vote"]
    with pytest.raises(UnknownNameError, match="naswot"):
        split(["naswott"])


@pytest.mark.parametrize(("wrong", "right"), [("votes", "vote"), ("te-nas", "te_nas"), ("vkdnw_ag", "vkdnw_agg")])
def test_a_misspelt_aggregate_is_suggested(wrong: str, right: str) -> None:
    for names in (split, only_proxies):
        with pytest.raises(UnknownNameError, match=rf"did you mean .*\b{right}\b"):
            names([wrong])


def test_one_network_has_no_aggregate() -> None:
    assert only_proxies(["params"]) == [PROXIES["params"]]
    with pytest.raises(ConfigError, match="got az_nas, which ranks networks within a pool"):
        only_proxies(["params", "az_nas"])


def test_a_pool_has_a_name_whatever_its_order() -> None:
    assert pool_id(["b", "a"]) == pool_id(["a", "b"])
    assert pool_id(["a", "b"]) != pool_id(["a", "c"])
    assert pool_id(["a", "b"]) == f"2 networks {hashlib.sha256(b'a' + bytes([10]) + b'b').hexdigest()[:8]}"


@pytest.mark.parametrize("name", AGGREGATES)
def test_the_card_is_complete(name: str) -> None:
    card = AGGREGATES[name].card()
    assert set(card) == set(PROXIES["params"].card())
    assert all(member in PROXIES for member in card["reads"])
    assert card["summary"].endswith(".")
    assert card["paper"]
    assert "$$" in (AGGREGATES[name].function.__doc__ or "")
    assert AGGREGATES[name].function.__module__.rsplit(".", 1)[1] == name.split(".", maxsplit=1)[0]
    assert name not in PROXIES
