"""The dimension of the channels is followed through permutations, views and sums."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import zcbench
from torch import Tensor, nn
from torch.nn import functional
from zcbench.errors import NotApplicableError
from zcbench.proxies.operations.calls import Operations
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record

X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


class Net(nn.Module):
    def __init__(self, function: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.linear, self.function = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 4), function
        self.norm, self.head = nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.function(self, self.conv(x))
        return self.head(x.reshape(len(x), -1)[:, :4])


def recorded(function: Callable[[Net, Tensor], Tensor]) -> Operations:
    return record(Places(Net(function)), X, training=True)


@pytest.mark.parametrize(
    ("function", "channels"),
    [
        (lambda net, x: functional.gelu(x), 1),
        (lambda net, x: functional.gelu(x.flatten(2)), 1),
        (lambda net, x: functional.gelu(x.flatten(2).transpose(1, 2)), 2),
        (lambda net, x: functional.gelu(x.permute(0, 2, 3, 1)), 3),
        (lambda net, x: functional.gelu(torch.permute(x, (0, -2, -1, -3)) * 2), 3),
        (lambda net, x: functional.gelu(x.permute(0, 2, 3, 1).reshape(-1, 36, 4)), 2),
        (lambda net, x: functional.gelu(net.linear(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)), 1),
        (lambda net, x: functional.gelu(x + x.roll(1)), 1),
        (lambda net, x: functional.gelu(torch.cat([x, x], 1)), 1),
        (lambda net, x: functional.gelu(x.chunk(2, 1)[0]), 1),
        (lambda net, x: functional.gelu(x.mean((2, 3))), 1),
        (lambda net, x: functional.gelu(x.reshape(2, 9, 16)), None),
    ],
)
def test_the_dimension_of_the_channels(function: Callable[[Net, Tensor], Tensor], channels: int | None) -> None:
    gelu = next(call for call in recorded(function).running if call.name == "gelu")
    assert gelu.channels == channels


def test_a_last_feature_map_with_channels_last_is_named() -> None:
    operations = recorded(lambda net, x: net.norm(net.linear(x.permute(0, 2, 3, 1))).mean((1, 2)))
    with pytest.raises(NotApplicableError, match=r"layer_norm in norm, has its channels last \(N, H, W, C\)"):
        _ = operations.feature_map


def test_meco_correlates_channels_wherever_they_are() -> None:
    """Before, dimension 1 was taken for the channels: .8929 for the second network instead of 1.1154."""

    def first(net: Net, x: Tensor) -> Tensor:
        return functional.gelu(x).mean((2, 3))

    def second(net: Net, x: Tensor) -> Tensor:
        return functional.gelu(x.permute(0, 2, 3, 1)).mean((1, 2))

    expected, found = (zcbench.score(Net(f), X, proxies=["meco"])["meco"] for f in (first, second))
    assert found.status == "ok"
    assert found.value == pytest.approx(expected.value, rel=1e-6)
    assert found.value == pytest.approx(1.1154319, rel=1e-6)


def test_meco_says_when_channels_are_not_known() -> None:
    found = zcbench.score(Net(lambda net, x: functional.gelu(x.reshape(2, 9, 16))), X, proxies=["meco"])["meco"]
    assert (found.status, "it is not known which dimension" in found.message) == ("not_applicable", True)
