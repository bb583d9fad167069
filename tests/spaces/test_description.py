"""Networks as files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from zcbench.errors import ArchitectureError, ConfigError, UnknownNameError
from zcbench.spaces.description import Description, read
from zcbench.spaces.zen.space import NAMED


def test_a_description_is_read_as_it_was_written(tmp_path: Path) -> None:
    description = Description("zen", NAMED["start-cifar"], "cifar100", {"score": 1.5})
    description.write(tmp_path / "best.json")
    assert read(tmp_path / "best.json") == description
    assert (tmp_path / "best.py").exists()
    net = read(tmp_path / "best.json").network()
    assert net(torch.zeros(2, 3, 32, 32)).shape == (2, 100)
    assert description.memory_format == torch.channels_last


@pytest.mark.parametrize("content", ["", "{", "[]", '{"space": "zen"}', '{"space": 1, "architecture": "", "task": ""}'])
def test_other_files_are_refused_on_one_line(tmp_path: Path, content: str) -> None:
    path = tmp_path / "best.json"
    path.write_text(content)
    with pytest.raises(ConfigError, match=r"best.json: expected JSON with the texts space, architecture and task"):
        read(path)


def test_faulty_networks_are_refused_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / "best.json"
    for changes, error in (
        ({"space": "zne"}, UnknownNameError),
        ({"task": "cifar"}, UnknownNameError),
        ({"architecture": "none"}, ArchitectureError),
    ):
        path.write_text(json.dumps({"space": "zen", "architecture": NAMED["zennet-1m"], "task": "cifar10"} | changes))
        with pytest.raises(error) as caught:
            read(path).network()
        assert len(str(caught.value).splitlines()) == 1
