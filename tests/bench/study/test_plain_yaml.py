"""Texts that are small and become large, deep or unclear are refused at once."""

from __future__ import annotations

import time

import pytest
import yaml
from zcbench.bench.study.plain_yaml import DEEPEST, LONGEST, read_yaml

BOMB = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"a{i + 1}: &a{i + 1} [{','.join([f'*a{i}'] * 10)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (BOMB, "more than 100,000 values when aliases"),
        ("a: &a [*a]", "an alias of what it lies in"),
        ("[" * 100_000, f"more than {DEEPEST} levels"),
        ("[" * 1000 + "]" * 1000, f"more than {DEEPEST} levels"),
        ("sample: 1\nspace: nb201\nsample: 2", "line 1 has the key sample twice"),
        ("a: {b: 1, b: 2}", "the key b twice"),
        ("!!python/object/apply:os.system ['true']", "could not determine a constructor"),
    ],
)
def test_hostile_texts_are_refused(text: str, reason: str) -> None:
    started = time.process_time()
    with pytest.raises(yaml.YAMLError, match=reason.replace("(", r"\(")):
        read_yaml(text)
    assert time.process_time() - started < 5


def test_long_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="1,000,001 characters, expected at most 1,000,000"):
        read_yaml("#" * (LONGEST + 1))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("sample: 200", {"sample": 200}),
        ("a: &a [1, 2]\nb: *a", {"a": [1, 2], "b": [1, 2]}),
        ("", None),
        ("- {x: 1.5, y: [true, null]}", [{"x": 1.5, "y": [True, None]}]),
    ],
)
def test_settings_are_read(text: str, value: object) -> None:
    assert read_yaml(text) == value
