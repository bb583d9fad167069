from __future__ import annotations

import pandas as pd
from zcbench.bench.results.failures import failures


def rows(*of: tuple[str, str, str]) -> pd.DataFrame:
    frame = pd.DataFrame(of, columns=["proxy", "status", "message"])
    return frame.assign(architecture=[f"net-{place}" for place in frame.groupby("proxy").cumcount()])


def test_one_line_for_each_proxy_with_the_count_and_the_first_message_of_the_worst_kind() -> None:
    frame = rows(
        ("good", "ok", ""),
        ("good", "-inf", ""),
        ("good", "ok", ""),
        ("good", "ok", ""),
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


def test_a_network_that_failed_as_a_whole_is_named_once_with_its_reason() -> None:
    frame = pd.DataFrame(
        [
            *((f"net-{n}", proxy, "crashed", f"signal {n}") for n in range(12) for proxy in ("a", "b")),
            *(("partly", proxy, status, "why") for proxy, status in (("a", "ok"), ("b", "error"))),
            *(("plain", proxy, "nan", "no number") for proxy in ("a", "b")),
        ],
        columns=["architecture", "proxy", "status", "message"],
    )
    assert failures(frame) == [
        *(f"network net-{n}: crashed: signal {n}" for n in range(10)),
        "2 more networks failed; zcbench results export names all",
        "proxy a: 1 nan of 2 scores: no number",
        "proxy b: 1 error, 1 nan of 2 scores: why",
    ]
