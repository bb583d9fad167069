from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from zcbench.bench.results.published.changes import Row, changes, former
from zcbench.errors import ResultsError

ROW = Row("aa", "one v1", "nb201 cifar10 test", "zen", 16, 1, 200, 0.5, 0.4, 0.6)
HEAD = "id,title,space,dataset,accuracy,proxy,batch_size,version,n,tau,tau_low,tau_high,higher_is_better"
LINE = "aa,one v1,nb201,cifar10,test,zen,16,1,200,0.5,0.4,0.6,True"


def test_what_moved_most_comes_first_then_what_is_new_then_what_is_gone() -> None:
    before = [ROW, replace(ROW, proxy="near", tau=0.3), replace(ROW, proxy="old")]
    now = [replace(ROW, tau=0.45), replace(ROW, proxy="near", tau=0.6), replace(ROW, proxy="fresh")]
    expected = [
        ("near", "scores", 0.3),
        ("zen", "scores", -0.05),
        ("fresh", "new", math.nan),
        ("old", "gone", math.nan),
    ]
    assert [(p, w, pytest.approx(s, nan_ok=True)) for p, w, s in expected] == [
        (c.row.proxy, c.what, c.size) for c in changes(before, now)
    ]


def test_nothing_changed_where_only_the_title_or_the_last_digit_is_another() -> None:
    nothing = replace(ROW, proxy="flat", tau=math.nan)
    before, now = [ROW, nothing], [replace(ROW, title="one v2", tau=0.5 + 1e-15), nothing]
    assert changes(before, now) == []


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"version": 2}, "version"),
        ({"version": 2, "networks": 190}, "version, networks"),
        ({"batch_size": 64}, "batch"),
        ({"id": "bb"}, "networks"),
        ({"id": "bb", "networks": 1000}, "networks"),
        ({"id": "bb", "ground": "nb101 cifar10 test"}, "new"),
        ({"tau": math.nan}, "scores"),
    ],
)
def test_what_is_another_is_named(change: dict[str, object], what: str) -> None:
    found = changes([ROW], [replace(ROW, **change)])
    assert [c.what for c in found] == [what, *(["gone"] if what == "new" else [])]


def test_rows_with_several_batch_sizes_and_boards_of_one_ground_are_not_guessed() -> None:
    """Which of two rows, or boards, is the former one cannot be known."""
    small = replace(ROW, batch_size=4)
    assert [c.what for c in changes([ROW], [small, replace(ROW, batch_size=8)])] == ["new", "new", "gone"]
    assert [c.what for c in changes([ROW], [replace(ROW, id="bb"), replace(ROW, id="cc")])] == ["new", "new", "gone"]
    # The board of the same id is the same, whatever else is there.
    assert [c.what for c in changes([ROW], [ROW, replace(ROW, id="bb")])] == ["new"]


def test_a_change_as_a_record_says_before_and_now() -> None:
    (found,) = changes([ROW], [replace(ROW, tau=0.75, version=2)])
    record = found.flat()
    assert (record["tau_before"], record["tau_now"], record["change"]) == (0.5, 0.75, 0.25)
    assert (record["version_before"], record["version_now"], record["what"]) == (1, 2, "version")
    (new,) = changes([], [ROW])
    assert (new.flat()["tau_before"], new.flat()["tau_now"]) == ("", 0.5)


def test_a_former_row_counts_in_the_direction_that_its_proxy_claims(tmp_path: Path) -> None:
    lines = [HEAD, LINE, LINE.replace("zen", "'=low").replace("True", "False").replace("0.5,0.4,0.6", "-0.5,-0.6,-0.4")]
    (tmp_path / "leaderboard.csv").write_text("\n".join(lines))
    assert former(tmp_path) == [ROW, replace(ROW, proxy="=low")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "expected a folder that zcbench leaderboard wrote, got .*, without leaderboard.csv"),
        ("proxy,tau\nzen,0.5\n", "has no column higher_is_better, so an older zcbench wrote it: make"),
        (f"{HEAD}\n", "is torn or was changed .no rows"),
        ("", "so an older zcbench wrote it"),
        (f"{HEAD}\n{LINE[:30]}", "is torn or was changed"),
        (f"{HEAD}\n{LINE.replace('0.5', 'high')}", "is torn or was changed .*high"),
        (f"{HEAD}\n{LINE.replace('0.5', '5')}", "expected -1 to 1, got 5.0"),
        (f"{HEAD}\n{LINE.replace('True', '1')}", "expected True or False, got 1"),
        (f'{HEAD}\n"{LINE}', "is torn or was changed"),
        (b"\xff\xfe\x00", "is torn or was changed .no text in UTF-8"),
    ],
)
def test_what_is_no_former_leaderboard_is_named(tmp_path: Path, text: str | bytes | None, said: str) -> None:
    if text is not None:
        (tmp_path / "leaderboard.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ResultsError, match=said) as error:
        former(tmp_path)
    assert "\n" not in str(error.value)
