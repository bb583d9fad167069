"""How numbers are written in tables and figures: fixed digits, no zero before the point, 95 % intervals in brackets."""

from __future__ import annotations

import math
import re
from typing import Any, Literal, TypedDict, Unpack


class Style(TypedDict, total=False):
    """How `number` writes a number.

    Attributes:
        sign: What stands before a number that is not negative: `-` for nothing, a space, or `+`.
        zero: Whether the zero before the point is written.
        missing: Text for None and NaN.
    """

    sign: Literal["-", " ", "+"]
    zero: bool
    missing: str


def number(
    value: float | None,
    digits: int = 3,
    *,
    sign: Literal["-", " ", "+"] = "-",
    zero: bool = False,
    missing: str = "",
) -> str:
    """Write a number with a fixed count of digits after the point; see `Style` for the other arguments.

    >>> number(0.775), number(-0.5), number(10.5), number(math.nan)
    ('.775', '-.500', '10.500', '')
    >>> number(0.775, 2, sign="+", zero=True)
    '+0.78'
    """
    if value is None or math.isnan(value):
        return missing
    text = f"{value:{sign}.{digits}f}"
    return text if zero else re.sub(r"^([+ -]?)0\.", r"\1.", text)


def interval(low: float, high: float, digits: int = 2, **style: Unpack[Style]) -> str:
    """Write an interval in brackets, or nothing if an end is missing and `missing` is empty.

    >>> interval(-0.1, 0.25), interval(math.nan, math.nan)
    ('[-.10 .25]', '')
    """
    ends = [number(end, digits, **style) for end in (low, high)]
    return f"[{' '.join(ends)}]" if all(ends) else ""


def estimate(value: float, low: float, high: float, digits: int = 2, **style: Unpack[Style]) -> str:
    """Write a number with three digits and its interval, if it has one, with `digits`.

    >>> estimate(0.775, 0.69, 0.84), estimate(0.775, math.nan, math.nan, missing="nan")
    ('.775 [.69 .84]', '.775')
    """
    has_none = math.isnan(low) and math.isnan(high) and not math.isnan(value)
    ends = "" if has_none else interval(low, high, digits, **style)
    return " ".join(filter(None, (number(value, **style), ends)))


def percent(share: float, digits: int = 1) -> str:
    """Write a share as percent.

    >>> percent(0.975), percent(0.5, 0)
    ('97.5%', '50%')
    """
    return f"{100 * share:.{digits}f}%"


def milliseconds(value: float) -> str:
    """Write a duration in milliseconds with one digit after the point, from 10 on with none.

    >>> milliseconds(3.14), milliseconds(12.7)
    ('3.1', '13')
    """
    return f"{value:.{0 if value >= 10 else 1}f}"


def significant(value: float, digits: int = 3, *, missing: str = "") -> str:
    """Write a number with significant digits, in powers of ten where it is very small or large.

    >>> significant(0.012345), significant(123456.0), significant(math.nan, missing="nan")
    ('0.0123', '1.23e+05', 'nan')
    """
    return missing if math.isnan(value) else f"{value:.{digits}g}"


def null_if_not_finite(value: Any) -> Any:
    """Return a value that JSON can hold: None in place of every number that is not finite, however deep it lies.

    >>> null_if_not_finite({"rho": math.nan, "tau": (0.5, math.inf)})
    {'rho': None, 'tau': [0.5, None]}
    """
    if isinstance(value, dict):
        return {key: null_if_not_finite(of) for key, of in value.items()}
    if isinstance(value, list | tuple):
        return [null_if_not_finite(of) for of in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
