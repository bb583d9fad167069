"""The two spaces: with shortcuts, and without them."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES, Space
from zcbench.spaces.zen import Zen
from zcbench.spaces.zen.mutation import mutate
from zcbench.spaces.zen.space import NAMED

TASK = TASKS["cifar10"]
SMALL = "SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,8,2,16,2)SuperResK1K5K1(8,24,1,16,1)SuperConvK1BNRELU(24,32,1,1)"
X = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def by_hand(net: nn.Module, x: torch.Tensor, *, shortcuts: bool) -> torch.Tensor:
    """Return the logits, computed by the definition from the parameters of a network in their order."""
    parameters = iter(list(net.parameters()))

    def conv_bn(x: torch.Tensor, stride: int, *, bias: bool = False) -> torch.Tensor:
        weight = next(parameters)
        added = next(parameters) if bias else None
        x = nn.functional.conv2d(x, weight, added, stride, padding=weight.shape[-1] // 2)
        scale, shift = next(parameters), next(parameters)
        mean, variance = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), correction=0, keepdim=True)
        return (x - mean) / (variance + 1e-3).sqrt() * scale[:, None, None] + shift[:, None, None]

    def unit(x: torch.Tensor, strides: list[int], shortcut: str) -> torch.Tensor:
        y = x
        for place, stride in enumerate(strides):
            y = conv_bn(y if place == 0 else y.relu(), stride)
        if shortcuts and shortcut == "projection":
            y = y + conv_bn(x, max(strides), bias=True)
        elif shortcuts and shortcut == "identity":
            y = y + x
        return y.relu()

    x = unit(x, [1], "none")
    x = unit(unit(x, [2, 1], "projection"), [1, 1], "identity")
    x = unit(unit(x, [1, 1, 1], "projection"), [1, 1, 1], "identity")
    x = unit(x, [1], "none")
    return nn.functional.linear(x.mean((2, 3)), next(parameters), next(parameters))


@pytest.mark.parametrize("shortcuts", [True, False])
def test_networks_compute_what_their_definition_says(shortcuts: bool) -> None:
    net = Zen(shortcuts=shortcuts).build(SMALL, TASK, seed=0).double()
    with torch.no_grad():
        torch.testing.assert_close(net(X.double()), by_hand(net, X.double(), shortcuts=shortcuts))


@pytest.mark.parametrize("name", ["zen", "zen_plain"])
def test_sizes_of_mutants_are_those_of_their_networks(name: str) -> None:
    space, rng, architecture = SPACES[name](None), random.Random(3), NAMED["start-cifar"]
    for _ in range(12):
        architecture = mutate(rng, architecture, 2)
        assert space.sizes_of(architecture, TASK) == Space.sizes_of(space, architecture, TASK)


def test_only_networks_with_shortcuts_have_projections() -> None:
    trained, scored = Zen(), Zen(shortcuts=False)
    assert (trained.name, scored.name) == ("zen", "zen_plain")
    weights, bias, norm = 8 * 8 + 8 * 24, 8 + 24, 2 * (8 + 24)
    assert trained.params(SMALL, TASK) - scored.params(SMALL, TASK) == weights + bias + norm
    assert trained.budget(SMALL, TASK) == scored.budget(SMALL, TASK)


def test_networks_without_an_index_are_built_but_not_found() -> None:
    space = Zen()
    assert space.build(SMALL, TASK, seed=0)(X).shape == (4, 10)
    with pytest.raises(ArchitectureError, match=r"the network is valid, but none of the 5 with an index$"):
        space.index(SMALL)
    assert space.traits(SMALL) == {"layers": 5, "blocks": 4}


def test_zen_of_a_network_without_shortcuts_is_that_of_the_authors_code() -> None:
    """The same by its definition: a chain of convolutions, each normalised; running variances after both passes."""
    net = Zen(shortcuts=False).build(SMALL, TASK, seed=0)
    shapes = [p.shape for p in net.parameters() if p.ndim == 4]
    strides = [1, 2, *[1] * 10]
    generator = torch.Generator().manual_seed(5)
    weights = [torch.empty(shape).normal_(generator=generator).double() for shape in shapes]
    noise, noise2 = torch.randn(2, 4, 3, 16, 16, generator=torch.Generator().manual_seed(6))
    running = [torch.ones(shape[0]).double() for shape in shapes]

    def features(x: torch.Tensor) -> torch.Tensor:
        for place, (weight, stride) in enumerate(zip(weights, strides, strict=True)):
            x = nn.functional.conv2d(x, weight, stride=stride, padding=weight.shape[-1] // 2)
            running[place] = 0.9 * running[place] + 0.1 * x.var((0, 2, 3))
            x = nn.functional.batch_norm(x, None, None, training=True, eps=1e-3).relu()
        return x

    moved = (features(noise.double()) - features((noise + 0.01 * noise2).double())).abs().sum((1, 2, 3)).mean().log()
    expected = moved + sum(variance.mean().sqrt().log() for variance in running)
    probe = Probe(net, X, seed=5, inputs={"noise": noise, "noise2": noise2})
    assert PROXIES["zen"](probe) == pytest.approx(float(expected), abs=2e-3)  # the network computes in float32
