"""The images of anybody's `LightningDataModule`: its first training batches, with all that is random set by a seed.

This file imports no Lightning: who has a data module has imported it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from ..content import content_of
from ..errors import BatchError, ConfigError, ZcbenchError, one_line
from ..plugins import current_folder, named
from ..random_state import given_random_state
from .images import DATASETS, Images, ProbeBatch
from .tasks import Task

T = TypeVar("T")

#: Names of images and labels in batches that are mappings.
_IMAGES = ("image", "images", "img", "x", "pixel_values", "input", "inputs", "data")
_LABELS = ("label", "labels", "y", "target", "targets", "class", "fine_label")
_WHOLE = frozenset({torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64})


class DataModuleImages(Images):
    """The images of a class of data modules, for networks of a task.

    Args:
        text: The class as `MODULE:CLASS`; the module may be in the current folder.
        args: Arguments of the class by name, plain values.
        task: Task of the networks, which says what form images and labels must have.
        folder: Data folder of the study; the data module knows by itself where its images are.

    Attributes:
        content: Digest of the code of the class and of its arguments.

    Raises:
        ConfigError: There is no such class, it is no data module, or an argument is no plain value.
    """

    def __init__(self, text: str, args: Mapping[str, Any], task: Task, folder: Path | None = None) -> None:
        super().__init__(folder)
        self.text, self.args, self.task = text, dict(args), task
        try:
            plain = json.dumps(self.args, sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"datamodule_args: expected texts, numbers, lists and mappings ({error})") from None
        self.content = hashlib.sha256(f"{content_of(_class(text))} {plain}".encode()).hexdigest()[:12]
        self.name = f"{text} {self.content}"

    def draw(self, count: int, seed: int) -> tuple[Tensor, Tensor | None]:
        """Return the first images of the training loader of a new data module, and their labels.

        Raises:
            ConfigError: A method of the data module fails, or it has too few images.
            BatchError: Images or labels have not the form of the task.
        """
        x, y = _drawn(self._make, self.text, count, seed, labelled=self.task.outputs == "logits")
        if x.shape[1:] != self.task.shape:
            raise BatchError(
                f"datamodule {self.text}: expected images {self.task.shape}, those of the task {self.task.name}, got "
                f"{tuple(x.shape[1:])}: resize them, or choose the task by --dataset"
            )
        last = self.task.num_classes - 1
        if y is not None and int(y.max()) > last:
            raise BatchError(
                f"datamodule {self.text}: expected labels 0 to {last}, those of the task {self.task.name}, got "
                f"{int(y.max())}: choose the task by --dataset"
            )
        return x, y

    def _make(self) -> Any:
        return _class(self.text)(**self.args)


def images_of(dataset: str, datamodule: str, args: Mapping[str, Any], folder: Path) -> Images:
    """Return the images of a data set, or those of a class of data modules for the task of the data set.

    Args:
        dataset: Name of the data set.
        datamodule: The class as `MODULE:CLASS`, or an empty text.
        args: Arguments of the class by name.
        folder: Data folder.

    Raises:
        UnknownNameError: There is no data set of that name.
        ConfigError: There is no such class, it is no data module, or there are arguments without a class.
    """
    images = DATASETS[dataset](folder)
    if datamodule:
        return DataModuleImages(datamodule, args, images.task, folder)
    if args:
        raise ConfigError("datamodule_args: expected a datamodule that takes them, got none: add --datamodule")
    return images


def batch_of_class(text: str, args: Mapping[str, Any], batch_size: int, seed: int) -> ProbeBatch:
    """Return the first images of a class of data modules, of any size, as `batch_of` does for an instance."""
    kind = _class(text)
    return ProbeBatch.of(*_drawn(lambda: kind(**args), text, batch_size, seed))


def batch_of(datamodule: object, batch_size: int, seed: int) -> ProbeBatch:
    """Return the first images of the training loader of a data module, and their labels if it has any.

    Args:
        datamodule: A `LightningDataModule`.
        batch_size: Number of images; as many batches as needed are read.
        seed: Seed of all that the data module draws from the global generators of torch, NumPy and Python, and from the
            generator of its loader. They are left as they were.

    Raises:
        ConfigError: This is no data module, a method of it fails, or it has too few images.
        BatchError: The batches have no images `(N, C, H, W)` or no labels `(N,)`.
    """
    if not _is_datamodule(type(datamodule)):
        got = f"the class {datamodule.__name__}" if isinstance(datamodule, type) else type(datamodule).__name__
        raise ConfigError(f"datamodule: expected an instance of LightningDataModule, got {got}")
    name = f"{type(datamodule).__module__}:{type(datamodule).__qualname__}"
    return ProbeBatch.of(*_drawn(lambda: datamodule, name, batch_size, seed))


def _class(text: str) -> type:
    """Return the class of data modules that a text names."""
    found = named(text, "datamodule", "CLASS")
    if not isinstance(found, type) or not _is_datamodule(found):
        got = f"the class {found.__qualname__}" if isinstance(found, type) else type(found).__name__
        raise ConfigError(f"datamodule: expected {text} to be a subclass of LightningDataModule, got {got}")
    return found


def _is_datamodule(kind: type) -> bool:
    """Tell whether a class is a data module of either package that Lightning comes in; they share no class."""
    packages = {"pytorch_lightning", "lightning"}
    return any(k.__name__ == "LightningDataModule" and k.__module__.split(".")[0] in packages for k in kind.__mro__)


def _drawn(
    make: Callable[[], Any], name: str, count: int, seed: int, *, labelled: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Return the first images of a data module and their labels, after two draws were found to be the same."""
    if count < 1:
        raise ConfigError(f"batch_size: expected 1 or more, got {count}")
    (x, y), (again, labels) = (_once(make, name, count, seed, labelled) for _ in range(2))
    if not torch.equal(x, again) or (y is not None and labels is not None and not torch.equal(y, labels)):
        raise ConfigError(
            f"datamodule {name}: two draws with the seed {seed} have other images: expected random numbers of torch, "
            "numpy.random or random alone, which are seeded; make generators of its own in setup, with a fixed seed"
        )
    return x, y


def _once(make: Callable[[], Any], name: str, count: int, seed: int, labelled: bool) -> tuple[Tensor, Tensor | None]:
    def call(what: str, function: Callable[..., T], *args: Any) -> T:
        try:
            # Each method is seeded anew: a first run that downloads draws what a later one draws.
            with current_folder(), given_random_state(seed, torch.device("cpu")), _silent():
                return function(*args)
        except ZcbenchError:
            raise
        except (Exception, SystemExit) as error:  # code of others may raise anything
            first = one_line(next(iter(str(error).strip().splitlines()), ""))[:200]
            raise ConfigError(
                f"datamodule {name}: {what} raises {type(error).__name__} ({first}): expected a data module whose "
                'prepare_data(), setup("fit") and train_dataloader() work without a Trainer'
            ) from None

    module = call("__init__", make)
    call("prepare_data", module.prepare_data)
    call("setup", module.setup, "fit")
    loader = call("train_dataloader", module.train_dataloader)
    parts = call("the loader of train_dataloader", lambda: list(_taken(loader, name, count, seed, labelled)))
    if (found := sum(len(x) for x, _ in parts)) < count:
        raise ConfigError(
            f"batch_size: expected at most {found}, the number of images in the training loader of {name}, got {count}"
        )
    if len(sizes := {tuple(x.shape[1:]) for x, _ in parts}) > 1:
        raise BatchError(f"datamodule {name}: expected images of one size, got {' and '.join(map(str, sorted(sizes)))}")
    x = torch.cat([x for x, _ in parts])[:count].contiguous()
    labels = [y for _, y in parts if y is not None]
    y = torch.cat(labels)[:count] if len(labels) == len(parts) else None
    if not bool(x.isfinite().all()):
        raise BatchError(f"datamodule {name}: expected finite pixels, got NaN or an infinity")
    if y is not None and int(y.min()) < 0:
        raise BatchError(f"datamodule {name}: expected labels of 0 or more, got {int(y.min())}")
    return x, y


def _taken(loader: Any, name: str, count: int, seed: int, labelled: bool) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield images and labels of the first batches, until there are enough."""
    found = 0
    with _in_this_process(loader, seed):
        for batch in loader:
            x, y = parts(batch, name, labelled=labelled)
            yield x, y
            found += len(x)
            if found >= count:
                return


def parts(batch: Any, name: str, *, labelled: bool = True) -> tuple[Tensor, Tensor | None]:
    """Return the images `(N, C, H, W)` of a batch, float32, and its labels `(N,)`, int64, both on the CPU.

    Args:
        batch: Images alone, images and labels, or a mapping with image and label.
        name: Name of the data module, for errors.
        labelled: Whether labels are read.

    Raises:
        BatchError: The batch has another form.
    """
    if isinstance(batch, Mapping):
        x, y = (next((batch[key] for key in keys if key in batch), None) for keys in (_IMAGES, _LABELS))
    elif isinstance(batch, (tuple, list)):
        x, y = (*batch, None, None)[:2]
    else:
        x, y = batch, None
    if not isinstance(x, Tensor):
        got = f"a mapping of {', '.join(map(str, batch))}"[:80] if isinstance(batch, Mapping) else type(batch).__name__
        raise BatchError(
            f"datamodule {name}: expected batches of images alone, of (images, labels), or a mapping with image and "
            f"label, all tensors, got {got}"
        )
    if x.ndim != 4 or not x.is_floating_point():
        raise BatchError(
            f"datamodule {name}: expected floating-point images (N, C, H, W), got {x.dtype} {tuple(x.shape)}"
        )
    x = x.detach().as_subclass(Tensor).to("cpu", torch.float32)
    if y is None or not labelled:
        return x, None
    if not isinstance(y, Tensor) or y.shape != x.shape[:1] or y.dtype not in _WHOLE:
        got = f"{y.dtype} {tuple(y.shape)}" if isinstance(y, Tensor) else type(y).__name__
        raise BatchError(f"datamodule {name}: expected labels ({len(x)},) of whole numbers, one per image, got {got}")
    return x, y.detach().as_subclass(Tensor).to("cpu", torch.int64)


@contextlib.contextmanager
def _in_this_process(loader: Any, seed: int) -> Iterator[None]:
    """Let a loader read images in this process, in an order that the seed decides, and restore it afterwards."""
    here = {"num_workers": 0, "timeout": 0, "pin_memory": False} if isinstance(loader, DataLoader) else {}
    before = {name: getattr(loader, name) for name in here}
    sampler, batches = getattr(loader, "sampler", None), getattr(loader, "batch_sampler", None)
    holders = (loader, sampler, batches, getattr(batches, "sampler", None))
    found = (getattr(holder, "generator", None) for holder in holders)
    states = {g: g.get_state() for g in found if isinstance(g, torch.Generator)}
    try:
        for name, value in here.items():
            setattr(loader, name, value)
        for generator in states:
            generator.manual_seed(seed)
        yield
    finally:
        for name, value in before.items():
            setattr(loader, name, value)
        for generator, state in states.items():
            generator.set_state(state)


def _silent() -> contextlib.AbstractContextManager[Any]:
    """Keep what others print away from the results on standard output."""
    return contextlib.redirect_stdout(sys.stderr)
