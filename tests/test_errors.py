"""Errors are said in plain words, without the names of Python."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from zcbench.errors import BaselineError, few, in_words, kind_of


@dataclass
class Pair:
    first: int
    second: int


@pytest.mark.parametrize(
    ("fails", "said"),
    [
        (lambda: Path("missing").read_text(), "No such file or directory"),
        (lambda: Path("/").read_text(), "Is a directory"),
        (lambda: json.loads('{"a":\n'), "line 2, column 1 is no JSON"),
        (lambda: json.loads("[" * 100_000), "nested too deep"),
        (b"\xff".decode, "no text in UTF-8"),
        (lambda: yaml.safe_load("a: ["), "line 1, column 5: "),
        (lambda: {}["recipe"], "recipe is missing"),
        (lambda: operator.getitem([], 0), "a value is of another kind than expected"),
        (lambda: len(3), "a value is of another kind than expected"),
        (lambda: Pair(first=1), "second is missing"),
        (lambda: Pair(1, 2, third=3), "third is unknown"),
        (lambda: float("high"), "expected a number, got 'high'"),
    ],
)
def test_a_fault_of_a_file_in_words(fails: Callable[[], Any], said: str) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the kinds of errors are what is tried
        fails()
    assert in_words(caught.value).startswith(said)


def test_an_error_of_the_house_keeps_its_words() -> None:
    assert in_words(BaselineError("torn")) == "torn"
    assert len(in_words(ValueError("long " * 100))) == 120
    assert len(in_words(ValueError("long " * 100), 250)) == 250


def test_kinds_of_values_in_words() -> None:
    kinds = [kind_of(value) for value in ({}, [], "", True, None, 3, 0.5)]
    assert kinds == ["names with values", "a list", "a text", "true or false", "nothing", "a number", "a number"]


def test_many_names_are_the_first_and_a_number() -> None:
    assert few(["a", "b"], 3) == "a, b"
    assert few(["a", "b", "c"], 3) == "a, b, c"
    assert few(["a", "b", "c", "d", "e"], 3) == "a, b, c and 2 more"
