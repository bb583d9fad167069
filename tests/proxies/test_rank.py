from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.errors import BatchError, ConfigError, UnknownNameError
from zcbench.proxies import AGGREGATES
from zcbench.proxies.passes import PARAMETERS
from zcbench.proxies.rank import CHEAP, Ranked, Scored
from zcbench.proxies.registry import Score

Batch = tuple[Tensor, Tensor]


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, width), nn.ReLU(), nn.Linear(width, 10))


def cnn(width: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(width)
        return nn.Sequential(
            nn.Conv2d(3, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10)
        )


def found(**values: list[float]) -> Ranked:
    """A table of networks a, b, ... with the given scores, NaN where the proxy does not apply."""
    networks = []
    for place in range(len(next(iter(values.values())))):
        scores = {
            proxy: Score(proxy, 1, own[place], "not_applicable" if math.isnan(own[place]) else "ok", "planted", 0.1)
            for proxy, own in values.items()
        }
        networks.append(Scored("abcdefgh"[place], scores, 1.0))
    return Ranked(tuple(networks), tuple(values))


def test_the_mean_rank_is_over_the_proxies_with_a_score_of_every_network() -> None:
    # Ranks by snip are 1 2.5 2.5 4, by zico 4 3 2 1; the means 2.5 2.75 2.25 2.5. naswot lacks b.
    ranked = found(snip=[9, 5, 5, 1], zico=[1, 2, 3, 4], naswot=[1, math.nan, 2, 3])
    assert ranked.ranked_by == ("snip", "zico")
    np.testing.assert_array_equal(ranked.mean_rank, [2.5, 2.75, 2.25, 2.5])
    np.testing.assert_array_equal(ranked.ranks("naswot"), [3, math.nan, 2, 1])
    assert ranked.order() == ["c", "a", "d", "b"]
    assert ranked.order("naswot") == ["d", "c", "a", "b"]
    assert ranked.notes() == ["mean rank over snip, zico", "naswot: not_applicable: planted (b)"]


def test_a_column_of_ranks_has_one_count_of_digits() -> None:
    # As above; the mean of the ranks of c is 2.25, which no rounding may make 2.2.
    cells = found(snip=[9, 5, 5, 1], zico=[1, 2, 3, 4]).cells()
    assert [(row[0], *row[3:5], row[-1]) for row in cells] == [
        ("c", "2.5", "2", "2.25"),
        ("a", "1.0", "4", "2.50"),
        ("d", "4.0", "1", "2.50"),
        ("b", "2.5", "3", "2.75"),
    ]


def test_half_of_the_last_digit_is_rounded_up() -> None:
    # Ranks of a by eight proxies: once 2, and else 1, so the mean is 1.125.
    values = {name: [2, 1] for name in ("snip", "zico", "synflow", "naswot", "grasp", "fisher", "plain")}
    ranked = found(**values, jacob_cov=[1, 2])
    assert [row[-1] for row in ranked.cells()] == ["1.13", "1.88"]


def test_low_is_good_where_the_proxy_says_so_and_infinities_are_ranked() -> None:
    assert found(ntk_condition=[3, 1, 2]).order("ntk_condition") == ["b", "c", "a"]
    np.testing.assert_array_equal(found(zen=[-math.inf, 1, math.inf]).mean_rank, [3, 2, 1])


def test_a_network_without_any_score_does_not_take_the_rank_of_the_others() -> None:
    scored = found(snip=[1, 2])
    ranked = Ranked((*scored.networks, Scored("z", {}, failure="crashed: planted")), ("snip",))
    assert ranked.ranked_by == ("snip",)
    assert ranked.order() == ["b", "a", "z"]
    assert ranked.table["mean_rank"].tolist()[:2] == [1, 2]
    assert math.isnan(ranked.table["mean_rank"]["z"])
    assert "z has no score (crashed: planted)" in ranked.notes()
    assert Ranked(scored.networks[:0], ("snip",)).order() == []
    nothing = found(snip=[math.nan, math.nan])
    assert nothing.order() == ["a", "b"]
    assert np.isnan(nothing.mean_rank).all()


def test_the_table_has_sizes_scores_seconds_and_the_mean_rank(batch: Batch) -> None:
    ranked = zcbench.rank({"small": cnn(2), "large": cnn(8)}, *batch)
    table = ranked.table
    assert list(table.columns) == ["params", "macs", *CHEAP, "wall_s", "mean_rank"]
    assert table.index.tolist() == ranked.order()
    assert table.index.name == "network"
    # A convolution of 3 x w x 9 weights and w biases, a linear map of 4 w x 10 weights and ten biases.
    assert table["params"].to_dict() == {"small": 54 + 2 + 80 + 10, "large": 216 + 8 + 320 + 10}
    assert (table["wall_s"] > 0).all()
    scores = zcbench.score(cnn(8), *batch, proxies=CHEAP)
    assert table.loc["large", list(CHEAP)].to_dict() == {name: score.value for name, score in scores.items()}
    assert set(ranked.status.loc["large"]) == {"ok"}


def test_notebooks_show_marks_and_escape_names(batch: Batch) -> None:
    shown = zcbench.rank({"<b>": nn.Sequential(nn.Flatten(), nn.Linear(768, 10))}, *batch)._repr_html_()
    assert "&lt;b&gt;" in shown
    assert "<b>" not in shown
    assert "<td>n/a</td>" in shown
    assert "naswot: not_applicable: the network lacks a ReLU" in shown
    assert "lacks a ReLU" in str(zcbench.rank({"a": nn.Sequential(nn.Flatten(), nn.Linear(768, 10))}, *batch))


def test_functions_are_called_one_after_another_and_may_fail_alone(batch: Batch) -> None:
    def broken() -> nn.Module:
        raise OSError("no\nweights")

    ranked = zcbench.rank({"a": lambda: mlp(2), "broken": broken, "b": mlp(4)}, *batch, proxies="params,l2_norm")
    assert ranked.order("params") == ["b", "a", "broken"]
    assert "broken has no score (error: OSError: no weights)" in ranked.notes()
    assert ranked.status["params"]["broken"] == "error: OSError: no weights"


def test_what_is_no_network_is_a_user_error(batch: Batch) -> None:
    with pytest.raises(BatchError, match=r"expected a torch\.nn\.Module, got int"):
        zcbench.rank({"a": 3}, *batch)  # type: ignore[dict-item]
    with pytest.raises(BatchError, match=r"network a: expected a torch\.nn\.Module, got int"):
        zcbench.rank({"a": lambda: 3}, *batch)  # type: ignore[dict-item, return-value]
    with pytest.raises(BatchError, match="images: expected a tensor, got NoneType"):
        zcbench.rank({"a": mlp(2)})
    with pytest.raises(UnknownNameError, match="did you mean snip"):
        zcbench.rank({"a": mlp(2)}, *batch, proxies=["snipp"])


def test_networks_and_random_state_are_left_alone(batch: Batch) -> None:
    net = cnn(4).eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    torch.manual_seed(5)
    state = torch.get_rng_state()
    zcbench.rank({"a": net}, *batch)
    assert not net.training
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())


def test_the_order_of_the_networks_changes_no_score(batch: Batch) -> None:
    nets = {"a": cnn(3), "b": cnn(4)}
    one, two = (zcbench.rank(dict(given), *batch) for given in (nets.items(), reversed(nets.items())))
    columns = [column for column in one.table if column != "wall_s"]
    pd.testing.assert_frame_equal(one.table[columns].sort_index(), two.table[columns].sort_index())


def test_rank_ranks_the_pool_it_is_given(batch: Batch) -> None:
    nets = {"small": mlp(2), "large": mlp(8), "middle": mlp(4)}
    ranked = zcbench.rank(nets, *batch, proxies=["vote", "params"])
    assert sorted(ranked.order("vote")) == sorted(nets)
    assert ranked.order("params") == ["large", "middle", "small"]
    with pytest.raises(ConfigError, match="within a pool"):
        zcbench.score(nets["small"], *batch, proxies=["vote"])


@pytest.mark.parametrize("name", ["vote", "te_nas"])
def test_rank_orders_by_the_scores_of_the_members(name: str, batch: Batch) -> None:
    nets: dict[str, nn.Module] = {f"width {width}": cnn(width) for width in (2, 3, 5, 7)}
    members = AGGREGATES[name].members
    scores = [zcbench.score(net, *batch, proxies=members) for net in nets.values()]
    pooled = AGGREGATES[name].score({m: np.array([of_net[m].value for of_net in scores]) for m in members})
    assert np.isfinite(pooled).all()
    expected = [list(nets)[i] for i in np.argsort(-pooled, kind="stable")]
    assert zcbench.rank(nets, *batch, proxies=[name]).order(name) == expected
    assert zcbench.rank(nets, *batch, proxies=["params", name, members[0]]).order(name) == expected


def test_rank_puts_networks_outside_the_pool_last(batch: Batch) -> None:
    nets = {"small": mlp(2), "large": mlp(8), "broken": nn.Flatten()}
    without = zcbench.rank({name: nets[name] for name in ("small", "large")}, *batch, proxies=["vote"])
    scores = zcbench.score(nets["broken"], *batch, proxies=AGGREGATES["vote"].members)
    assert any(math.isnan(s.value) for s in scores.values())
    ranked = zcbench.rank(nets, *batch, proxies=["vote"])
    assert ranked.order("vote") == [*without.order("vote"), "broken"]
    assert ranked.status["vote"]["broken"].startswith("synflow: not_applicable")
    assert zcbench.rank({}, *batch, proxies=["vote"]).order("vote") == []


def test_rank_orders_networks_and_puts_failures_last(batch: Batch) -> None:
    nets = {"broken": nn.Flatten(), "small": mlp(2), "large": mlp(8)}
    ranked = zcbench.rank(nets, *batch, proxies=["params", "grad_norm", "eznas_a"])
    assert ranked.order("params") == ["large", "small", "broken"]
    assert ranked.order("grad_norm")[-1] == "broken"
    assert ranked.order("eznas_a") == list(nets)


def test_a_proxy_of_your_own_is_used_by_name(batch: Batch) -> None:
    @zcbench.register("test_width", paper="none", direction="lower")
    def width(parameters: dict[str, Tensor] = zcbench.reads(PARAMETERS)) -> float:
        """Take the width of the first linear layer."""
        return float(len(parameters["1.weight"]))

    ranked = zcbench.rank({"wide": mlp(9), "narrow": mlp(3)}, *batch, proxies=["test_width"])
    assert ranked.order("test_width") == ["narrow", "wide"]
