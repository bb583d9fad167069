from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from zcbench.__main__ import main
from zcbench.proxies import AGGREGATES, PROXIES


@pytest.mark.parametrize("kind", ["proxies", "spaces", "datasets", "studies"])
def test_lists(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", kind]) == 0
    table = capsys.readouterr().out
    assert kind == "proxies" or max(map(len, table.splitlines())) <= 100
    assert main(["list", kind, "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    assert all(record["name"] in table for record in records)


def test_the_list_of_proxies_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "proxies"]) == 0
    assert "…" not in capsys.readouterr().out
    assert main(["list", "proxies", "--json"]) == 0
    records = {record["name"]: record for record in json.loads(capsys.readouterr().out)}
    assert list(records) == sorted([*PROXIES, *AGGREGATES])
    kinds = {
        "name": str,
        "version": int,
        "direction": str,
        "reads": list,
        "fwd": int,
        "bwd": int,
        "batch": int,
        "ms": float | int | None,
        "paper": str,
        "tuned_on": str,
        "summary": str,
    }
    for record in records.values():
        assert list(record) == list(kinds)
        assert all(isinstance(record[field], kind) for field, kind in kinds.items()), record
        assert record["direction"] in {"higher", "lower"}
        assert record["paper"]
        assert record["summary"].endswith(".")
    assert records["vote"]["reads"] == ["synflow", "jacob_cov", "snip"]
    assert records["ntk_condition"]["direction"] == "lower"


def test_every_proxy_has_one_line_on_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["list", "proxies", "--json"]) == 0
    records = json.loads(capsys.readouterr().out)
    for more in ([], ["--long"]):
        assert main(["list", "proxies", *more]) == 0
        heading, *lines = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
        assert heading.split() == [
            "name",
            "better",
            *(["passes", "batch", "cost", "paper"] if more else ["cost", "summary"]),
        ]
        assert [line.split()[0] for line in lines] == [record["name"] for record in records]
        assert max(map(len, [heading, *lines])) <= 80


def test_proxies_are_listed_without_torch() -> None:
    listed = "import sys; from zcbench.__main__ import main; main(['list', 'proxies'])"
    script = f"{listed}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)


def test_an_own_proxy_is_listed_too(capsys: pytest.CaptureFixture[str]) -> None:
    Path("my_listed_proxy.py").write_text(
        "from zcbench.proxies import register\n\n\n"
        '@register("my_listed", paper="ours")\ndef my_listed():\n    """Return 1."""\n    return 1.0\n'
    )
    assert main(["list", "proxies", "--include", "my_listed_proxy.py", "--json"]) == 0
    assert "my_listed" in {record["name"] for record in json.loads(capsys.readouterr().out)}


def test_other_lists_have_no_long_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "spaces", "--long"]) == 2
    assert "long: expected proxies" in capsys.readouterr().err
