from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError, DataFileError
from zcbench.spaces import SPACES, nb_macro
from zcbench.spaces.nb_macro import Choice, Layer, unique_text

SPACE = SPACES["nb_macro"](None)
TEXTS = ["".join(digits) for digits in itertools.product("012", repeat=8)]


@pytest.fixture(scope="module")
def official(real_data: Path) -> Path:
    path = real_data / "tables" / "nb-macro" / "nas-bench-macro_cifar10.json"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return path


@pytest.fixture(scope="module")
def table(official: Path) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = json.loads(official.read_bytes())
    return found


def made_up() -> dict[str, Any]:
    return {text: {"test_acc": [10 + i / 1000, 20 + i / 1000, 30 + i / 1000]} for i, text in enumerate(TEXTS)}


def test_index_is_a_number_of_base_three() -> None:
    assert [SPACE.architecture(index) for index in range(SPACE.size)] == TEXTS
    assert [SPACE.index(text) for text in TEXTS] == list(range(6561))


def test_sizes_equal_the_official_table(table: dict[str, dict[str, Any]]) -> None:
    # Its flops leave the bias of the linear layer out: one operation per class.
    assert set(table) == set(TEXTS)
    for text, record in table.items():
        assert SPACE.params(text, TASKS["cifar10"]) == record["params"], text
        assert SPACE.macs(text, TASKS["cifar10"]) == record["flops"] + 10, text


@pytest.mark.parametrize(("text", "params"), [("00000000", 387_882), ("22212202", 1_985_514)])
def test_params_of_known_networks(text: str, params: int) -> None:
    assert SPACE.params(text, TASKS["cifar10"]) == params


def test_networks_that_are_the_same_were_trained_once(table: dict[str, dict[str, Any]]) -> None:
    first: dict[str, Any] = {}
    assert all(first.setdefault(unique_text(text), table[text]) == table[text] for text in TEXTS)
    assert len(first) == 3969


def test_unique_text_is_the_same_function() -> None:
    x = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    for text in ("02001010", "11201102", "00002001"):
        assert unique_text(text) != text
        assert torch.equal(
            SPACE.build(text, TASKS["cifar10"], 0)(x), SPACE.build(unique_text(text), TASKS["cifar10"], 0)(x)
        )


def test_the_class_is_the_index_of_the_unique_text() -> None:
    assert len({SPACE.representative(index) for index in range(SPACE.size)}) == 3969
    index = SPACE.index("02001010")
    assert SPACE.architecture(SPACE.representative(index)) == unique_text("02001010") == "02010010"
    assert SPACE.traits("02001010") == {"isomorphism_class": SPACE.index("02010010")}


def test_unique_text_is_its_own() -> None:
    assert {unique_text(unique_text(text)) for text in TEXTS} == {unique_text(text) for text in TEXTS}
    with pytest.raises(ArchitectureError, match="expected 8 digits"):
        unique_text("123")


def test_layers_of_a_network() -> None:
    network = SPACE.build("10002120", TASKS["cifar10"], 0)
    kinds = [[name for name, _ in choice.named_children()] for choice in network.get_submodule("layers").children()]
    assert kinds == [["conv"], [], ["0", "1"], [], ["conv"], ["conv"], ["conv"], []]
    x = network.get_submodule("stem")(torch.zeros(1, 3, 32, 32))
    assert network.get_submodule("layers")(x).shape == (1, 256, 4, 4)


def test_residual_is_added_where_the_shapes_agree() -> None:
    x = torch.randn(2, 8, 4, 4, generator=torch.Generator().manual_seed(0))
    for module, adds in ((Choice(Layer("1", 8, 8, stride)), stride == 1) for stride in (1, 2)):
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm2d):
                nn.init.zeros_(norm.weight)
        assert torch.equal(module(x), x if adds else torch.zeros(2, 8, 2, 2))


def test_accuracies(official: Path, table: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nb_macro, "find", lambda *_: official)
    mean = SPACES["nb_macro"](official).truth("cifar10", "default")
    assert mean.name == "cifar10/test-mean"
    assert SPACE.architecture(int(mean.values.argmax())) == "22212202"
    assert round(float(mean.values.max()), 2) == 93.13
    np.testing.assert_allclose(mean.values, [table[text]["mean_acc"] for text in TEXTS], rtol=0, atol=1e-9)
    for run in range(3):
        values = SPACES["nb_macro"](official).truth("cifar10", f"test-run-{run + 1}").values
        assert values.tolist() == [table[text]["test_acc"][run] for text in TEXTS]


def test_accuracies_come_by_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(dict(reversed(made_up().items()))))
    monkeypatch.setattr(nb_macro, "find", lambda *_: path)
    assert SPACES["nb_macro"](tmp_path).truth("cifar10", "test-run-2").values.tolist() == [
        20 + i / 1000 for i in range(6561)
    ]
    np.testing.assert_allclose(
        SPACES["nb_macro"](tmp_path).truth("cifar10", "test-mean").values, [20 + i / 1000 for i in range(6561)]
    )


def spoilt(record: object, text: str = "00000001") -> bytes:
    return json.dumps(made_up() | {text: record}).encode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(b"", "torn or not JSON", id="empty"),
        pytest.param(json.dumps(made_up()).encode()[:50_000], "torn or not JSON", id="truncated"),
        pytest.param(b"<!DOCTYPE html>\n<html>", "torn or not JSON", id="HTML page"),
        pytest.param(bytes(range(256)), "torn or not JSON", id="binary"),
        pytest.param(b"[" * 100_000, "torn or not JSON", id="nested"),
        pytest.param(b'{"00000000": 1, "00000000": 2}', "occurs twice", id="duplicate"),
        pytest.param(b"[1, 2]", "expected networks with a test_acc, got list", id="list"),
        pytest.param(b"{}", "6561 of 6561 networks are missing", id="no networks"),
        pytest.param(json.dumps(dict(list(made_up().items())[1:])).encode(), "1 of 6561", id="one missing"),
        pytest.param(spoilt({"test_acc": [1, 2, 3]}, "33333333"), "network '33333333'.*8 digits", id="unknown network"),
        pytest.param(spoilt({"mean_acc": 1}), "network '00000001'.*test_acc is missing", id="no accuracies"),
        pytest.param(spoilt(None), "network '00000001'.*another kind", id="no record"),
        pytest.param(spoilt({"test_acc": 90.0}), "network '00000001'.*another kind", id="a number"),
        pytest.param(spoilt({"test_acc": [1, 2]}), r"got \[1, 2\]", id="two accuracies"),
        pytest.param(spoilt({"test_acc": [1, 2, 0]}), "above 0", id="zero"),
        pytest.param(spoilt({"test_acc": [1, 2, 101]}), "up to 100", id="above 100"),
        pytest.param(spoilt({"test_acc": [1, 2, float("nan")]}), "got .*nan", id="nan"),
        pytest.param(spoilt({"test_acc": [1, 2, "3"]}), "got .*'3'", id="text"),
        pytest.param(spoilt({"test_acc": [1, 2, True]}), "got .*True", id="truth value"),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, message: str
) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(content)
    monkeypatch.setattr(nb_macro, "find", lambda *_: path)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES["nb_macro"](tmp_path).truth("cifar10", "test-mean")
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400 + len(str(path))
