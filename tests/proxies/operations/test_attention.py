"""Attention in parts equals that of torch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from zcbench.proxies.operations import attention
from zcbench.proxies.operations.attention import attention_in_parts


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("mask", [None, "causal", "numbers", "per head", "padding", "both"])
@pytest.mark.parametrize("kdim", [None, 6])
def test_parts_equal_the_whole(
    need_weights: bool, mask: str | None, kdim: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, kdim=kdim, vdim=kdim).double().train()
    x, y = torch.randn(5, 3, 8).double(), torch.randn(4, 3, kdim or 8).double()
    given: dict[str, Tensor] = {}
    if mask in {"causal", "both"}:
        given["attn_mask"] = torch.ones(5, 4, dtype=torch.bool).triu(2)
    if mask == "numbers":
        given["attn_mask"] = torch.randn(5, 4).double()
    if mask == "per head":
        given["attn_mask"] = torch.randn(6, 5, 4).double()
    if mask in {"padding", "both"}:
        given["key_padding_mask"] = torch.tensor([[False, False, False, True]] * 3)
    if mask == "both":
        given["attn_mask"] = given["attn_mask"].double().masked_fill(given["attn_mask"], -torch.inf)
        given["key_padding_mask"] = (
            given["key_padding_mask"].double().masked_fill(given["key_padding_mask"], -torch.inf)
        )
    expected = layer(x, y, y, need_weights=need_weights, **given)
    monkeypatch.setattr(functional, "multi_head_attention_forward", attention_in_parts)
    found = layer(x, y, y, need_weights=need_weights, **given)
    torch.testing.assert_close(found[0], expected[0], rtol=1e-10, atol=1e-12)
    if need_weights:
        torch.testing.assert_close(found[1], expected[1], rtol=1e-10, atol=1e-12)


def test_options_without_parts_are_known() -> None:
    plain = {"query": torch.zeros(2, 3, 4)}
    assert attention.is_plain_attention((), plain)
    for option in ({"add_zero_attn": True}, {"bias_k": torch.zeros(1)}, {"static_v": torch.zeros(1)}):
        assert not attention.is_plain_attention((), plain | option)
