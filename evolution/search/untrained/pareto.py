"""Fronts of two objectives: a value that is better when it is higher, and a size that is better when it is lower."""

from __future__ import annotations

import moocore
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]


def front(values: Vector, sizes: Vector) -> NDArray[np.intp]:
    """Return the places of the points that no other point dominates, by size from the smallest.

    A point dominates another if it is no worse in both objectives and better in one. Of equal points the first is
    returned. Points that are not finite are not.

    Example:
        >>> front(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]))
        array([0, 1])
    """
    finite = np.flatnonzero(np.isfinite(values) & np.isfinite(sizes))
    if not finite.size:
        return finite
    is_on_it: NDArray[np.bool_] = moocore.is_nondominated(_minimised(values[finite], sizes[finite]), keep_weakly=False)
    chosen = finite[is_on_it]
    return chosen[np.argsort(sizes[chosen])]


def hypervolume(values: Vector, sizes: Vector, lowest: float, largest: float) -> float:
    r"""Return the area that points dominate, up to a reference point.

    $$\left| \bigcup_i \{ (v, s) : \text{lowest} \le v \le v_i, \; s_i \le s \le \text{largest} \} \right|$$

    Args:
        values: Values of the points `(n,)`, higher is better.
        sizes: Sizes of the points `(n,)`, lower is better.
        lowest: Value of the reference point; points below it add nothing.
        largest: Size of the reference point; points above it add nothing.
    """
    places = front(values, sizes)
    if not places.size:
        return 0.0
    return float(moocore.hypervolume(_minimised(values[places], sizes[places]), ref=[-lowest, largest]))


def covered(values: Vector, sizes: Vector, all_values: Vector, all_sizes: Vector) -> float:
    """Return the share of the hypervolume of all points that some of them have.

    The reference point is the lowest value and the largest size of all points.
    """
    reference = float(np.nanmin(all_values)), float(np.nanmax(all_sizes))
    return hypervolume(values, sizes, *reference) / hypervolume(all_values, all_sizes, *reference)


def _minimised(values: Vector, sizes: Vector) -> NDArray[np.float64]:
    """Return points `(n, 2)` as the library takes them, which minimises both objectives."""
    return np.stack([-values, sizes], axis=1)
