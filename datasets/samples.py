"""Real images that the installed package `foolbox` contains, so that a first run needs no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import DataFileError
from .cifar import Cifar10, Cifar100
from .files.registry import locate, sources
from .images import DATASETS, StoredImages


class Samples(StoredImages):
    """Images from PNG files whose names end in their number and their label (`…_II_L.png`)."""

    def read(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Decode the images, in the order of their numbers."""
        paths = locate(sources()[self.name], self.folder)
        labels = [int(path.stem.rsplit("_", 1)[1]) for path in paths]
        return np.stack([_decode(path) for path in paths]), np.asarray(labels)


class Cifar10Samples(Samples, Cifar10):
    """Twenty CIFAR-10 images of the package `foolbox`."""

    name: str = "cifar10-samples"


class Cifar100Samples(Samples, Cifar100):
    """Twenty CIFAR-100 images of the package `foolbox`."""

    name: str = "cifar100-samples"


def _decode(path: Path) -> NDArray[np.uint8]:
    try:
        from PIL import Image
    except ImportError:
        raise DataFileError(
            'the package pillow, which decodes images, is not installed: pip install "zcbench[quickstart]"'
        ) from None
    try:
        with Image.open(path, formats=["PNG"]) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8).transpose(2, 0, 1)
    except (OSError, SyntaxError) as error:
        raise DataFileError(f"data file {path} is absent or torn ({error}): reinstall foolbox") from None


DATASETS.add(Cifar10Samples.name, Cifar10Samples)
DATASETS.add(Cifar100Samples.name, Cifar100Samples)
