"""What progress says where standard error is no terminal."""

from __future__ import annotations

import pytest
from zcbench.progress import Progress


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().err.splitlines()


def test_a_known_total_is_said_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("parts", 3, every_s=0) as progress:
        progress.advance(1)
    first, second = lines(capsys)
    assert first == "parts: 0/3 after 0 s"
    assert second.startswith("parts: 1/3 after ")
    assert second.endswith(" s left")


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
