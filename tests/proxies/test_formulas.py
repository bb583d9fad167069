"""Proxies without values of the authors' code, compared with their formulas in loops, in NumPy or by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from scipy.stats import entropy
from torch import Tensor, nn
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe

Batch = tuple[Tensor, Tensor]
Array = NDArray[np.float64]
LAYERS = (0, 3, 8)  # the layers of `body`


def score(name: str, net: nn.Module, x: Tensor, y: Tensor | None = None, **options: object) -> float:
    return PROXIES[name](Probe(net, x, y, **options))  # type: ignore[arg-type]


def body(norms: bool = True) -> nn.Sequential:
    torch.manual_seed(2)
    return nn.Sequential(
        nn.Conv2d(3, 5, 3, padding=1),
        nn.BatchNorm2d(5) if norms else nn.Identity(),
        nn.ReLU(),
        nn.Conv2d(5, 7, 3, stride=2, padding=1, bias=False),
        nn.BatchNorm2d(7) if norms else nn.Identity(),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(7, 10),
    ).double()


def logistic() -> tuple[nn.Linear, Tensor, Tensor]:
    torch.manual_seed(0)
    x = torch.randn(6, 4, dtype=torch.float64)
    return nn.Linear(4, 3).double(), x, torch.tensor([0, 1, 2, 0, 1, 2])


def drawn(like: Tensor, seed: int) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(like)


def outputs(net: nn.Module, x: Tensor) -> dict[str, Array]:
    found: dict[str, Array] = {}
    handles = [
        m.register_forward_hook(lambda _m, _i, out, name=name: found.update({name: out.detach().numpy()}))
        for name, m in net.named_modules()
        if not list(m.children())
    ]
    net(x)
    for handle in handles:
        handle.remove()
    return found


def loss_of_one(net: nn.Module, x: Tensor, y: Tensor, n: int) -> Tensor:
    return nn.functional.cross_entropy(net(x[n : n + 1]), y[n : n + 1])


@pytest.mark.parametrize("images", [8, 20])
def test_fisher_trace_equals_a_loop_over_images(images: int) -> None:
    net, x, y = body(), drawn(torch.empty(images, 3, 9, 9, dtype=torch.float64), 3), torch.arange(images) % 10
    squares = []
    for n in range(images):
        gradients = torch.autograd.grad(loss_of_one(net, x, y, n), list(net.parameters()))
        squares.append(sum(g.square().sum().item() for g in gradients))
    assert score("fisher_trace", body(), x, y) == pytest.approx(np.mean(squares), rel=1e-12)


def test_fisher_trace_of_logistic_regression() -> None:
    net, x, y = logistic()
    error = net(x).softmax(1) - nn.functional.one_hot(y, 3)
    expected = (error.square().sum(1) * (x.square().sum(1) + 1)).mean().item()
    assert score("fisher_trace", net, x, y) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("images", [8, 20])
def test_gradsign_equals_a_loop_over_images(images: int) -> None:
    net, x, y = body(), drawn(torch.empty(images, 3, 9, 9, dtype=torch.float64), 3), torch.arange(images) % 10
    weights = [net[i].weight for i in LAYERS]
    signs = [
        np.concatenate([np.sign(g.numpy().ravel()) for g in torch.autograd.grad(loss_of_one(net, x, y, n), weights)])
        for n in range(images)
    ]
    expected = np.abs(np.sum(signs, axis=0))
    assert score("gradsign", body(), x, y) == pytest.approx(expected.mean(), rel=1e-13)
    assert score("gradsign.sum", body(), x, y) == expected.sum()


def test_gradsign_of_equal_images_is_their_number_but_for_weights_without_a_gradient(doubles: Batch) -> None:
    net, x, y = body(norms=False), doubles[0][:1], torch.zeros(5).long()
    found = torch.autograd.grad(loss_of_one(net, x, y, 0), [net[i].weight for i in LAYERS])
    expected = 5 * np.mean(np.concatenate([g.numpy().ravel() for g in found]) != 0)
    assert score("gradsign", net, x.expand(5, -1, -1, -1), y) == pytest.approx(expected, rel=1e-14)


def parts(net: nn.Module, x: Tensor, y: Tensor, count: int) -> list[Array]:
    """Return the gradients of every layer of `body` on equal parts of the images, `(count, weights)`."""
    weights, found = [net[i].weight for i in LAYERS], []
    for images, labels in zip(torch.chunk(x, count), torch.chunk(y, count), strict=True):
        found.append(torch.autograd.grad(nn.functional.cross_entropy(net(images), labels), weights))
    return [np.stack([g.numpy().ravel() for g in layer]) for layer in zip(*found, strict=True)]


def test_l_swag_equals_its_formula(doubles: Batch) -> None:
    trainability = sum(np.log((1 / np.abs(g).std(0)).sum()) for g in parts(body(), *doubles, 4))
    found = outputs(body(), doubles[0])
    patterns = {tuple(bits) for name in ("2", "5") for bits in (found[name] > 0).reshape(8, -1).T}
    assert score("l_swag", body(), *doubles) == pytest.approx(trainability * len(patterns), rel=1e-9)


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.5])
def test_zico_bc_subtracts_a_bias_from_the_sizes_of_maps(beta: float, doubles: Batch) -> None:
    zico = sum(np.log((np.abs(g).mean(0) / g.std(0)).sum()) for g in parts(body(), *doubles, 2))
    bias = math.log(16 * 16 / math.sqrt(5)) + math.log(8 * 8 / math.sqrt(7)) + math.log(1 / math.sqrt(10))
    value = PROXIES["zico_bc"](Probe(body(), *doubles), beta=beta)
    assert value == pytest.approx(zico - beta * bias, rel=1e-9)


def test_swap_regularised_weighs_by_size(doubles: Batch) -> None:
    thousands = ((27 * 5 + 5) + 10 + 45 * 7 + 14 + 80) / 1000
    swap = score("swap", body(), doubles[0])
    expected = swap * math.exp(-((thousands - 1500) ** 2) / 1e6)
    assert score("swap.regularised", body(), doubles[0]) == pytest.approx(expected, rel=1e-12)
    at_best = PROXIES["swap.regularised"](Probe(body(), doubles[0]), mu=thousands)
    assert at_best == swap


def smallest(channels: Array) -> float:
    return float(np.linalg.eigvalsh(np.corrcoef(channels.reshape(len(channels), -1)))[0])


def test_meco_adds_every_map_once(doubles: Batch) -> None:
    found = outputs(body(), doubles[0])
    maps = [smallest(found[name][0]) for name in "012345"]  # pooled, flat and class channels have one position each
    assert score("meco", body(), doubles[0]) == pytest.approx(sum(maps), rel=1e-9)
    nested = nn.Sequential(nn.Sequential(*body()[:3]), *body()[3:])
    assert score("meco", nested, doubles[0]) == pytest.approx(sum(maps), rel=1e-9)
    assert score("meco.as_released", nested, doubles[0]) == pytest.approx(sum(maps) + maps[2], rel=1e-9)


def test_meco_reads_the_first_image_only() -> None:
    net, x = body(norms=False), drawn(torch.empty(4, 3, 16, 16, dtype=torch.float64), 1)
    assert score("meco", net, x) == pytest.approx(score("meco", net, x[:1]), rel=1e-9)
    assert score("meco", net, x.flip(0)) != pytest.approx(score("meco", net, x), rel=1e-3)


def test_meco_opt_takes_small_maps_whole(doubles: Batch) -> None:
    assert score("meco.opt", body(), doubles[0]) == pytest.approx(score("meco", body(), doubles[0]), rel=1e-9)


def test_meco_opt_of_sixteen_channels(doubles: Batch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.Flatten(), nn.Linear(16 * 14 * 14, 10)).double()
    features = outputs(net, doubles[0])["0"][0]

    def first(of: int, count: int) -> list[int]:
        return list(range(count))

    value = PROXIES["meco.opt"](Probe(net, doubles[0]), choose=first)
    assert value == pytest.approx(16 / 8 * smallest(features[:8]), rel=1e-9)
    # A principal submatrix has no smaller eigenvalue (Cauchy).
    by_seed = [score("meco.opt", net, doubles[0], seed=seed) for seed in range(3)]
    assert min(by_seed) >= 2 * score("meco", net, doubles[0])
    assert len(set(by_seed)) == 3


class Cells(nn.Module):
    """A network with ReLUs before, in and after its blocks."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
        self.cells = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()) for _ in range(3))
        self.last = nn.ReLU()
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for cell in self.cells:
            x = cell(x) - 0.1
        return self.head(self.last(x).mean((2, 3)))


@pytest.mark.parametrize(
    ("net", "weights"),
    [
        (body, {"2": 4, "5": 32}),
        (lambda: Cells().double(), {"cells.0.1": 1, "cells.1.1": 2, "cells.2.1": 4, "last": 8}),
    ],
    ids=["stack", "cells"],
)
def test_wrcor_equals_its_formula(net: Callable[[], nn.Module], weights: dict[str, int], doubles: Batch) -> None:
    made, entering = net(), {}

    def keep(name: str) -> Callable[..., None]:
        return lambda _m, args: entering.update({name: args[0]})

    for name in weights:
        made.get_submodule(name).register_forward_pre_hook(keep(name))
    loss = nn.functional.cross_entropy(made(doubles[0]), doubles[1])
    gradients = torch.autograd.grad(loss, list(entering.values()))
    total = sum(
        weights[name] * np.abs(np.corrcoef(t.detach().flatten(1).numpy()))
        for (name, a), g in zip(entering.items(), gradients, strict=True)
        for t in (a, g)
    )
    assert score("wrcor", net(), *doubles) == pytest.approx(np.linalg.slogdet(total)[1], rel=1e-9)


def test_wrcor_leaves_out_correlations_with_a_constant_row(doubles: Batch) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(768, 9, bias=False), nn.ReLU(), nn.Linear(9, 10)).double()
    x = doubles[0].clone()
    x[0] = 0  # the ReLU gets zeros, and no gradient passes it
    assert score("wrcor", net, x, doubles[1]) == -math.inf


@pytest.mark.parametrize(
    ("convolution", "inside"),
    [
        (nn.Conv2d(3, 5, 3), 5 * 9),
        (nn.Conv2d(3, 5, (1, 7), stride=(2, 1)), 5 * 7 / 2),
        (nn.Conv2d(4, 8, 3, groups=4, stride=2), 9 / 4),
        (nn.Conv2d(4, 8, 5, groups=2), 8 * 25),
        (nn.Conv2d(1, 8, 3), 8 * 9),
    ],
)
def test_tpc_by_hand(convolution: nn.Conv2d, inside: float) -> None:
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution = convolution

        def forward(self, x: Tensor) -> Tensor:
            return self.convolution(x) + self.convolution(x)

    x = torch.zeros(1, convolution.in_channels, 8, 8)
    assert score("tpc", convolution, x) == pytest.approx(math.log(inside), rel=1e-14)
    last = nn.Conv2d(convolution.out_channels, 1, 1)  # log 1 is 0
    assert score("tpc", nn.Sequential(Twice(), nn.ReLU(), last), x) == pytest.approx(2 * math.log(inside), rel=1e-14)


def kernel(net: nn.Module, x: Tensor, y: Tensor) -> Array:
    """Return the kernel of the logits of the labels of `body`, by a loop over images."""
    parameters = [p for i in LAYERS for p in net[i].parameters()]
    logits = net(x)
    rows = [torch.autograd.grad(logits[n, c], parameters, retain_graph=True) for n, c in enumerate(y)]
    matrix = np.stack([np.concatenate([g.numpy().ravel() for g in row]) for row in rows])
    return matrix @ matrix.T


def test_ntk_trace_and_hnas_equal_a_loop_over_images(doubles: Batch) -> None:
    theta = kernel(body(), *doubles)
    trace = math.sqrt(np.trace(theta) / 8)
    assert score("ntk_trace", body(), *doubles) == pytest.approx(trace, rel=1e-12)
    eigenvalues = np.linalg.eigvalsh(theta)
    ratio = eigenvalues[-1] / eigenvalues[0] / (trace + 1e-6)
    for options, expected in (
        ({}, 1e-2 * abs(trace**2 - 2500**2) + ratio),
        ({"mu": 0.0}, ratio),
        ({"mu": 1.0, "nu": trace}, ratio),
    ):
        value = PROXIES["hnas"](Probe(body(), *doubles), **options)
        assert value == pytest.approx(expected, rel=1e-7)


def test_ntk_trace_of_one_layer_by_hand() -> None:
    net, x, y = logistic()
    expected = math.sqrt((x.square().sum(1) + 1).mean())
    assert score("ntk_trace", net, x, y) == pytest.approx(expected, rel=1e-14)
    assert score("ntk_trace.as_released", net, x, y) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("name", "options"), [("ntk_trace", {}), ("hnas", {"mu": 0.0})])
def test_without_batch_norm_products_are_gradients(name: str, options: dict[str, float], doubles: Batch) -> None:
    for norms in (False, True):
        ours, released = (
            PROXIES[variant](Probe(body(norms), *doubles), **options) for variant in (name, f"{name}.as_released")
        )
        assert (released == pytest.approx(ours, rel=1e-7)) != norms


def gradients(net: nn.Module, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(nn.functional.cross_entropy(net(x), y), [net[i].weight for i in LAYERS])


def test_the_gradient_of_hnas_is_one_vector(doubles: Batch) -> None:
    found = gradients(body(), *doubles)
    value = score("hnas.grad", body(), *doubles)
    assert value == pytest.approx(torch.cat([g.flatten() for g in found]).norm().item(), rel=1e-12)
    layers = score("grad_norm", body(), *doubles)
    assert layers / math.sqrt(3) <= value <= layers


def test_hnas_snip_is_the_inner_product(doubles: Batch) -> None:
    found = zip(LAYERS, gradients(body(), *doubles), strict=True)
    product = sum(float((body()[i].weight.detach() * g).sum()) for i, g in found)
    assert score("hnas.snip", body(), *doubles) == pytest.approx(abs(product), rel=1e-9)
    assert score("hnas.snip", body(), *doubles) == abs(score("plain", body(), *doubles))


def test_hnas_grasp_is_a_directional_derivative(doubles: Batch) -> None:
    net, step = body(), 1e-6
    direction = gradients(net, *doubles)
    products = []
    for sign in (1, -1):
        moved = body()
        with torch.no_grad():
            for i, g in zip(LAYERS, direction, strict=True):
                moved[i].weight += sign * step * g
        ends = zip(LAYERS, gradients(moved, *doubles), strict=True)
        products.append(sum(float((net[i].weight.detach() * g).sum()) for i, g in ends))
    expected = abs(products[0] - products[1]) / (2 * step)
    assert score("hnas.grasp", body(), *doubles) == pytest.approx(expected, rel=1e-5)
    assert score("hnas.grasp", body(), *doubles) == abs(score("grasp", body(), *doubles))


def test_naswot_as_released_counts_containers(doubles: Batch) -> None:
    class ReLUConv(nn.Sequential):
        pass

    torch.manual_seed(0)
    inner = ReLUConv(nn.ReLU(), nn.Conv2d(5, 7, 3))
    net = nn.Sequential(nn.Conv2d(3, 5, 3), inner, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(7, 10))
    net = net.double()
    with torch.no_grad():
        stem = net[0](doubles[0])
        last = inner(stem)
    codes = np.concatenate([(t > 0).flatten(1).numpy() for t in (stem, stem, last)], axis=1)
    hamming = codes.shape[1] * (1 - cdist(codes, codes, "hamming"))
    assert score("naswot.as_released", net, doubles[0]) == pytest.approx(np.linalg.slogdet(hamming)[1], rel=1e-12)


def test_near_in_numpy(doubles: Batch) -> None:
    found, expected = outputs(body(), doubles[0]), 0.0
    for name in ("0", "1", "2", "3", "4", "5", "8"):
        a = found[name]
        maps = a if a.ndim == 4 else a[:, :, None, None]
        order = itertools.product(range(len(maps)), range(maps.shape[3]), range(maps.shape[2]))
        rows = np.stack([maps[n, :, row, column] for n, column, row in itertools.islice(order, maps.shape[1])])
        expected += math.exp(entropy(np.linalg.svd(rows, compute_uv=False)))
    assert score("near", body(), doubles[0]) == pytest.approx(expected, rel=1e-9)


def test_near_ignores_the_scale_of_the_logits_and_is_bounded_by_widths(doubles: Batch) -> None:
    net = body()
    before = score("near", net, doubles[0])
    assert 7 <= before <= 3 * 5 + 3 * 7 + 8  # seven outputs; eight rows of logits
    with torch.no_grad():
        net[8].weight *= -5
        net[8].bias *= -5
    assert score("near", net, doubles[0]) == pytest.approx(before, rel=1e-12)
