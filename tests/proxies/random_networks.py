"""Random networks from many kinds of layers; each layer also says by its equations what it computes.

`forward` is written as people write networks: with modules, functions, methods, in place, by keyword. `plain` is the
same function by the methods of `Run`.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

from .plain_torch import Run, Unary, bias_of, spectrally_normed, weight_normed

F = nn.functional
CLASSES = 3
EPSILON = 1e-5
Random = random.Random


class Step(nn.Module):
    """A part of a network from feature maps `(N, c, h, h)` to feature maps `(N, self.c, self.h, self.h)`."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__()
        self.c, self.h = c, h

    def plain(self, x: Tensor, run: Run) -> Tensor:
        raise NotImplementedError


def plain_conv(module: nn.Conv2d, x: Tensor, run: Run, weight: Tensor | None = None) -> Tensor:
    weight = run.weight(module.weight) if weight is None else weight
    padding: Any = module.padding
    if module.padding_mode != "zeros":
        height, width = module.padding
        x, padding = F.pad(x, (width, width, height, height), mode=module.padding_mode), 0
    options = {"stride": module.stride, "dilation": module.dilation, "groups": module.groups, "padding": padding}
    return run.conv(x, weight, module.bias, **options)


def plain_linear(module: nn.Linear, x: Tensor, run: Run) -> Tensor:
    return run.linear(x, run.weight(module.weight), bias_of(module))


def weight(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(shape) / math.prod(shape[1:]) ** 0.5)


def tokens(x: Tensor) -> Tensor:
    """Return a feature map as a sequence `(N, H W, C)`."""
    return x.flatten(2).transpose(1, 2)


def image(t: Tensor) -> Tensor:
    """Return a sequence `(N, H W, C)` as a feature map."""
    side = math.isqrt(t.shape[1])
    return t.transpose(1, 2).reshape(len(t), -1, side, side)


# Layers with weights.


class Conv(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "same", "stride", "dilation", "padding", "functional", "torch"])
        self.c = rng.choice([4, 6, 8])
        self.bias = rng.random() < 0.5
        if self.form == "stride" and h > 4:
            self.conv, self.h = nn.Conv2d(c, self.c, 3, 2, 1, bias=self.bias), h // 2
        elif self.form == "dilation":
            self.conv = nn.Conv2d(c, self.c, 3, padding=2, dilation=2, bias=self.bias)
        elif self.form == "padding":
            mode: Any = rng.choice(["reflect", "replicate", "circular"])
            self.conv = nn.Conv2d(c, self.c, (3, 5), padding=(1, 2), padding_mode=mode, bias=self.bias)
        elif self.form == "same":
            self.conv = nn.Conv2d(c, self.c, 3, padding="same", bias=self.bias)
        else:
            self.conv = nn.Conv2d(c, self.c, (1, 3), padding=(0, 1), bias=self.bias)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "functional":
            return F.conv2d(x, self.conv.weight, self.conv.bias, 1, (0, 1))
        if self.form == "torch":
            return torch.conv2d(x, self.conv.weight, self.conv.bias, padding=(0, 1))
        y: Tensor = self.conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return plain_conv(self.conv, x, run)


class Grouped(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.functional = rng.random() < 0.5
        groups = rng.choice([2, c])
        self.conv = nn.Conv2d(c, c, 3, padding=1, groups=groups, bias=rng.random() < 0.5)

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv
        if self.functional:
            return F.conv2d(x, weight=conv.weight, bias=conv.bias, padding=1, groups=conv.groups)
        y: Tensor = conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return plain_conv(self.conv, x, run)


class Transposed(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.c, self.groups = rng.choice([4, 6]), rng.choice([1, 2])
        self.up, self.functional = h < 8, rng.random() < 0.5
        self.h = 2 * h if self.up else h
        size, self.stride, self.padding = (2, 2, 0) if self.up else (3, 1, 1)
        options: Any = {"stride": self.stride, "padding": self.padding, "groups": self.groups}
        self.conv = nn.ConvTranspose2d(c, self.c, size, bias=rng.random() < 0.5, **options)

    def forward(self, x: Tensor) -> Tensor:
        conv = self.conv
        if self.functional:
            return F.conv_transpose2d(x, conv.weight, conv.bias, self.stride, self.padding, groups=self.groups)
        y: Tensor = conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        conv = self.conv
        options = {"stride": self.stride, "padding": self.padding, "groups": self.groups}
        return run.transposed(x, run.weight(conv.weight), conv.bias, **options)


class Linear(Step):
    """A linear map of channels."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "functional", "last"])
        self.fc = nn.Linear(c, c, bias=rng.random() < 0.5)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "last":
            y: Tensor = self.fc(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
            return y
        t = tokens(x)
        return image(F.linear(t, self.fc.weight, self.fc.bias) if self.form == "functional" else self.fc(t))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return image(plain_linear(self.fc, tokens(x), run))


class Product(Step):
    """A product with a matrix of parameters."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["@", "matmul", "method", "transposed"])
        self.w = weight(c, c)

    def forward(self, x: Tensor) -> Tensor:
        t = tokens(x)
        if self.form == "transposed":
            return image(t @ self.w.T)
        if self.form == "method":
            return image(t.matmul(self.w))
        return image(t @ self.w if self.form == "@" else torch.matmul(t, self.w))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        w = run.weight(self.w)
        return image(run.linear(tokens(x), w if self.form == "transposed" else w.t()))


class Refused(Step):
    """Products with parameters that proxies of layers do not read."""

    REASONS: ClassVar = {
        "einsum": "no rule covers einsum with a parameter",
        "left": "no rule covers (__matmul__|matmul|__rmatmul__) with a parameter",
        "bilinear": "no rule covers bilinear",
        "lstm": "no rule covers lstm",
    }

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(list(self.REASONS))
        if self.form == "bilinear":
            self.layer: nn.Module = nn.Bilinear(c, c, c)
        elif self.form == "lstm":
            self.layer = nn.LSTM(c, c, batch_first=True)
        else:
            self.w = weight(h * h, h * h) if self.form == "left" else weight(c, c)

    def forward(self, x: Tensor) -> Tensor:
        t = tokens(x)
        if self.form == "einsum":
            return torch.einsum("nchw,cd->ndhw", x, self.w)
        if self.form == "left":
            return image(self.w @ t)
        if self.form == "bilinear":
            return image(self.layer(t, t))
        # The gradient that an LSTM returns has strides for which torch's instance norm computes another gradient.
        return image(self.layer(torch.stack(t.unbind()))[0])

    def plain(self, x: Tensor, run: Run) -> Tensor:
        run.refuse("products", self.REASONS[self.form])
        return self.forward(x)


# Attention.


class Attention(Step):
    """`nn.MultiheadAttention`."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["self", "weights", "cross", "sizes", "mask", "padding", "sequence", "bias_kv"])
        self.first, self.dropout = self.form != "sequence", rng.choice([0.0, 0.0, 0.2])
        options: Any = {"kdim": 2 * c, "vdim": c + 1} if self.form == "sizes" else {}
        options |= {"add_bias_kv": self.form == "bias_kv", "dropout": self.dropout, "bias": rng.random() < 0.7}
        self.mha = nn.MultiheadAttention(c, 2, batch_first=self.first, **options)

    def given(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        t = tokens(x)
        if self.form == "sizes":
            return t, torch.cat([t, t], 2), torch.cat([t, t[..., :1]], 2)
        return (t, t[:, ::2], t[:, ::2]) if self.form == "cross" else (t, t, t)

    def masks(self, t: Tensor) -> dict[str, Any]:
        if self.form == "mask":
            return {"attn_mask": torch.ones(t.shape[1], t.shape[1], dtype=torch.bool).triu(1)}
        if self.form == "padding":
            return {"key_padding_mask": (torch.arange(t.shape[1]) > 9).expand(len(t), -1)}
        return {}

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.given(x)
        options = {"need_weights": self.form == "weights"} | self.masks(q)
        if not self.first:
            q, k, v = (t.transpose(0, 1) for t in (q, k, v))
        y: Tensor = self.mha(q, k, v, **options)[0]
        return image(y if self.first else y.transpose(0, 1))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        mha, given = self.mha, self.given(x)
        if self.form == "bias_kv":
            run.refuse("products", "no rule covers multi_head_attention_forward")
            return image(self._refused(given, run))
        names = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        if self.form == "sizes":
            weights = [run.weight(getattr(mha, name)) for name in names]
        else:
            weights = list(run.weight(mha.in_proj_weight).chunk(3))
        biases = [None] * 3 if mha.in_proj_bias is None else list(mha.in_proj_bias.chunk(3))
        q, k, v = (run.linear(t, w, b) for t, w, b in zip(given, weights, biases, strict=True))
        masks = self.masks(given[0])
        hidden = masks.get("attn_mask", masks.get("key_padding_mask", torch.zeros(1, 1, dtype=torch.bool)))
        hidden = hidden if self.form != "padding" else hidden[:, None, None]
        y = heads_attend(q, k, v, run, hidden, self.dropout)
        return image(plain_linear(mha.out_proj, y, run))

    def _refused(self, given: tuple[Tensor, Tensor, Tensor], run: Run) -> Tensor:
        y: Tensor = self.mha(*given, need_weights=False)[0]
        return y


def heads_attend(q: Tensor, k: Tensor, v: Tensor, run: Run, hidden: Tensor, dropout: float = 0.0) -> Tensor:
    """Attend by two heads, with minus infinity where a mask hides a key."""
    q, k, v = (t.unflatten(-1, (2, -1)).transpose(-3, -2) for t in (q, k, v))
    scores = run.product(q / q.shape[-1] ** 0.5, k.mT)
    shares = scores.masked_fill(hidden, -math.inf).softmax(-1)
    if dropout:
        shares = F.dropout(shares, dropout)
    return run.product(shares, v).transpose(-3, -2).flatten(-2)


class HandAttention(Step):
    """Attention by hand."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["sdpa", "causal", "windows", "matmul", "einsum", "bmm"])
        self.qkv, self.out = nn.Linear(c, 3 * c), nn.Linear(c, c, bias=False)

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        root = q.shape[-1] ** 0.5
        if self.form == "matmul":
            return torch.softmax(q @ k.transpose(-2, -1) / root, -1) @ v
        if self.form == "einsum":
            shares = torch.einsum("n h i d, n h j d -> n h i j", q, k).div(root).softmax(dim=-1)
            return torch.einsum("nhij,nhjd->nhid", shares, v)
        if self.form == "bmm":
            flat = [t.flatten(0, 1) for t in (q, k, v)]
            shares = F.softmax(torch.bmm(flat[0], flat[1].mT) / root, dim=-1)
            return torch.bmm(shares, flat[2]).unflatten(0, q.shape[:2])
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.form == "causal")

    def forward(self, x: Tensor) -> Tensor:
        t = tokens(x)
        n, length, c = t.shape
        if self.form == "windows":
            t = t.reshape(2 * n, length // 2, c)
        q, k, v = self.qkv(t).view(*t.shape[:2], 3, 2, c // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y: Tensor = self.out(self.attend(q, k, v).transpose(1, 2).reshape(t.shape))
        return image(y.reshape(n, length, c))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        t = tokens(x)
        if self.form == "windows":
            run.refuse("batches", "the first dimension is not that of the images")
            t = t.unflatten(1, (2, -1))
        hidden = torch.zeros(1, 1, dtype=torch.bool)
        if self.form == "causal":
            hidden = torch.ones(t.shape[1], t.shape[1], dtype=torch.bool).triu(1)
        q, k, v = plain_linear(self.qkv, t, run).chunk(3, -1)
        y = plain_linear(self.out, heads_attend(q, k, v, run, hidden), run)
        return image(y.flatten(1, 2) if self.form == "windows" else y)


# Norms.


def moments(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return values less their mean, over their standard deviation."""
    centred = x - x.mean(dims, keepdim=True)
    return centred / (centred.square().mean(dims, keepdim=True) + EPSILON).sqrt()


def affine(x: Tensor, module: nn.Module, run: Run) -> Tensor:
    """Scale and shift channels `(N, C, H, W)`."""
    if module.weight is None:
        return x
    x = x * run.tensor(module.weight)[:, None, None]  # type: ignore[arg-type]
    bias = getattr(module, "bias", None)
    return x if bias is None else x + run.tensor(bias)[:, None, None]


class BatchNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "module", "subclass", "functional", "statistics", "frozen", "module"])
        kind = type("Norm", (nn.BatchNorm2d,), {}) if self.form == "subclass" else nn.BatchNorm2d
        self.bn = kind(c, affine=rng.random() < 0.7, track_running_stats=self.form != "statistics")

    def forward(self, x: Tensor) -> Tensor:
        bn = self.bn
        if self.form == "frozen":
            return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias)
        if self.form == "functional":
            return F.batch_norm(x, bn.running_mean, bn.running_var, bn.weight, bn.bias, training=self.training)
        y: Tensor = bn(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        def norm(x: Tensor) -> Tensor:
            if self.form != "frozen":
                return affine(moments(x, (0, 2, 3)), self.bn, run)
            mean, variance = run.tensor(self.bn.running_mean), run.tensor(self.bn.running_var)  # type: ignore[arg-type]
            y = (x - mean[:, None, None]) / (variance + EPSILON).sqrt()[:, None, None]
            return affine(y, self.bn, run)

        return run.norm(norm, x)


class GroupNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.functional = rng.random() < 0.5
        self.gn = nn.GroupNorm(rng.choice([1, 2]), c, affine=rng.random() < 0.7)

    def forward(self, x: Tensor) -> Tensor:
        gn = self.gn
        y: Tensor = F.group_norm(x, gn.num_groups, gn.weight, gn.bias) if self.functional else gn(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        def norm(x: Tensor) -> Tensor:
            grouped = x.unflatten(1, (self.gn.num_groups, -1))
            return affine(moments(grouped, (2, 3, 4)).flatten(1, 2), self.gn, run)

        return run.norm(norm, x)


class LayerNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["channels", "all", "functional"])
        self.ln = nn.LayerNorm([c, h, h] if self.form == "all" else c)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "all":
            y: Tensor = self.ln(x)
            return y
        last = x.permute(0, 2, 3, 1)
        if self.form == "functional":
            last = F.layer_norm(last, last.shape[-1:], self.ln.weight, bias=self.ln.bias)
        else:
            last = self.ln(last)
        return last.permute(0, 3, 1, 2)

    def plain(self, x: Tensor, run: Run) -> Tensor:
        def norm(x: Tensor) -> Tensor:
            if self.form == "all":
                return moments(x, (1, 2, 3)) * run.tensor(self.ln.weight) + run.tensor(self.ln.bias)
            return affine(moments(x, (1,)), self.ln, run)

        return run.norm(norm, x)


class InstanceNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.functional = rng.random() < 0.5
        self.norm = nn.InstanceNorm2d(c, affine=rng.random() < 0.5, track_running_stats=rng.random() < 0.3)

    def forward(self, x: Tensor) -> Tensor:
        norm = self.norm
        if self.functional:
            return F.instance_norm(x, weight=norm.weight, bias=norm.bias)
        y: Tensor = norm(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return run.norm(lambda x: affine(moments(x, (2, 3)), self.norm, run), x)


class RMSNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "functional", "hand"])
        self.rms = nn.RMSNorm(c, eps=EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        t, rms = tokens(x), self.rms
        if self.form == "hand":
            return image(t * torch.rsqrt(t.pow(2).mean(-1, keepdim=True) + EPSILON) * rms.weight)
        return image(F.rms_norm(t, t.shape[-1:], rms.weight, EPSILON) if self.form == "functional" else rms(t))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        if self.form == "hand":
            run.refuse("norms", "no rule covers rsqrt")
        return run.norm(lambda x: affine(x / (x.square().mean(1, keepdim=True) + EPSILON).sqrt(), self.rms, run), x)


# Activations and pools.

#: Forms of a ReLU, in place or not, with the function out of place.
RELUS: list[tuple[Callable[[], Any], Unary]] = [
    (nn.ReLU, F.relu),
    (lambda: nn.ReLU(inplace=True), F.relu),
    (lambda: F.relu, F.relu),
    (lambda: lambda x: F.relu(x, inplace=True), F.relu),
    (lambda: F.relu_, F.relu),
    (lambda: torch.relu, F.relu),
    (lambda: torch.relu_, F.relu),
    (lambda: lambda x: x.relu(), F.relu),
    (lambda: lambda x: x.relu_(), F.relu),
    (lambda: lambda x: x.clamp(min=0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: x.clamp_(min=0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: torch.clamp(x, 0.0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: x.clip(0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: torch.clamp_min(x, 0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: x.clamp_min_(0.0), lambda x: x.clamp(min=0)),
    (lambda: lambda x: F.threshold(x, 0, 0), F.relu),
    (lambda: nn.Threshold(0, 0, inplace=True), F.relu),
    (nn.ReLU6, F.relu6),
    (lambda: lambda x: F.relu6(x, inplace=True), F.relu6),
    (lambda: nn.Hardtanh(0.0, 3.0), lambda x: F.hardtanh(x, 0.0, 3.0)),
    (lambda: lambda x: F.hardtanh(x, min_val=0.0, max_val=2.0), lambda x: F.hardtanh(x, 0.0, 2.0)),
    (lambda: lambda x: x.clamp(0, 4), lambda x: x.clamp(0, 4)),
    (lambda: lambda x: torch.maximum(x, torch.zeros_like(x)), lambda x: x.maximum(torch.zeros_like(x))),
    (lambda: lambda x: x.max(x.new_zeros(())), lambda x: x.maximum(torch.zeros_like(x))),
]


class ReLU(Step):
    """A convolution before the ReLU, so that it may write in place."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv = nn.Conv2d(c, c, 1)
        make, self.function = rng.choice(RELUS)
        self.relu = make()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.conv(x))
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return run.relu(self.function, plain_conv(self.conv, x, run))


class ReLUTwice(Step):
    """One module used twice, around a convolution."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.first, self.second = nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 3, padding=1)
        self.relu = nn.ReLU(inplace=rng.random() < 0.5)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.relu(self.second(self.relu(self.first(x))))
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        for conv in (self.first, self.second):
            x = run.relu(F.relu, plain_conv(conv, x, run))
        return x


ACTIVATIONS: list[Callable[[], Any]] = [
    *(nn.GELU, nn.SiLU, nn.Hardswish, nn.LeakyReLU, nn.Tanh, nn.ELU, nn.Mish, nn.Softplus, nn.PReLU, nn.Sigmoid),
    *(nn.Hardsigmoid, nn.Hardtanh, lambda: lambda x: F.leaky_relu(x, 0.2), lambda: torch.sigmoid),
    *(lambda: lambda x: x.tanh(), lambda: F.silu, lambda: lambda x: F.gelu(x, approximate="tanh")),
    lambda: lambda x: x.clamp(min=-1, max=1),
]


class Activation(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.function = rng.choice(ACTIVATIONS)()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.function(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        if isinstance(self.function, nn.PReLU):
            return F.prelu(x, run.tensor(self.function.weight))
        return self.forward(x)


POOLS: list[Callable[[int], Any]] = [
    nn.MaxPool2d,
    nn.AvgPool2d,
    lambda size: lambda x: F.max_pool2d(x, 3, stride=size, padding=1),
    lambda size: lambda x: F.avg_pool2d(x, kernel_size=size),
    lambda size: lambda x: F.adaptive_max_pool2d(x, x.shape[-1] // size),
    lambda size: lambda x: nn.AdaptiveAvgPool2d(x.shape[-1] // size)(x),
    lambda size: lambda x: x - x.mean((2, 3), keepdim=True) if size == 1 else F.avg_pool2d(x, size),
    lambda size: lambda x: F.interpolate(F.avg_pool2d(x, 2), scale_factor=2 / size),
]


class Pool(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        size = 2 if h > 4 and rng.random() < 0.5 else 1
        self.h, self.pool = h // size, rng.choice(POOLS)(size)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.pool(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return self.forward(x)


# Several paths.


class Residual(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["+", "add", "+=", "add_", "pre", "after"])
        self.conv, self.other = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 1, bias=False)
        self.part = Chain(rng, c, h, rng.sample(SIMPLE, 2), keep=True)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        if self.form == "+=":
            y += self.part(x)
        elif self.form == "add_":
            y.add_(self.part(x), alpha=0.5)
        elif self.form == "pre":
            y += self.other(F.relu(y))
        elif self.form == "after":
            y.relu_()
            y = y + self.other(y)
        else:
            y = torch.add(y, self.part(y)) if self.form == "add" else y + self.part(y)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        y = plain_conv(self.conv, x, run)
        if self.form in {"+=", "add_"}:
            return y + (0.5 if self.form == "add_" else 1.0) * self.part.plain(x, run)
        if self.form in {"pre", "after"}:
            on = run.relu(F.relu, y)
            return (y if self.form == "pre" else on) + plain_conv(self.other, on, run)
        return y + self.part.plain(y, run)


class Concatenation(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["cat", "keyword", "concat", "split"])
        self.left, self.right = (Chain(rng, c, h, [rng.choice(SIMPLE)], keep=True) for _ in range(2))
        self.conv = nn.Conv2d(2 * c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        left, right = self.left(x), self.right(x)
        if self.form == "keyword":
            both = torch.cat(tensors=(left, right), dim=1)
        else:
            both = torch.concat([left, right], 1) if self.form == "concat" else torch.cat([left, right], 1)
        if self.form == "split":
            first, second = both.chunk(2, 1)
            both = torch.cat([second, first], dim=1)
        y: Tensor = self.conv(both)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        left, right = self.left.plain(x, run), self.right.plain(x, run)
        both = [right, left] if self.form == "split" else [left, right]
        return plain_conv(self.conv, torch.cat(both, 1), run)


class SqueezeExcite(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.linear = rng.random() < 0.5
        layers = (nn.Linear(c, 2), nn.Linear(2, c)) if self.linear else (nn.Conv2d(c, 2, 1), nn.Conv2d(2, c, 1))
        self.down, self.up = layers

    def forward(self, x: Tensor) -> Tensor:
        squeezed = x.mean((2, 3)) if self.linear else F.adaptive_avg_pool2d(x, 1)
        shares = torch.sigmoid(self.up(F.relu(self.down(squeezed))))
        return x * (shares[:, :, None, None] if self.linear else shares)

    def plain(self, x: Tensor, run: Run) -> Tensor:
        layer: Any = plain_linear if self.linear else plain_conv
        squeezed = x.mean((2, 3), keepdim=not self.linear)
        shares = layer(self.up, run.relu(F.relu, layer(self.down, squeezed, run)), run).sigmoid()
        return x * (shares[:, :, None, None] if self.linear else shares)


class Shuffle(Step):
    """A channel shuffle."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.view = rng.random() < 0.5

    def forward(self, x: Tensor) -> Tensor:
        if not self.view:
            return F.channel_shuffle(x, 2)
        n, c, h, w = x.shape
        return x.reshape(n, 2, c // 2, h, w).transpose(1, 2).contiguous().view(n, c, h, w)

    def plain(self, x: Tensor, run: Run) -> Tensor:
        half = x.shape[1] // 2
        return torch.stack([x[:, :half], x[:, half:]], 2).flatten(1, 2)


# Weights that are shared, or computed.


class SharedConv(Step):
    """One convolution called twice."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv = nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(F.relu(self.conv(x)))
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return plain_conv(self.conv, run.relu(F.relu, plain_conv(self.conv, x, run)), run)


class Alias(Step):
    """One module under two names."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.body = nn.Sequential(nn.Conv2d(c, c, 3, padding=1), nn.ReLU(), nn.Conv2d(c, c, 1))
        self.last = self.body[2]
        self.again = rng.random() < 0.5

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.body(x)
        return self.last(y) if self.again else y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        first, last = self.body[0], self.body[2]
        assert isinstance(first, nn.Conv2d)
        assert isinstance(last, nn.Conv2d)
        y = plain_conv(last, run.relu(F.relu, plain_conv(first, x, run)), run)
        return plain_conv(last, y, run) if self.again else y


class Tied(Step):
    """One parameter in two modules, or a matrix and its transpose."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["convs", "transpose", "kinds"])
        self.first, self.second = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1, bias=False)
        self.second.weight = self.first.weight
        self.encoder, self.decoder = nn.Linear(c, c), nn.Linear(c, c)
        self.decoder.weight = self.encoder.weight

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "convs":
            y: Tensor = self.second(torch.tanh(self.first(x)))
            return y
        if self.form == "kinds":
            return image(self.decoder(tokens(F.conv2d(x, self.encoder.weight[:, :, None, None]))))
        return image(F.linear(self.encoder(tokens(x)), self.decoder.weight.t()))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        if self.form == "convs":
            return plain_conv(self.second, plain_conv(self.first, x, run).tanh(), run)
        w = run.weight(self.encoder.weight)
        if self.form == "kinds":
            return image(run.linear(tokens(run.conv(x, w[:, :, None, None])), w, self.decoder.bias))
        return image(run.linear(run.linear(tokens(x), w, self.encoder.bias), w.t()))


class WeightNorm(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.old, self.twice = rng.random() < 0.5, rng.random() < 0.5
        conv = nn.Conv2d(c, c, 3, padding=1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            self.conv = nn.utils.weight_norm(conv) if self.old else parametrizations.weight_norm(conv)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return self.conv(y) if self.twice else y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        held: Any = self.conv if self.old else self.conv.parametrizations.weight
        g, v = (held.weight_g, held.weight_v) if self.old else (held.original0, held.original1)
        used = run.weight(weight_normed(v, g), key=(id(self), "weight"))
        y = plain_conv(self.conv, x, run, used)
        return plain_conv(self.conv, y, run, used) if self.twice else y


class SpectralNorm(Step):
    """In train mode, every call makes one step of the power iteration, so two calls use two weights."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.old, self.twice = rng.random() < 0.5, rng.random() < 0.5
        conv = nn.Conv2d(c, c, 3, padding=1)
        self.conv = nn.utils.spectral_norm(conv) if self.old else parametrizations.spectral_norm(conv)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return self.conv(y) if self.twice else y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        conv: Any = self.conv
        if self.old:
            given = conv.weight_orig, conv.weight_u, conv.weight_v
        else:
            parts = conv.parametrizations.weight
            given = parts.original, parts[0]._u, parts[0]._v
        for runs in (1, 2)[: 1 + self.twice]:
            used = spectrally_normed(*given, u_first=not self.old, runs=runs)
            x = plain_conv(conv, x, run, run.weight(used, key=(id(self), runs)))
        return x


class Pruned(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv = nn.Conv2d(c, c, 3, padding=1)
        prune.identity(self.conv, "weight")
        self.bias = rng.random() < 0.5
        if self.bias:
            prune.identity(self.conv, "bias")
        if rng.random() < 0.5:
            prune.random_unstructured(self.conv, "weight", amount=0.3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        conv: Any = self.conv
        used = run.weight(conv.weight_orig * conv.weight_mask, key=(id(self), "weight"))
        bias = conv.bias_orig * conv.bias_mask if self.bias else conv.bias
        return run.conv(x, used, bias, padding=1)


class ComputedWeight(Step):
    """A convolution whose weight the forward computes from parameters, or from the images."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["standardised", "scaled", "shared", "experts", "of images"])
        self.w, self.g = weight(c, c, 3, 3), nn.Parameter(torch.rand(c, 1, 1, 1) + 0.5)
        self.fc, self.experts = nn.Linear(c, 2), weight(2, c * c)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "experts":
            return torch.einsum("nchw,ndc->ndhw", x, self.mixed(x))
        if self.form == "of images":
            n, c, h, w = x.shape
            grouped = self.mixed(x).reshape(n * c, c, 1, 1)
            return F.conv2d(x.reshape(1, n * c, h, w), grouped, groups=n).view(n, c, h, w)
        if self.form == "standardised":
            w = (self.w - self.w.mean((1, 2, 3), keepdim=True)) / self.w.std((1, 2, 3), keepdim=True)
            return F.conv2d(x, self.g * w, padding=1)
        w = self.g * self.w
        y = F.conv2d(x, w, padding=1)
        return F.conv2d(y.sigmoid(), w, padding=1) if self.form == "shared" else y

    def mixed(self, x: Tensor) -> Tensor:
        n, c = x.shape[:2]
        return (torch.softmax(self.fc(x.mean((2, 3))), 1) @ self.experts).view(n, c, c)

    def plain(self, x: Tensor, run: Run) -> Tensor:
        if self.form in {"experts", "of images"}:
            shares = plain_linear(self.fc, x.mean((2, 3)), run).softmax(1)
            mixed = run.linear(shares, run.weight(self.experts).t()).view(len(x), self.c, self.c)
            return image(run.product(tokens(x), mixed.mT))
        w = self.w.detach()
        if self.form == "standardised":
            centred = w - w.mean((1, 2, 3), keepdim=True)
            w = centred / (centred.square().sum((1, 2, 3), keepdim=True) / (w[0].numel() - 1)).sqrt()
        used = run.weight(self.g.detach() * w, key=(id(self), "weight"))
        y = run.conv(x, used, padding=1)
        return run.conv(y.sigmoid(), used, padding=1) if self.form == "shared" else y


class FixedFilter(Step):
    """A buffer that is the filter of a convolution: it takes products, and is no weight."""

    kernel: Tensor

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.register_buffer("kernel", torch.randn(c, 1, 3, 3), persistent=rng.random() < 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.kernel, padding=1, groups=x.shape[1])

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return run.conv(x, run.tensor(self.kernel), padding=1, groups=x.shape[1])


# Other habits.


class Dropout(Step):
    """Dropout draws in the order of the memory, so the layout is fixed before it."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "functional", "whole", "path"])
        self.dropout = nn.Dropout2d(0.2) if self.form == "whole" else nn.Dropout(0.2)

    def forward(self, x: Tensor) -> Tensor:
        x = x.contiguous()
        if self.form == "functional":
            return F.dropout(x, p=0.2, training=self.training)
        if self.form == "path":
            return x * (0.5 + torch.rand(len(x), 1, 1, 1, dtype=x.dtype))
        y: Tensor = self.dropout(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        x = x.contiguous()
        if self.form == "path":
            return x * (0.5 + torch.rand(len(x), 1, 1, 1, dtype=x.dtype))
        return F.dropout2d(x, 0.2) if self.form == "whole" else F.dropout(x, 0.2)


class Unused(Step):
    """Layers that never run beside one that does."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv, self.head = nn.Conv2d(c, c, 1), nn.Sequential(nn.Conv2d(c, c, 1), nn.ReLU(), nn.Linear(c, CLASSES))
        self.extra = nn.Parameter(torch.randn(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return plain_conv(self.conv, x, run)


class Scale(Step):
    """Parameters that scale and shift."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.gamma, self.position = nn.Parameter(torch.rand(c, 1, 1)), nn.Parameter(torch.randn(1, c, h, h))

    def forward(self, x: Tensor) -> Tensor:
        return torch.addcmul(self.position, x, self.gamma)

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return x * run.tensor(self.gamma) + run.tensor(self.position)


class Keywords(Step):
    """Modules and functions that are given all arguments by keyword."""

    class Inner(nn.Module):
        def __init__(self, c: int) -> None:
            super().__init__()
            self.conv, self.bn, self.fc = nn.Conv2d(c, c, 3, padding=1), nn.BatchNorm2d(c), nn.Linear(c, c)

        def forward(self, *, images: Tensor) -> Tensor:
            x = F.conv2d(padding=1, input=images, weight=self.conv.weight, bias=self.conv.bias)
            x = F.batch_norm(weight=self.bn.weight, input=x, running_mean=None, running_var=None, training=True)
            x = F.relu(inplace=True, input=x)
            return image(F.linear(input=tokens(x), weight=self.fc.weight))

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.inner = self.Inner(c)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(images=x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        def norm(x: Tensor) -> Tensor:
            return moments(x, (0, 2, 3)) * run.tensor(self.inner.bn.weight)[:, None, None]

        x = run.relu(F.relu, run.norm(norm, plain_conv(self.inner.conv, x, run)))
        return image(run.linear(tokens(x), run.weight(self.inner.fc.weight)))


class Counter(Step):
    """A module that writes into itself."""

    calls: Tensor

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.num_calls = rng.randrange(3)
        self.before = self.num_calls
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(c))
        self.sizes: list[int] = []
        self.cache: dict[str, Tensor] = {}

    def forward(self, x: Tensor) -> Tensor:
        self.num_calls += 1
        self.calls += 1
        self.average = 0.9 * self.average + 0.1 * x.detach().mean((0, 2, 3))
        self.sizes.append(len(x))
        self.cache["last"] = x.detach()
        self.seen = x.detach()
        return x * (1 + 0.1 * self.num_calls + 0.1 * len(self.sizes))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return x * (1 + 0.1 * (self.before + 1) + 0.1)


class Hooked(Step):
    """A module with hooks of the user that change what comes in and what goes out."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv = nn.Conv2d(c, c, 1)
        self.conv.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
        self.conv.register_forward_hook(lambda module, args, output: F.relu(output))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return run.relu(F.relu, plain_conv(self.conv, 2 * x, run))


class Listed(Step):
    """Parameters in a list and in a dictionary beside the module that owns them."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.conv, self.fc = nn.Conv2d(c, c, 1), nn.Linear(c, c)
        self.held = [self.conv.weight, (self.conv.bias,)]
        self.by_name = {"fc": {"weight": self.fc.weight}}

    def forward(self, x: Tensor) -> Tensor:
        y = F.conv2d(x, self.held[0], self.held[1][0])  # type: ignore[arg-type, index]
        return image(F.linear(tokens(y), self.by_name["fc"]["weight"]))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return image(run.linear(tokens(plain_conv(self.conv, x, run)), run.weight(self.fc.weight)))


class Checkpointed(Step):
    """A part that runs again in the backward pass."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.part, self.reentrant = Chain(rng, c, h, rng.sample(SIMPLE, 2), keep=True), rng.random() < 0.5

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = checkpoint(self.part, x, use_reentrant=self.reentrant)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return self.part.plain(x, run)


class Transformer(Step):
    """`nn.TransformerEncoderLayer`."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.first, self.form = rng.random() < 0.5, rng.choice(["relu", "gelu"])
        options: Any = {"norm_first": self.first, "activation": self.form, "batch_first": True, "dropout": 0.0}
        self.layer = nn.TransformerEncoderLayer(c, 2, dim_feedforward=5, **options)

    def forward(self, x: Tensor) -> Tensor:
        return image(self.layer(tokens(x)))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        layer, t = self.layer, tokens(x)

        def norm(module: nn.Module, t: Tensor) -> Tensor:
            return run.norm(lambda t: moments(t, (2,)) * run.tensor(module.weight) + run.tensor(module.bias), t)  # type: ignore[arg-type]

        def attend(t: Tensor) -> Tensor:
            mha = layer.self_attn
            weights = run.weight(mha.in_proj_weight).chunk(3)
            q, k, v = (run.linear(t, w, b) for w, b in zip(weights, mha.in_proj_bias.chunk(3), strict=True))
            return plain_linear(mha.out_proj, heads_attend(q, k, v, run, torch.zeros(1, 1, dtype=torch.bool)), run)

        def feed(t: Tensor) -> Tensor:
            t = plain_linear(layer.linear1, t, run)
            return plain_linear(layer.linear2, run.relu(F.relu, t) if self.form == "relu" else F.gelu(t), run)

        if self.first:
            t = t + attend(norm(layer.norm1, t))
            return image(t + feed(norm(layer.norm2, t)))
        t = norm(layer.norm1, t + attend(t))
        return image(norm(layer.norm2, t + feed(t)))


class Partial(Step):
    """A ReLU of half of the channels, written into the output of a convolution."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["view", "item", "chunk", "copy"])
        self.conv = nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.conv(x)
        half = y.shape[1] // 2
        if self.form == "view":
            y[:, :half].relu_()
        elif self.form == "item":
            y[:, :half] = F.relu(y[:, :half])
        elif self.form == "copy":
            y[:, :half].copy_(y[:, :half].clone().relu())
        else:
            first, second = y.chunk(2, 1)
            y = torch.cat([first.relu(), second], 1)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        first, second = plain_conv(self.conv, x, run).split(x.shape[1] // 2, 1)
        return torch.cat([run.relu(F.relu, first), second], 1)


class OtherDimensions(Step):
    """Convolutions over one dimension and over three, and patches times a matrix."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["1d", "3d", "unfold"])
        self.one, self.three = nn.Conv1d(c, c, 3, padding=1), nn.Conv3d(c, c, (1, 3, 3), padding=(0, 1, 1))
        self.fc = nn.Linear(9 * c, c)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "1d":
            y: Tensor = self.one(x.flatten(2)).unflatten(2, x.shape[2:])
            return y
        if self.form == "3d":
            z: Tensor = self.three(x.unsqueeze(2)).squeeze(2)
            return z
        return image(self.fc(F.unfold(x, 3, padding=1).transpose(1, 2)))

    def plain(self, x: Tensor, run: Run) -> Tensor:
        if self.form == "1d":
            y = run.conv(
                x.flatten(2)[:, :, None], run.weight(self.one.weight)[:, :, None], self.one.bias, padding=(0, 1)
            )
            return y.reshape(x.shape)
        if self.form == "3d":
            return run.conv(x, run.weight(self.three.weight)[:, :, 0], self.three.bias, padding=1)
        rows = F.pad(x, (1, 1, 1, 1)).unfold(2, 3, 1).unfold(3, 3, 1).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        return image(plain_linear(self.fc, rows, run))


class WritesWeight(Step):
    """A forward that writes into the weight."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["data", "no_grad"])
        self.conv = nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "data":
            self.conv.weight.data.mul_(0.5)
        else:
            with torch.no_grad():
                self.conv.weight.mul_(0.5)
        y: Tensor = self.conv(x)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        return plain_conv(self.conv, x, run, run.weight(0.5 * self.conv.weight, key=(id(self), "weight")))


class StopGradient(Step):
    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.first, self.second = nn.Conv2d(c, c, 1), nn.Conv2d(c, c, 1)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = F.relu(self.first(x))
        return x.detach() + self.second(x) * y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        y = run.relu(F.relu, plain_conv(self.first, x, run)).detach()
        return x.detach() + plain_conv(self.second, x, run) * y


KINDS: dict[str, type[Step]] = {
    kind.__name__: kind
    for kind in (
        *(Conv, Grouped, Transposed, Linear, Product, Refused, Attention, HandAttention, BatchNorm, GroupNorm),
        *(LayerNorm, InstanceNorm, RMSNorm, ReLU, ReLUTwice, Activation, Pool, Residual, Concatenation, SqueezeExcite),
        *(Shuffle, SharedConv, Alias, Tied, WeightNorm, SpectralNorm, Pruned, ComputedWeight, FixedFilter, Dropout),
        *(Unused, Scale, Keywords, Counter, Hooked, Listed, Checkpointed, Transformer, Partial, OtherDimensions),
        *(WritesWeight, StopGradient),
    )
}
#: Kinds that keep the shape, for the paths of a residual sum or a concatenation.
SIMPLE = [
    *("Grouped", "Linear", "Product", "HandAttention", "BatchNorm", "LayerNorm", "ReLU", "Activation", "SqueezeExcite"),
    *("Shuffle", "WeightNorm", "Pruned", "FixedFilter", "Scale", "Hooked", "SharedConv", "GroupNorm"),
]


class Chain(Step):
    """Steps one after another, in one of the containers that people use."""

    def __init__(self, rng: Random, c: int, h: int, kinds: list[str], keep: bool = False) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["sequential", "list", "dict", "attributes"])
        steps: list[Step] = []
        for kind in kinds:
            steps.append(KINDS[kind](rng, self.c, self.h))
            self.c, self.h = steps[-1].c, steps[-1].h
        assert not keep or (self.c, self.h) == (c, h)
        self.names = [f"step{place}" for place in range(len(steps))]
        if self.form == "dict":
            self.steps: nn.Module = nn.ModuleDict(dict(zip(self.names, steps, strict=True)))
        elif self.form == "attributes":
            for name, step in zip(self.names, steps, strict=True):
                self.add_module(name, step)
        else:
            self.steps = nn.Sequential(*steps) if self.form == "sequential" else nn.ModuleList(steps)

    def parts(self) -> list[Step]:
        if self.form == "attributes":
            return [getattr(self, name) for name in self.names]
        if isinstance(self.steps, nn.ModuleDict):
            return [self.steps[name] for name in self.names]  # type: ignore[misc]
        return list(self.steps.children())  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "sequential":
            y: Tensor = self.steps(x)
            return y
        for part in self.parts():
            x = part(x)
        return x

    def plain(self, x: Tensor, run: Run) -> Tensor:
        for part in self.parts():
            x = part.plain(x, run)
        return x


class Head(Step):
    """The logits."""

    def __init__(self, rng: Random, c: int, h: int) -> None:
        super().__init__(rng, c, h)
        self.form = rng.choice(["module", "functional", "product", "conv", "flat", "class token", "addmm"])
        self.fc = nn.Linear(c * h * h if self.form == "flat" else c, CLASSES, bias=rng.random() < 0.5)
        self.conv = nn.Conv2d(c, CLASSES, 1)
        self.w, self.b = weight(c, CLASSES), nn.Parameter(torch.randn(CLASSES))
        self.pool = nn.AdaptiveAvgPool2d(1)

    def forward(self, x: Tensor) -> Tensor:
        if self.form == "conv":
            y: Tensor = self.conv(self.pool(x)).squeeze(-1).squeeze(-1)
        elif self.form == "flat":
            y = self.fc(x.flatten(1))
        elif self.form == "class token":
            y = self.fc(tokens(x)[:, 0])
        elif self.form == "product":
            y = x.mean(dim=(-2, -1)) @ self.w
        elif self.form == "addmm":
            y = torch.addmm(self.b, F.avg_pool2d(x, x.shape[-1]).flatten(1), self.w)
        else:
            pooled = torch.flatten(self.pool(x), 1)
            y = F.linear(pooled, self.fc.weight, self.fc.bias) if self.form == "functional" else self.fc(pooled)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        pooled = x.mean((2, 3))
        if self.form == "conv":
            return plain_conv(self.conv, pooled[:, :, None, None], run).flatten(1)
        if self.form in {"product", "addmm"}:
            return run.linear(pooled, run.weight(self.w).t(), self.b if self.form == "addmm" else None)
        return plain_linear(self.fc, {"flat": x.flatten(1), "class token": x[:, :, 0, 0]}.get(self.form, pooled), run)


class Network(nn.Module):
    """A stem, steps and a head; `kinds` are the kinds of its steps.

    Every value of the last feature map is scaled by itself. Without this, a mean over what a norm gives would be the
    same for all images, and the gradient by the images would be nothing but round-off.
    """

    def __init__(self, rng: Random, kinds: list[str]) -> None:
        super().__init__()
        self.kinds, self.writes = kinds, rng.random() < 0.3
        self.stem = nn.Conv2d(3, 4, 3, padding=1)
        body = Chain(rng, 4, 8, kinds)
        self.scale = nn.Parameter(torch.randn(body.c, body.h, body.h))
        self.parts = nn.ModuleDict({"body": body, "head": Head(rng, body.c, body.h)})

    def forward(self, x: Tensor) -> Tensor:
        if self.writes:
            x -= 0.1
        y: Tensor = self.parts["head"](self.parts["body"](self.stem(x)) * self.scale)
        return y

    def plain(self, x: Tensor, run: Run) -> Tensor:
        body, head = self.parts["body"], self.parts["head"]
        assert isinstance(body, Chain)
        assert isinstance(head, Head)
        x = x - 0.1 if self.writes else x
        return head.plain(body.plain(plain_conv(self.stem, x, run), run) * run.tensor(self.scale), run)


def build(seed: int) -> Network:
    """Return a float64 network of three to five kinds, with flags and gradients as a user may have left them."""
    rng = Random(seed)
    names = list(KINDS)
    kinds = [names[seed % len(names)], *rng.choices(names, k=rng.randint(1, 3)), "ReLU"][: rng.randint(3, 5)]
    rng.shuffle(kinds)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(seed)
        net = Network(rng, kinds).double()
        for tensor in net.parameters():
            if tensor.ndim == 1:  # norms and biases are not as new
                tensor.add_(0.3 * torch.randn_like(tensor))
        for name, buffer in net.named_buffers():
            if name.endswith(("running_mean", "running_var")):
                buffer.add_(torch.rand_like(buffer))
        for parameter in net.parameters():
            parameter.requires_grad_(rng.random() < 0.8)
            if rng.random() < 0.3:
                parameter.grad = torch.randn_like(parameter)
        for module in net.modules():
            module.training = rng.random() < 0.6
    return net


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Return four to six images, in one of two memory layouts, and their labels."""
    images, generator = 4 + seed % 3, torch.Generator().manual_seed(seed)
    x = torch.randn(images, 3, 8, 8, dtype=torch.float64, generator=generator)
    y = torch.randint(0, CLASSES, (images,), generator=generator)
    return x.contiguous(memory_format=torch.channels_last) if seed % 2 else x, y
