"""Explanation of a program: how its value depends on the sizes of a layer, on random tensors (section 5 of EZNAS)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ...errors import ConfigError
from ...progress import Progress
from ..data.evaluation import CHUNK, Plan, ToScalar
from ..data.statistics import Group, Statistics
from ..language.programs import Program

#: Values of the sizes that are varied one at a time, and the value of each size while another one is varied.
VARIED = {"kernel": (1, 3, 5, 7), "channels": (8, 16, 32, 64), "size": (4, 8, 16, 32)}
USUAL = {"kernel": 3, "channels": 16, "size": 8}


@dataclass(frozen=True)
class Response:
    """The value of a program on random tensors of one shape.

    Attributes:
        factor: Size that is varied: `kernel`, `channels` or `size` of the activations.
        kernel: Height and width of the convolution's kernel.
        channels: Number of input channels and of output channels.
        size: Height and width of the activations.
        mean: Mean of the finite values over all draws.
        deviation: Standard deviation of the finite values.
        finite: Share of the draws whose value is finite.
    """

    factor: str
    kernel: int
    channels: int
    size: int
    mean: float
    deviation: float
    finite: float


def responses(
    program: Program, draws: int = 5000, seed: int = 0, batch: int = 1, to_scalar: ToScalar = "mean"
) -> list[Response]:
    """Return the response of a program to kernel size, channels and activation size.

    Every terminal that the program reads is drawn independently from N(0, 1). Activations are `(batch, channels, size,
    size)` and weights `(channels, channels, kernel, kernel)`. The tensors of a real network are neither normal nor
    independent, so the response shows only the effect of sizes, as the paper's Figure 6 does.

    Args:
        program: Program over the statistics of an instance.
        draws: Number of draws for every shape.
        seed: Seed of the draws.
        batch: Number of images.
        to_scalar: Reduction of the program's result to a number.

    Raises:
        ConfigError: `draws` or `batch` is less than 1.
    """
    if draws < 1 or batch < 1:
        raise ConfigError(f"draws: expected 1 or more, of 1 image or more, got {draws} of {batch}")
    shapes = [(factor, USUAL | {factor: value}) for factor, values in VARIED.items() for value in values]
    generator = torch.Generator().manual_seed(seed)
    found = []
    with Progress("shapes", len(shapes)) as progress:
        for factor, shape in shapes:
            values = _values(program, shape, draws, batch, generator, to_scalar)
            known = values[np.isfinite(values)]
            mean, deviation = (float(known.mean()), float(known.std())) if len(known) else (np.nan, np.nan)
            found.append(Response(factor, **shape, mean=mean, deviation=deviation, finite=len(known) / draws))
            progress.advance(1)
    return found


def _values(
    program: Program,
    shape: Mapping[str, int],
    draws: int,
    batch: int,
    generator: torch.Generator,
    to_scalar: ToScalar,
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    kernel, channels, size = shape["kernel"], shape["channels"], shape["size"]
    plan = Plan([program], to_scalar)
    weight, activation = (channels, channels, kernel, kernel), (batch, channels, size, size)
    shapes = {name: weight if name.startswith("T3") else activation for name in sorted(plan.terminals)}
    at_once = max(1, CHUNK // max(int(np.prod(s)) for s in shapes.values()))
    parts = []
    for start in range(0, draws, at_once):
        count = min(at_once, draws - start)
        tensors = {name: torch.randn(count, *s, generator=generator) for name, s in shapes.items()}
        ((values, _),) = plan.values([Statistics(count, (Group(tensors, tuple(range(count))),))])
        parts.append(values[0])
    return np.concatenate(parts)


def as_tree(program: Program) -> str:
    """Return a drawing of a program as text, with one node per line."""
    lines: list[str] = []

    def visit(node: Program, before: str, own: str, below: str) -> None:
        lines.append(before + own + node.name)
        for place, argument in enumerate(node.args):
            last = place == len(node.args) - 1
            visit(argument, before + below, "└─ " if last else "├─ ", "   " if last else "│  ")

    visit(program, "", "", "")
    return "\n".join(lines)
