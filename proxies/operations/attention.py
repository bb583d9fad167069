"""Multi-head attention in parts, since torch calls it as one function."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .rules import Args, Named

#: Names of the arguments of `torch.nn.functional.multi_head_attention_forward`.
_ATTENTION = (
    *("query", "key", "value", "embed_dim_to_check", "num_heads", "in_proj_weight", "in_proj_bias", "bias_k", "bias_v"),
    *("add_zero_attn", "dropout_p", "out_proj_weight", "out_proj_bias", "training", "key_padding_mask", "need_weights"),
    *("attn_mask", "use_separate_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight", "static_k"),
    *("static_v", "average_attn_weights", "is_causal"),
)


def is_plain_attention(args: Args, named: Named) -> bool:
    """Tell whether attention takes no option that its parts here do not have."""
    given = dict(zip(_ATTENTION, args, strict=False)) | named
    return (
        given.get("bias_k") is None
        and given.get("bias_v") is None
        and not given.get("add_zero_attn")
        and given.get("static_k") is None
        and given.get("static_v") is None
        and given["query"].ndim == 3
    )


def attention_in_parts(*args: Any, **named: Any) -> tuple[Tensor, Tensor | None]:
    """Run multi-head attention by its parts: projections, two products with a softmax between them, a projection.

    Shapes: query `(L, N, E)`, key and value `(S, N, E)`; the output is `(L, N, E)`.
    """
    given = dict(zip(_ATTENTION, args, strict=False)) | named
    query, key, value, heads = given["query"], given["key"], given["value"], given["num_heads"]
    separate = given.get("use_separate_proj_weight")
    weights = [given[f"{k}_proj_weight"] for k in "qkv"] if separate else given["in_proj_weight"].chunk(3)
    bias = given.get("in_proj_bias")
    biases = (None, None, None) if bias is None else bias.chunk(3)
    # Images come first, as passes expect of an activation.
    sequences = (t.transpose(0, 1) for t in (query, key, value))
    projected = (functional.linear(x, w, b) for x, w, b in zip(sequences, weights, biases, strict=True))
    q, k, v = (t.view(*t.shape[:2], heads, -1).transpose(1, 2) for t in projected)
    mask = _attention_mask(given, q)
    dropout = given.get("dropout_p", 0.0) if given.get("training", True) else 0.0
    shares = None
    if given.get("need_weights", True):
        scores = torch.matmul(q / math.sqrt(q.shape[-1]), k.transpose(-2, -1))
        shares = torch.softmax(scores if mask is None else scores + mask, -1)
        if dropout:
            shares = functional.dropout(shares, dropout)
        heard = torch.matmul(shares, v)
    else:
        heard = functional.scaled_dot_product_attention(q, k, v, mask, dropout)
    joined = heard.transpose(1, 2).flatten(2)
    output = functional.linear(joined, given["out_proj_weight"], given.get("out_proj_bias")).transpose(0, 1)
    if shares is not None and given.get("average_attn_weights", True):
        shares = shares.mean(1)
    return output, shares


def _attention_mask(given: Named, q: Tensor) -> Tensor | None:
    """Return the sum of both masks `(N, heads, L, S)`, with minus infinity where nothing may be heard."""
    masks = []
    if (mask := given.get("attn_mask")) is not None:
        mask = mask if mask.ndim == 2 else mask.view(-1, q.shape[1], *mask.shape[1:])
        masks.append(mask)
    if (padding := given.get("key_padding_mask")) is not None:
        masks.append(padding[:, None, None, :])
    numbers = [
        torch.zeros_like(m, dtype=q.dtype).masked_fill(m, -math.inf) if m.dtype == torch.bool else m for m in masks
    ]
    return sum(numbers[1:], numbers[0]) if numbers else None
