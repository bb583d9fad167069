from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
import zcbench
from pytorch_lightning.loggers import Logger
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from zcbench.errors import ConfigError, UnknownNameError

OFF = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        for text in (".*does not have many workers", ".*treespec, LeafSpec", "The `srun` command is available"):
            warnings.filterwarnings("ignore", text)
        yield


class Kept(Logger):
    """A logger that keeps what it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.metrics: list[tuple[int | None, dict[str, float]]] = []

    @property
    def name(self) -> str:
        return "kept"

    @property
    def version(self) -> str:
        return "0"

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.metrics.append((step, dict(metrics)))

    def log_hyperparams(self, *_: Any, **__: Any) -> None:
        pass


class Classifier(pl.LightningModule):
    def __init__(self, forward: bool = True) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.GELU(), nn.Flatten(), nn.Dropout(0.5))
        self.net.append(nn.Linear(4 * 36, 10))
        self.has_forward = forward
        self.batches: list[Tensor] = []
        self.modes: list[bool] = []

    def forward(self, x: Tensor) -> Tensor:
        if not self.has_forward:
            raise NotImplementedError
        out: Tensor = self.net(x)
        return out

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        self.batches.append(batch[0].clone())
        self.modes.append(self.net.training)
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader() -> DataLoader[Any]:
    images = torch.randn(12, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    return DataLoader(TensorDataset(images, torch.arange(12) % 10), batch_size=6, shuffle=True)


def fit(model: pl.LightningModule, *callbacks: pl.Callback, epochs: int = 1) -> tuple[Kept, dict[str, Tensor]]:
    logger = Kept()
    torch.manual_seed(7)
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=epochs, log_every_n_steps=1, logger=logger, callbacks=list(callbacks), **OFF
    )
    trainer.fit(model, loader())
    return logger, {name: tensor.clone() for name, tensor in model.state_dict().items()}


def test_proxies_are_logged_once_and_the_training_is_the_same() -> None:
    plain, expected = Classifier(), {}
    without, expected = fit(plain, epochs=2)
    model, callback = Classifier(), zcbench.ZeroCost("params,snip,naswot,zen")
    logger, weights = fit(model, callback, epochs=2)
    assert all(torch.equal(expected[name], tensor) for name, tensor in weights.items())
    assert model.modes == plain.modes
    assert all(torch.equal(a, b) for a, b in zip(model.batches, plain.batches, strict=True))
    (found,) = [entry for entry in logger.metrics if any("zero_cost" in name for name in entry[1])]
    # The scores are those of the untrained model on the first batch; naswot has none, because there is no ReLU.
    place = [int((loader().dataset.tensors[0] == image).all((1, 2, 3)).nonzero()) for image in model.batches[0]]  # type: ignore[attr-defined]
    fresh = Classifier()
    scores = zcbench.score(fresh, model.batches[0], torch.tensor(place) % 10, proxies=["params", "snip", "zen"])
    assert found == (0, {f"zero_cost/{name}": s.value for name, s in scores.items() if s.status == "ok"})
    assert "zero_cost/snip" in found[1]
    assert callback.scores["naswot"].status == "not_applicable"
    assert [entry for entry in logger.metrics if entry is not found] == without.metrics


def test_a_part_of_the_model_and_fewer_images() -> None:
    model, callback = Classifier(forward=False), zcbench.ZeroCost(["snip"], module="net", images=2, prefix="")
    logger, _ = fit(model, callback)
    assert logger.metrics[0] == (0, {"snip": callback.scores["snip"].value})
    whole = zcbench.ZeroCost(["snip"])
    fit(Classifier(forward=False), whole)
    assert whole.scores["snip"].status == "error"


def test_a_failure_costs_a_line_and_not_the_training() -> None:
    callback = zcbench.ZeroCost(module="absent")
    with pytest.warns(UserWarning, match="nothing is logged.*absent"):
        logger, _ = fit(Classifier(), callback)
    assert [step for step, metrics in logger.metrics if "loss" in metrics] == [0, 1]
    assert callback.scores == {}


def test_a_batch_without_images_costs_a_line() -> None:
    class Texts(Classifier):
        def training_step(self, batch: Any, index: int) -> Tensor:
            return self.net[0].weight.sum()  # type: ignore[union-attr, operator, return-value]

    logger = Kept()
    trainer = pl.Trainer(
        accelerator="cpu", max_epochs=1, log_every_n_steps=1, logger=logger, callbacks=[zcbench.ZeroCost()], **OFF
    )
    with pytest.warns(UserWarning, match="expected floating-point images"):
        trainer.fit(Texts(), DataLoader(TensorDataset(torch.arange(4)), batch_size=2))


def test_a_synchronised_norm_does_not_wait_for_processes_that_score_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Classifier()
    model.net[1] = nn.SyncBatchNorm(4)
    callback = zcbench.ZeroCost()
    trainer = pl.Trainer(accelerator="cpu", logger=False, **OFF)
    monkeypatch.setattr(type(trainer), "world_size", 2)
    callback.on_fit_start(trainer, model)
    with pytest.warns(UserWarning, match="SyncBatchNorm waits"):
        callback.on_train_batch_start(trainer, model, next(iter(loader())), 0)


def test_bad_arguments() -> None:
    with pytest.raises(UnknownNameError, match="did you mean snip"):
        zcbench.ZeroCost("snipp")
    with pytest.raises(ConfigError, match="within a pool"):
        zcbench.ZeroCost("vote")
    with pytest.raises(ConfigError, match="images: expected 1 or more"):
        zcbench.ZeroCost(images=0)
