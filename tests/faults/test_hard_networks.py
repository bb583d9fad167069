"""A network that harms its process has one row per proxy, and all others have the scores of a clean run."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from zcbench.bench.scoring.parts import KEY

ENDS = {
    "segfault": ("crashed", "its process was ended by the signal SIGSEGV"),
    "exit": ("crashed", "its process ended with exit status 0"),
    "sleep": ("timeout", "it took longer than 5 s"),
    "build": ("error", "ValueError: planted"),
}
HARD = [*ENDS, "sys-exit", "leak", "fail", "change", "fork"]


@pytest.mark.parametrize("workers", [1, 3])
def test_every_network_has_its_rows(command: Any, clean: pd.DataFrame, workers: int) -> None:
    done = command("results", workers=workers, limit_s=5, memory_mib=1024)
    assert done.returncode == 4, done.stderr
    assert "scores failed; the same command tries them again" in done.stderr
    rows = command.rows("results")
    assert not rows.duplicated(list(KEY)).any()
    assert len(rows) == len(clean)
    of = {name: group for name, group in rows.groupby("architecture")}
    for name, (status, message) in ENDS.items():
        assert set(of[name]["status"]) == {status}, name
        assert set(of[name]["message"]) == {message}, name
        assert of[name]["value"].isna().all()
    # Proxies without a forward pass score these networks.
    assert set(of["fail"]["status"]) == set(of["sys-exit"]["status"]) == {"ok", "error"}
    assert set(of["leak"]["status"]) == {"ok", "out_of_memory"}
    assert set(of["fork"]["status"]) == {"ok"}
    plain = ~rows["architecture"].isin(HARD)
    assert plain.sum() == 11 * 4
    pd.testing.assert_frame_equal(rows[plain], clean[plain], check_exact=True)


def test_an_attempt_is_repeated_and_a_score_takes_its_place(command: Any, clean: pd.DataFrame) -> None:
    assert command("results", workers=2, limit_s=5, memory_mib=1024).returncode == 4
    done = command("results", hard="no", workers=2)
    assert done.returncode == 0, done.stderr
    # The network that changes the default dtype has scored itself in another one.
    rows, expected = (frame[frame["architecture"] != "change"] for frame in (command.rows("results"), clean))
    pd.testing.assert_frame_equal(rows, expected, check_exact=True)
