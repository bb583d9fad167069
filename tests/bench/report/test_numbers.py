from __future__ import annotations

import math

import pytest
from zcbench.bench.report.numbers import (
    Style,
    estimate,
    interval,
    milliseconds,
    number,
    percent,
    significant,
)

COLUMN: Style = {"sign": " ", "missing": " nan"}
FULL: Style = {"sign": "+", "zero": True, "missing": "nan"}


@pytest.mark.parametrize(
    ("value", "plain", "column", "full"),
    [
        (0.0, ".000", " .000", "+0.000"),
        (0.775, ".775", " .775", "+0.775"),
        (-0.5, "-.500", "-.500", "-0.500"),
        # The sign of a number that is rounded to zero stays: it says on which side of zero the number lies.
        (-0.0004, "-.000", "-.000", "-0.000"),
        (0.9996, "1.000", " 1.000", "+1.000"),
        (1.0, "1.000", " 1.000", "+1.000"),
        (-1.0, "-1.000", "-1.000", "-1.000"),
        # Only a zero that stands alone before the point is left out.
        (10.5, "10.500", " 10.500", "+10.500"),
        (-100.25, "-100.250", "-100.250", "-100.250"),
        (9.9996, "10.000", " 10.000", "+10.000"),
        (math.inf, "inf", " inf", "+inf"),
        (-math.inf, "-inf", "-inf", "-inf"),
        (math.nan, "", " nan", "nan"),
        (None, "", " nan", "nan"),
    ],
)
def test_number(value: float | None, plain: str, column: str, full: str) -> None:
    assert (number(value), number(value, **COLUMN), number(value, **FULL)) == (plain, column, full)


def test_digits() -> None:
    assert [number(0.125, digits) for digits in (0, 1, 2, 3)] == ["0", ".1", ".12", ".125"]
    assert number(10.5, 0) == "10"


def test_interval() -> None:
    assert interval(-0.25, 0.5) == "[-.25 .50]"
    assert interval(-0.25, 0.5, 3) == "[-.250 .500]"
    assert interval(0.25, 1.0, **COLUMN) == "[ .25  1.00]"
    assert interval(-0.25, 0.5, **FULL) == "[-0.25 +0.50]"
    assert interval(math.nan, math.nan) == interval(0.5, math.nan) == ""
    assert interval(math.nan, math.nan, **COLUMN) == "[ nan  nan]"


def test_estimate() -> None:
    assert estimate(0.125, -0.25, 0.5) == ".125 [-.25 .50]"
    assert estimate(0.125, -0.25, 0.5, 3) == ".125 [-.250 .500]"
    assert estimate(0.125, math.nan, math.nan) == ".125"
    assert estimate(math.nan, math.nan, math.nan) == ""
    assert estimate(0.125, -0.25, 0.5, **COLUMN) == " .125 [-.25  .50]"
    assert estimate(math.nan, math.nan, math.nan, **COLUMN) == " nan [ nan  nan]"


def test_percent() -> None:
    assert [percent(share) for share in (0.0, 0.975, 1.0, 0.99999)] == ["0.0%", "97.5%", "100.0%", "100.0%"]
    assert percent(0.505, 0) == "50%"


def test_milliseconds() -> None:
    assert [milliseconds(value) for value in (0.0, 0.04, 9.94, 10.0, 1234.5)] == ["0.0", "0.0", "9.9", "10", "1234"]


def test_significant() -> None:
    assert significant(1234.5) == "1.23e+03"
    assert significant(0.00012345, 2) == "0.00012"
    assert significant(math.nan) == ""
    assert significant(math.nan, missing="nan") == "nan"
    assert significant(-math.inf) == "-inf"
