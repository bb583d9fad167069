"""Seven proxies in plain torch: networks are run by their equations, which say what is a layer, a ReLU and a norm.

Nothing here comes from the package. A network has a method `plain(x, run)`, which computes the same function as its
`forward` with the methods of `Run`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Protocol

import torch
from torch import Tensor, nn

F = nn.functional
Unary = Callable[[Tensor], Tensor]
EPSILON = 1e-5


class Equations(Protocol):
    def plain(self, x: Tensor, run: Run) -> Tensor: ...


class Run:
    """One run of a network by its equations; in the flow of SynFlow all tensors are absolute and norms are left out."""

    def __init__(self, flow: bool = False) -> None:
        self.flow = flow
        self.leaves: dict[object, Tensor] = {}
        self.outputs: list[tuple[Tensor, int, int]] = []  # output, dimension of channels, weights of one channel
        self.relus: list[Tensor] = []
        self.products = 0
        self.refused: dict[str, list[str]] = {"products": [], "norms": [], "relus": [], "batches": []}

    def tensor(self, given: Tensor) -> Tensor:
        """Return a parameter or a buffer that is no weight of a layer."""
        copy = given.detach().clone()
        return copy.abs() if self.flow else copy

    def weight(self, given: Tensor, key: object = None) -> Tensor:
        """Return the weight of a layer as a leaf of the graph; a weight that is used twice is one leaf."""
        key = id(given) if key is None else key
        if key not in self.leaves:
            self.leaves[key] = self.tensor(given).requires_grad_()
        return self.leaves[key]

    def conv(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
        bias = None if bias is None else self.tensor(bias)
        y = F.conv2d(x, weight, bias, **options)
        return self._layer(y, 1, weight[0].numel(), weight[0].numel() * y[0].numel(), weight, bias)

    def transposed(self, x: Tensor, weight: Tensor, bias: Tensor | None = None, **options: Any) -> Tensor:
        bias = None if bias is None else self.tensor(bias)
        y = F.conv_transpose2d(x, weight, bias, **options)
        inputs = x.shape[1] // options.get("groups", 1)
        return self._layer(y, 1, inputs * weight[0, 0].numel(), x[0].numel() * weight[0].numel(), weight, bias)

    def linear(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        """Apply a weight `(outputs, inputs)`."""
        bias = None if bias is None else self.tensor(bias)
        y = x @ weight.t() if bias is None else x @ weight.t() + bias
        return self._layer(y, -1, x.shape[-1], y[0].numel() * x.shape[-1], weight, bias)

    def product(self, a: Tensor, b: Tensor) -> Tensor:
        """Multiply two activations."""
        y = a @ b
        self.products += y[0].numel() * a.shape[-1]
        return y

    def relu(self, function: Unary, x: Tensor) -> Tensor:
        self.relus.append(y := function(x))
        return y

    def norm(self, function: Unary, x: Tensor) -> Tensor:
        return x if self.flow else function(x)

    def refuse(self, group: str, reason: str) -> None:
        """Note that proxies which read a group of operations have to refuse the network."""
        self.refused[group].append(reason)

    def _layer(self, y: Tensor, dim: int, fan_in: int, products: int, weight: Tensor, bias: Tensor | None) -> Tensor:
        self.products += products + (0 if bias is None else y[0].numel())
        if any(weight is leaf or weight._base is leaf for leaf in self.leaves.values()):
            self.outputs.append((y, dim, fan_in))
        return y


#: What each proxy needs to see of the network.
READS = {
    "grad_norm": ("products",),
    "snip": ("products",),
    "fisher": ("products", "batches"),
    "jacob_cov": (),
    "synflow": ("products", "norms"),
    "naswot": ("relus",),
    "macs": ("products",),
}


def plain_scores(net: Equations, x: Tensor, y: Tensor) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the scores by proxy, and by proxy the reasons of which it has to name one instead."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        run, flow = Run(), Run(flow=True)
        x = x.clone().requires_grad_()
        logits = net.plain(x, run)
        torch.manual_seed(0)
        total = net.plain(torch.ones_like(x[:1]), flow).sum()
    scores = {"macs": float(run.products), "jacob_cov": _jacob_cov(logits, x), "naswot": _naswot(run.relus)}
    loss = F.cross_entropy(logits, y)
    gradients = _gradients(loss, list(run.leaves.values()))
    weights = [leaf.detach() for leaf in run.leaves.values()]
    scores["grad_norm"] = sum(math.sqrt(float((g * g).sum())) for g in gradients)
    scores["snip"] = sum(float((w * g).abs().sum()) for w, g in zip(weights, gradients, strict=True))
    scores["fisher"] = _fisher(loss, run)
    flows = zip(flow.leaves.values(), _gradients(total, list(flow.leaves.values())), strict=True)
    scores["synflow"] = sum(float((w.detach() * g).abs().sum()) for w, g in flows)
    if not run.relus:
        run.refuse("relus", "the network lacks a ReLU")
    refused = {proxy: [reason for group in groups for reason in run.refused[group]] for proxy, groups in READS.items()}
    return scores, refused


def _gradients(of: Tensor, leaves: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(of, leaves, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(leaf) if g is None else g for leaf, g in zip(leaves, found, strict=True)]


def _fisher(loss: Tensor, run: Run) -> float:
    gradients = _gradients(loss, [y for y, _, _ in run.outputs])
    total = 0.0
    for (y, dim, fan_in), gradient in zip(run.outputs, gradients, strict=True):
        saliency = (y.detach() * gradient).movedim(dim, 1).reshape(len(y), y.shape[dim], -1)
        total += fan_in * float((saliency.sum(2) ** 2 / 2).mean(0).sum())
    return total


def _jacob_cov(logits: Tensor, x: Tensor) -> float:
    (gradient,) = _gradients(logits.sum(), [x])
    correlation = torch.corrcoef(gradient.flatten(1))
    if not correlation.isfinite().all():
        return math.nan
    return -sum(math.log(v + EPSILON) + 1 / (v + EPSILON) for v in torch.linalg.eigvalsh(correlation).tolist())


def _naswot(relus: list[Tensor]) -> float:
    """Return the logarithm of the determinant of the matrix of agreements, in exact arithmetic."""
    if not relus:
        return math.nan
    on = torch.cat([y.flatten(1) > 0 for y in relus], 1).tolist()
    rows = [[Fraction(sum(a == b for a, b in zip(first, second, strict=True))) for second in on] for first in on]
    determinant = Fraction(1)
    for k in range(len(rows)):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return -math.inf
        rows[k], rows[pivot] = rows[pivot], rows[k]
        determinant *= rows[k][k]
        for row in rows[k + 1 :]:
            factor = row[k] / rows[k][k]
            row[:] = [a - factor * b for a, b in zip(row, rows[k], strict=True)]
    return math.log(abs(determinant))


def spectrally_normed(weight: Tensor, u: Tensor, v: Tensor, u_first: bool, runs: int = 1) -> Tensor:
    """Return a weight over its largest singular value as some steps of the power iteration estimate it."""
    matrix = weight.detach().flatten(1)
    for _ in range(runs):
        if u_first:
            u = matrix @ v / (matrix @ v).norm()
            v = matrix.t() @ u / (matrix.t() @ u).norm()
        else:
            v = matrix.t() @ u / (matrix.t() @ u).norm()
            u = matrix @ v / (matrix @ v).norm()
    return weight.detach() / (u @ matrix @ v)


def weight_normed(v: Tensor, g: Tensor) -> Tensor:
    return (g * v / v.flatten(1).norm(dim=1).view(-1, *(1,) * (v.ndim - 1))).detach()


def bias_of(module: nn.Module) -> Tensor | None:
    bias: Tensor | None = module.bias  # type: ignore[assignment]
    return bias
