"""Properties that follow from the formulas, and scores of networks that are small enough for a hand calculation."""

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
    return PROXIES[name](Probe(net, x, y, **options))  # type: ignore[arg-type]


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
    # snip reads w g, and scaling w by c scales g by 1/c, except for the epsilon of the norm.
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


def test_the_norm_of_all_parameters_is_the_global_one(doubles: Batch) -> None:
    net, (x, y) = body(), doubles
    nn.functional.cross_entropy(net(x), y).backward()
    expected = torch.cat([p.grad.flatten() for p in net.parameters()]).norm().item()
    assert score("grad_norm.all_params", body(), x, y) == pytest.approx(expected, rel=1e-12)


def test_grasp_equals_the_hessian_written_out() -> None:
    x = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 2, 0, 1, 2])
    torch.manual_seed(0)
    net = nn.Linear(4, 3).double()
    weight = net.weight.detach().flatten()

    def loss(w: Tensor) -> Tensor:
        return nn.functional.cross_entropy(x @ w.view(3, 4).T + net.bias.detach(), y)

    hessian = torch.autograd.functional.hessian(loss, weight)
    gradient = torch.autograd.functional.jacobian(loss, weight)
    assert score("grasp", net, x, y) == pytest.approx(-(weight @ hessian @ gradient).item(), rel=1e-10)


def test_logsynflow_damps_each_gradient(doubles: Batch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(3, 2), nn.Linear(2, 2)).double()
    x = torch.ones(1, 3, 1, 1, dtype=torch.float64)
    first, second = (net[i].weight.detach().abs() for i in (1, 2))
    hidden = first.sum(1) + net[1].bias.detach().abs()
    flow = second.sum(0)[:, None].expand(2, 3)  # dR/d|w| of the first layer, all inputs being one
    expected = (first * torch.log1p(flow)).sum() + (second * torch.log1p(hidden.expand(2, 2))).sum()
    assert score("logsynflow", net, x) == pytest.approx(expected.item(), rel=1e-12)


def test_counts_and_accuracy(doubles: Batch) -> None:
    net, (x, y) = body(), doubles
    assert score("conv_count", net, x) == 2
    assert score("relu_count", net, x) == 2
    assert score("vkdnw_dim", net, x) == 9
    expected = (net(x).argmax(1) == y).double().mean().item()
    assert score("accuracy_at_init", body(), x, y) == expected


@pytest.mark.parametrize(
    ("name", "train"), [("naswot_conv", True), ("naswot_conv.eval", False), ("naswot.eval", False)]
)
def test_other_kernels_equal_hamming_distances(name: str, train: bool, doubles: Batch) -> None:
    net = body().train(train)
    codes = []
    for i in (0, 3, 8) if "conv" in name else (2, 5):
        net[i].register_forward_hook(lambda _m, _i, out: codes.append((out > 0).flatten(1).numpy()))
    with torch.no_grad():
        net(doubles[0])
    joined = np.concatenate(codes, axis=1)
    kernel = joined.shape[1] * (1 - cdist(joined, joined, "hamming"))
    assert score(name, body(), doubles[0]) == pytest.approx(np.linalg.slogdet(kernel)[1], rel=1e-12)


@pytest.mark.parametrize("images", [3, 63, 130])
def test_swap_counts_distinct_columns(images: int) -> None:
    x = torch.randn(images, 2, 5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    net = nn.Sequential(nn.Conv2d(2, 3, 1), nn.ReLU(), nn.Flatten(), nn.Linear(75, 10)).double()
    weight = torch.empty(3, 2, 1, 1).normal_(generator=torch.Generator().manual_seed(0)).double()
    on = (nn.functional.conv2d(x, weight) > 0).flatten(1)
    assert score("swap", net, x) == len(np.unique(on.numpy(), axis=1).T)


def test_zico_by_hand() -> None:
    x = torch.randn(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 1, 0])
    torch.manual_seed(0)
    net = nn.Linear(3, 2).double()
    halves = []
    for part in (slice(0, 2), slice(2, 4)):
        (gradient,) = torch.autograd.grad(nn.functional.cross_entropy(net(x[part]), y[part]), [net.weight])
        halves.append(gradient.numpy())
    both = np.stack(halves)
    expected = math.log((np.abs(both).mean(0) / both.std(0)).sum())
    assert score("zico", net, x, y) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("train", [True, False])
def test_ntk_condition_equals_a_loop_over_images(train: bool, doubles: Batch) -> None:
    net = body().train(train)
    outputs, rows = net(doubles[0]).sum(1), []
    weights = [p for name, p in net.named_parameters() if "weight" in name]
    for output in outputs:
        gradients = torch.autograd.grad(output, weights, retain_graph=True)
        rows += [torch.cat([gradient.flatten() for gradient in gradients])]
    singular = torch.linalg.svdvals(torch.stack(rows))
    name = "ntk_condition" if train else "ntk_condition.eval"
    assert score(name, body(), doubles[0]) == pytest.approx(((singular[0] / singular[-1]) ** 2).item(), rel=1e-6)


def test_epe_nas_of_one_image_a_class_is_a_constant(doubles: Batch) -> None:
    x, y = doubles
    assert score("epe_nas", body(), x, y) == pytest.approx(8 * math.log(1 + 1e-5), rel=1e-9)


def test_epe_nas_with_many_classes_compares_them(doubles: Batch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 16), nn.ReLU(), nn.Linear(16, 120)).double()
    x, y = doubles[0], torch.tensor([0, 0, 0, 119, 119, 7, 7, 7])
    inputs = x.clone().requires_grad_()
    net(inputs).sum().backward()
    sums = [np.mean(np.log(np.abs(np.corrcoef(inputs.grad[y == c].flatten(1).numpy())) + 1e-5)) for c in (0, 7, 119)]
    expected = sum(abs(a - b) for a in sums for b in sums) / 3
    assert score("epe_nas", net, x, y) == pytest.approx(expected, rel=1e-9)
