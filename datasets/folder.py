"""Images of any size: those of a folder, or those of a data set, scaled for networks that see other sizes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import ConfigError, DataFileError
from .images import ProbeBatch

SUFFIXES = frozenset({".bmp", ".jpeg", ".jpg", ".png", ".webp"})
#: Mean and standard deviation of the channels of ImageNet, which most networks of libraries are made for.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def folder_batch(folder: Path, size: int, count: int, seed: int) -> ProbeBatch:
    """Return images of a folder, drawn by a seed; a smaller batch is the beginning of a larger one.

    An image is scaled so that its shorter side is `size`, cut to its middle, and normalised as those of ImageNet are.
    If all images lie in folders below this one, the label of an image is the place of its folder among their sorted
    names; otherwise there are no labels.

    Args:
        folder: Folder with images (BMP, JPEG, PNG or WebP), which may lie in folders below.
        size: Side in pixels.
        count: Number of images.
        seed: Seed of the draw.

    Returns:
        Images `(count, 3, size, size)` float32 and labels `(count,)` int64, or None.

    Raises:
        ConfigError: There is no such folder, it has too few images, or the side is less than 1.
        DataFileError: A file is no image, or is torn.
    """
    if size < 1:
        raise ConfigError(f"size: expected 1 or more pixels, got {size}")
    if not folder.is_dir():
        raise ConfigError(f"images: expected a folder, got {folder}, which is none")
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not 1 <= count <= len(paths):
        raise ConfigError(
            f"batch_size: expected 1 to {len(paths)}, the number of images (BMP, JPEG, PNG, WebP) in {folder}, got "
            f"{count}"
        )
    classes = [path.relative_to(folder).parts[:-1] for path in paths]
    names = sorted({parts[0] for parts in classes if parts})
    # The stream of RandomState never changes.
    chosen = np.random.RandomState(seed).permutation(len(paths))[:count]
    x = torch.from_numpy(np.stack([_decoded(paths[place], size) for place in chosen]))
    labelled = all(classes)
    return ProbeBatch.of(x, torch.tensor([names.index(classes[i][0]) for i in chosen]) if labelled else None)


def resized(batch: ProbeBatch, size: int) -> ProbeBatch:
    """Return square images `(N, C, size, size)` in place of others, scaled bilinearly with antialiasing.

    Raises:
        ConfigError: The side is less than 1.
    """
    if size < 1:
        raise ConfigError(f"size: expected 1 or more pixels, got {size}")
    if batch.x.shape[2:] == (size, size):
        return batch
    return ProbeBatch.of(_scaled(batch.x, size), batch.y)


def _scaled(x: Tensor, size: int) -> Tensor:
    scaled: Tensor = torch.nn.functional.interpolate(x, (size, size), mode="bilinear", antialias=True)
    return scaled.contiguous()


def _decoded(path: Path, size: int) -> NDArray[np.float32]:
    try:
        from PIL import Image, ImageOps
    except ImportError:
        raise DataFileError("the package pillow, which decodes images, is not installed: pip install pillow") from None
    try:
        with Image.open(path, formats=["BMP", "JPEG", "PNG", "WEBP"]) as image:
            square = ImageOps.fit(
                ImageOps.exif_transpose(image).convert("RGB"), (size, size), Image.Resampling.BILINEAR
            )
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise DataFileError(f"images: {path} is no image, or torn ({error}): move it away or get it again") from None
    pixels = np.asarray(square, dtype=np.float64) / 255
    return ((pixels - MEAN) / STD).astype(np.float32).transpose(2, 0, 1).copy()
