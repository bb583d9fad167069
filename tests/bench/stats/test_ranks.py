from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from zcbench.bench.stats.ranks import concordance

Vector = NDArray[np.float64]
# Few distinct values make ties, many make none.
VALUES = st.integers(1, 40).flatmap(
    lambda n: st.tuples(*[st.lists(st.integers(-9, 9).map(float), min_size=n, max_size=n).map(np.array)] * 2)
)


def draw(n: int, levels: int | None, seed: int) -> Vector:
    generator = np.random.RandomState(seed)
    values = generator.randint(levels, size=n) if levels else generator.standard_normal(n)
    return np.asarray(values, dtype=np.float64)


@given(VALUES)
def test_concordance_equals_its_definition(values: tuple[Vector, Vector]) -> None:
    signs = [np.sign(np.subtract.outer(v, v)) for v in values]
    assert concordance(*values).tolist() == (signs[0] * signs[1]).sum(1).tolist()


@pytest.mark.parametrize("levels", [None, 3, 40, 500])
def test_concordance_across_buckets(levels: int | None) -> None:
    x, y = draw(1500, levels, 0), draw(1500, levels, 1) + draw(1500, levels, 0)
    signs = [np.sign(np.subtract.outer(v, v)) for v in (x, y)]
    assert concordance(x, y).tolist() == (signs[0] * signs[1]).sum(1).tolist()
