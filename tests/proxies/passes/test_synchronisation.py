"""A pass asks its device for no number before it ends, because a processor that waits for an answer starts no work.

The tests run on the processor, where such a question is the operation `_local_scalar_dense`: that of `.item()`,
`float(tensor)`, `bool(tensor)` and `.tolist()` of a scalar; or an operation whose result has a shape that depends on
numbers.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from zcbench.datasets import TASKS
from zcbench.errors import NotFiniteError
from zcbench.proxies import PROXIES
from zcbench.proxies.passes.core import Pass, chain, expanded
from zcbench.proxies.passes.taps import Looks, as_numbers
from zcbench.proxies.probe import Probe
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES

QUESTIONS = {getattr(torch.ops.aten, name) for name in ("_local_scalar_dense", "nonzero", "_unique2", "unique_dim")}
#: Proxies whose reductions ask while a pass runs, each with what they ask.
ASKING = {
    "eznas_a": "which determinants round-off leaves undecided",
    "eznas_a.l2": "as eznas_a",
    "eznas_a.sum": "as eznas_a",
    "eznas_a.per_channel": "as eznas_a",
    "eznas_a.operations": "as eznas_a",
    "eznas_a.conv_bn_relu": "as eznas_a",
}


class Questions(TorchDispatchMode):
    """A mode that counts the numbers that are asked of a device."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += func.overloadpacket in QUESTIONS
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def network() -> nn.Module:
    space = SPACES["nb201"](None)
    return space.build(space.architecture(2011), TASKS["cifar10"], 0)


def asked(network: nn.Module, batch: tuple[Tensor, Tensor], name: str) -> dict[Pass, int]:
    """Return how many questions each pass of a proxy asks."""
    needs = expanded(PROXIES[name].needs)
    probe = Probe(network, *batch, plan=needs)
    found: Counter[Pass] = Counter()
    for source in dict.fromkeys(each for need in needs for each in reversed(chain(need.source))):
        probe.operations(source.training)  # the record is no pass
        for need in source.needs:
            probe.read(need)
        with Questions() as questions:
            probe.result(source)
        found[source] = questions.count
    assert not probe.errors
    return found


def test_a_question_is_seen() -> None:
    with Questions() as questions:
        scalar = torch.ones(3).sum()
        assert questions.count == 0
        assert [scalar.item(), float(scalar), bool(scalar > 0)] == [3, 3, True]
        torch.ones(3).nonzero()
    assert questions.count == 4


@pytest.mark.parametrize("name", sorted(set(PROXIES) - set(ASKING)))
def test_a_pass_asks_for_no_number(name: str, network: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    if PROXIES[name].least_images > len(batch[0]):
        pytest.skip("needs more images")
    found = asked(network, batch, name)
    assert not any(found.values()), {str(source): count for source, count in found.items() if count}


@pytest.mark.parametrize("name", ["eznas_a", "eznas_a.conv_bn_relu"])
def test_a_proxy_that_is_let_off_does_ask(name: str, network: nn.Module, batch: tuple[Tensor, Tensor]) -> None:
    assert any(asked(network, batch, name).values())


def test_looks_name_the_first_tensor_and_what_is_in_it() -> None:
    looks = Looks()
    looks.at("a", torch.tensor([1.0, 3e38, 3e38]))  # the sum overflows, the numbers do not
    looks.at("b", torch.tensor([1.0, -math.inf]), "mine")
    looks.at("c", torch.tensor([math.inf, math.nan], dtype=torch.float64), "yours")
    looks.at("d", torch.tensor([math.nan]), "mine")
    looks.at("e", torch.empty(0))
    assert {key: str(error) for key, error in looks.errors().items()} == {
        "mine": "an infinity in b",
        "yours": "NaN in c",
    }
    looks.check()  # what was asked is forgotten


def test_looks_at_held_tensors_take_no_overflow_for_an_infinity() -> None:
    looks = Looks()
    large = torch.full((4,), 3e38)
    looks.at_held({"large": large, "counts": torch.arange(3)})
    looks.check()
    looks.at_held({"large": large, "wrong": torch.tensor([-math.inf, 1.0])})
    with pytest.raises(NotFiniteError, match="an infinity in wrong"):
        looks.check()


def test_scalars_of_a_tap_leave_the_device_together() -> None:
    tapped = [("a", torch.tensor(1 / 3, dtype=torch.float64)), ("b", None), ("c", torch.ones(2)), ("d", 4.0)]
    found = as_numbers([*tapped, ("e", torch.tensor(0.1))])
    assert [type(value) for _, value in found] == [float, type(None), Tensor, float, float]
    assert found[0][1] == 1 / 3
    assert found[4][1] == torch.tensor(0.1).item()


class Bursting(nn.Module):
    """A network with finite logits and gradients that are NaN."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(3, 4, 3, bias=False), nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.first(x).relu()
        return self.last((maps - maps.detach()).abs().sqrt().mean((2, 3)) + maps.mean((2, 3)))


def test_a_gradient_that_is_not_finite_fails_the_proxies_that_tap_it(batch: tuple[Tensor, Tensor]) -> None:
    # The derivative of sqrt at 0 is infinite, and that of |x| there is 0, so the product is NaN.
    scores = score_all(Bursting(), *batch, [PROXIES[name] for name in ("fisher", "naswot_conv")])
    assert [score.status for score in scores] == ["nan", "ok"]
    assert scores[0].message.startswith("NaN in the gradient at conv2d")
