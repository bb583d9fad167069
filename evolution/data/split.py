"""Parts of a space: what a search may look at, what a choice may look at, and what is sealed, by class of network.

Networks that are one function are one class, and a class lies in one part as a whole. The part of a class follows from
its text alone. It is therefore the same in every search, for every seed, and cannot be chosen.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Literal

import numpy as np

from ...errors import ConfigError
from ...spaces import Space, Truth

Part = Literal["pool", "validation", "sealed"]

#: Tenths of the classes that lie in each part: a search reads the pool, a choice between its programs and between
#: configurations reads validation, and only `study.opening.open_sealed` reads what is sealed.
TENTHS: dict[Part, range] = {"pool": range(5), "validation": range(5, 7), "sealed": range(7, 10)}


def part_of(space: Space, index: int) -> Part:
    """Return the part that the class of a network lies in."""
    text = f"{space.trained_in or space.name} {space.architecture(space.representative(index))}"
    tenth = int(hashlib.sha256(text.encode()).hexdigest(), 16) % 10
    return next(part for part, tenths in TENTHS.items() if tenth in tenths)


def draw(space: Space, part: Part, count: int, seed: int = 0, *, at_most: bool = False) -> list[int]:
    """Draw classes of a part, and return one index of each: that of its representative.

    They are the first ones of a fixed shuffle, so a larger draw contains a smaller one. With `at_most`, all classes of
    the part are drawn if it has fewer.

    Raises:
        ConfigError: The part has fewer classes.
    """
    found: dict[int, None] = {}
    for index in space.sample(space.size, seed):
        if len(found) == count:
            break
        representative = space.representative(index)
        if representative not in found and part_of(space, representative) == part:
            found[representative] = None
    if len(found) < count and not (at_most and found):
        raise ConfigError(f"{part}: {space.name} has {len(found)} classes there: expected at most that, got {count}")
    return list(found)


def masked(truth: Truth, indices: Sequence[int]) -> Truth:
    """Return accuracies that are NaN except at some indices, so that nothing else can be read."""
    values = np.full_like(truth.values, np.nan)
    values[list(indices)] = truth.values[list(indices)]
    return dataclasses.replace(truth, values=values)
