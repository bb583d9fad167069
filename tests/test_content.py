"""Edited code of one's own is new code; that of the package has its version."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from zcbench.content import content_of
from zcbench.proxies import PROXIES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        del sys.modules[name]


def digest(folder: Path, name: str, text: str) -> str:
    (folder / f"{name}.py").write_text(text)
    sys.modules.pop(name, None)
    importlib.invalidate_caches()
    return content_of(importlib.import_module(name).f)


def test_code_of_the_package_has_no_digest() -> None:
    assert content_of(PROXIES["snip"].function, PROXIES["zen"].function) == ""


def test_a_digest_follows_the_file(folder: Path) -> None:
    first = digest(folder, "own_a", "def f(): return 1\n")
    assert len(first) == 12
    assert digest(folder, "own_a", "def f(): return 1\n") == first
    assert digest(folder, "own_a", "def f(): return 2\n") != first


def test_a_digest_follows_what_the_file_uses_from_its_folder(folder: Path) -> None:
    (folder / "own_helper.py").write_text("SCALE = 1\ndef scaled(): return SCALE\n")
    text = "import math\nfrom own_helper import scaled\ndef f(): return scaled() + math.pi\n"
    first = digest(folder, "own_b", text)
    (folder / "own_helper.py").write_text("SCALE = 2\ndef scaled(): return SCALE\n")
    assert digest(folder, "own_b", text) != first


def test_a_thing_can_say_more_than_its_code() -> None:
    class Program:
        def __init__(self, content: str) -> None:
            self.content = content

    one, same, other = Program("a"), Program("a"), Program("b")
    assert content_of(one) == content_of(same) != content_of(other)
