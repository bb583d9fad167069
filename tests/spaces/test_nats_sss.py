from __future__ import annotations

from pathlib import Path

import pytest
import torch
from zcbench.datasets.files.unpickle import RECORDS, unpickle
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError
from zcbench.spaces import SPACES
from zcbench.spaces.nats_sss import CELL
from zcbench.spaces.nb201.network import text

SPACE = SPACES["nats_sss"](None)


@pytest.fixture(scope="module")
def release(real_data: Path) -> Path:
    folder = real_data / "tables" / "nats-simple" / "NATS-sss-v1_0-50262-simple"
    if not (folder / "meta.pickle.pbz2").is_file():
        pytest.skip(f"needs {folder}")
    return folder


def test_index_is_a_number_of_base_eight() -> None:
    texts = [SPACE.architecture(index) for index in range(SPACE.size)]
    assert texts[:2] == ["8:8:8:8:8", "8:8:8:8:16"]
    assert texts[-1] == "64:64:64:64:64"
    assert len(set(texts)) == SPACE.size == 32_768
    assert [SPACE.index(text) for text in texts] == list(range(SPACE.size))


def test_order_is_the_official_one(release: Path) -> None:
    official = unpickle(release / "meta.pickle.pbz2", RECORDS)["meta_archs"]
    assert official == [SPACE.architecture(index) for index in range(SPACE.size)]


@pytest.mark.parametrize("malformed", ["8:8:8:8", "8:8:8:8:8:8", "8:8:8:8:12", "08:8:8:8:8", "8:8:8:8:72", "8,8,8,8,8"])
def test_malformed_texts(malformed: str) -> None:
    with pytest.raises(ArchitectureError, match=f"'{malformed}': expected 5 widths"):
        SPACE.index(malformed)


@pytest.mark.parametrize(("architecture", "params"), [("8:8:8:8:8", 11_714), ("64:64:64:64:64", 713_674)])
def test_params_of_known_networks(architecture: str, params: int) -> None:
    assert SPACE.params(architecture, TASKS["cifar10"]) == params


@pytest.mark.parametrize("index", [0, 11, 284])
def test_sizes_equal_the_records(release: Path, index: int) -> None:
    for trainings in unpickle(release / f"{index:06d}.pickle.pbz2", RECORDS).values():
        for (name, _), result in trainings["all_results"].items():
            architecture, task = trainings["arch_str"], TASKS[name.lower().removesuffix("-valid")]
            assert result["arch_config"]["genotype"] == text(CELL)
            assert result["arch_config"]["class_num"] == task.num_classes
            assert round(1e6 * result["params"]) == SPACE.params(architecture, task)
            assert round(1e6 * result["flop"]) == SPACE.macs(architecture, task)


def test_network_of_five_widths() -> None:
    network = SPACE.build("8:16:24:32:64", TASKS["cifar10"], 0)
    x = network.get_submodule("stem")(torch.zeros(1, 3, 32, 32))
    shapes = []
    for cell in network.get_submodule("cells").children():
        x = cell(x)
        shapes.append(tuple(x.shape[1:]))
    assert shapes == [(8, 32, 32), (16, 16, 16), (24, 16, 16), (32, 8, 8), (64, 8, 8)]
    kinds = [
        type(cell.get_submodule("layers")[3]).__name__ for cell in list(network.get_submodule("cells").children())[::2]
    ]
    assert kinds == ["Skip", "FactorizedReduce", "FactorizedReduce"]
