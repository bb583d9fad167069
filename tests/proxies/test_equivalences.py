"""Properties that follow from the formulas, and values on networks small enough to do by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from torch import Tensor, nn
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe

Batch = tuple[Tensor, Tensor]


def score(name: str, net: nn.Module, x: Tensor, y: Tensor | None = None, **options: object) -> float:
    return PROXIES[name].function(Probe(net, x, y, **options))  # type: ignore[arg-type]


def body() -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.BatchNorm2d(5),
        nn.ReLU(),
        nn.Conv2d(5, 7, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(7),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(7, 10),
    ).double()


@pytest.fixture
def doubles(batch: Batch) -> Batch:
    return batch[0].double(), batch[1]


def test_params_and_macs_by_hand(doubles: Batch) -> None:
    net = body()
    assert score("params", net, *doubles) == (27 * 5 + 5) + 10 + 45 * 7 + 14 + 80
    assert score("macs", net, *doubles) == 16 * 16 * 5 * (27 + 1) + 8 * 8 * 7 * 45 + 10 * 8


def test_l2_norm_is_a_sum_of_layer_norms(doubles: Batch) -> None:
    net = body()
    expected = sum(np.linalg.norm(net[i].weight.detach().numpy().ravel()) for i in (0, 3, 8))
    assert score("l2_norm", net, *doubles) == pytest.approx(expected, rel=1e-14)


def test_grad_norm_snip_and_plain_of_logistic_regression() -> None:
    # dL/dW = (softmax - onehot)' x / N
    x = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    torch.manual_seed(0)
    net = nn.Linear(4, 3).double()
    with torch.no_grad():
        error = net(x).softmax(1) - nn.functional.one_hot(y, 3)
    gradient = error.T @ x / 6
    weight = net.weight.detach()
    assert score("grad_norm", net, x, y) == pytest.approx(gradient.norm().item(), rel=1e-13)
    assert score("snip", net, x, y) == pytest.approx((weight * gradient).abs().sum().item(), rel=1e-13)
    assert score("plain", net, x, y) == pytest.approx((weight * gradient).sum().item(), rel=1e-12)


def test_fisher_of_one_linear_layer_by_hand() -> None:
    x = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    torch.manual_seed(0)
    net = nn.Linear(4, 3).double()
    with torch.no_grad():
        activation = net(x)
        gradient = (activation.softmax(1) - nn.functional.one_hot(y, 3)) / 6
    expected = 4 * 0.5 * (activation * gradient).square().mean(0).sum().item()
    assert score("fisher", net, x, y) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("name", ["grad_norm", "snip"])
def test_the_loss_does_not_see_a_constant_added_to_all_logits(name: str, doubles: Batch) -> None:
    net = body()
    before = score(name, net, *doubles)
    with torch.no_grad():
        net[8].bias += 3
    assert score(name, net, *doubles) == pytest.approx(before, rel=1e-9)


def test_a_convolution_before_a_norm_is_scale_invariant(doubles: Batch) -> None:
    # snip sees w g: scaling w by c scales g by 1/c, up to the norm's epsilon.
    net = body()
    net[1].eps = net[4].eps = 1e-14
    before = score("snip", net, *doubles)
    with torch.no_grad():
        net[3].weight *= 7
    assert score("snip", net, *doubles) == pytest.approx(before, rel=1e-9)


def test_jacob_cov_equals_its_formula_in_numpy(doubles: Batch) -> None:
    net, x = body(), doubles[0].clone().requires_grad_()
    net(x).sum().backward()
    eigenvalues = np.linalg.eigvalsh(np.corrcoef(x.grad.flatten(1).numpy()))
    expected = -np.sum(np.log(eigenvalues + 1e-5) + 1 / (eigenvalues + 1e-5))
    assert score("jacob_cov", body(), *doubles) == pytest.approx(expected, rel=1e-9)


def test_jacob_cov_ignores_the_scale_of_the_logits(doubles: Batch) -> None:
    net = body()
    before = score("jacob_cov", net, *doubles)
    with torch.no_grad():
        net[8].weight *= 5
    assert score("jacob_cov", net, *doubles) == pytest.approx(before, rel=1e-6)


def test_naswot_equals_hamming_distances(doubles: Batch) -> None:
    net = body()
    codes = []
    for relu in (net[2], net[5]):
        relu.register_forward_hook(lambda _m, _i, out: codes.append((out > 0).flatten(1).numpy()))
    net(doubles[0])
    joined = np.concatenate(codes, axis=1)
    kernel = joined.shape[1] * (1 - cdist(joined, joined, "hamming"))
    assert score("naswot", body(), *doubles) == pytest.approx(np.linalg.slogdet(kernel)[1], rel=1e-12)


def test_naswot_of_equal_images_is_minus_infinity(doubles: Batch) -> None:
    x = doubles[0].clone()
    x[1] = x[0]
    value = score("naswot", body(), x)
    # Exactly singular; LU may leave a pivot of round-off size instead of zero.
    assert value == -math.inf or value < score("naswot", body(), doubles[0]) - 20


def test_synflow_reads_no_data_and_grows_with_weights(doubles: Batch) -> None:
    net = body()
    value = score("synflow", net, doubles[0])
    assert score("synflow", net, 10 * doubles[0] + 1) == value
    with torch.no_grad():
        net[8].weight *= -2
        net[8].bias *= 0
    doubled = score("synflow", net, doubles[0])
    assert doubled == pytest.approx(2 * value, rel=1e-9)


def test_synflow_does_not_see_the_norms(doubles: Batch) -> None:
    net = body()
    value = score("synflow", net, doubles[0])
    with torch.no_grad():
        net[1].weight *= 100
        net[4].running_var *= 9
    assert score("synflow", net, doubles[0]) == value


def test_zen_equals_its_formula_step_by_step(doubles: Batch) -> None:
    net = body()
    noise = {name: torch.randn(8, 3, 16, 16, dtype=torch.float64) for name in ("noise", "noise2")}
    value = score("zen", net, doubles[0], inputs=noise)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for i in (0, 3, 8):
            net[i].weight.copy_(torch.empty(net[i].weight.shape).normal_(generator=generator))
            if net[i].bias is not None:
                net[i].bias.zero_()
        features = [net[:6](x) for x in (noise["noise"], noise["noise"] + 0.01 * noise["noise2"])]
    moved = (features[0] - features[1]).abs().sum((1, 2, 3)).mean().log()
    scale = sum(net[i].running_var.mean().sqrt().log() for i in (1, 4))
    assert value == pytest.approx((moved + scale).item(), rel=1e-10)


def test_zen_reads_neither_images_nor_weights(doubles: Batch) -> None:
    net = body()
    value = score("zen", net, doubles[0])
    with torch.no_grad():
        net[0].weight *= 3
    assert score("zen", net, doubles[0].flip(0)) == value
    assert score("zen", net, doubles[0], seed=1) != value


@pytest.mark.parametrize("name", ["grad_norm", "fisher"])
def test_labels_matter_where_they_are_read(name: str, doubles: Batch) -> None:
    x, y = doubles
    assert score(name, body(), x, y) != score(name, body(), x, (y + 1) % 10)
