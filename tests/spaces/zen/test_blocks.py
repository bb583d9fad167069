"""Texts of super blocks, and the convolutions that they stand for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zcbench.errors import ArchitectureError
from zcbench.spaces.zen.blocks import Block, layers, parse, text
from zcbench.spaces.zen.space import NAMED

STEM = "SuperConvK3BNRELU(3,8,1,1)"
KINDS = [*(f"SuperResK{k}K{k}" for k in (3, 5, 7)), *(f"SuperResK1K{k}K1" for k in (3, 5, 7)), "SuperConvK1BNRELU"]


@st.composite
def chains(draw: st.DrawFn) -> list[Block]:
    found, width = [], 3
    for kind in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=6)):
        outputs, stride, layers = draw(st.tuples(st.integers(1, 2048), st.integers(1, 2), st.integers(1, 9)))
        bottleneck = draw(st.integers(1, 2048)) if kind.startswith("SuperRes") else 0
        found.append(Block(kind, width, outputs, stride, bottleneck, layers))
        width = outputs
    return found


@given(chains())
def test_texts_round_trip(chain: list[Block]) -> None:
    assert parse(text(chain)) == chain


@pytest.mark.parametrize("architecture", NAMED.values())
def test_texts_of_the_authors_are_read_as_they_are(architecture: str) -> None:
    assert text(parse(architecture)) == architecture


@pytest.mark.parametrize(
    ("architecture", "fault"),
    [
        ("", "expected super blocks, got an empty text"),
        (STEM + "SuperResK3K3(16,16,1,8,1)", "block 2: expected 8 inputs, the channels before it, got 16"),
        ("SuperConvK3BNRELU(8,8,1,1)", "block 1: expected 3 inputs, the channels before it, got 8"),
        (STEM + "SuperResK3K5(8,16,1,8,1)", "at character 27: expected Super"),
        (STEM + "SuperResK3K3(8,16,1,1)", "at character 27: expected Super"),
        ("SuperConvK3BNRELU(3,8,1,8,1)", "at character 1: expected Super"),
        ("SuperConvK2BNRELU(3,8,1,1)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,8,3,1)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,0,1,1)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,08,1,1)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,99999,1,1)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,8,1,0)", "at character 1: expected Super"),
        ("SuperConvK3BNRELU(3,3,1,1)" * 65, "expected at most 64 super blocks"),
    ],
)
def test_faulty_texts_are_refused(architecture: str, fault: str) -> None:
    with pytest.raises(ArchitectureError) as caught:
        parse(architecture)
    assert fault in str(caught.value)


def test_units_are_those_of_the_paper() -> None:
    """Two bottlenecks make one sub-layer of a SuperResK1K5K1; the stride is in the first convolution with a kernel."""
    units = list(Block("SuperResK1K5K1", 8, 32, 2, 16, 2).units())
    assert [unit.shortcut for unit in units] == ["projection", "identity", "identity", "identity"]
    first, second, *_ = units
    assert [(c.inputs, c.outputs, c.kernel, c.stride) for c in first.convolutions] == [
        (8, 16, (1, 1), (1, 1)),
        (16, 16, (5, 5), (2, 2)),
        (16, 32, (1, 1), (1, 1)),
    ]
    assert first.projection[:4] == (8, 32, (1, 1), (2, 2))
    assert [(c.inputs, c.outputs, c.stride) for c in second.convolutions] == [
        (32, 16, (1, 1)),
        (16, 16, (1, 1)),
        (16, 32, (1, 1)),
    ]
    (basic,) = Block("SuperResK7K7", 8, 32, 2, 16, 1).units()
    assert [(c.inputs, c.outputs, c.kernel, c.stride) for c in basic.convolutions] == [
        (8, 16, (7, 7), (2, 2)),
        (16, 32, (7, 7), (1, 1)),
    ]
    plain = list(Block("SuperConvK3BNRELU", 3, 8, 2, 0, 2).units())
    assert [(u.convolutions[0].inputs, u.convolutions[0].stride, u.shortcut) for u in plain] == [
        (3, (2, 2), "none"),
        (8, (1, 1), "none"),
    ]


def test_layers_are_sub_layers() -> None:
    """The authors' search of networks with a million parameters allows 18; the one that it found has 18."""
    assert layers(parse(NAMED["zennet-1m"])) == 1 + 1 + 3 + 4 + 2 + 3 + 3 + 1 == 18
