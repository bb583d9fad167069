"""The Hessian-gradient product by tangents, against the double backward of plain torch in float64."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812
from zcbench.proxies.grasp import CURVATURE
from zcbench.proxies.passes import hessian, tangents
from zcbench.proxies.probe import Probe

Operation = Callable[[Tensor], Tensor]


def square(x: Tensor) -> Tensor:
    """Return `(24, 6, 6)` matrices of the activations `(6, 4, 6, 6)`."""
    return x.flatten(0, 1)


def kernel(*shape: int) -> Tensor:
    return torch.linspace(-0.5, 0.6, torch.Size(shape).numel(), dtype=torch.float64).view(shape)


def seeded_dropout(x: Tensor) -> Tensor:
    return F.dropout(x, 0.5)


def in_place(x: Tensor) -> Tensor:
    scale, x = x.roll(1, 1), x.clone()
    x *= scale
    x += scale
    return F.relu(x, inplace=True)


#: An operation on activations `(6, 4, 6, 6)` by the names of the functions that it calls.
CASES: dict[str, Operation] = {
    "conv1d": lambda x: F.conv1d(x.flatten(2), kernel(2, 4, 3)),
    "conv2d": lambda x: F.conv2d(x, kernel(4, 1, 3, 3), groups=4, padding=1),
    "conv3d": lambda x: F.conv3d(x[:, None], kernel(2, 1, 2, 2, 2)),
    "conv_transpose1d": lambda x: F.conv_transpose1d(x.flatten(2), kernel(4, 2, 3)),
    "conv_transpose2d": lambda x: F.conv_transpose2d(x, kernel(4, 2, 3, 3)),
    "conv_transpose3d": lambda x: F.conv_transpose3d(x[:, None], kernel(1, 2, 2, 2, 2)),
    "linear": lambda x: F.linear(x, kernel(5, 6)),
    "matmul": lambda x: torch.matmul(x, x.transpose(-1, -2)),
    "__matmul__": lambda x: x @ x.mT,
    "mm": lambda x: torch.mm(x.flatten(1), kernel(144, 3)),
    "bmm": lambda x: torch.bmm(square(x), square(x)),
    "addmm": lambda x: torch.addmm(x.flatten(1)[:, :3], x.flatten(1), kernel(144, 3)),
    "baddbmm": lambda x: torch.baddbmm(square(x), square(x), square(x)),
    "einsum": lambda x: torch.einsum("nchw,ndhw->ncd", x, x),
    "batch_norm": lambda x: F.batch_norm(x, None, None, kernel(4), kernel(4), True),
    "group_norm": lambda x: F.group_norm(x, 2, kernel(4), kernel(4)),
    **{
        name: getattr(F, name)
        for name in (
            *("relu", "relu6", "hardtanh", "leaky_relu", "elu", "selu", "celu", "gelu", "silu", "mish", "hardswish"),
            *("softplus", "logsigmoid", "softsign", "tanhshrink", "hardshrink", "softshrink"),
        )
    },
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "clamp": lambda x: x.clamp(0, 0.7),
    "clamp_min": lambda x: torch.clamp_min(x, 0.1),
    "threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "_threshold": lambda x: F.threshold(x, 0.1, 0.0),
    "prelu": lambda x: F.prelu(x, kernel(4)),
    "avg_pool1d": lambda x: F.avg_pool1d(x.flatten(2), 2),
    "avg_pool2d": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "avg_pool3d": lambda x: F.avg_pool3d(x, 2),
    "max_pool1d": lambda x: F.max_pool1d(x.flatten(2), 2),
    "max_pool2d": lambda x: F.max_pool2d(x, 3, 1, 1),
    "max_pool3d": lambda x: F.max_pool3d(x, 2),
    "adaptive_avg_pool1d": lambda x: F.adaptive_avg_pool1d(x.flatten(2), 5),
    "adaptive_avg_pool2d": lambda x: F.adaptive_avg_pool2d(x, 4),
    "adaptive_max_pool2d": lambda x: F.adaptive_max_pool2d(x, 4),
    "mean": lambda x: x.mean((2, 3)),
    "sum": lambda x: x.sum(1),
    "amax": lambda x: x.amax((2, 3)),
    "add": lambda x: torch.add(x, x.roll(1, 1)),
    "__add__": lambda x: x + x.roll(1, 1),
    "__radd__": lambda x: 1 + x,
    "__iadd__": in_place,
    "__imul__": in_place,
    "sub": lambda x: torch.sub(x.roll(1, 1), x),
    "__sub__": lambda x: x.roll(1, 1) - x,
    "__rsub__": lambda x: 1 - x,
    "mul": lambda x: torch.mul(x, x.roll(1, 1)),
    "__mul__": lambda x: x * x.roll(1, 1),
    "__rmul__": lambda x: 3 * x,
    "div": lambda x: torch.div(x, x.abs() + 1),
    "__truediv__": lambda x: x / (x.abs() + 1),
    "neg": torch.neg,
    "__neg__": lambda x: -x,
    "exp": torch.exp,
    "sqrt": lambda x: torch.sqrt(x.abs() + 1),
    "rsqrt": lambda x: torch.rsqrt(x.abs() + 1),
    "abs": torch.abs,
    "cat": lambda x: torch.cat([x, x.abs()], 1),
    "concat": lambda x: torch.concat([x, x.abs()], 1),
    "stack": lambda x: torch.stack([x, x.abs()], 1),
    "pad": lambda x: F.pad(x, (1, 0, 2, 1)),
    "chunk": lambda x: x.chunk(2, 1)[1],
    "split": lambda x: x.split(1, 1)[2],
    "__getitem__": lambda x: x[:, ::2, 1:],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "unbind": lambda x: x.unbind(1)[3],
    "view": lambda x: x.contiguous().view(6, -1),
    "reshape": lambda x: x.reshape(6, 2, -1),
    "flatten": lambda x: x.flatten(1),
    "unflatten": lambda x: x.unflatten(1, (2, 2)),
    "permute": lambda x: x.permute(0, 2, 3, 1),
    "transpose": lambda x: x.transpose(1, 2),
    "movedim": lambda x: x.movedim(1, 3),
    "squeeze": lambda x: x[:, :1].squeeze(1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "expand": lambda x: x[:, :1].expand(-1, 3, -1, -1),
    "expand_as": lambda x: x[:, :1].expand_as(x),
    "contiguous": lambda x: x.contiguous(memory_format=torch.channels_last),
    "clone": torch.clone,
    "roll": lambda x: torch.roll(x, 1, 2),
    "flip": lambda x: x.flip(1),
    "interpolate": lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "index_select": lambda x: x.index_select(1, torch.tensor([2, 0])),
    "dropout": seeded_dropout,
    "skip": nn.Identity(),
    "alias": torch.ops.aten.alias,
    "T": lambda x: x[0, 0].T.reshape(1, -1).expand(6, -1),
    "mT": lambda x: x.mT,
}


def without_gradient(x: Tensor) -> Tensor:
    with torch.no_grad():
        mean = x.mean((2, 3), keepdim=True)
    return x - mean


def written(x: Tensor) -> Tensor:
    x = x.clone()
    x[:, 0] = x[:, 1]
    return x


#: Operations of which there are no tangents, or none that can be differentiated.
OTHERS: dict[str, Operation] = {
    "layer_norm": lambda x: F.layer_norm(x, x.shape[1:]),
    "instance_norm": F.instance_norm,
    "softmax": lambda x: x.softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "glu": lambda x: F.glu(x, 1),
    "detach": lambda x: x * x.detach(),
    "data": lambda x: x * x.data,
    "no_grad": without_gradient,
    "__setitem__": written,
    "sort": lambda x: x.sort(1)[0],
    "eval batch norm": lambda x: F.batch_norm(x, kernel(4), kernel(4).abs()),
    "bilinear attention": lambda x: F.scaled_dot_product_attention(x, x, x),
}


class Net(nn.Module):
    def __init__(self, operation: Operation) -> None:
        super().__init__()
        self.first, self.norm, self.second = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 4, 1, bias=False)
        self.operation = operation
        nn.init.uniform_(self.norm.weight)
        nn.init.normal_(self.norm.bias)

    def forward(self, x: Tensor) -> Tensor:
        found = self.operation(self.second(torch.tanh(self.norm(self.first(x)))))
        flat = torch.tanh(found.reshape(len(x), -1))
        return flat @ torch.linspace(-1, 1, flat.shape[1] * 5, dtype=x.dtype).view(-1, 5)


def made(operation: Operation) -> tuple[Net, Tensor, Tensor]:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = Net(operation).double()
        return net, torch.randn(6, 3, 8, 8, dtype=torch.float64), torch.arange(6) % 5


def products(net: nn.Module, x: Tensor, y: Tensor, seed: int = 0) -> list[Tensor]:
    """Return H g of the convolutions by two backward passes of plain torch."""
    weights = [m.weight for m in net.modules() if isinstance(m, nn.Conv2d)]
    with torch.random.fork_rng(), torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        torch.manual_seed(seed)
        loss = F.cross_entropy(net(x), y)
    gradients = torch.autograd.grad(loss, weights, create_graph=True)
    return list(torch.autograd.grad(sum((g.detach() * g).sum() for g in gradients), weights))  # type: ignore[arg-type]


def differences(probe: Probe, expected: list[Tensor]) -> list[float]:
    found = [product for _, product in probe.read(CURVATURE)]
    assert len(found) == len(expected)
    return [float((a - b).norm() / b.norm()) for a, b in zip(found, expected, strict=True)]


@pytest.mark.parametrize("name", CASES)
def test_products_by_tangents(name: str) -> None:
    net, x, y = made(CASES[name])
    expected = products(net, x, y)
    probe = Probe(net, x, y, plan=[CURVATURE])
    assert max(differences(probe, expected)) < 1e-9
    # The gradient takes a forward and a backward pass, and so does the product.
    assert (probe.forwards, probe.backwards) == (2, 2)


def test_every_operation_with_tangents_has_a_case() -> None:
    assert set(CASES) == tangents.DIFFERENTIABLE


@pytest.mark.parametrize("name", OTHERS)
def test_other_operations_take_two_backward_passes(name: str) -> None:
    net, x, y = made(OTHERS[name])
    expected = products(net, x, y)
    probe = Probe(net, x, y, plan=[CURVATURE])
    assert max(differences(probe, expected)) < 1e-9


@pytest.mark.parametrize("name", ["layer_norm", "instance_norm"])
def test_torch_has_wrong_tangents_of_these(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They can be listed when this fails."""
    monkeypatch.setattr(tangents, "DIFFERENTIABLE", tangents.DIFFERENTIABLE | {name})
    net, x, y = made(OTHERS[name])
    assert max(differences(Probe(net, x, y, plan=[CURVATURE]), products(net, x, y))) > 0.01


@pytest.mark.parametrize("affine", [True, False])
def test_batch_norm_of_pairs(affine: bool) -> None:
    def plain(x: Tensor, tangent: Tensor, weight: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = (
            of(x, (0, 2, 3), keepdim=True) for of in (torch.mean, lambda *a, **k: torch.var(*a, correction=0, **k))
        )
        inverse = (variance + 1e-5).rsqrt()
        normed = (x - mean) * inverse
        projected = tangent - tangent.mean((0, 2, 3), keepdim=True)
        projected = projected - normed * (normed * tangent).mean((0, 2, 3), keepdim=True)
        weight = weight.view(1, -1, 1, 1)
        return weight * normed + bias.view(1, -1, 1, 1), weight * inverse * projected

    draw = torch.Generator().manual_seed(2)
    x, tangent = (torch.randn(6, 5, 4, 3, generator=draw, dtype=torch.float64) for _ in range(2))
    weight, bias = torch.randn(2, 5, generator=draw, dtype=torch.float64)
    weight[1] = 0  # as in blocks that begin as the identity
    if not affine:
        weight, bias = torch.ones_like(weight), torch.zeros_like(bias)
    leaves = [t.requires_grad_() for t in (x, tangent, weight, bias)]
    own = (weight, bias) if affine else (None, None)
    found, expected = tangents.BatchNorm.apply(x, tangent, *own, None, None, 0.1, 1e-5), plain(*leaves)
    assert all(float((a - b).detach().abs().max()) < 1e-13 for a, b in zip(found, expected, strict=True))
    cotangents = [torch.randn(x.shape, generator=draw, dtype=torch.float64) for _ in range(2)]
    used = leaves if affine else leaves[:2]
    for a, b in zip(*(torch.autograd.grad(of, used, cotangents) for of in (found, expected)), strict=True):
        assert float((a - b).abs().max()) < 1e-12


def test_the_running_statistics_are_those_of_one_pass_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network may read them; the network that was given keeps its own."""
    seen: list[Tensor] = []
    net, x, y = made(lambda x: x)
    net.register_forward_hook(lambda *_: seen.append(net.norm.running_mean.clone()))  # type: ignore[union-attr, operator]
    Probe(net, x, y, plan=[CURVATURE]).read(CURVATURE)
    assert torch.equal(seen[-1], seen[-2])
    assert not net.norm.running_mean.any()  # type: ignore[union-attr, operator]


def test_the_graph_of_the_gradient_is_freed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise memory would hold both."""
    net, x, y = made(lambda x: x)
    probe = Probe(net, x, y, plan=[CURVATURE])
    run = hessian.HessianProduct._forward_over

    def watched(self, probe, trace, along):  # type: ignore[no-untyped-def]
        assert trace.graph_freed
        return run(self, probe, trace, along)

    monkeypatch.setattr(hessian.HessianProduct, "_forward_over", watched)
    probe.read(CURVATURE)


def test_images_without_a_path_to_the_logits() -> None:
    net, x, y = made(lambda x: 0 * x.detach())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pairs = Probe(net, x, y, plan=[CURVATURE]).read(CURVATURE)
    assert all(not product.any() for _, product in pairs)
