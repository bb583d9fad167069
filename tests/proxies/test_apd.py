from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import zcbench
from torch import Tensor, nn
from zcbench.proxies import PROXIES
from zcbench.proxies.apd import spread, stable_rank
from zcbench.proxies.probe import Probe

Batch = tuple[Tensor, Tensor]
PLACE = "a place"


def net(norm: bool = True, convolution: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    first = nn.Conv2d(3, 5, 3, padding=1) if convolution else nn.Identity()
    channels = 5 if convolution else 3
    return nn.Sequential(
        first,
        nn.BatchNorm2d(channels) if norm else nn.Identity(),
        nn.ReLU(),
        nn.Conv2d(channels, 20, 1, stride=16) if convolution else nn.MaxPool2d(16),
        nn.BatchNorm2d(20 if convolution else channels) if norm else nn.Identity(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(20 if convolution else channels, 10),
    ).double()


def score(of: nn.Module, x: Tensor) -> float:
    return PROXIES["apd"](Probe(of, x, None))


def test_apd_equals_its_formula_by_singular_values(doubles: Batch) -> None:
    ranks, a = 0.0, doubles[0]
    for module in (built := net())[:5]:
        a = module(a)
        if isinstance(module, nn.BatchNorm2d):
            # The second map has 20 channels on 8 images of 1 x 1, so its matrix is tall.
            values = np.linalg.svd(a.detach().numpy().transpose(1, 0, 2, 3).reshape(a.shape[1], -1), compute_uv=False)
            ranks += (values**2).sum() / values[0] ** 2
    weights = [built[i].weight.detach().numpy().ravel() for i in (0, 3)]
    expected = ranks * sum(np.abs(w).sum() / np.sqrt((w**2).sum()) for w in weights)
    assert score(net(), doubles[0]) == pytest.approx(expected, rel=1e-9)


def test_apd_of_two_channels_by_hand() -> None:
    # Two images of one pixel give a channel (-1, 1) and, with the weight 1 or -1, the other is the same or its
    # opposite: one direction, so the stable rank is 1. Two weights of one size have an L1 norm of sqrt 2 L2 norms.
    made = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(2, 2)).double()
    made[0].weight.data = torch.tensor([1.0, -1.0]).double().reshape(2, 1, 1, 1)
    x = torch.tensor([-1.0, 1.0]).double().reshape(2, 1, 1, 1)
    assert score(made, x) == pytest.approx(math.sqrt(2), rel=1e-9)


@pytest.mark.parametrize("shape", [(4, 3, 2, 2), (2, 9, 1, 1), (6, 3)])
def test_a_stable_rank_counts_equal_directions(shape: tuple[int, ...]) -> None:
    # Channels that are orthogonal and of one length: as many directions as there are rows or columns.
    channels, columns = shape[1], math.prod(shape) // shape[1]
    larger, smaller = max(channels, columns), min(channels, columns)
    drawn = torch.randn(larger, smaller, generator=torch.Generator().manual_seed(0)).double()
    matrix = torch.linalg.qr(drawn).Q.reshape(larger, smaller)
    matrix = matrix if channels > columns else matrix.T
    activation = matrix.reshape(channels, shape[0], *shape[2:]).movedim(0, 1)
    assert activation.shape == shape
    assert stable_rank(PLACE, activation) == pytest.approx(smaller, rel=1e-12)
    assert stable_rank(PLACE, 1e-9 * activation) == pytest.approx(smaller, rel=1e-9)


def test_zeros_add_nothing() -> None:
    assert stable_rank(PLACE, torch.zeros(2, 3, 4, 4)) == 0
    assert spread(torch.zeros(3, 3)) == 0
    assert spread(torch.tensor([0.0, -2.0, 0.0])) == 1
    assert spread(torch.full((3, 4), -0.5)) == pytest.approx(math.sqrt(12))


def test_the_size_of_weights_does_not_matter(doubles: Batch) -> None:
    larger = net()
    for i in (0, 3):
        larger[i].weight.data *= 1000
        larger[i].bias.data *= 1000
    # A batch norm adds an epsilon to variances, which matters less for larger ones.
    assert score(larger, doubles[0]) == pytest.approx(score(net(), doubles[0]), rel=1e-3)


@pytest.mark.parametrize(
    ("made", "reason"), [(net(norm=False), "batch norm"), (net(convolution=False), "convolution with a weight")]
)
def test_what_is_missing_is_the_reason(made: nn.Module, reason: str, doubles: Batch) -> None:
    found = zcbench.score(made, *doubles, proxies=["apd"])["apd"]
    assert found.status == "not_applicable"
    assert reason in found.message


def test_images_that_are_not_finite_have_no_score(doubles: Batch) -> None:
    x = doubles[0].clone()
    x[0, 0, 0, 0] = math.nan
    assert zcbench.score(net(), x, doubles[1], proxies=["apd"])["apd"].status == "nan"
