"""The rules that say what an operation of torch is: which kind, which argument is what, how many products it takes.

Operations are known by the name of their function, so that `nn.ReLU`, `torch.relu`, `F.relu` and `x.relu()` are one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

Args = tuple[Any, ...]
Named = dict[str, Any]


@dataclass(frozen=True)
class Rule:
    """What is known of an operation.

    Attributes:
        kind: `convolution`, `linear`, `product`, `norm`, `activation`, `softmax`, `pool`, `pad`, `skip`, `add` or
            `cat`.
        names: Names of the arguments, in order.
        weight: Name of the argument that is the weight, empty if there is none.
        bias: Name of the argument that is added, empty if there is none.
        products: Function from the arguments by name and the output to the number of multiply-accumulates.
        relu: Function from the arguments by name to whether the activation is a ReLU.
    """

    kind: str
    names: tuple[str, ...] = ("input",)
    weight: str = ""
    bias: str = ""
    products: Callable[[Named, Tensor], int] | None = None
    relu: Callable[[Named], bool] | None = None

    def bind(self, args: Args, named: Named) -> Named:
        """Return the arguments by name."""
        if self.names[-1] == "operands":
            rest = args[1] if len(args) == 2 and isinstance(args[1], (list, tuple)) else args[1:]
            return {"equation": args[0], "operands": rest}
        return dict(zip(self.names, args, strict=False)) | named

    def replace(self, args: Args, named: Named, name: str, value: Any) -> tuple[Args, Named]:
        """Return the arguments with another value for one name."""
        place = self.names.index(name)
        if place < len(args):
            return (*args[:place], value, *args[place + 1 :]), named
        return args, named | {name: value}


def _convolved(given: Named, output: Tensor) -> int:
    return output.numel() * int(given["weight"][0].numel())


def _transposed(given: Named, output: Tensor) -> int:
    # Every scalar of the input meets every weight of its channel.
    return int(given["input"].numel()) * int(given["weight"][0].numel())


def _linear(given: Named, output: Tensor) -> int:
    return output.numel() * int(given["weight"].shape[-1])


def _multiplied(given: Named, output: Tensor) -> int:
    return output.numel() * int(given["input"].shape[-1])


def _attended(given: Named, output: Tensor) -> int:
    query, key, value = given["query"], given["key"], given["value"]
    pairs = int(query.shape[:-1].numel()) * int(key.shape[-2])
    return pairs * int(query.shape[-1] + value.shape[-1])


def _summed(given: Named, output: Tensor) -> int:
    """Count the products of a contraction of two tensors: one for each combination of all indices."""
    equation = given["equation"].replace(" ", "").split("->")[0].split(",")
    tensors = given["operands"]
    if "." in given["equation"] or len(equation) != 2 or len(tensors) != 2:
        raise NotImplementedError
    sizes = {i: n for term, t in zip(equation, tensors, strict=True) for i, n in zip(term, t.shape, strict=True)}
    return math.prod(sizes.values())


def _always(given: Named) -> bool:
    return True


def _from_zero(given: Named) -> bool:
    return bool(given.get("min_val", -1.0) == 0 and given.get("max_val", 1.0) > 0)


def _is_zero(value: object) -> bool:
    if isinstance(value, Tensor):
        nonzero = bool(value.any())
        return value.numel() > 0 and not nonzero and not value.requires_grad
    return type(value) in {int, float} and value == 0


def _clamped(given: Named) -> bool:
    return _is_zero(given.get("min"))


def _above_zero(given: Named) -> bool:
    return isinstance(given.get("other"), Tensor) and _is_zero(given["other"])


def _without_slope(given: Named) -> bool:
    return bool(given.get("negative_slope", 0.01) == 0)


def _thresholded(given: Named) -> bool:
    return given.get("threshold") == 0 and given.get("value") == 0


_CONVOLUTION = ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
_TRANSPOSED = ("input", "weight", "bias", "stride", "padding", "output_padding", "groups", "dilation")
_BATCH_NORM = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
_INSTANCE_NORM = ("input", "running_mean", "running_var", "weight", "bias", "use_input_stats", "momentum", "eps")

_RELU = Rule("activation", relu=_always)
_HARDTANH = Rule("activation", ("input", "min_val", "max_val", "inplace"), relu=_from_zero)
_CLAMP = Rule("activation", ("input", "min", "max"), relu=_clamped)
_THRESHOLD = Rule("activation", ("input", "threshold", "value", "inplace"), relu=_thresholded)
_OTHER = Rule("activation")
_PRODUCT = Rule("product", ("input", "other"), products=_multiplied)
_POOL = Rule("pool")
_ADD = Rule("add", ("input", "other"))
_CAT = Rule("cat", ("tensors", "dim"))

#: Rules by the name of the function; a trailing underscore (in place) is left out.
RULES: dict[str, Rule] = {
    **{f"conv{d}d": Rule("convolution", _CONVOLUTION, "weight", "bias", _convolved) for d in (1, 2, 3)},
    **{f"conv_transpose{d}d": Rule("convolution", _TRANSPOSED, "weight", "bias", _transposed) for d in (1, 2, 3)},
    "linear": Rule("linear", ("input", "weight", "bias"), "weight", "bias", _linear),
    **dict.fromkeys(("matmul", "mm", "bmm", "__matmul__"), _PRODUCT),
    "__rmatmul__": Rule("product", ("other", "input"), products=_multiplied),
    "addmm": Rule("product", ("bias", "input", "other"), bias="bias", products=_multiplied),
    "baddbmm": Rule("product", ("bias", "input", "other"), products=_multiplied),
    "einsum": Rule("product", ("equation", "operands"), products=_summed),
    "scaled_dot_product_attention": Rule("product", ("query", "key", "value"), products=_attended),
    "batch_norm": Rule("norm", _BATCH_NORM, "weight", "bias"),
    "instance_norm": Rule("norm", _INSTANCE_NORM, "weight", "bias"),
    "group_norm": Rule("norm", ("input", "num_groups", "weight", "bias", "eps"), "weight", "bias"),
    "layer_norm": Rule("norm", ("input", "normalized_shape", "weight", "bias", "eps"), "weight", "bias"),
    "rms_norm": Rule("norm", ("input", "normalized_shape", "weight", "eps"), "weight"),
    "local_response_norm": Rule("norm", ("input", "size")),
    **dict.fromkeys(("relu", "relu6"), _RELU),
    "hardtanh": _HARDTANH,
    **dict.fromkeys(("clamp", "clip"), _CLAMP),
    "clamp_min": _CLAMP,
    **dict.fromkeys(("maximum", "max"), Rule("activation", ("input", "other"), relu=_above_zero)),
    "leaky_relu": Rule("activation", ("input", "negative_slope", "inplace"), relu=_without_slope),
    **dict.fromkeys(("threshold", "_threshold"), _THRESHOLD),  # torch defines `threshold` under its second name
    **dict.fromkeys(
        (
            *("elu", "selu", "celu", "gelu", "silu", "mish", "hardswish", "hardsigmoid", "sigmoid"),
            *("tanh", "softplus", "prelu", "rrelu", "glu", "logsigmoid"),
            *("softsign", "tanhshrink", "hardshrink", "softshrink"),
        ),
        _OTHER,
    ),
    **dict.fromkeys(("softmax", "log_softmax", "softmin"), Rule("softmax")),
    **{
        f"{adaptive}{which}_pool{d}d": _POOL
        for adaptive in ("", "adaptive_")
        for which in ("avg", "max", "lp")
        for d in (1, 2, 3)
    },
    "fractional_max_pool2d": _POOL,
    **dict.fromkeys(("mean", "sum", "amax", "nanmean"), Rule("pool", ("input", "dim", "keepdim"))),
    "pad": Rule("pad"),
    "skip": Rule("skip"),
    **dict.fromkeys(("add", "__add__", "__radd__", "__iadd__"), _ADD),
    **dict.fromkeys(("cat", "concat", "concatenate"), _CAT),
}

#: Names of functions that are a ReLU for some arguments, and no activation for others.
FORMS_OF_RELU = frozenset({"clamp", "clip", "clamp_min", "threshold", "_threshold", "maximum", "max"})

#: Names of functions that select or arrange entries: what they give of a parameter is that parameter.
VIEWS = frozenset(
    {
        *("view", "reshape", "flatten", "unflatten", "t", "transpose", "permute", "swapaxes", "swapdims", "movedim"),
        *("chunk", "split", "tensor_split", "unbind", "__getitem__", "narrow", "select", "unsqueeze", "squeeze"),
        *("contiguous", "to", "float", "double", "type_as", "expand", "expand_as", "view_as", "alias", "detach"),
        *("T", "mT", "clone", "requires_grad_"),
    }
)

#: Operations of the backend by what proxies read. Each that runs must be inside a function that has a rule.
BACKEND: dict[str, frozenset[str]] = {
    "products": frozenset(
        {
            *("mm", "bmm", "addmm", "baddbmm", "addbmm", "addmv", "addr", "mv", "dot", "vdot", "convolution"),
            *("_convolution", "mkldnn_convolution", "cudnn_convolution", "convolution_overrideable", "_trilinear"),
            *("_scaled_dot_product_attention_math", "_scaled_dot_product_flash_attention"),
            *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_efficient_attention"),
            *("_scaled_dot_product_cudnn_attention", "mkldnn_rnn_layer", "_thnn_fused_lstm_cell", "_cudnn_rnn"),
            *("_thnn_fused_gru_cell", "_transformer_encoder_layer_fwd", "_native_multi_head_attention"),
            *("_embedding_bag", "mkldnn_linear", "_fft_r2c", "_fft_c2r", "_fft_c2c"),
        }
    ),
    "ReLUs": frozenset(
        {"relu", "relu_", "threshold", "threshold_", "clamp_min", "clamp_min_", "hardtanh", "hardtanh_"}
    ),
    "norms": frozenset(
        {
            *("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
            *("cudnn_batch_norm", "miopen_batch_norm", "_batch_norm_with_update", "_batch_norm_no_update"),
            *("native_layer_norm", "native_group_norm", "_fused_rms_norm"),
        }
    ),
}
#: Operations by which norms are written by hand; `pow` only with these exponents.
BY_HAND = frozenset({"rsqrt", "sqrt", "var", "std", "var_mean", "std_mean", "normalize", "norm", "vector_norm"})
ROOTS = frozenset({0.5, -0.5})
#: Operations by which ReLUs are written by hand, whatever else they are given, with two tensors, or with a zero.
_RELU_BY_HAND = frozenset({"abs", "heaviside", "gt", "ge", "lt", "le", "__gt__", "__ge__", "__lt__", "__le__"})
_RELU_OF_TWO = frozenset({"minimum", "min", "fmin", "fmax"})
_RELU_WITH_ZERO = frozenset({"where", "masked_fill", "masked_scatter"})
#: Functions that read no more of a tensor than its shape.
SHAPED = frozenset(
    {*(f"{kind}_like" for kind in ("zeros", "ones", "full", "empty")), "new_zeros", "new_ones", "new_full"}
)
#: Products of scalars.
TIMES = frozenset({"mul", "multiply", "__mul__", "__rmul__", "__imul__"})
#: Functions that add up or average along some dimensions.
REDUCTIONS = frozenset({"mean", "sum", "amax", "nanmean"})


def plain_name(func: Callable[..., Any]) -> str:
    """Return the name of a function, without the underscore of its form in place."""
    name: str = getattr(func, "__name__", "")
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def rule_of(func: Callable[..., Any]) -> Rule | None:
    """Return the rule of a function, None if it has none."""
    if func is torch.batch_norm:  # not the function of torch.nn.functional: its arguments have another order
        return None
    return RULES.get(plain_name(func))


def may_be_relu(name: str, values: Args) -> bool:
    """Tell whether a function without a rule may be a part of a ReLU that is written by hand."""
    if name in _RELU_WITH_ZERO:
        return any(map(_is_zero, values[1:]))
    two = sum(isinstance(value, Tensor) for value in values) > 1
    return name in _RELU_BY_HAND or (name in _RELU_OF_TWO and two)


def writes(func: Callable[..., Any], args: Args, named: Named) -> Tensor | None:
    """Return the tensor that a function writes into, None if it writes into none."""
    if isinstance(out := named.get("out"), Tensor):
        return out
    name = getattr(func, "__name__", "")
    in_place = (
        (name.endswith("_") and not name.endswith("__"))
        or (name.startswith("__i") and name not in {"__index__", "__int__", "__invert__"})
        or name in {"__setitem__"}
        or named.get("inplace", False)
    )
    return args[0] if in_place and args and isinstance(args[0], Tensor) else None
