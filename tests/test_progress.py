"""What progress says where standard error is no terminal."""

from __future__ import annotations

import time

import pytest
from zcbench.progress import Progress, _Left


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_known_total_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("parts", 3, every_s=0) as progress:
        progress.advance(1)
    first, second = lines(capsys)
    assert first == "parts: 0/3 after 0 s"
    assert second.startswith("parts: 1/3 after ")
    assert second.endswith(" s left")


def test_the_time_left_is_by_what_things_cost(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with Progress("parts", 3, every_s=0, costs=[6, 2, 2]) as progress:
        column = _Left(progress)
        assert column.render(None).plain == "-:--:--"
        now = 160.0
        progress.advance(1)
        assert column.render(None).plain == "0:00:40"
        now = 170.0
        assert column.render(None).plain == "0:00:30"
        progress.advance(2)
        assert progress.left_s() == 0
    with Progress("nothing", 2, every_s=0, costs=[0, 0]) as progress:  # costs that say nothing
        now = 180.0
        progress.advance(1)
    assert [line.split("after ")[1] for line in lines(capsys)] == [
        "0 s",
        "60 s, about 40 s left",
        "70 s, about 0 s left",
        "0 s",
        "10 s, about 10 s left",
    ]


def test_without_a_total_there_is_no_count_until_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("playing 4 runs", 0, every_s=0) as progress:
        assert lines(capsys) == ["playing 4 runs"]
        progress.extend(2)
        progress.advance(1)
    (line,) = lines(capsys)
    assert line.startswith("playing 4 runs: 1/2 after ")


def test_nothing_is_said_where_nothing_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("parts", 3, every_s=0, shown=False) as progress:
        progress.advance(3)
    assert lines(capsys) == []
