from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.errors import ConfigError, UnknownNameError
from zcbench.proxies import AGGREGATES
from zcbench.proxies.passes import PARAMETERS

Batch = tuple[Tensor, Tensor]


def mlp(width: int) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(768, width), nn.ReLU(), nn.Linear(width, 10))


def cnn(width: int) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(width)
        return nn.Sequential(
            nn.Conv2d(3, width, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * width, 10)
        )


def test_score_gives_every_proxy_by_default(batch: Batch) -> None:
    scores = zcbench.score(mlp(4), *batch)
    assert list(scores) == list(zcbench.PROXIES)
    assert scores["params"].value == 768 * 4 + 4 + 50
    assert scores["zen"].status == "not_applicable"


def test_without_labels_the_loss_says_so(batch: Batch) -> None:
    scores = zcbench.score(mlp(4), batch[0], proxies=["snip", "naswot"])
    assert scores["snip"].status == "not_applicable"
    assert "labels" in scores["snip"].message
    assert scores["naswot"].status in {"ok", "-inf"}  # two of eight images may switch four ReLUs alike


def test_rank_ranks_the_pool_it_is_given(batch: Batch) -> None:
    nets = {"small": mlp(2), "large": mlp(8), "middle": mlp(4)}
    ranked = zcbench.rank(nets, *batch, proxies=["vote", "params"])
    assert sorted(ranked["vote"]) == sorted(nets)
    assert ranked["params"] == ["large", "middle", "small"]
    with pytest.raises(ConfigError, match="within a pool"):
        zcbench.score(nets["small"], *batch, proxies=["vote"])


def test_rank_gives_every_proxy_and_aggregate_by_default(batch: Batch) -> None:
    ranked = zcbench.rank({"small": mlp(2), "large": mlp(8)}, *batch)
    assert list(ranked) == [*zcbench.PROXIES, *AGGREGATES]
    assert all(sorted(names) == ["large", "small"] for names in ranked.values())


@pytest.mark.parametrize("name", ["vote", "te_nas"])
def test_rank_orders_by_the_scores_of_the_members(name: str, batch: Batch) -> None:
    nets: dict[str, nn.Module] = {f"width {width}": cnn(width) for width in (2, 3, 5, 7)}
    members = AGGREGATES[name].members
    scores = [zcbench.score(net, *batch, proxies=members) for net in nets.values()]
    pooled = AGGREGATES[name].score({m: np.array([of_net[m].value for of_net in scores]) for m in members})
    assert np.isfinite(pooled).all()
    expected = [list(nets)[i] for i in np.argsort(-pooled, kind="stable")]
    assert zcbench.rank(nets, *batch, proxies=[name]) == {name: expected}
    assert zcbench.rank(nets, *batch, proxies=["params", name, members[0]])[name] == expected


def test_rank_takes_low_condition_numbers_for_good(batch: Batch) -> None:
    nets: dict[str, nn.Module] = {f"width {width}": cnn(width) for width in (2, 3, 5)}
    values = {
        k: zcbench.score(net, *batch, proxies=["ntk_condition"])["ntk_condition"].value for k, net in nets.items()
    }
    (ranked,) = zcbench.rank(nets, *batch, proxies=["ntk_condition"]).values()
    assert ranked == sorted(nets, key=values.__getitem__)


def test_rank_puts_networks_outside_the_pool_last(batch: Batch) -> None:
    nets = {"small": mlp(2), "large": mlp(8), "broken": nn.Flatten()}
    without = zcbench.rank({name: nets[name] for name in ("small", "large")}, *batch, proxies=["vote"])
    scores = zcbench.score(nets["broken"], *batch, proxies=AGGREGATES["vote"].members)
    assert any(math.isnan(s.value) for s in scores.values())
    assert zcbench.rank(nets, *batch, proxies=["vote"])["vote"] == [*without["vote"], "broken"]
    assert zcbench.rank({}, *batch, proxies=["vote"]) == {"vote": []}


def test_rank_orders_networks_and_puts_failures_last(batch: Batch) -> None:
    nets = {"broken": nn.Flatten(), "small": mlp(2), "large": mlp(8)}
    ranked = zcbench.rank(nets, *batch, proxies=["params", "grad_norm", "eznas_a"])
    assert ranked["params"] == ["large", "small", "broken"]
    assert ranked["grad_norm"][-1] == "broken"
    assert ranked["eznas_a"] == list(nets)


def test_a_proxy_of_your_own_is_used_by_name(batch: Batch) -> None:
    @zcbench.register("test_width", paper="none", direction="lower")
    def width(parameters: dict[str, Tensor] = zcbench.reads(PARAMETERS)) -> float:
        """Take the width of the first linear layer."""
        return float(len(parameters["1.weight"]))

    try:
        ranked = zcbench.rank({"wide": mlp(9), "narrow": mlp(3)}, *batch, proxies=["test_width"])
        assert ranked["test_width"] == ["narrow", "wide"]
    finally:
        zcbench.PROXIES._items.pop("test_width")


def test_unknown_proxies_are_named(batch: Batch) -> None:
    with pytest.raises(UnknownNameError, match="did you mean snip"):
        zcbench.score(mlp(2), *batch, proxies=["snipp"])


def test_out_of_memory_is_a_status(batch: Batch, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("planted")

    monkeypatch.setattr("zcbench.proxies.passes.forward.Running.run", full)
    scores = zcbench.score(mlp(2), *batch, proxies=["snip", "l2_norm"])
    assert scores["snip"].status == "out_of_memory"
    assert scores["l2_norm"].status == "ok"
