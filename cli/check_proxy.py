"""Check a proxy of your own on a few networks, and say how well it ranks them."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ..errors import ConfigError, ZcbenchError
from .parser import Parser, add_shared
from .proxy_file import registered
from .terminal import show, table

if TYPE_CHECKING:
    from ..proxies.checks import Report
    from ..spaces import Space

#: Fewest networks from which a coefficient is printed.
LEAST = 10


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", help="A Python file that registers one proxy or several.")
    parser.add_argument("--space", default="nb201", help="The benchmark space of the networks.")
    parser.add_argument("--dataset", default="cifar10-samples", help="The data set of the probe batch.")
    parser.add_argument("--accuracy", default="", help="The trained accuracy to rank against; by default the first.")
    parser.add_argument("--networks", type=int, default=30, help="The number of networks.")
    parser.add_argument("--batch_size", type=int, default=8, help="The number of images in the probe batch.")
    parser.add_argument("--seed", type=int, default=0, help="The seed of the networks, the images and the noise.")
    add_shared(parser, "data")
    parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Check every proxy that the file registers; return 1 if a check fails."""
    import torch

    from ..datasets import DATASETS, data_folder
    from ..progress import Progress
    from ..proxies import PROXIES
    from ..proxies.checks import check
    from ..spaces import SPACES

    (given,) = parsed
    torch.set_num_threads(1)
    if not 0 <= given.seed < 2**32:
        raise ConfigError(f"seed: expected 0 to {2**32 - 1}, got {given.seed}")
    proxies = [PROXIES[name] for name in registered(given.file)]
    folder = data_folder(given.data)
    space, images = SPACES[given.space](folder), DATASETS[given.dataset](folder)
    if not 1 <= given.networks <= space.size:
        raise ConfigError(f"networks: expected 1 to {space.size}, the networks of {space.name}, got {given.networks}")
    indices = space.sample(given.networks, given.seed)
    batch = images.probe_batch(given.batch_size, given.seed)
    x = batch.x.contiguous(memory_format=space.memory_format)
    build = functools.partial(space.build, task=images.task, seed=given.seed)
    networks = [functools.partial(build, space.architecture(index)) for index in indices]
    reports = []
    for proxy in proxies:
        progress = Progress(f"checking {proxy.name} on {len(networks)} networks, each twice", 2 * len(networks))
        reports.append(check(proxy, networks, x, batch.y, seed=given.seed, counted=progress.update))
        progress.close()
    accuracies = _accuracies(space, images.task.name, given.accuracy, indices)
    sizes = [space.params(space.architecture(index), images.task) for index in indices]
    found = [_summary(report, accuracies, sizes) for report in reports]
    if given.json:
        print(json.dumps(found, indent=1, allow_nan=False))
    else:
        for summary in found:
            _print(summary)
    return int(any(report.faults for report in reports))


def _accuracies(space: Space, task: str, which: str, indices: Sequence[int]) -> tuple[str, list[float]] | None:
    """Return the label and the accuracies of networks; None if none is asked for and the first has no file."""
    names = [which] if which else [*space.truths.get(task, {})]
    for name in names:
        try:
            truth = space.truth(task, name)
        except ZcbenchError:
            if which:
                raise
            continue
        return truth.name, [float(truth.values[index]) for index in indices]
    return None


def _summary(report: Report, accuracies: tuple[str, list[float]] | None, sizes: Sequence[int]) -> dict[str, Any]:
    import numpy as np

    from ..bench.stats.coefficients import kendall, spearman
    from ..proxies import PROXIES

    summary: dict[str, Any] = {
        "proxy": report.proxy,
        "faults": len(report.faults),
        "findings": [{"check": f.check, "fault": f.fault} for f in report.findings],
        "networks": len(report.scores),
    }
    if accuracies is not None and not report.faults:
        label, truth = accuracies
        sign = 1.0 if PROXIES[report.proxy].direction == "higher" else -1.0
        values = sign * np.array([score.value for score in report.scores])
        params = np.asarray(sizes, dtype=np.float64)
        scored = np.isfinite(values) & np.isfinite(truth)
        if scored.sum() >= LEAST:
            summary["accuracy"] = label
            summary["tau"] = _number(kendall(values[scored], np.asarray(truth)[scored]))
            summary["rho"] = _number(spearman(values[scored], np.asarray(truth)[scored]))
            summary["ranked"] = int(scored.sum())
            summary["tau_of_params"] = _number(kendall(params[scored], np.asarray(truth)[scored]))
    return summary


def _number(value: Any) -> float | None:
    import math

    return float(value) if math.isfinite(value) else None


def _print(summary: dict[str, Any]) -> None:
    shown = table("result", "check", title=f"{summary['proxy']} on {summary['networks']} networks")
    for finding in summary["findings"]:
        shown.add_row("fault" if finding["fault"] else "holds", finding["check"])
    show(shown)
    for finding in summary["findings"]:
        if finding["fault"]:
            print(f"{finding['check']}: {finding['fault']}")
    if summary.get("tau") is not None:
        accuracy, ranked = summary["accuracy"], summary["ranked"]
        print(
            f"Kendall's tau {summary['tau']:.2f} with {accuracy} on {ranked} networks; the number of parameters has "
            f"{summary['tau_of_params']:.2f}. So few networks say little: zcbench run gives intervals."
        )
    elif not summary["faults"]:
        print(f"no correlation: expected {LEAST} or more networks with a score and an accuracy")
