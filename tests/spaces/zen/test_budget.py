"""The counts of the authors' code, beside counts by hand and the true ones."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st
from zcbench.datasets.tasks import TASKS
from zcbench.spaces.zen.blocks import parse
from zcbench.spaces.zen.budget import budget
from zcbench.spaces.zen.mutation import mutate
from zcbench.spaces.zen.space import NAMED, Zen


def test_a_small_network_counted_by_hand() -> None:
    blocks = parse("SuperConvK3BNRELU(3,8,1,1)SuperResK3K3(8,16,2,8,1)")
    stem = 3 * 8 * 9
    first, second, projection = 8 * 8 * 9, 8 * 16 * 9, 8 * 16
    counted = budget(blocks, 32, 10)
    assert counted.params == stem + 8 + first + 8 + second + 16 + projection + 16 + 16 * 10 + 1
    assert counted.macs == (
        (stem + 8) * 32**2 + (first + 8) * 16**2 + (second + 16) * 16**2 + (projection + 16) * 8**2 + 16 * 10
    )


@given(st.integers(0, 2**32))
def test_parameters_lack_what_the_authors_code_does_not_count(seed: int) -> None:
    """They are one value of each batch norm channel, two of each channel of a projection, and all biases but one."""
    rng, architecture = random.Random(seed), NAMED["start-cifar"]
    for _ in range(8):
        architecture = mutate(rng, architecture, 2)
    units = [unit for block in parse(architecture) for unit in block.units()]
    left_out = sum(convolution.outputs for unit in units for convolution in unit.convolutions)
    left_out += sum(2 * unit.projection.outputs for unit in units if unit.shortcut == "projection") + 99
    space, task = Zen(), TASKS["cifar100"]
    assert space.params(architecture, task) - space.budget(architecture, task).params == left_out


def test_a_published_network_is_over_its_own_limit() -> None:
    """The search of ZenNet-1M is limited to a million as the authors count; the file that they publish has more."""
    space, task = Zen(), TASKS["cifar100"]
    assert space.budget(NAMED["zennet-1m"], task).params == 1_031_185
    assert space.params(NAMED["zennet-1m"], task) == 1_040_844
