"""Measurements behind docs/limits.md: what the quickstart cannot save, kernels in eval mode, NASLib's thirteen, shapes.

    python -m zcbench.tools.nb201.limits quickstart 10
    python -m zcbench.tools.nb201.limits ntk 30
    python -m zcbench.tools.nb201.limits naslib 4
    python -m zcbench.tools.nb201.limits shapes 8

The number is that of networks, drawn from NAS-Bench-201 by seed 0. All seconds are processor seconds of one thread.
Images are noise, because they change no time.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch
import yaml
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeCopyMode, FakeTensorMode
from torch.nn.functional import cross_entropy

from ...bench.stats.coefficients import kendall
from ...bench.study.config import studies
from ...datasets import TASKS
from ...proxies import PROXIES
from ...proxies.operations.calls import IMAGES
from ...proxies.operations.isolation import Places
from ...proxies.operations.record import record
from ...proxies.registry import Score, score_all
from ...spaces.nb201.space import NasBench201
from ..agreement import NASLIB

#: The proxies of the quickstart, of which the last has determinants.
QUICKSTART = tuple(yaml.safe_load(studies()["quickstart"].read_text("utf-8"))["proxies"])
THIRTEEN = tuple(name for name in NASLIB if name != "naswot.as_released")
#: The data sets that NASLib has scores for.
DATA = ("cifar10", "cifar100", "imagenet16-120")


def networks(count: int) -> list[int]:
    """Return the indices of some networks."""
    found: list[int] = np.random.default_rng(0).choice(NasBench201.size, count, replace=False).tolist()
    return found


def batch(images: int, side: int = 32) -> tuple[Tensor, Tensor]:
    """Return images of noise, channels last, and labels."""
    x = torch.randn(images, 3, side, side, generator=torch.Generator().manual_seed(0))
    return x.contiguous(memory_format=torch.channels_last), torch.arange(images) % 10


def seconds(run: Callable[[], object]) -> float:
    """Return the processor seconds of a function."""
    start = time.process_time()
    run()
    return time.process_time() - start


def scored(net: nn.Module, x: Tensor, y: Tensor, *names: str) -> list[Score]:
    """Score a network."""
    return score_all(net, x, y, [PROXIES[name] for name in names])


def passes(net: nn.Module, double: nn.Module, x: Tensor, y: Tensor) -> None:
    """Run the passes of the quickstart in plain torch: nothing is read, drawn, looked at or reduced."""
    parameters = list(net.parameters())
    leaf = x.clone().requires_grad_()
    logits = net(leaf)
    torch.autograd.grad(cross_entropy(logits, y), parameters, retain_graph=True, allow_unused=True)
    torch.autograd.grad(logits.sum(), leaf)  # jacob_cov
    torch.autograd.grad(net(leaf).sum(), leaf)  # eznas_a, which has weights of its own
    with torch.no_grad():  # zen, which has two inputs
        net(x)
        net(x)
    # synflow, on one image in float64; its norms are not replaced here
    torch.autograd.grad(double(x[:1].double()).sum(), list(double.parameters()), allow_unused=True)


def quickstart(count: int) -> Iterator[str]:
    """Yield what the quickstart takes for a network, and what its passes take in plain torch."""
    space, (x, y) = NasBench201(None), batch(16)
    found: list[tuple[float, float, float]] = []
    for index in networks(count):
        net = space.build(space.architecture(index), TASKS["cifar10"], 0)
        double = space.build(space.architecture(index), TASKS["cifar10"], 0).double()

        plain = partial(passes, net, double, x, y)
        plain()
        ours = seconds(partial(scored, net, x, y, *QUICKSTART))
        without = seconds(partial(scored, net, x, y, *QUICKSTART[:-1]))
        found.append((ours, seconds(plain), without))
    ours, floor, without = np.array(found).mean(0)
    yield f"Twelve proxies take {ours:.3f} s a network, their passes in plain torch {floor:.3f} s ({floor / ours:.0%})."
    yield f"Without eznas_a they take {without:.3f} s."
    yield f"200 networks on two cores: {100 * ours:.0f} s of scoring, {100 * floor:.0f} s of passes."


def ntk(count: int) -> Iterator[str]:
    """Yield how the condition number in train mode and in eval mode agree, and what they cost."""
    space, (x, y) = NasBench201(None), batch(16)
    values: list[tuple[float, float]] = []
    costs: list[float] = []
    for index in networks(count):
        net = space.build(space.architecture(index), TASKS["cifar10"], 0)
        start = time.process_time()
        (exact,) = scored(net, x, y, "ntk_condition")
        middle = time.process_time()
        (cheap,) = scored(net, x, y, "ntk_condition.eval")
        costs.append((middle - start) / (time.process_time() - middle))
        if exact.status == cheap.status == "ok":
            values.append((exact.value, cheap.value))
    a, b = np.array(values).T
    draw = np.random.default_rng(0).integers(0, len(a), (2000, len(a)))
    low, high = np.percentile([kendall(a[of], b[of]) for of in draw], [2.5, 97.5])
    yield f"Kendall's tau of both, on {len(a)} networks that have both: {kendall(a, b):.2f} [{low:.2f} {high:.2f}]."
    yield f"Train mode takes {np.median(costs):.1f} times as long as eval mode."


def naslib(count: int) -> Iterator[str]:
    """Yield how long the thirteen proxies of NASLib would take on all networks and three data sets."""
    space = NasBench201(None)
    totals = np.zeros(2)
    for data in DATA:
        task = TASKS[data]
        x, y = batch(64, task.image_size)
        macs, times = [], []
        for index in networks(count):
            net = space.build(space.architecture(index), task, 0)
            times.append(seconds(partial(scored, net, x, y, *THIRTEEN)))
            macs.append(space.macs(space.architecture(index), task))
        # Passes cost by their multiply-adds, and by operations, of which all networks have some.
        slope, constant = np.polyfit(macs, times, 1)
        every = np.array([space.macs(space.architecture(index), task) for index in range(space.size)])
        cost = constant + slope * every
        first = np.unique([space.representative(index) for index in range(space.size)])
        totals += cost.sum(), cost[first].sum()
        yield f"{data}: {np.mean(times):.2f} s a network of {count}; {cost.mean():.2f} s of all by multiply-adds."
    hours = totals / 3600 / 2
    yield f"All: {hours[0]:.1f} hours on two cores, {hours[1]:.1f} with representatives ({len(first)} networks)."


def shapes(count: int) -> Iterator[str]:
    """Yield what the record of a network takes on images, and what shapes alone would take."""
    space, x = NasBench201(None), batch(16)[0][:IMAGES]
    found: list[tuple[float, float, float]] = []
    for index in networks(count):
        net = space.build(space.architecture(index), TASKS["cifar10"], 0)
        empty = copy.deepcopy(net).to("meta")
        with FakeCopyMode(mode := FakeTensorMode()):
            fake = copy.deepcopy(net)
        with torch.no_grad(), mode:
            forward = partial(fake, torch.empty(x.shape))
            forward()
            of_fake = seconds(forward)
        on_images, on_meta = (
            partial(record, Places(of), images, training=False) for of, images in ((net, x), (empty, x.to("meta")))
        )
        assert [str(call) for call in on_images().calls] == [str(call) for call in on_meta().calls]
        found.append((seconds(on_images), seconds(on_meta), of_fake))
    times = np.array(found)
    meta, plain = np.median(times[:, 1:] / times[:, :1], 0)
    record_ms = 1000 * np.median(times[:, 0])
    yield f"The record of {IMAGES} images takes {record_ms:.0f} ms, on meta tensors {meta:.1f} times that."
    yield f"A forward pass with fake tensors, without a record, takes {plain:.1f} times that."


if __name__ == "__main__":
    torch.set_num_threads(1)
    sections = {"quickstart": quickstart, "ntk": ntk, "naslib": naslib, "shapes": shapes}
    for line in sections[sys.argv[1]](int(sys.argv[2])):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()
