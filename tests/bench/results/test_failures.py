from __future__ import annotations

import pandas as pd
from zcbench.bench.results.failures import failures


def rows(*of: tuple[str, str, str]) -> pd.DataFrame:
    return pd.DataFrame(of, columns=["proxy", "status", "message"])


def test_one_line_for_each_proxy_with_the_count_and_the_first_message_of_the_worst_kind() -> None:
    frame = rows(
        ("good", "ok", ""),
        ("good", "-inf", ""),
        ("bad", "ok", ""),
        ("bad", "not_applicable", "no ReLU"),
        ("bad", "error", "ValueError: first"),
        ("bad", "error", "ValueError: second"),
        ("nan", "nan", ""),
        ("full", "out_of_memory", "too large"),
    )
    assert failures(frame) == [
        "proxy bad: 2 error, 1 not_applicable of 4 scores: ValueError: first",
        "proxy nan: 1 nan of 1 scores: the definition gives no number there",
        "proxy full: 1 out_of_memory of 1 scores: too large",
    ]


def test_nothing_is_said_of_nothing() -> None:
    assert failures(rows(("good", "ok", "a note"))) == []
    assert failures(rows()) == []
