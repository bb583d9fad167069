"""Tangents: the derivatives of activations along a direction of the weights, which run forward beside the activations.

torch carries tangents through its operations, and what comes out can be differentiated again. That is wrong for norms
whose formula reads statistics that torch takes for constants. Batch norm has a formula of its own here, and an
operation that is not listed has none.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import once_differentiable

from ..operations.calls import Call
from ..operations.rules import Args, Named, Rule, plain_name, writes
from ..operations.watch import Function, tensors_of
from .forward import Substituting

#: Names of the operations whose tangents can be differentiated. `tests/proxies/passes/test_tangents.py` has each of
#: them; with layer norm and instance norm, torch gives wrong values.
DIFFERENTIABLE = frozenset(
    {
        *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "linear"),
        *("matmul", "__matmul__", "mm", "bmm", "addmm", "baddbmm", "einsum", "batch_norm", "group_norm"),
        *("relu", "relu6", "hardtanh", "clamp", "clamp_min", "leaky_relu", "threshold", "_threshold", "prelu"),
        *("elu", "selu", "celu", "gelu", "silu", "mish", "hardswish", "sigmoid", "tanh", "softplus", "logsigmoid"),
        *("softsign", "tanhshrink", "hardshrink", "softshrink"),
        *("avg_pool1d", "avg_pool2d", "avg_pool3d", "max_pool1d", "max_pool2d", "max_pool3d"),
        *("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool2d", "mean", "sum", "amax"),
        *("add", "__add__", "__radd__", "__iadd__", "sub", "__sub__", "__rsub__", "mul", "__mul__", "__rmul__"),
        *("__imul__", "div", "__truediv__", "neg", "__neg__", "exp", "sqrt", "rsqrt", "abs"),
        *("cat", "concat", "stack", "pad", "chunk", "split", "__getitem__", "narrow", "unbind", "view", "reshape"),
        *("flatten", "unflatten", "permute", "transpose", "movedim", "squeeze", "unsqueeze", "expand", "expand_as"),
        *("contiguous", "clone", "roll", "flip", "interpolate", "pixel_shuffle", "channel_shuffle", "index_select"),
        *("dropout", "skip", "alias", "T", "mT"),
    }
)


def with_tangent(tensor: Tensor, tangent: Tensor) -> Tensor:
    """Return a tensor with a tangent, which its operations carry on."""
    dual: Tensor = forward_ad.make_dual(tensor, tangent)  # type: ignore[no-untyped-call]
    return dual


def tangent_of(tensor: Tensor) -> tuple[Tensor, Tensor | None]:
    """Return a tensor without its tangent, and the tangent, None if it has none."""
    found = forward_ad.unpack_dual(tensor)  # type: ignore[no-untyped-call]
    return found.primal, found.tangent


class NoTangentError(Exception):
    """The tangents of an operation cannot be differentiated."""


class Tangents(Substituting):
    """The mode of a forward pass whose weights have tangents."""

    def operated(self, call: Call, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Run a call that has a rule."""
        if call.name == "batch_norm":
            return _batch_norm(**rule.bind(args, named))
        return self.unruled(func, args, named)

    def unruled(self, func: Function, args: Args, named: Named) -> Any:
        """Run a call.

        Raises:
            NoTangentError: Its output has tangents that cannot be differentiated.
        """
        name = plain_name(func)
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        moving = any(tangent_of(tensor)[1] is not None for tensor in tensors_of((args, named)))
        output = func(*args, **named)
        made = tensors_of((output,)) or writes(func, args, named) is not None
        # Without gradients, the loss takes the output for a constant, and tangents would not.
        if moving and made and (name not in DIFFERENTIABLE or not torch.is_grad_enabled()):
            raise NoTangentError(name)
        return output


def _batch_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    x, tangent = tangent_of(input)
    moving = any(tangent_of(t)[1] is not None for t in (weight, bias) if t is not None)
    if not training or moving or not torch.is_grad_enabled():
        raise NoTangentError("batch_norm")
    if tangent is None:
        return torch.nn.functional.batch_norm(x, running_mean, running_var, weight, bias, True, momentum, eps)
    found: tuple[Tensor, Tensor] = BatchNorm.apply(  # type: ignore[no-untyped-call]
        x, tangent, weight, bias, running_mean, running_var, momentum, eps
    )
    return with_tangent(*found)


class BatchNorm(torch.autograd.Function):
    r"""Batch norm in train mode of activations and their tangents, both of which can be differentiated once.

    With M values per channel, $\hat x = (x - \mu) \nu$ where $\nu = 1 / \sqrt{\sigma^2 + \epsilon}$, and the projection
    $P(z) = z - \overline{z} - \hat x \, \overline{\hat x z}$ of a channel:

    $$y = w \hat x + b \qquad y' = w \nu P(x')$$

    The gradients g of y and G of y' come back as

    $$\frac{\partial}{\partial x'} = w \nu P(G) \qquad \frac{\partial}{\partial x} = \nu P(w g - w \nu \, (
    \overline{\hat x G} \, x' + \overline{\hat x x'} \, G)) - \nu \hat x \, \overline{G y'}$$

    The backward pass of torch's batch norm is $w \nu P$, so it computes all projections.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        tangent: Tensor,
        weight: Tensor | None,
        bias: Tensor | None,
        mean: Tensor | None,
        variance: Tensor | None,
        momentum: float,
        eps: float,
    ) -> tuple[Tensor, Tensor]:
        """Return y and y'."""
        y, mu, inverse = torch.native_batch_norm(x, weight, bias, mean, variance, True, momentum, eps)
        ctx.save_for_backward(x, tangent, weight, mu, inverse)
        ctx.eps = eps
        y_tangent, ctx.normed, ctx.mean = _project(tangent, x, weight, mu, inverse, eps)
        return y, y_tangent

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g: Tensor, of_tangent: Tensor) -> tuple[Tensor | None, ...]:
        """Return the gradients of x, x', weight and bias."""
        x, tangent, weight, mu, inverse = ctx.saved_tensors
        shape = (1, -1, *[1] * (x.ndim - 2))
        others = [dim for dim in range(x.ndim) if dim != 1]
        scale = inverse if weight is None else weight * inverse
        to_tangent, normed, mean = _project(of_tangent, x, weight, mu, inverse, ctx.eps)
        # The means over a channel of G times the tangent, and of G times P(x').
        product = (of_tangent * tangent).mean(others)
        projected = product - ctx.mean * mean - ctx.normed * normed
        total = g.clone() if weight is None else g * weight.view(shape)
        total.addcmul_(tangent, (-scale * normed).view(shape)).addcmul_(of_tangent, (-scale * ctx.normed).view(shape))
        to_x, _, _ = _project(total, x, None, mu, inverse, ctx.eps)
        slope = -scale * inverse * inverse * projected
        to_x.addcmul_(x, slope.view(shape)).sub_((slope * mu).view(shape))
        to_weight = to_bias = None
        if ctx.needs_input_grad[2]:
            count = x.numel() // x.shape[1]
            _, own, _ = _project(g, x, weight, mu, inverse, ctx.eps)
            to_weight = count * (own + inverse * projected)
        if ctx.needs_input_grad[3]:
            to_bias = g.sum(others)
        return to_x, to_tangent, to_weight, to_bias, None, None, None, None


def _project(
    z: Tensor, x: Tensor, weight: Tensor | None, mu: Tensor, inverse: Tensor, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    r"""Return $w \nu P(z)$, and the means over each channel of $\hat x z$ and of z."""
    count = x.numel() // x.shape[1]
    of, by_weight, by_bias = torch.ops.aten.native_batch_norm_backward(
        z, x, weight, None, None, mu, inverse, True, eps, [True, True, True]
    )
    return of, by_weight / count, by_bias / count
