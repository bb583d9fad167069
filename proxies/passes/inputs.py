"""The named inputs of a pass: the images, parts and crops of them, and noise in their shape."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from ...errors import NotApplicableError

#: Number of crops of the input `crops`, and their size in pixels.
CROPS, CROP_SIZE = 1000, 4


def make(name: str, x: Tensor, given: Mapping[str, Tensor], generator: Callable[[str], torch.Generator]) -> Tensor:
    """Return the input of a name.

    Args:
        name: Name of the input, as in `Forward.inputs`.
        x: Images `(N, C, H, W)`.
        given: Tensors by name that replace random draws.
        generator: Function from the name of a random draw to its generator.

    Raises:
        NotApplicableError: The images are too few or too small.
        ValueError: There is no input of that name.
    """
    if name in given:
        return given[name]
    match name:
        case "data":
            return x
        case "ones":
            made = torch.ones_like(x[:1])
        case "noise" | "noise2":
            made = torch.randn(x.shape, generator=generator(name)).to(x)
        case "crops":
            made = _crops(x, generator(name))
        case _ if "+" in name:
            first, factor, second = re.split(r"[+*]", name)
            made = make(first, x, given, generator) + float(factor) * make(second, x, given, generator)
        case _ if name.startswith("data["):
            made = x[images_of(name, len(x))]
        case _:
            raise ValueError(f"no input is called '{name}'")
    return made


def images_of(name: str, count: int) -> slice:
    """Return which images an input holds: all, or the i-th of n equal slices for `data[i/n]`.

    Raises:
        NotApplicableError: There are fewer images than slices.
        ValueError: There is no input of that name.
    """
    if not name.startswith("data["):
        return slice(None)
    found = re.fullmatch(r"data\[(\d+)/(\d+)\]", name)
    part, parts = (int(found[1]), int(found[2])) if found else (0, 0)
    if part >= parts:
        raise ValueError(f"no input is called '{name}'")
    if count < parts:
        raise NotApplicableError(f"{parts} batches need as many images, there are {count}")
    size = count // parts
    return slice(part * size, (part + 1) * size)


def _crops(x: Tensor, draw: torch.Generator) -> Tensor:
    if x.ndim != 4 or min(x.shape[2:]) < CROP_SIZE:
        raise NotApplicableError(f"crops need images of {CROP_SIZE} pixels or more, got the shape {tuple(x.shape)}")
    images, tops, lefts = (
        torch.randint(0, n, (CROPS,), generator=draw)
        for n in (len(x), x.shape[2] - CROP_SIZE + 1, x.shape[3] - CROP_SIZE + 1)
    )
    windows = x.unfold(2, CROP_SIZE, 1).unfold(3, CROP_SIZE, 1)
    return windows[images, :, tops, lefts]
