"""Random networks of small steps, each written twice: as people write networks, and for a tape in plain torch."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune, weight_norm

C, SIDE, CLASSES = 4, 6, 3


@dataclass
class Tape:
    """What a network does, written down by the network itself; it knows nothing of zcbench.

    Attributes:
        linear: Whether weights are absolute values and norms the identity, as in synflow.
        weights: Leaves by name.
        layers: Output, weights per output channel and number of the dimension of channels of every layer.
        relus: Inputs of the ReLUs.
        products: Multiply-accumulates of one image, biases included.
    """

    linear: bool = False
    weights: dict[str, Tensor] = field(default_factory=dict)
    layers: list[tuple[Tensor, int, int]] = field(default_factory=list)
    relus: list[Tensor] = field(default_factory=list)
    products: int = 0

    def other(self, tensor: Tensor | None) -> Tensor | None:
        """Return a tensor that is no weight of a layer."""
        return tensor if tensor is None or not self.linear else tensor.abs()

    def weight(self, name: str, tensor: Tensor) -> Tensor:
        """Return the leaf of a weight."""
        if name not in self.weights:
            leaf = tensor.detach().abs() if self.linear else tensor.detach().clone()
            self.weights[name] = leaf.requires_grad_()
        return self.weights[name]

    def conv(self, name: str, x: Tensor, w: Tensor, b: Tensor | None = None, **options: Any) -> Tensor:
        """Convolve."""
        y = functional.conv2d(x, self.weight(name, w), self.other(b), **options)
        return self.layer(y, w[0].numel(), 1, w[0].numel(), b)

    def matrix(self, name: str, x: Tensor, w: Tensor, b: Tensor | None = None) -> Tensor:
        """Multiply the last dimension."""
        y = functional.linear(x, self.weight(name, w), self.other(b))
        return self.layer(y, w[0].numel(), -1, w[0].numel(), b)

    def layer(self, y: Tensor, fan: int, dim: int, each: int, b: Tensor | None) -> Tensor:
        """Write a layer down."""
        self.layers.append((y, fan, dim))
        self.products += y[0].numel() * (each + (b is not None))
        return y

    def relu(self, x: Tensor) -> Tensor:
        """Rectify."""
        self.relus.append(x)
        return torch.where(x > 0, x, torch.zeros_like(x))

    def norm(self, x: Tensor, norm: Callable[[Tensor], Tensor]) -> Tensor:
        """Normalise."""
        return x if self.linear else norm(x)


class Step(nn.Module):
    """A step from a map `(N, C, SIDE, SIDE)` to another one."""

    def forward(self, x: Tensor) -> Tensor:
        """Run the step as people write it."""
        raise NotImplementedError

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        """Run the step for a tape."""
        raise NotImplementedError


class Convolution(Step):
    def __init__(self, wrap: Callable[[nn.Module], nn.Module] = lambda m: m, **options: Any) -> None:
        super().__init__()
        self.options = {"kernel_size": 3, "padding": 1} | options
        self.inner = wrap(nn.Conv2d(C, C, **self.options))

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        given = {k: self.options[k] for k in ("padding", "dilation", "groups") if k in self.options}
        if self.options.get("padding_mode") == "circular":
            x, given["padding"] = functional.pad(x, (1, 1, 1, 1), mode="circular"), 0
        weight = self.inner.weight
        if hasattr(self.inner, "weight_g"):  # the attribute is that of the last run
            direction = self.inner.weight_v
            weight = self.inner.weight_g * direction / direction.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        if hasattr(self.inner, "weight_orig"):
            weight = self.inner.weight_orig * self.inner.weight_mask
        return tape.conv(name, x, weight, self.inner.bias, **given)


class FunctionalConvolution(Step):
    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(C, C, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(input=x, weight=self.filter)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.conv(name, x, self.filter)


class ComputedWeight(Step):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Parameter(torch.randn(C, C, 3, 3)), nn.Parameter(torch.randn(C, 1, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.a * self.b.tanh(), padding=1)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.conv(name, x, self.a * self.b.tanh(), padding=1)


class Transposed(Step):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ConvTranspose2d(C, C, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        w = self.inner.weight
        y = functional.conv_transpose2d(x, tape.weight(name, w), padding=1)
        tape.layers.append((y, w.numel() // C, 1))
        tape.products += x[0].numel() * w[0].numel()
        return y


class Shared(Step):
    """One convolution that is called twice, under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(C, C, 1)
        self.again = self.inner

    def forward(self, x: Tensor) -> Tensor:
        return self.again(self.inner(x))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        for _ in range(2):
            x = tape.conv(name, x, self.inner.weight, self.inner.bias)
        return x


class Tied(Step):
    """Two convolutions with one parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(C, C, 1, bias=False), nn.Conv2d(C, C, 1, bias=False)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        for _ in range(2):
            x = tape.conv(name, x, self.first.weight)
        return x


class FixedFilter(Step):
    """A filter that is a buffer, and no weight."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("filter", torch.ones(C, 1, 3, 3) / 9)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.filter, padding=1, groups=C)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        y = functional.conv2d(x, self.filter, padding=1, groups=C)
        tape.products += y[0].numel() * 9
        return y


class Norm(Step):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.norm(x, self.inner)


class FunctionalNorm(Step):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.rand(C) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, self.scale, training=True)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.norm(x, self.forward)


class Rectifier(Step):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.relu(x)


class TwiceReLU(Step):
    """One module of a ReLU that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return self.relu(self.relu(x) - 0.1)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.relu(tape.relu(x) - 0.1)


class Plain(Step):
    """A step that is neither layer, norm nor ReLU."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return self.function(x)


class Residual(Step):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.branch = nn.Conv2d(C, C, 3, padding=1, bias=False)
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        y = self.branch(functional.relu(x))
        if self.in_place:
            y += x
            return y
        return x + y

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return x + tape.conv(name, tape.relu(x), self.branch.weight, padding=1)


class Concatenation(Step):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(2 * C, C, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(torch.cat([x, -x], 1))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return tape.conv(name, torch.cat([x, -x], 1), self.inner.weight, self.inner.bias)


class SqueezeExcite(Step):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Linear(C, 2), nn.Conv2d(2, C, 1)

    def forward(self, x: Tensor) -> Tensor:
        pooled = functional.relu(self.down(x.mean((2, 3))))
        return x * torch.sigmoid(self.up(pooled[:, :, None, None]))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        pooled = tape.relu(tape.matrix(f"{name}.down", x.mean((2, 3)), self.down.weight, self.down.bias))
        scale = tape.conv(f"{name}.up", pooled[:, :, None, None], self.up.weight, self.up.bias)
        return x * torch.sigmoid(scale)


class Attention(Step):
    """Multi-head attention over positions."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.inner = nn.MultiheadAttention(C, 2, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).mT if self.inner.batch_first else x.flatten(2).permute(2, 0, 1)
        found = self.inner(tokens, tokens, tokens, need_weights=not self.inner.batch_first)[0]
        return (found.mT if self.inner.batch_first else found.permute(1, 2, 0)).unflatten(2, (SIDE, SIDE))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        inner, tokens = self.inner, x.flatten(2).mT
        whole, bias = tape.weight(name, inner.in_proj_weight), tape.other(inner.in_proj_bias)
        assert bias is not None
        q, k, v = (
            tape.layer(functional.linear(tokens, w, b), C, -1, C, b)
            for w, b in zip(whole.chunk(3), bias.chunk(3), strict=True)
        )
        q, k, v = (t.unflatten(2, (2, C // 2)).transpose(1, 2) for t in (q, k, v))
        shares = (q @ k.mT / (C // 2) ** 0.5).softmax(-1)
        tape.products += 2 * SIDE**4 * C
        heard = (shares @ v).transpose(1, 2).flatten(2)
        found = tape.matrix(f"{name}.out", heard, inner.out_proj.weight, inner.out_proj.bias)
        return found.mT.unflatten(2, (SIDE, SIDE))


class OwnAttention(Step):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(C, 3 * C, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x.flatten(2).mT).chunk(3, -1)
        return functional.scaled_dot_product_attention(q, k, v).mT.unflatten(2, (SIDE, SIDE))

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        q, k, v = tape.matrix(name, x.flatten(2).mT, self.qkv.weight).chunk(3, -1)
        tape.products += 2 * SIDE**4 * C
        return ((q @ k.mT / C**0.5).softmax(-1) @ v).mT.unflatten(2, (SIDE, SIDE))


class Matrix(Step):
    """A product with a matrix of parameters, on channels last."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.randn(C, C))

    def forward(self, x: Tensor) -> Tensor:
        return (x.permute(0, 2, 3, 1) @ self.matrix).permute(0, 3, 1, 2)

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        y = x.permute(0, 2, 3, 1) @ tape.weight(name, self.matrix)
        return tape.layer(y, C, -1, C, None).permute(0, 3, 1, 2)


class Unused(Step):
    def __init__(self) -> None:
        super().__init__()
        self.head, self.calls = nn.Sequential(nn.ReLU(), nn.Conv2d(C, C, 3)), 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x

    def plain(self, x: Tensor, tape: Tape, name: str) -> Tensor:
        return x


def old_weight_norm(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return weight_norm(module)


def shuffle(x: Tensor) -> Tensor:
    n, c, h, w = x.shape
    return x.contiguous().view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


def ignored(x: Tensor) -> Tensor:
    x = 1 * x
    torch.relu_(x)
    return x


KINDS: dict[str, Callable[[], Step]] = {
    "convolution": Convolution,
    "convolution without bias": lambda: Convolution(bias=False),
    "groups": lambda: Convolution(groups=2),
    "depthwise": lambda: Convolution(groups=C),
    "dilation": lambda: Convolution(dilation=2, padding=2),
    "circular padding": lambda: Convolution(padding_mode="circular"),
    "functional convolution": FunctionalConvolution,
    "computed weight": ComputedWeight,
    "weight norm": lambda: Convolution(parametrizations.weight_norm),
    "weight norm by hooks": lambda: Convolution(old_weight_norm),
    "pruned": lambda: Convolution(lambda module: prune.identity(module, "weight")),
    "transposed": Transposed,
    "shared": Shared,
    "tied": Tied,
    "fixed filter": FixedFilter,
    "batch norm": lambda: Norm(nn.BatchNorm2d(C)),
    "functional batch norm": FunctionalNorm,
    "group norm": lambda: Norm(nn.GroupNorm(2, C)),
    "instance norm": lambda: Norm(nn.InstanceNorm2d(C, affine=True)),
    "layer norm": lambda: Norm(nn.LayerNorm([C, SIDE, SIDE])),
    "RMS norm": lambda: Norm(nn.RMSNorm([C, SIDE, SIDE])),
    "ReLU": lambda: Rectifier(nn.ReLU()),
    "functional ReLU": lambda: Rectifier(functional.relu),
    "torch.relu": lambda: Rectifier(torch.relu),
    "x.relu()": lambda: Rectifier(lambda x: x.relu()),
    "threshold": lambda: Rectifier(lambda x: functional.threshold(x, 0.0, 0.0)),
    "ReLU in place": lambda: Rectifier(lambda x: functional.relu(1 * x, inplace=True)),
    "ReLU whose result is ignored": lambda: Rectifier(ignored),
    "one ReLU twice": TwiceReLU,
    "GELU": lambda: Plain(functional.gelu),
    "leaky ReLU": lambda: Plain(nn.LeakyReLU()),
    "average pooling": lambda: Plain(nn.AvgPool2d(3, 1, 1)),
    "max pooling": lambda: Plain(nn.MaxPool2d(3, 1, 1)),
    "channel shuffle": lambda: Plain(shuffle),
    "residual": lambda: Residual(in_place=False),
    "residual in place": lambda: Residual(in_place=True),
    "concatenation": Concatenation,
    "squeeze and excite": SqueezeExcite,
    "attention": lambda: Attention(batch_first=True),
    "attention, positions first": lambda: Attention(batch_first=False),
    "own attention": OwnAttention,
    "matrix": Matrix,
    "unused": Unused,
}


class RandomNetwork(nn.Module):
    """A stem, random steps, a ReLU, a pooling and a linear map, in float64."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        draw = random.Random(seed)
        kinds = sorted(KINDS)
        # Every kind occurs in turn; the others are drawn.
        self.kinds = [kinds[seed % len(kinds)], *(draw.choice(kinds) for _ in range(draw.randint(2, 5)))]
        draw.shuffle(self.kinds)
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.stem = nn.Conv2d(3, C, 3, padding=1)
            self.steps = nn.ModuleList(KINDS[kind]() for kind in self.kinds)
            self.head = nn.Linear(C, CLASSES)
        self.double()

    def forward(self, x: Tensor) -> Tensor:
        """Run as people write networks."""
        x = self.stem(x)
        for step in self.steps:
            x = step(x)
        return self.head(functional.adaptive_avg_pool2d(functional.relu(x), 1).flatten(1))

    def plain(self, x: Tensor, tape: Tape) -> Tensor:
        """Run for a tape."""
        x = tape.conv("stem", x, self.stem.weight, self.stem.bias, padding=1)
        for place, step in enumerate(self.steps):
            assert isinstance(step, Step)
            x = step.plain(x, tape, f"step {place}")
        return tape.matrix("head", tape.relu(x).mean((2, 3)), self.head.weight, self.head.bias)
