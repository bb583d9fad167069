from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from zcbench.bench.study.config import StudyConfig, describe, distinct, read_configs, studies
from zcbench.bench.study.recipe import Work
from zcbench.bench.study.resolve import work_items
from zcbench.errors import ConfigError


@dataclass(frozen=True)
class Proxy:
    name: str
    batch_size: int


A, B, C = Proxy("a", 64), Proxy("b", 16), Proxy("c", 64)


def test_named_batch_sizes_are_for_all_proxies() -> None:
    assert work_items([A, B, C], [32, 8], [1, 0]) == tuple(
        Work(seed, size, ("a", "b", "c")) for seed in (1, 0) for size in (32, 8)
    )


def test_without_batch_sizes_each_proxy_has_its_own() -> None:
    assert work_items([A, B, C], [], [0, 5]) == (
        Work(0, 16, ("b",)),
        Work(0, 64, ("a", "c")),
        Work(5, 16, ("b",)),
        Work(5, 64, ("a", "c")),
    )


@pytest.mark.parametrize(
    ("proxies", "sizes", "seeds"), [([], [], [0]), ([], [16], [0]), ([A], [], []), ([A], [16], [])]
)
def test_no_proxies_or_seeds_is_no_work(proxies: list[Proxy], sizes: list[int], seeds: list[int]) -> None:
    assert work_items(proxies, sizes, seeds) == ()


@pytest.mark.parametrize("values", [[], [3], [3, 1, 2], ("b", "a")])
def test_distinct_returns_values_in_their_order(values: Any) -> None:
    assert distinct("seeds", values) == list(values)


@pytest.mark.parametrize(
    ("values", "twice"), [([0, 0], "0"), ([1, 2, 3, 2, 1], "1"), (["zen", "snip", "zen"], "zen"), ((4, 5, 5), "5")]
)
def test_distinct_refuses_what_stands_there_twice(values: Any, twice: str) -> None:
    with pytest.raises(ConfigError, match=f"^seeds: expected distinct values, got {twice} twice$"):
        distinct("seeds", values)


def test_studies_come_with_the_package() -> None:
    assert "quickstart" in studies()
    assert all(path.is_file() and path.stem == Path(name).name for name, path in studies().items())


@pytest.mark.parametrize("name", list(studies()))
def test_studies_say_what_they_are(name: str) -> None:
    path = studies()[name]
    first = path.read_text("utf-8").splitlines()[0]
    assert first == f"# {describe(path)}"
    assert len(describe(path)) > 10


@pytest.mark.parametrize("name", list(studies()))
def test_studies_are_of_this_version(name: str) -> None:
    for config in read_configs(studies()[name]):
        document = yaml.safe_load(Path(config).read_text("utf-8") if config.endswith(".yaml") else config)
        assert document["version"] == 1
        assert set(document) <= set(StudyConfig.__dataclass_fields__)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("proxies: [a, b", "cannot read .*: expected a YAML file", id="not YAML"),
        pytest.param("version: 1\n\tspace: nb201\n", "cannot read .*: expected a YAML file", id="tab"),
        pytest.param("version: !!python/name:os.system\n", "cannot read .*: expected a YAML file", id="a global"),
        pytest.param(b"version: \xff\xfe\n", "cannot read .*: expected a YAML file", id="not UTF-8"),
        pytest.param(b"version: 1\0", "cannot read .*: expected a YAML file", id="NUL"),
        pytest.param("version: 1\nout: 2025-13-45\n", "cannot read .*: expected a YAML file", id="impossible date"),
        pytest.param("version: 2\n", "has version 2, expected `version: 1`", id="other version"),
        pytest.param("version: '1'\n", "has version 1, expected `version: 1`", id="version is a text"),
        pytest.param("version:\n", "has no version, expected `version: 1`", id="version is empty"),
        pytest.param("space: nb201\n", "has no version, expected `version: 1`", id="no version"),
        pytest.param("- version: 1\n", "expected settings by name, `version: 1` first, got a list", id="a list"),
        pytest.param("version 1\n", "expected settings by name, `version: 1` first, got a text", id="a text"),
        pytest.param("", "has no version, expected `version: 1`", id="empty"),
        pytest.param("version: 1\nstudies: nb201\n", "expected a list of settings under `studies`", id="no list"),
        pytest.param("version: 1\nstudies: []\n", "expected a list of settings under `studies`", id="no studies"),
        pytest.param("version: 1\nstudies: [nb201]\n", "expected a list of settings", id="names for studies"),
    ],
)
def test_faulty_files_are_refused_on_one_line(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(ConfigError, match=message) as caught:
        read_configs(path)
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_studies_of_one_file_share_the_settings_at_its_top(tmp_path: Path) -> None:
    path = tmp_path / "several.yaml"
    path.write_text("version: 1\nsample: 5\nseeds: [3]\nstudies:\n- space: nb201\n- {space: nb_macro, sample: 7}\n")
    assert [json.loads(config) for config in read_configs(path)] == [
        {"version": 1, "sample": 5, "seeds": [3], "space": "nb201"},
        {"version": 1, "sample": 7, "seeds": [3], "space": "nb_macro"},
    ]
    path.write_text("version: 1\nsample: 5\n")
    assert read_configs(path) == [str(path)]


def test_absent_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.yaml .*No such file"):
        read_configs(tmp_path / "absent.yaml")


def test_folder_for_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_configs(tmp_path)
