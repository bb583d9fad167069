"""How proxies are declared, and what happens to one that misbehaves."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.errors import ProxyError
from zcbench.proxies import PROXIES
from zcbench.proxies.passes import DATA, LOSS, PARAMETERS, Draw, Layers, Tap, Tapped
from zcbench.proxies.passes.taps import relus
from zcbench.proxies.probe import Probe
from zcbench.proxies.registry import reads, register, score_all

Batch = tuple[Tensor, Tensor]
NEIGHBOURS = ("snip", "grad_norm", "naswot")


def net() -> nn.Module:
    torch.manual_seed(0)
    stem = (nn.Conv2d(3, 4, 3, bias=False), nn.BatchNorm2d(4), nn.ReLU())
    return nn.Sequential(*stem, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


@pytest.fixture
def registered() -> Callable[..., Any]:
    """A decorator that registers a function under the name `mine`."""
    return register("mine", paper="a test")


def test_old_forms_are_explained() -> None:
    with pytest.raises(ProxyError, match=r"expected no labels, needs, which register took before version 0\.2"):
        register("mine", needs=[LOSS], labels=True)
    with pytest.raises(ProxyError, match=r"expected a default for the parameter probe .* `layers: Layers = reads"):
        register("mine")(lambda probe: 1.0)
    with pytest.raises(ProxyError, match=r"expected `layers = reads\(...\)`, got no reads"):
        register("mine")(lambda layers=LOSS: 1.0)
    with pytest.raises(ProxyError, match="proxy 'snip': expected a new name"):
        register("snip")(lambda layers=reads(LOSS): 1.0)
    with pytest.raises(TypeError, match="expected what a pass leaves, such as LOSS, got 3"):
        reads(3)  # type: ignore[arg-type]
    assert "mine" not in PROXIES


def test_the_card_follows_from_the_parameters(registered: Callable[..., Any]) -> None:
    @registered
    def mine(layers: Layers = reads(LOSS), draw: torch.Generator = reads(Draw("a")), beta: float = 2.0) -> float:
        """Sum up."""
        return beta * sum(float(w.sum()) for w, _ in layers) + float(torch.rand((), generator=draw))

    card = PROXIES["mine"].card()
    assert card["reads"] == ["data", "labels", "gradients"]
    assert (card["fwd"], card["bwd"]) == (1, 1)
    assert card["summary"] == "Sum up."
    assert mine([(torch.ones(2), torch.zeros(2))], torch.Generator().manual_seed(0), beta=0.0) > 0


def test_a_generator_of_a_proxy_is_its_own(registered: Callable[..., Any], batch: Batch) -> None:
    @registered
    def mine(draw: torch.Generator = reads(Draw("channels"))) -> float:
        return float(torch.rand((), generator=draw))

    alone = zcbench.score(net(), *batch, proxies=["meco.opt"])["meco.opt"].value
    first = zcbench.score(net(), *batch, proxies=["mine", "meco.opt"])
    again = zcbench.score(net(), *batch, proxies=["meco.opt", "mine"])
    assert first["mine"].value == again["mine"].value
    assert first["meco.opt"].value == again["meco.opt"].value == alone


def weights_halved(layers: Layers = reads(LOSS)) -> float:
    return sum(float(w.mul_(0.5).sum()) for w, _ in layers)


def gradients_squared(layers: Layers = reads(LOSS)) -> float:
    return sum(float(g.pow_(2).sum()) for _, g in layers)


def parameters_changed(parameters: dict[str, Tensor] = reads(PARAMETERS)) -> float:
    return float(sum(p.add_(1).sum() for p in parameters.values()))


@pytest.mark.parametrize("function", [weights_halved, gradients_squared, parameters_changed])
def test_a_proxy_that_writes_is_named_and_its_neighbours_are_right(
    function: Callable[..., float], registered: Callable[..., Any], batch: Batch
) -> None:
    registered(function)
    expected = {name: score.value for name, score in zcbench.score(net(), *batch, proxies=NEIGHBOURS).items()}
    for names in (("mine", *NEIGHBOURS), (*NEIGHBOURS, "mine")):
        found = zcbench.score(net(), *batch, proxies=names)
        assert found["mine"].status == "error"
        assert "wrote into a tensor" in found["mine"].message
        assert {name: found[name].value for name in NEIGHBOURS} == expected


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        (lambda: float(torch.rand(())), "drew from a global generator"),
        (random.random, "drew from a global generator"),
        (lambda: None, "returned NoneType, expected a number"),
        (lambda: "3", "returned str"),
        (lambda: True, "returned bool"),
        (lambda: torch.ones(2), "returned Tensor"),
    ],
)
def test_a_proxy_without_a_number_of_its_own_is_named(
    result: Callable[[], Any], reason: str, registered: Callable[..., Any], batch: Batch
) -> None:
    registered(lambda layers=reads(LOSS): result())
    states = random.getstate(), torch.get_rng_state()
    found = zcbench.score(net(), *batch, proxies=["mine", "snip"])
    assert found["mine"].status == "error"
    assert reason in found["mine"].message
    assert found["snip"].status == "ok"
    assert random.getstate() == states[0]
    assert torch.equal(torch.get_rng_state(), states[1])


@pytest.mark.parametrize("result", [lambda: 2, lambda: torch.tensor(2.0), lambda: torch.tensor([2.0])])
def test_numbers_of_other_kinds_are_taken(
    result: Callable[[], Any], registered: Callable[..., Any], batch: Batch
) -> None:
    registered(lambda layers=reads(LOSS): result())
    assert zcbench.score(net(), *batch, proxies=["mine"])["mine"].value == 2.0


def test_long_messages_are_cut(registered: Callable[..., Any], batch: Batch) -> None:
    def mine(layers: Layers = reads(LOSS)) -> float:
        raise ValueError("x" * 100_000)

    registered(mine)
    assert len(zcbench.score(net(), *batch, proxies=["mine"])["mine"].message) == 1000


def test_memory_of_one_network_that_runs_out_is_freed_for_the_others(
    registered: Callable[..., Any], batch: Batch
) -> None:
    def mine(layers: Layers = reads(LOSS)) -> float:
        large = torch.ones(1000)  # lives in the frame of the error
        raise torch.OutOfMemoryError(f"planted {len(large)}")

    registered(mine)
    found = zcbench.score(net(), *batch, proxies=["mine", "snip"])
    assert (found["mine"].status, found["snip"].status) == ("out_of_memory", "ok")


def slow_share(place: object, activation: Tensor) -> float:
    time.sleep(0.2)
    return float((activation > 0).double().mean())


SLOW = Tap(DATA, at=relus, reduce=slow_share)


def test_a_reduction_is_charged_to_its_proxy(registered: Callable[..., Any], batch: Batch) -> None:
    registered(lambda shares=reads(SLOW): sum(share for _, share in shares))
    scores = {s.proxy: s for s in score_all(net(), *batch, [PROXIES[n] for n in ("mine", "naswot", "snip", "macs")])}
    assert scores["mine"].wall_s >= 0.2
    assert all(scores[name].wall_s < 0.2 for name in ("naswot", "snip", "macs"))


def test_what_passes_cost_is_in_every_proxy_that_reads_them(batch: Batch) -> None:
    scores = {s.proxy: s.wall_s for s in score_all(net(), *batch, [PROXIES[n] for n in ("snip", "params", "macs")])}
    assert 0 < scores["params"] < scores["snip"] < math.inf
    assert 0 < scores["macs"] < math.inf


def test_tapped_values_name_their_operation(registered: Callable[..., Any], batch: Batch) -> None:
    seen = []

    def mine(shares: Tapped = reads(Tap(DATA, at=relus, reduce=slow_share))) -> float:
        seen.extend(str(place) for place, _ in shares)
        return 0.0

    registered(mine)
    zcbench.score(net(), *batch, proxies=["mine"])
    assert seen == ["relu in 2"]


def test_a_record_in_eval_mode_is_charged_to_those_that_read_it(batch: Batch) -> None:
    """Before: macs paid for the records of both modes when a proxy in eval mode ran beside it."""
    needs = [*PROXIES["macs"].needs, *PROXIES["naswot.eval"].needs]
    probe = Probe(net(), *batch, plan=needs)
    for name in ("macs", "naswot.eval"):
        PROXIES[name](probe)
    train, evaluated = (probe.seconds.of["operations", training] for training in (True, False))
    assert train > 0
    assert evaluated > 0
    own = sum(probe.seconds.of[need] for need in PROXIES["macs"].needs)
    assert probe.cost_s(PROXIES["macs"].needs) == pytest.approx(train + own)


@pytest.mark.parametrize("name", ["all", "random"])
def test_reserved_names_are_refused(name: str) -> None:
    """Before, a proxy called random took the place of the random scores beside the proxies of a board."""
    with pytest.raises(ProxyError, match=f"proxy '{name}': expected another name"):
        register(name, paper="ours, 2026")
    assert name not in PROXIES
