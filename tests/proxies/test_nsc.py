from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import integrate
from torch import nn
from zcbench.proxies import PROXIES
from zcbench.proxies.nsc import capacity
from zcbench.proxies.registry import score_all

SHAPES = [(64, 576), (576, 64), (16, 27), (10, 64), (1, 9), (1, 1), (4096, 11008)]


def marchenko_pastur(rows: int, columns: int) -> float:
    """Integrate the logarithm against the density of Marchenko and Pastur."""
    larger, smaller = max(rows, columns), min(rows, columns)
    gamma, variance = smaller / larger, 2 / (rows + columns)
    low, high = (1 - math.sqrt(gamma)) ** 2, (1 + math.sqrt(gamma)) ** 2

    # x = low + (high - low) sin^2 t takes away the roots at both ends.
    def integrand(t: float) -> float:
        x = low + (high - low) * math.sin(t) ** 2
        density = (high - low) ** 2 * (math.sin(t) * math.cos(t)) ** 2 / (math.pi * gamma * x) if x else 0.0
        return math.log1p(larger * variance * x) * density

    return smaller * integrate.quad(integrand, 0, math.pi / 2, limit=400)[0]


@pytest.mark.parametrize(("rows", "columns"), SHAPES)
def test_the_closed_form_is_the_integral(rows: int, columns: int) -> None:
    assert capacity(rows, columns) == pytest.approx(marchenko_pastur(rows, columns), rel=1e-9)


@pytest.mark.parametrize(("rows", "columns"), [(64, 576), (300, 300)])
def test_random_matrices_come_near_it(rows: int, columns: int) -> None:
    random = np.random.RandomState(0)
    drawn = []
    for _ in range(20):
        values = np.linalg.svd(random.randn(rows, columns) * math.sqrt(2 / (rows + columns)), compute_uv=False)
        drawn.append(np.log1p(values**2).sum())
    assert capacity(rows, columns) == pytest.approx(np.mean(drawn), rel=0.01)


def score(net: nn.Module, x: torch.Tensor) -> tuple[str, float, str]:
    (found,) = score_all(net, x, torch.zeros(len(x)).long(), [PROXIES["nsc"]])
    return found.status, found.value, found.message


def test_every_matrix_counts_once_and_groups_are_matrices_of_their_own() -> None:
    shared = nn.Conv2d(8, 8, 3, padding=1, groups=2)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        shared,
        nn.ReLU(),
        shared,
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    expected = capacity(8, 27) + 2 * capacity(4, 36) + capacity(5, 128)
    status, value, _ = score(net, torch.randn(4, 3, 4, 4))
    assert status == "ok"
    assert value == pytest.approx(expected, rel=1e-14)


def test_a_transposed_convolution_has_the_matrix_of_its_weight() -> None:
    net = nn.Sequential(nn.ConvTranspose2d(3, 6, 2), nn.Flatten(), nn.Linear(150, 2))
    assert score(net, torch.randn(4, 3, 4, 4))[1] == pytest.approx(capacity(3, 24) + capacity(2, 150), rel=1e-14)


def test_attention_is_not_scored() -> None:
    class Attending(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mix = nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            tokens = x.flatten(2).transpose(1, 2)
            return self.head(self.mix(tokens, tokens, tokens)[0].mean(1))

    status, _, message = score(Attending(), torch.randn(4, 8, 3, 3))
    assert status == "not_applicable"
    assert "heads cannot be told apart" in message


def test_a_network_without_weights_is_not_scored() -> None:
    assert score(nn.Sequential(nn.Flatten()), torch.randn(4, 3, 2, 2))[0] == "not_applicable"
