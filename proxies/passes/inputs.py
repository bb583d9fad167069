"""The inputs of a pass as values: the images, parts and crops of them, ones, and noise in their shape."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from ...errors import NotApplicableError


class Batch(Protocol):
    """What inputs are made from: images, labels, random draws."""

    @property
    def x(self) -> Tensor:
        """Images `(N, C, H, W)`."""

    @property
    def drawn(self) -> Mapping[str, Tensor]:
        """Tensors by name that replace random draws."""

    def generator(self, name: str) -> torch.Generator:
        """Return a fresh CPU generator for a named draw."""


@dataclass(frozen=True)
class Input:
    """An input of a pass.

    Attributes:
        reads: What it is made from: `data`, `noise`, both, or nothing.
    """

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return frozenset()

    def make(self, batch: Batch) -> Tensor:
        """Return the tensor `(n, C, H, W)`.

        Raises:
            NotApplicableError: The images are too few or too small.
        """
        raise NotImplementedError

    def run(self, net: Callable[[Tensor], Any], x: Tensor) -> Any:
        """Run a network on the tensor."""
        return net(x)

    def labels(self, y: Tensor) -> Tensor:
        """Return the labels of the images that the input holds."""
        return y

    def __add__(self, other: Input) -> Input:
        return Sum(self, other)

    def __rmul__(self, factor: float) -> Input:
        return Scaled(factor, self)


@dataclass(frozen=True)
class Images(Input):
    """All images."""

    def __str__(self) -> str:
        return "data"

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return frozenset({"data"})

    def make(self, batch: Batch) -> Tensor:
        """Return the images."""
        return batch.x


@dataclass(frozen=True)
class Slice(Images):
    """One of equal slices of the images, which are enough to fill it; the rest is left out.

    Attributes:
        place: Position of the slice, from 0.
        count: Number of slices.
    """

    place: int
    count: int

    def __str__(self) -> str:
        return f"data[{self.place}/{self.count}]"

    def __post_init__(self) -> None:
        if not 0 <= self.place < self.count:
            raise ValueError(f"slice: expected a place from 0 to {self.count - 1}, got {self.place}")

    def make(self, batch: Batch) -> Tensor:
        """Return the images of the slice."""
        return batch.x[self._part(len(batch.x))]

    def labels(self, y: Tensor) -> Tensor:
        """Return the labels of the slice."""
        return y[self._part(len(y))]

    def _part(self, images: int) -> slice:
        if images < self.count:
            raise NotApplicableError(f"{self.count} batches need as many images, there are {images}")
        size = images // self.count
        return slice(self.place * size, (self.place + 1) * size)


@dataclass(frozen=True)
class Ones(Input):
    """One image of ones."""

    def __str__(self) -> str:
        return "ones"

    def make(self, batch: Batch) -> Tensor:
        """Return ones `(1, C, H, W)`."""
        return torch.ones_like(batch.x[:1])


@dataclass(frozen=True)
class Noise(Input):
    """Independent draws from N(0, 1) in the shape of the images.

    Attributes:
        name: Name of the draw; draws of different names are independent.
    """

    name: str = "noise"

    def __str__(self) -> str:
        return self.name

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return frozenset({"noise"})

    def make(self, batch: Batch) -> Tensor:
        """Return the draw."""
        if self.name in batch.drawn:
            return batch.drawn[self.name]
        # Draws are made on the CPU, so that a score does not depend on the device.
        return _laid_out(torch.randn(batch.x.shape, generator=batch.generator(self.name), device="cpu"), batch.x)


@dataclass(frozen=True)
class Scaled(Input):
    """An input times a number."""

    factor: float
    of: Input

    def __str__(self) -> str:
        return f"{self.factor:g}*{self.of}"

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return self.of.reads

    def make(self, batch: Batch) -> Tensor:
        """Return the product."""
        return self.factor * self.of.make(batch)


@dataclass(frozen=True)
class Sum(Input):
    """The sum of two inputs."""

    first: Input
    second: Input

    def __str__(self) -> str:
        return f"{self.first}+{self.second}"

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return self.first.reads | self.second.reads

    def make(self, batch: Batch) -> Tensor:
        """Return the sum."""
        return self.first.make(batch) + self.second.make(batch)

    def labels(self, y: Tensor) -> Tensor:
        """Return the labels of the first input."""
        return self.first.labels(y)


@dataclass(frozen=True)
class Crops(Input):
    """Random square pieces of the images.

    Attributes:
        count: Number of pieces.
        size: Height and width in pixels.
    """

    count: int = 1000
    size: int = 4

    def __str__(self) -> str:
        return "crops"

    @property
    def reads(self) -> frozenset[str]:
        """What it is made from."""
        return frozenset({"data"})

    def make(self, batch: Batch) -> Tensor:
        """Return the pieces `(count, C, size, size)`."""
        x, draw = batch.x, batch.generator("crops")
        if "crops" in batch.drawn:
            return batch.drawn["crops"]
        if x.ndim != 4 or min(x.shape[2:]) < self.size:
            raise NotApplicableError(f"crops need images of {self.size} pixels or more, got the shape {tuple(x.shape)}")
        images, tops, lefts = (
            torch.randint(0, n, (self.count,), generator=draw, device="cpu")
            for n in (len(x), x.shape[2] - self.size + 1, x.shape[3] - self.size + 1)
        )
        windows = x.unfold(2, self.size, 1).unfold(3, self.size, 1)
        return _laid_out(windows[images, :, tops, lefts], x)

    def run(self, net: Callable[[Tensor], Any], x: Tensor) -> Any:
        """Run a network on the pieces.

        Raises:
            NotApplicableError: The network does not take images of that size.
        """
        try:
            return net(x)
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:  # shapes that do not fit
            raise NotApplicableError(f"the network does not take images of {self.size} pixels ({error})") from None


def _laid_out(made: Tensor, x: Tensor) -> Tensor:
    """Return a tensor with the dtype, the device and the memory layout of the images."""
    return made.to(x.device, x.dtype, memory_format=layout(x))


def layout(x: Tensor) -> torch.memory_format:
    """Return the memory layout of images."""
    channels_last = x.ndim == 4 and x.is_contiguous(memory_format=torch.channels_last) and not x.is_contiguous()
    return torch.channels_last if channels_last else torch.contiguous_format


DATA, ONES, NOISE, NOISE2, CROPS = Images(), Ones(), Noise("noise"), Noise("noise2"), Crops()
