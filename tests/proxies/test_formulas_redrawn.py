"""Proxies that draw new weights, compared with their formulas in loops, in NumPy or by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import log_expit
from scipy.stats import entropy
from torch import Tensor, nn
from torch.autograd.functional import jacobian, vjp
from torch.func import functional_call
from zcbench.errors import NotApplicableError
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.proxies.vkdnw import _factor

Batch = tuple[Tensor, Tensor]
Net = TypeVar("Net", bound=nn.Module)
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


def drawn(like: Tensor, seed: int) -> Tensor:
    return torch.randn(like.shape, generator=torch.Generator().manual_seed(seed)).to(like)


def fan_in(weight: Tensor) -> float:
    return math.sqrt(2 / math.prod(weight.shape[1:]))


def fan_out(weight: Tensor) -> float:
    return math.sqrt(2 / (weight.shape[0] * math.prod(weight.shape[2:]))) if weight.ndim == 4 else 0.01


def redrawn(net: Net, deviation: Callable[[Tensor], float]) -> Net:
    """Return a network with weights drawn by seed 0, in definition order, and biases of zero."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.Conv2d, nn.Linear)):
                size = tuple(module.weight.shape)
                module.weight.copy_(torch.normal(0.0, deviation(module.weight), size, generator=generator))
                if module.bias is not None:
                    module.bias.zero_()
    return net


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


def test_phi_is_the_jacobian_times_noise() -> None:
    net = nn.Sequential(*body(norms=False)[:6], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    x = torch.empty(4, 3, 6, 6, dtype=torch.float64)
    noise = {"noise": drawn(x, 1), "noise2": drawn(x, 2)}
    value = score("phi", net, x, inputs=noise)
    redrawn(net, lambda weight: 1.0)
    norms = []
    for image, direction in zip(noise["noise"], noise["noise2"], strict=True):
        matrix = jacobian(lambda i: net[:6](i[None]).flatten(), image).flatten(1)
        norms.append((matrix @ direction.flatten()).norm().item())
    assert value == pytest.approx(math.log(np.mean(norms)), rel=1e-6)


def test_phi_estimates_the_frobenius_norm() -> None:
    net = nn.Sequential(*body(norms=False)[:6], nn.AdaptiveAvgPool2d(1), nn.Flatten())
    image = drawn(torch.empty(1, 3, 6, 6, dtype=torch.float64), 1)
    x = image.expand(500, -1, -1, -1)
    values = [score("phi", net, x, inputs={"noise": x, "noise2": drawn(x, 2 + i)}) for i in range(4)]
    redrawn(net, lambda weight: 1.0)
    frobenius = jacobian(lambda i: net[:6](i).flatten(), image).norm().item()
    # The mean of norms is below the root of the mean square, by a few percent for these 2,000 directions.
    assert 0.9 * frobenius < math.exp(np.mean(values)) < frobenius


def test_phi_of_a_linear_network_does_not_depend_on_where() -> None:
    net = nn.Sequential(nn.Conv2d(2, 3, 3, bias=False), nn.AdaptiveAvgPool2d(1), nn.Flatten()).double()
    x = torch.empty(5, 2, 6, 6, dtype=torch.float64)
    direction = drawn(x, 2)
    first, second = (score("phi", net, x, inputs={"noise": drawn(x, i), "noise2": direction}) for i in (0, 1))
    redrawn(net, lambda weight: 1.0)
    expected = net[0](direction).flatten(1).norm(dim=1).mean().log().item()
    assert first == pytest.approx(expected, rel=1e-6)
    assert second == pytest.approx(expected, rel=1e-6)


def test_phi_leaves_norms_out(doubles: Batch) -> None:
    assert score("phi", body(), doubles[0]) == score("phi", body(norms=False), doubles[0])


def test_vkdnw_equals_loops_over_images_and_classes(doubles: Batch) -> None:
    noise = drawn(doubles[0], 5)
    value = score("vkdnw", body(), doubles[0], inputs={"noise": noise})
    net = redrawn(body(), fan_in).eval()
    state = {name: p.detach() for name, p in net.named_parameters()}

    def logit(firsts: Tensor, n: int, c: int) -> Tensor:
        changed = {
            name: torch.cat([firsts[i : i + 1], p.flatten()[1:]]).view_as(p)
            for i, (name, p) in enumerate(state.items())
        }
        return functional_call(net, changed, (noise[n : n + 1],))[0, c]

    firsts = torch.stack([p.flatten()[0] for p in state.values()])
    information = np.zeros((9, 9))
    for n in range(8):
        rows = np.stack([jacobian(lambda v, n=n, c=c: logit(v, n, c), firsts).numpy() for c in range(10)])
        p = 0.95 * net(noise[n : n + 1]).softmax(1)[0].detach().numpy() + 0.05 / 10
        for c, k in itertools.product(range(10), repeat=2):
            information += np.outer(rows[c], rows[k]) * (p[c] * (c == k) - p[c] * p[k]) / 8
    deciles = np.quantile(np.linalg.svd(information, compute_uv=False), np.arange(1, 10) / 10)
    assert value == pytest.approx(9 + entropy(deciles), rel=1e-8)


@pytest.mark.parametrize("name", ["vkdnw", "vkdnw.as_released"])
@pytest.mark.parametrize("net", [body, lambda: body(norms=False), lambda: nn.Sequential(body(norms=False), nn.ReLU())])
def test_vkdnw_breaks_ties_of_its_dimension(name: str, net: Callable[[], nn.Module], doubles: Batch) -> None:
    dimension = score("vkdnw_dim", net(), doubles[0])
    assert dimension < score(name, net(), doubles[0]) < dimension + math.log(9)


def test_the_factor_of_a_multinomial_covariance() -> None:
    p = torch.rand(4, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    p = p / p.sum(1, keepdim=True)
    factor = _factor(p)
    assert torch.equal(factor, factor.tril())
    expected = torch.diag_embed(p) - p[:, :, None] * p[:, None, :]
    torch.testing.assert_close(factor @ factor.mT, expected, rtol=1e-12, atol=1e-15)


def test_linear_regions_counts_tuples_of_a_thin_network() -> None:
    def net(width: int, classes: int = 10) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, bias=False),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(2 * width, classes),
        ).double()

    x = drawn(torch.empty(2, 3, 6, 7, dtype=torch.float64), 0)
    probe = Probe(net(4), x)
    draw = probe.generator("crops")
    images, tops, lefts = (torch.randint(0, n, (1000,), generator=draw).tolist() for n in (2, 3, 4))
    places = zip(images, tops, lefts, strict=True)
    crops = torch.stack([x[n, :, top : top + 4, left : left + 4] for n, top, left in places])
    thin = redrawn(net(1), fan_out)
    found = outputs(thin, crops)
    regions = {tuple(np.concatenate([found[name][n].ravel() > 0 for name in "24"])) for n in range(1000)}
    assert PROXIES["linear_regions"](probe) == len(regions)
    assert len(regions) <= 2 * 3 * 4  # as many as there are crops


@pytest.mark.parametrize(
    ("layers", "reason"),
    [
        ([nn.Conv2d(4, 4, 3, groups=2)], "without groups"),
        ([nn.Conv2d(4, 6, 3)], "no multiple of 4"),
        ([nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4)], "only convolutions"),
    ],
)
def test_linear_regions_refuses_what_cannot_be_made_thin(layers: list[nn.Module], reason: str, batch: Batch) -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), *layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    with pytest.raises(NotApplicableError, match=reason):
        score("linear_regions", nn.Sequential(net, nn.Linear(6 if "multiple" in reason else 4, 10)), batch[0])


def of_signs(gradient: Tensor) -> float:
    """Return the norm of sigmoid(log det) of matrices of signs, with determinants rounded to integers."""
    determinants = np.rint(np.linalg.det(np.sign(gradient.numpy())))
    values = np.where(determinants < 0, 0.5, np.maximum(determinants, 0) / (1 + np.maximum(determinants, 0)))
    return float(np.linalg.norm(values))


def sums_of_logits(net: nn.Sequential, x: Tensor, *names: int) -> tuple[Tensor, ...]:
    """Return the gradients of the sum of all logits at the inputs of modules."""
    entering, a = {}, x.clone().requires_grad_()
    for i, module in enumerate(net):
        entering[i] = a
        a = module(a)
    return torch.autograd.grad(a.sum(), [entering[i] for i in names])


def test_eznas_a_of_stacks(doubles: Batch) -> None:
    # There are two ReLU-Conv-BatchNorm triples; the stem and the last ReLU belong to none.
    torch.manual_seed(0)
    more = [nn.Conv2d(7, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU()]
    net = nn.Sequential(*body()[:6], *more, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 10)).double()
    variants = ("", ".l2", ".conv_bn_relu", ".sum", ".per_channel", ".operations")
    values = {f"eznas_a{name}": score(f"eznas_a{name}", net, doubles[0]) for name in variants}
    redrawn(net, fan_out)
    first, second = (of_signs(g) for g in sums_of_logits(net, doubles[0], 2, 5))
    assert values["eznas_a"] == pytest.approx((first + second) / 2, rel=1e-9)
    assert values["eznas_a.l2"] == pytest.approx(math.sqrt(first**2 + second**2), rel=1e-9)
    assert values["eznas_a.sum"] == pytest.approx(first + second, rel=1e-9)
    assert values["eznas_a.per_channel"] == pytest.approx((first / 5**0.5 + second / 7**0.5) / 2, rel=1e-9)
    assert values["eznas_a.operations"] == values["eznas_a"]  # no cell, so nothing is left out
    convolutions = [of_signs(g) for g in sums_of_logits(net, doubles[0], 0, 3, 6)]
    assert values["eznas_a.conv_bn_relu"] == pytest.approx(np.mean(convolutions), rel=1e-9)


def test_eznas_a_as_printed_reads_kernels(doubles: Batch) -> None:
    noise = drawn(doubles[0], 4)
    value = score("eznas_a.as_printed", body(), doubles[0], inputs={"noise": noise})
    net = redrawn(body(), fan_out)
    (gradient,) = torch.autograd.grad(net(noise).sum(), [net[3].weight])
    assert gradient.shape == (7, 5, 3, 3)
    assert value == pytest.approx(of_signs(gradient), rel=1e-12)


def conv_norm_relu() -> nn.Sequential:
    """Return a network whose triple is Conv-BatchNorm-ReLU, because no ReLU comes first."""
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 5, 3, padding=1), nn.BatchNorm2d(5), nn.ReLU())
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(5, 10)).double()


def test_eznas_a_as_printed_reads_kernels_of_conv_norm_relu_too(doubles: Batch) -> None:
    noise = drawn(doubles[0], 4)
    value = score("eznas_a.as_printed", conv_norm_relu(), doubles[0], inputs={"noise": noise})
    net = redrawn(conv_norm_relu(), fan_out)
    (gradient,) = torch.autograd.grad(net(noise).sum(), [net[0].weight])
    assert value == pytest.approx(of_signs(gradient), rel=1e-12)


def of_difference(difference: Tensor) -> float:
    d = difference.numpy()
    return float(1 / (np.linalg.norm(d) + np.exp(np.linalg.norm(log_expit(log_expit(d))))))


@pytest.mark.parametrize(("net", "place"), [(body, 3), (conv_norm_relu, 0)])
def test_eznas_b_as_printed_reads_the_gradient_at_the_convolution(
    net: Callable[[], nn.Sequential], place: int, doubles: Batch
) -> None:
    noise = drawn(doubles[0], 6)
    value = score("eznas_b.as_printed", net(), doubles[0], inputs={"noise2": noise})
    made = redrawn(net(), fan_out)
    before, after = (sums_of_logits(made, x, place)[0] for x in (doubles[0], doubles[0] + 0.1 * noise))
    assert value == pytest.approx(of_difference(after - before), rel=1e-6, abs=0)


def block(inputs: int, channels: int, stride: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, stride, 1), nn.BatchNorm2d(channels), nn.ReLU())


def stack(*between: nn.Module) -> nn.Sequential:
    torch.manual_seed(0)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 10))
    return nn.Sequential(nn.Conv2d(3, 4, 1), block(4, 6, 2), *between, block(6, 6, 1), *head).double()


def test_az_expressivity_and_progressivity_in_numpy(doubles: Batch) -> None:
    noise = drawn(doubles[0], 7)
    given = {"noise": noise}
    net, maps = redrawn(stack(), fan_in), [noise]
    with torch.no_grad():
        for module in net[:4]:
            maps.append(module(maps[-1]))
    found = []
    for features in maps:
        flat = features.numpy().transpose(1, 0, 2, 3).reshape(features.shape[1], -1)
        share = np.linalg.eigvalsh(np.cov(flat, bias=True))
        share /= share.sum()
        found.append(-sum(q * math.log(q + 1e-8) for q in share))
    assert score("az_expressivity", stack(), doubles[0], inputs=given) == pytest.approx(sum(found), rel=1e-9)
    assert sum(found) <= sum(math.log(features.shape[1]) for features in maps)
    gain = min(b - a for a, b in itertools.pairwise(found))
    assert score("az_progressivity", stack(), doubles[0], inputs=given) == pytest.approx(gain, rel=1e-8)


def test_az_trainability_in_numpy(doubles: Batch) -> None:
    noise = drawn(doubles[0], 7)
    net, a, signs, expected = redrawn(stack(), fan_in), noise, {}, []
    for place, module in enumerate(net[:4], start=1):
        after = module(a).detach()
        signs[f"signs[{place}]"] = drawn(after, place).sign()
        back = vjp(module, a, signs[f"signs[{place}]"])[1].numpy()
        shrink = back.shape[-1] // after.shape[-1]
        size = len(back), back.shape[1], after.shape[-1], shrink, after.shape[-1], shrink
        incoming = back.reshape(size).transpose(0, 2, 4, 1, 3, 5).reshape(-1, back.shape[1] * shrink**2)
        outgoing = signs[f"signs[{place}]"].numpy().transpose(0, 2, 3, 1).reshape(-1, after.shape[1])
        largest = np.linalg.svd(incoming.T @ outgoing / len(outgoing), compute_uv=False)[0]
        expected.append(2 - largest - 1 / (largest + 1e-6))
        a = after
    value = score("az_trainability", stack(), doubles[0], inputs={"noise": noise, **signs})
    assert value == pytest.approx(np.mean(expected), rel=1e-9)


@pytest.mark.parametrize("seed", range(5))
def test_az_trainability_is_at_most_zero(seed: int, doubles: Batch) -> None:
    # 2 - s - 1 / (s + e) is largest at s = 1 - e, where it is e.
    assert score("az_trainability", stack(), doubles[0], seed=seed) <= 1e-6
    # A block that inverts every sign is as good as possible, except for chance correlations of its channels.
    turned = stack(Turn(), Turn(), Turn())
    assert score("az_trainability", stack(), doubles[0], seed=seed) < score(
        "az_trainability", turned, doubles[0], seed=seed
    )


class Turn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -x


def test_az_trainability_of_a_skip_is_minus_infinity(doubles: Batch) -> None:
    assert score("az_trainability", stack(nn.Identity()), doubles[0]) == -math.inf
