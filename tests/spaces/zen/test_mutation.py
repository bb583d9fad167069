"""Mutations: their lists are those of the authors' code, and every mutant is a network of the space."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from zcbench.spaces.zen.blocks import Block, parse, text
from zcbench.spaces.zen.mutation import SPLIT_AT, choices, depths, mutate, split, widths
from zcbench.spaces.zen.space import NAMED

START = NAMED["start-cifar"]


def test_options_are_as_frequent_as_in_the_authors_code() -> None:
    """Running `gen_search_space` of its search_space_XXBL.py on block 4 of the start gives these counts."""
    block = parse(START)[4]
    assert (block.outputs, block.bottleneck, block.layers) == (64, 32, 1)
    drawn = choices(block)
    each = len(drawn.outputs) * len(drawn.bottlenecks) * len(drawn.layers)
    count = {kind: times * each for kind, times in Counter(drawn.kinds).items()}
    assert count == {
        "SuperResK3K3": 567,
        "SuperResK5K5": 567,
        "SuperResK7K7": 378,
        "SuperResK1K3K1": 567,
        "SuperResK1K5K1": 567,
        "SuperResK1K7K1": 378,
    }


def test_widths_are_multiples_of_eight_near_a_width() -> None:
    """Halves go to the even multiple: 100 = 12.5 x 8 becomes 96, and 60 = 7.5 x 8 becomes 64."""
    assert widths(64) == [160, 128, 96, 80, 64, 48, 40, 32, 24]
    assert widths(40) == [96, 80, 64, 48, 40, 32, 24, 16]  # of 100, 80, 60, 50, 40, 32, 26.7, 20 and 16
    assert widths(8) == [16, 8]  # of 20, 16, 12, 10 and 8; what is narrower becomes 8
    assert widths(2048)[:2] == [2048, 1640]  # what is wider becomes 2048; 2048 / 1.25 = 1638.4


def test_sub_layers_change_by_two_at_most_and_stay() -> None:
    assert depths(1) == [3, 2, 1]
    assert depths(4) == [6, 5, 4, 3, 2]


def test_convolutions_keep_their_kind_and_have_one_sub_layer() -> None:
    assert choices(Block("SuperConvK3BNRELU", 3, 64, 2, 0, 2)) == (["SuperConvK3BNRELU"], widths(64), [0], [1])


def test_deep_blocks_are_split() -> None:
    """As in the authors' code, seven sub-layers become three and three."""
    for deep in (6, 7):
        made = split([Block("SuperResK3K3", 8, 16, 2, 24, deep)])
        assert text(made) == "SuperResK3K3(8,16,2,24,3)SuperResK3K3(16,16,1,24,3)"
    assert split([Block("SuperResK3K3", 8, 16, 2, 24, 5)]) == [Block("SuperResK3K3", 8, 16, 2, 24, 5)]
    assert split([Block("SuperConvK3BNRELU", 8, 16, 2, 0, 9)]) == [Block("SuperConvK3BNRELU", 8, 16, 2, 0, 9)]


@given(st.integers(0, 2**32), st.sampled_from(sorted(NAMED)), st.integers(1, 12))
def test_mutants_are_networks_of_the_space(seed: int, start: str, steps: int) -> None:
    """Reading a mutant checks that its blocks are linked. Strides that reduce, and the first and last kind, stay."""
    rng, architecture = random.Random(seed), NAMED[start]
    before = parse(architecture)
    for _ in range(steps):
        architecture = mutate(rng, architecture, 2)
    after = parse(architecture)
    assert [b.stride for b in before if b.stride > 1] == [b.stride for b in after if b.stride > 1]
    assert (before[0].kind, before[-1].kind) == (after[0].kind, after[-1].kind)
    assert all(b.layers < SPLIT_AT for b in after)
    assert all(8 <= b.outputs <= 2048 and b.outputs % 8 == 0 for b in after[1:] if start != "zennet-2m")


@given(st.integers(0, 2**32))
def test_mutants_are_a_function_of_the_seed_and_change_up_to_two_places(seed: int) -> None:
    first, second = (mutate(random.Random(seed), START, 2) for _ in range(2))
    assert first == second
    before, after = parse(START), parse(first)
    if len(before) == len(after):  # nothing was split
        differing = [a._replace(inputs=0) != b._replace(inputs=0) for a, b in zip(before, after, strict=True)]
        assert sum(differing) <= 2
