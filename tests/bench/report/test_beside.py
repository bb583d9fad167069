from __future__ import annotations

import json
from pathlib import Path

import pytest
from zcbench.bench.report.beside import BESIDE, Beside, Program, Reached, Search, read
from zcbench.bench.results.overview import Leaderboard
from zcbench.bench.results.published.changes import of_standings
from zcbench.errors import ResultsError

NAN = float("nan")


def same(first: Beside, second: Beside) -> bool:
    """Whether two are equal, a NaN being equal to a NaN."""
    return repr(first) == repr(second)


def test_a_file_comes_back_as_it_was(tmp_path: Path, leaderboard: Leaderboard, beside: Beside) -> None:
    (tmp_path / BESIDE).write_text(json.dumps(beside.document(), allow_nan=False))
    assert same(read(tmp_path), beside)
    assert read(tmp_path / "none") == Beside()
    assert beside.changes(leaderboard.standings)


def test_what_is_not_given_is_kept(leaderboard: Leaderboard, beside: Beside) -> None:
    rows = tuple(of_standings(leaderboard.standings))
    found = Beside(former=rows).over(beside)
    assert found.former == rows
    assert found.searches == beside.searches
    assert found.changes(leaderboard.standings) == []


def test_rows_of_tables(beside: Beside) -> None:
    (search, *_), (program, *_) = beside.searches, beside.programs
    rows = search.flat()
    assert [row["trained"] for row in rows if row["method"] == "random"] == [1, 10, 100]
    assert program.flat()["tau on nb201"] == 0.6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1 is no JSON"),
        ("[]", "a value is of another kind than expected"),
        ('{"format": 2}', "expected format 1, got 2"),
        ('{"format": 1, "former": []}', "searches is missing"),
        (
            '{"format": 1, "former": [{"id": "a"}], "searches": [], "programs": []}',
            "title, ground, proxy, .* and tau_high is missing",
        ),
        (
            '{"format": 1, "former": [], "searches": [{"methods": 3}], "programs": []}',
            "a value is of another kind than expected",
        ),
    ],
)
def test_a_torn_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / BESIDE).write_text(text)
    with pytest.raises(ResultsError, match=said) as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


def test_a_search_and_a_program_are_plain() -> None:
    """Nothing of them needs the rooms that wrote them."""
    method = Reached("random", 2, 1, 0, (1.0, NAN, NAN), (NAN,) * 3, NAN, (1,), ((1.0, NAN, NAN),))
    made = Beside((), (Search("t", 2.0, (), (method,)),), (Program("p", "t", "x", ["x"], {}, {}, True, {}),))
    assert json.loads(json.dumps(made.document(), allow_nan=False))["searches"][0]["methods"][0]["gain"] == [None] * 3
