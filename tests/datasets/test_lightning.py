from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from zcbench.datasets import ImageDataModule
from zcbench.errors import ConfigError, DataFileError, UnknownNameError

COUNT = 40
PIXELS = (np.arange(COUNT * 3072) * 7919 % 256).astype(np.uint8).reshape(COUNT, 3072)
LABELS = [index * 7 % 10 for index in range(COUNT)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "cifar-10-batches-py" / "data_batch_1"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps({"labels": LABELS, "data": PIXELS}, protocol=4))
    return tmp_path


@pytest.mark.parametrize("batch_size", [1, 16, 40, 64])
def test_the_loader_yields_everything_in_order(folder: Path, batch_size: int) -> None:
    batches = [(x, y) for x, y in ImageDataModule("cifar10", folder, batch_size).train_dataloader()]
    assert len(batches[0][1]) == min(batch_size, COUNT)
    mean, std = np.array([0.4914, 0.4822, 0.4465]), np.array([0.2470, 0.2435, 0.2616])
    expected = (PIXELS.reshape(-1, 3, 32, 32) / 255 - mean.reshape(3, 1, 1)) / std.reshape(3, 1, 1)
    np.testing.assert_array_equal(torch.cat([x for x, _ in batches]).numpy(), expected.astype(np.float32))
    assert torch.cat([y for _, y in batches]).tolist() == LABELS


class Linear(pl.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 10))
        self.seen: list[int] = []

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        self.seen += batch[1].tolist()
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*treespec, LeafSpec")
@pytest.mark.filterwarnings("ignore:The `srun` command is available")
def test_a_trainer_trains_on_a_data_set(folder: Path) -> None:
    off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    net = Linear()
    pl.Trainer(accelerator="cpu", max_epochs=1, log_every_n_steps=1, **off).fit(
        net, datamodule=ImageDataModule("cifar10", folder, batch_size=16)
    )
    assert net.seen == LABELS


def test_what_is_no_data_set_of_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="read from files, got noise-cifar10"):
        ImageDataModule("noise-cifar10")
    with pytest.raises(UnknownNameError, match="did you mean cifar10"):
        ImageDataModule("cifar1")
    with pytest.raises(DataFileError, match="data_batch_1 is absent"):
        ImageDataModule("cifar10", tmp_path).setup("fit")
