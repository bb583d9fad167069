"""Blocks: modules in which paths meet, and what stands between them."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from zcbench.datasets.tasks import TASKS
from zcbench.errors import NotApplicableError
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.spaces import SPACES

X = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
SEPARABLE = "|nor_conv_3x3~0|+|none~0|nor_conv_3x3~1|+|none~0|none~1|nor_conv_3x3~2|"


def blocks(net: nn.Module, x: Tensor = X) -> tuple[str, ...]:
    return record(Places(net), x, training=True).blocks


def conv(inputs: int = 4, outputs: int = 4) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU())


class Residual(nn.Module):
    """A bottleneck whose residual connection may be absent."""

    def __init__(self, adds: bool = True) -> None:
        super().__init__()
        self.conv, self.adds = conv(), adds

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x) if self.adds else self.conv(x)


class Gated(nn.Module):
    """A product of two paths, as in squeeze-and-excite, is no block."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = conv()

    def forward(self, x: Tensor) -> Tensor:
        return x * self.conv(x).sigmoid()


class Stage(nn.Module):
    def __init__(self, *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.Sequential(*parts)

    def forward(self, x: Tensor) -> Tensor:
        return self.parts(x)


class Wrapped(nn.Module):
    """A network in a network, whose paths meet at its own level."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x) + x.mean((2, 3)).sum(1, keepdim=True)


def head() -> nn.Sequential:
    return nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))


def chain(*parts: nn.Module) -> nn.Sequential:
    return nn.Sequential(conv(3), *parts, head())


@pytest.mark.parametrize(
    ("net", "expected"),
    [
        (chain(Residual(), Residual()), ["1", "2"]),
        (chain(Residual(adds=False), Residual(), Residual()), ["1", "2", "3"]),  # its class counts
        (chain(Residual(), nn.MaxPool2d(2), Residual()), ["1", "2", "3"]),  # a pooling between
        (chain(nn.MaxPool2d(2), Residual(), Residual(), conv()), ["2", "3"]),  # neither stem nor head
        (chain(Stage(Residual(), Residual()), Stage(Residual())), ["1.parts.0", "1.parts.1", "2.parts.0"]),
        (chain(Stage(conv(), conv()), Stage(Residual(), conv())), ["1", "2"]),  # paths meet in some of them
        (chain(Gated(), Residual(), Residual()), ["2", "3"]),
        (Wrapped(chain(Residual(), Residual())), ["net.1", "net.2"]),
        (nn.Sequential(Wrapped(chain(Residual(), Residual()))), ["0.net.1", "0.net.2"]),  # the outer one is unpacked
        (chain(), ["1.0", "1.1", "1.2"]),  # no paths meet: the longest sequence
    ],
)
def test_blocks_are_where_paths_meet(net: nn.Module, expected: list[str]) -> None:
    assert list(blocks(net)) == expected


class Unused(nn.Module):
    """A list of lists that never run themselves, as in many transformers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.ModuleList([conv(), conv()]) for _ in range(4))
        self.stem, self.head = conv(3), head()

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for first, second in self.layers:
            x = x + first(x)
            x = x + second(x)
        return self.head(x)


def test_modules_that_never_run_are_no_blocks() -> None:
    assert set(blocks(Unused())).isdisjoint({"layers.0", "layers.1", "layers.2", "layers.3"})


def test_one_module_is_no_sequence() -> None:
    with pytest.raises(NotApplicableError, match="lacks a sequence of blocks"):
        blocks(nn.Sequential(nn.Flatten()))


@pytest.mark.parametrize(
    ("space", "architecture", "count"),
    [
        ("nb201", SEPARABLE, 17),  # cells are chains, reductions are not
        ("nb201", "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|", 17),
        ("nb_macro", "00000000", 8),
        ("nb_macro", "02000010", 8),
        ("tnb101_micro", "64-41414-1_10_020", 10),
    ],
)
def test_blocks_of_spaces_with_degenerate_cells(space: str, architecture: str, count: int) -> None:
    task = TASKS["cifar10"]
    x = torch.randn(2, *task.shape, generator=torch.Generator().manual_seed(0))
    assert len(blocks(SPACES[space]().build(architecture, task, 0), x)) == count
