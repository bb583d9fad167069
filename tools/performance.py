"""What proxies cost, in forward-backwards, and how near a forward-backward is to the limit of the processor.

    python -m zcbench.tools.performance [IMAGES ...] > docs/performance.md

All figures are processor seconds of one thread on networks of NAS-Bench-201, so an idle machine matters less than that
nothing else fills its caches. It takes 18 minutes.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.profiler import ProfilerActivity, profile

from ..datasets import TASKS
from ..environment import environment
from ..progress import Progress
from ..proxies import PROXIES
from ..proxies.passes.core import Pass, chain, expanded
from ..proxies.passes.forward import Forward
from ..proxies.probe import Probe
from ..proxies.registry import score_all
from ..spaces import SPACES

#: The best network of CIFAR-10, and one of mostly 1x1 convolutions.
NETWORKS = (6111, 2011)
IMAGES: tuple[int, ...] = (16, 64)
#: Runs of which the median counts; no run starts after `PATIENCE_S`.
ROUNDS, PATIENCE_S = 3, 0.8
ZERO_COST_NAS = ("grad_norm", "snip", "grasp", "fisher", "jacob_cov", "plain", "synflow", "synflow.bn")
#: Groups of the operations of torch by what they do.
GROUPS = {
    "convolutions, forward": ("aten::mkldnn_convolution",),
    "convolutions, backward": ("aten::convolution_backward",),
    "batch norm": ("aten::native_batch_norm", "aten::native_batch_norm_backward"),
    "ReLU": ("aten::clamp_min", "aten::relu", "aten::threshold_backward"),
    "pooling": ("aten::avg_pool2d", "aten::avg_pool2d_backward", "aten::mean"),
    "sums of paths and of gradients": ("aten::add", "aten::add_"),
}


@dataclass(frozen=True)
class Case:
    """A network and a batch, in the memory layout of its space."""

    net: nn.Module
    x: Tensor
    y: Tensor
    macs: int


def case(index: int, images: int) -> Case:
    """Return a network of NAS-Bench-201 with random images."""
    space, task = SPACES["nb201"](None), TASKS["cifar10"]
    architecture = space.architecture(index)
    layout = space.memory_format
    net = space.build(architecture, task, 0).to(memory_format=layout)  # type: ignore[call-overload]
    x = torch.randn(images, *task.shape, generator=torch.Generator().manual_seed(0))
    return Case(net, x.contiguous(memory_format=layout), torch.arange(images) % 10, space.macs(architecture, task))


def forward_backward(of: Case) -> Callable[[], object]:
    """Return a plain forward and backward pass of torch, the unit of all costs."""
    parameters = list(of.net.parameters())
    return lambda: torch.autograd.grad(cross_entropy(of.net(of.x), of.y), parameters, allow_unused=True)


def seconds(run: Callable[[], object]) -> float:
    """Return the median processor seconds of some runs."""
    times: list[float] = []
    while len(times) < ROUNDS and sum(times) < PATIENCE_S:
        start = time.process_time()
        run()
        times.append(time.process_time() - start)
    return statistics.median(times)


def named(source: Pass) -> str:
    """Return a short name of a pass.

    >>> from zcbench.proxies.passes import LOSS_PASS
    >>> named(LOSS_PASS)
    'Backward, loss'
    """
    forward = chain(source)[-1]
    parts = [type(source).__name__]
    if objective := getattr(source, "objective", None):
        parts.append(str(getattr(objective, "name", "") or objective))
    if isinstance(forward, Forward):
        parts += [forward.init] * (forward.init != "given") + [forward.mode] * (forward.mode != "train")
        own = " and ".join(map(str, forward.inputs))
        parts += [own] * (own != "data")
        parts += ["float64"] * (forward.dtype is torch.float64)
    return ", ".join(parts)


def proxies_in_units() -> Iterator[tuple[str, list[float]]]:
    """Yield the forward-backwards of every proxy alone, the mean over the networks, by number of images."""
    groups: dict[str, tuple[str, ...]] = {name: (name,) for name in PROXIES}
    groups |= {
        "*the eight of zero-cost-nas together*": ZERO_COST_NAS,
        "*the eight without grasp*": tuple(name for name in ZERO_COST_NAS if name != "grasp"),
    }
    found: dict[str, list[float]] = {name: [] for name in groups}
    with Progress("measuring proxies", len(IMAGES) * len(NETWORKS) * len(groups)) as progress:
        for images in IMAGES:
            ratios: dict[str, list[float]] = {name: [] for name in groups}
            for index in NETWORKS:
                of = case(index, images)
                plain = forward_backward(of)
                plain()
                for name, members in groups.items():
                    scored = partial(score_all, of.net, of.x, of.y, [PROXIES[member] for member in members])
                    unit = seconds(plain)  # beside each, because the speed of a processor drifts
                    ratios[name].append(seconds(scored) / unit)
                    progress.advance(1)
            for name, own in ratios.items():
                found[name].append(statistics.mean(own))
    yield from found.items()


def passes_in_units(images: int) -> dict[str, float]:
    """Return the forward-backwards of every pass of all proxies on the first network, by name, the dearest first."""
    of = case(NETWORKS[0], images)
    plain = forward_backward(of)
    plain()
    unit = seconds(plain)
    found: dict[str, float] = {}
    needs = [need for proxy in PROXIES.values() for need in expanded(proxy.needs)]
    for source in dict.fromkeys(each for need in needs for each in chain(need.source)):
        own = [need for need in needs if need.source == source]
        probe = Probe(of.net, of.x, of.y, plan=own)
        probe.operations(source.training)
        probe.result(source)
        name = named(source)
        found[name] = max(found.get(name, 0.0), probe.seconds.of[source] / unit)
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def shares(of: Case) -> dict[str, float]:
    """Return the shares of a forward-backward that groups of operations take."""
    plain = forward_backward(of)
    plain()
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(ROUNDS):
            plain()
    own = {event.key: event.self_cpu_time_total for event in profiled.key_averages()}
    total = sum(own.values())
    found = {group: sum(own.get(name, 0.0) for name in names) / total for group, names in GROUPS.items()}
    return found | {"all else: Python, autograd, memory": 1 - sum(found.values())}


def product_rate(size: int = 2048) -> float:
    """Return the multiply-adds a second of a product of two square matrices in float32."""
    a, b = torch.randn(2, size, size, generator=torch.Generator().manual_seed(0))
    out = torch.empty(size, size)
    torch.mm(a, b, out=out)
    return float(size**3 / seconds(lambda: torch.mm(a, b, out=out)))


def copy_rate(mebibytes: int = 256) -> float:
    """Return the bytes a second that a copy reads and writes."""
    a = torch.ones(mebibytes << 18)
    b = torch.empty_like(a)
    b.copy_(a)
    return 2 * (mebibytes << 20) / seconds(lambda: b.copy_(a))


def moved_bytes(of: Case) -> int:
    """Return the least bytes that norms, ReLUs, poolings and sums of a forward-backward read and write.

    Forward, each reads what it takes and writes what it gives. Backward, it reads a gradient and what it was given, and
    writes a gradient.
    """
    operations = Probe(of.net, of.x, of.y).operations(True)
    few = operations.calls[0].shape[0]
    values = sum(
        torch.Size(call.shape).numel() * 5
        for call in operations.running
        if call.kind in {"norm", "activation", "pool", "add"}
    )
    return 4 * values * len(of.x) // few


def page() -> str:
    """Return the page in Markdown."""
    torch.set_num_threads(1)
    rate, copied = product_rate(), copy_rate()
    recipe = environment()
    lines = [
        "# What scores cost",
        "",
        "One *fb* is the time of a plain forward and backward pass of the same network on the same images. All times",
        "are processor seconds of one thread, and each cost is measured beside its fb. The networks are "
        + ", ".join(map(str, NETWORKS[:-1]))
        + f" and {NETWORKS[-1]} of NAS-Bench-201",
        "(the best on CIFAR-10, and one of mostly 1x1 convolutions).",
        "",
        "    python -m zcbench.tools.performance > docs/performance.md",
        "",
        f"Measured on: {recipe['processor']}, {recipe['cpu']}, torch {recipe['torch']}.",
        "",
        "## A forward-backward",
        "",
        f"A product of two large matrices reaches {rate / 1e9:.0f} billion multiply-adds a second on this thread,",
        f"and a copy moves {copied / 1e9:.0f} GB a second. A forward-backward takes three multiply-adds for each one",
        "of the forward pass.",
        "",
        *_table(
            ["network", "images", "fb, ms", "multiply-adds/s, billions", "share of a product", "bytes/s, GB"],
            _limits(rate),
        ),
        "",
        "The last column is the least that norms, ReLUs, poolings and sums read and write, over the time of the whole",
        "fb.",
        "",
        f"Where the time goes, with {IMAGES[-1]} images:",
        "",
        *_table(["operations", *map(str, NETWORKS)], _shares()),
        "",
        "## Proxies alone",
        "",
        "The mean over the networks. A proxy that is scored with others shares their passes.",
        "",
        *_table(["proxy", *(f"fb, {images} images" for images in IMAGES)], _proxies()),
        "",
        "## Passes",
        "",
        f"Network {NETWORKS[0]}. The reductions of proxies that tap a pass are not in it.",
        "",
        *_table(["pass", *(f"fb, {images} images" for images in IMAGES)], _passes()),
        "",
    ]
    return "\n".join(lines)


def _limits(rate: float) -> Iterator[Sequence[object]]:
    for index in NETWORKS:
        for images in IMAGES:
            of = case(index, images)
            plain = forward_backward(of)
            plain()
            unit = seconds(plain)
            reached = 3 * of.macs * images / unit
            moved = moved_bytes(of) / unit
            yield (
                index,
                images,
                f"{1000 * unit:.0f}",
                f"{reached / 1e9:.1f}",
                f"{100 * reached / rate:.0f}%",
                f"{moved / 1e9:.1f}",
            )


def _shares() -> Iterator[Sequence[object]]:
    found = [shares(case(index, IMAGES[-1])) for index in NETWORKS]
    for group in found[0]:
        yield group, *(f"{100 * own[group]:.0f}%" for own in found)


def _proxies() -> Iterator[Sequence[object]]:
    for name, costs in proxies_in_units():
        yield name if name.startswith("*") else f"`{name}`", *(f"{cost:.2f}" for cost in costs)


def _passes() -> Iterator[Sequence[object]]:
    found = [passes_in_units(images) for images in IMAGES]
    for name in found[-1]:
        yield name, *(f"{own[name]:.2f}" for own in found)


def _table(head: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"| --- |{' --: |' * (len(head) - 1)}"
    for row in rows:
        yield f"| {' | '.join(map(str, row))} |"


if __name__ == "__main__":
    IMAGES = tuple(map(int, sys.argv[1:])) or IMAGES
    sys.stdout.write(page())
