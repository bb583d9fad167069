from __future__ import annotations

import hashlib
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
import zcbench
from pytorch_lightning import LightningDataModule
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset
from zcbench.datasets import TASKS
from zcbench.datasets.datamodule import DataModuleImages, batch_of, images_of
from zcbench.errors import BatchError, ConfigError, UnknownNameError, ZcbenchError

PIXELS = torch.randn(20, 3, 32, 32, generator=torch.Generator().manual_seed(5))
LABELS = torch.arange(20) % 10


class Fixed(LightningDataModule):
    """Twenty images in their order; `batches` makes another kind of batch of them."""

    def __init__(
        self, x: Any = PIXELS, y: Any = LABELS, batches: Callable[[Tensor, Tensor], Any] | None = None
    ) -> None:
        super().__init__()
        self.x, self.y, self.batches = x, y, batches

    def train_dataloader(self) -> Any:
        if self.batches is None:
            return DataLoader(TensorDataset(self.x, self.y), batch_size=6)
        return [self.batches(self.x[i : i + 6], self.y[i : i + 6]) for i in range(0, len(self.x), 6)]


class Shuffled(LightningDataModule):
    """Shuffled images with noise of all three generators; the loader would have workers."""

    def setup(self, stage: str) -> None:
        self.offset = random.random()

    def train_dataloader(self) -> Any:
        def collate(items: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
            x = torch.stack([x + torch.rand(()) + float(np.random.rand()) + self.offset for x, _ in items])
            return x, torch.stack([y for _, y in items])

        return DataLoader(
            TensorDataset(PIXELS, LABELS),
            batch_size=4,
            shuffle=True,
            num_workers=2,
            persistent_workers=True,
            timeout=60,
            collate_fn=collate,
        )


def test_images_are_those_of_the_first_batches() -> None:
    for size in (1, 6, 7, 20):
        batch = batch_of(Fixed(), size, seed=0)
        assert torch.equal(batch.x, PIXELS[:size])
        assert batch.y is not None
        assert batch.y.tolist() == LABELS[:size].tolist()
        assert batch.hash == hashlib.sha256(batch.x.numpy().tobytes() + batch.y.numpy().tobytes()).hexdigest()[:16]


@pytest.mark.parametrize(
    ("batches", "labelled"),
    [
        (lambda x, y: (x, y), True),
        (lambda x, y: [x, y, ["names"]], True),
        (lambda x, y: {"image": x, "label": y}, True),
        (lambda x, y: {"labels": y, "pixel_values": x, "index": 3}, True),
        (lambda x, y: (x, y.to(torch.int32)), True),
        (lambda x, y: (x.double().requires_grad_(), y), True),
        (lambda x, y: (x.contiguous(memory_format=torch.channels_last), y), True),
        (lambda x, y: x, False),
        (lambda x, y: (x,), False),
        (lambda x, y: {"x": x}, False),
    ],
    ids=["tuple", "three", "mapping", "hugging face", "int32", "float64", "channels last", "tensor", "one", "no label"],
)
def test_kinds_of_batches_that_are_understood(batches: Callable[[Tensor, Tensor], Any], labelled: bool) -> None:
    batch = batch_of(Fixed(batches=batches), 8, seed=0)
    assert torch.equal(batch.x, PIXELS[:8])
    assert batch.x.is_contiguous()
    assert not batch.x.requires_grad
    if labelled:
        assert batch.y is not None
        assert (batch.y.tolist(), batch.y.dtype) == (LABELS[:8].tolist(), torch.int64)
    else:
        assert batch.y is None


def test_the_seed_decides_all_that_is_random_and_nothing_else_does() -> None:
    torch.manual_seed(1)
    one = batch_of(Shuffled(), 10, seed=3)
    torch.manual_seed(2)
    random.seed(2)
    np.random.seed(2)
    assert batch_of(Shuffled(), 10, seed=3).hash == one.hash
    assert batch_of(Shuffled(), 10, seed=4).hash != one.hash
    smaller = batch_of(Shuffled(), 7, seed=3)
    assert torch.equal(smaller.x, one.x[:7])
    used = Shuffled()
    assert len({batch_of(used, 10, seed=3).hash for _ in range(2)} | {one.hash}) == 1


def test_the_random_state_and_the_loader_are_left_as_they_were() -> None:
    module = Shuffled()
    module.setup("fit")
    loader = module.train_dataloader()
    module.train_dataloader = lambda: loader
    torch.manual_seed(7)
    before = torch.get_rng_state(), random.getstate(), np.random.get_state()[1].copy()
    batch_of(module, 5, seed=0)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert np.array_equal(np.random.get_state()[1], before[2])
    assert (loader.num_workers, loader.timeout) == (2, 60)


def test_a_generator_of_the_loader_is_seeded_for_the_batch_alone() -> None:
    generator = torch.Generator().manual_seed(11)
    state = generator.get_state()

    class Own(LightningDataModule):
        def train_dataloader(self) -> Any:
            return DataLoader(TensorDataset(PIXELS), batch_size=4, shuffle=True, generator=generator)

    assert batch_of(Own(), 4, seed=0).hash == batch_of(Own(), 4, seed=0).hash != batch_of(Own(), 4, seed=1).hash
    assert torch.equal(generator.get_state(), state)


def test_a_module_that_lightning_makes_of_data_sets_is_one_too() -> None:
    module = LightningDataModule.from_datasets(TensorDataset(PIXELS, LABELS), batch_size=5)
    chosen = batch_of(module, 8, seed=0).x
    assert all(any(torch.equal(x, pixels) for pixels in PIXELS) for x in chosen)


def test_what_a_module_prints_is_not_a_result(capsys: pytest.CaptureFixture[str]) -> None:
    class Talks(Fixed):
        def prepare_data(self) -> None:
            sys.stdout.write("Files already downloaded and verified\n")

    batch_of(Talks(), 2, seed=0)
    output = capsys.readouterr()
    assert output.out == ""
    assert "verified" in output.err


class Fails(Fixed):
    """A module one of whose methods raises."""

    def __init__(self, where: str) -> None:
        super().__init__()
        setattr(self, where, self.fails)

    def fails(self, *_: Any) -> Any:
        raise OSError("no disk\nsecond line")


class Unsteady(Fixed):
    """A module whose images the seed does not decide."""

    def train_dataloader(self) -> Any:
        return DataLoader(TensorDataset(self.x + np.random.default_rng().random()), batch_size=4)


def nan() -> Tensor:
    pixels = PIXELS.clone()
    pixels[3, 0, 0, 0] = torch.nan
    return pixels


@pytest.mark.parametrize(
    ("module", "size", "words"),
    [
        (Fails("prepare_data"), 4, ["prepare_data raises OSError (no disk)", "without a Trainer"]),
        (Fails("setup"), 4, ["setup raises OSError (no disk)"]),
        (Fails("train_dataloader"), 4, ["train_dataloader raises OSError (no disk)"]),
        (LightningDataModule(), 4, ["train_dataloader raises MisconfigurationException", "must be implemented"]),
        (Fixed(batches=lambda x, y: 1 / 0), 4, ["train_dataloader raises ZeroDivisionError"]),
        (Fixed(), 21, ["expected at most 20", "got 21"]),
        (Fixed(), 0, ["expected 1 or more, got 0"]),
        (Fixed(x=nan()), 8, ["expected finite pixels"]),
        (Fixed(x=PIXELS[:, :, 0]), 8, ["(N, C, H, W)", "(6, 3, 32)"]),
        (Fixed(x=torch.zeros(20, 3, 8, 8, dtype=torch.uint8)), 8, ["floating-point", "torch.uint8 (6, 3, 8, 8)"]),
        (Fixed(batches=lambda x, y: x[..., : 4 + len(x)]), 20, ["one size", "(3, 32, 6) and (3, 32, 10)"]),
        (Fixed(y=LABELS - 1), 8, ["labels of 0 or more, got -1"]),
        (Fixed(y=LABELS.double()), 8, ["whole numbers", "torch.float64 (6,)"]),
        (Fixed(y=nn.functional.one_hot(LABELS)), 8, ["one per image", "(6, 10)"]),
        (Fixed(batches=lambda x, y: {"left": x, "right": x}), 8, ["mapping with image and label", "left, right"]),
        (Fixed(batches=lambda x, y: "text"), 8, ["all tensors, got str"]),
        (Fixed(batches=lambda x, y: (x, y.tolist())), 8, ["labels (6,)", "got list"]),
        (Unsteady(), 8, ["two draws with the seed 0 have other images"]),
        (Fixed, 8, ["an instance of LightningDataModule, got the class Fixed"]),
        (DataLoader(TensorDataset(PIXELS)), 8, ["an instance of LightningDataModule, got DataLoader"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_bad_modules_are_one_line(module: Any, size: int, words: list[str]) -> None:
    with pytest.raises((ConfigError, BatchError)) as caught:
        batch_of(module, size, seed=0)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert all(word in line for word in words), line


def test_score_of_the_images_of_a_module_is_that_of_the_images() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(3072, 4), nn.ReLU(), nn.Linear(4, 10))
    names = ["snip", "naswot", "zico"]
    of_module = zcbench.score(net, datamodule=Fixed(), batch_size=8, proxies=names)
    of_images = zcbench.score(net, PIXELS[:8], LABELS[:8], proxies=names)
    assert {n: s.value for n, s in of_module.items()} == {n: s.value for n, s in of_images.items()}
    assert zcbench.score(net.double(), datamodule=Fixed(), batch_size=8, proxies=["snip"])["snip"].status == "ok"
    without = zcbench.score(net, datamodule=Fixed(batches=lambda x, y: x), batch_size=8, proxies=["snip"])
    assert without["snip"].status == "not_applicable"
    with pytest.raises(BatchError, match="got both"):
        zcbench.score(net, PIXELS, datamodule=Fixed())
    with pytest.raises(BatchError, match="expected a tensor, got NoneType"):
        zcbench.score(net)


MODULE = """
import sys
import torch
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader, TensorDataset

class Blocks(LightningDataModule):
    def __init__(self, classes=10, side=32):
        super().__init__()
        self.classes, self.side = classes, side

    def train_dataloader(self):
        images = torch.randn(12, 3, self.side, self.side)
        return DataLoader(TensorDataset(images, torch.arange(12) % self.classes), batch_size=5, shuffle=True)

class Plain:
    pass

def function():
    pass
"""
HASH = """
import sys
from pathlib import Path
from zcbench.datasets.datamodule import images_of
images = images_of("cifar10", "my_blocks:Blocks", {}, Path("data"))
print(images.name, *(images.probe_batch(7, seed).hash for seed in (0, 1)))
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_blocks.py"
    path.write_text(MODULE)
    sys.modules.pop("my_blocks", None)
    yield path
    sys.modules.pop("my_blocks", None)


def test_two_processes_draw_the_same_batch_and_two_seeds_draw_two(own: Path) -> None:
    first, second = (
        subprocess.run([sys.executable, "-c", HASH], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    )
    assert first == second
    *_, of_seed_0, of_seed_1 = first.split()
    assert of_seed_0 != of_seed_1
    images = images_of("cifar10", "my_blocks:Blocks", {}, own.parent)
    assert images.probe_batch(7, 0).hash == of_seed_0
    assert torch.equal(images.probe_batch(3, 0).x, images.probe_batch(7, 0).x[:3])


def test_the_name_says_the_class_its_code_and_its_arguments(own: Path) -> None:
    def name(**args: Any) -> str:
        sys.modules.pop("my_blocks", None)
        return images_of("cifar10", "my_blocks:Blocks", args, own.parent).name

    names = [name(), name(classes=5)]
    assert name() == names[0]
    own.write_text(MODULE + "\n# edited\n")
    names.append(name())
    assert len(set(names)) == 3
    assert all(n.startswith("my_blocks:Blocks ") for n in names)


@pytest.mark.parametrize(
    ("text", "args", "words"),
    [
        ("my_blocks", {}, ["expected MODULE:CLASS, got 'my_blocks'"]),
        ("my_blocks:Absent", {}, ["cannot find my_blocks:Absent"]),
        ("no_blocks:Blocks", {}, ["cannot find no_blocks:Blocks"]),
        ("my_blocks:Plain", {}, ["to be a subclass of LightningDataModule, got the class Plain"]),
        ("my_blocks:function", {}, ["to be a subclass of LightningDataModule, got function"]),
        ("my_blocks:Blocks", {"root": 3}, ["__init__ raises TypeError", "unexpected keyword argument 'root'"]),
        ("my_blocks:Blocks", {"side": float("nan")}, ["datamodule_args: expected texts, numbers"]),
        ("my_blocks:Blocks", {"side": {1}}, ["datamodule_args: expected texts, numbers"]),
        ("my_blocks:Blocks", {"side": 16}, ["images (3, 32, 32)", "task cifar10, got (3, 16, 16)"]),
        ("my_blocks:Blocks", {"classes": 11}, ["labels 0 to 9", "task cifar10, got 10"]),
        ("", {"side": 16}, ["datamodule_args: expected a datamodule that takes them"]),
    ],
    ids=str,
)
def test_bad_classes_are_one_line(own: Path, text: str, args: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ZcbenchError) as caught:
        images_of("cifar10", text, args, own.parent).probe_batch(12, 0)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert all(word in line for word in words), line


def test_labels_of_a_task_that_has_none_are_left_out(own: Path) -> None:
    images = DataModuleImages("my_blocks:Blocks", {"side": 256}, TASKS["normal"])
    assert images.probe_batch(2, 0).y is None


def test_the_data_set_names_the_task(own: Path) -> None:
    assert images_of("imagenet16-120", "my_blocks:Blocks", {"side": 16}, own.parent).task is TASKS["imagenet16-120"]
    with pytest.raises(UnknownNameError, match="did you mean cifar10"):
        images_of("cifar1", "my_blocks:Blocks", {}, own.parent)


def test_our_own_data_module_is_one_too(tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    args = {"name": "cifar10-samples"}
    images = images_of("cifar10-samples", "zcbench.datasets:ImageDataModule", args, tmp_path)
    x, _ = images_of("cifar10-samples", "", {}, tmp_path).training()  # type: ignore[attr-defined]
    assert torch.equal(images.probe_batch(20, 3).x, x)
    assert isinstance(zcbench.datasets.ImageDataModule("cifar10-samples"), pl.LightningDataModule)
