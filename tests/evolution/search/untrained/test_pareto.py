"""Fronts and hypervolumes in two dimensions."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from zcbench.evolution.search.untrained.pareto import covered, front, hypervolume

POINTS = st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8)), min_size=1, max_size=12)


def dominates(first: tuple[float, float], second: tuple[float, float]) -> bool:
    return first[0] >= second[0] and first[1] <= second[1] and first != second


@given(POINTS)
def test_a_front_is_what_no_point_dominates(points: list[tuple[int, int]]) -> None:
    values, sizes = np.array(points, dtype=np.float64).T
    found = [points[place] for place in front(values, sizes)]
    expected = {point for point in points if not any(dominates(other, point) for other in points)}
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert found == sorted(found, key=lambda point: point[1])


@given(POINTS)
def test_hypervolume_counts_unit_squares(points: list[tuple[int, int]]) -> None:
    """Points are whole numbers, so the area is the number of unit squares that some point dominates."""
    values, sizes = np.array(points, dtype=np.float64).T
    lowest, largest = 2, 7
    squares = sum(
        any(value >= v + 1 and size <= s for value, size in points) for v in range(lowest, 9) for s in range(largest)
    )
    assert hypervolume(values, sizes, lowest, largest) == squares


def test_hypervolume_by_hand() -> None:
    """Two steps: 2 x (4 - 1) from the first point, and 1 more x (4 - 3) from the second."""
    values, sizes = np.array([2.0, 3.0, 1.0, 2.5]), np.array([1.0, 3.0, 2.0, 3.5])
    assert front(values, sizes).tolist() == [0, 1]
    assert hypervolume(values, sizes, 0.0, 4.0) == 2 * 3 + 1 * 1
    assert covered(values[:1], sizes[:1], values, sizes) == (2 - 1) * 2.5 / ((2 - 1) * 2.5 + 1 * 0.5)


def test_points_without_a_value_are_on_no_front() -> None:
    values, sizes = np.array([np.nan, 1.0, -np.inf]), np.array([1.0, 2.0, 0.5])
    assert front(values, sizes).tolist() == [1]
    assert front(values[:1], sizes[:1]).tolist() == []
    assert hypervolume(values[:1], sizes[:1], 0.0, 4.0) == 0.0
