"""Latencies of networks: measured on this CPU, or read from a table, which keeps what was measured."""

from __future__ import annotations

import json
import math
import statistics
import time
from pathlib import Path

import torch

from ....atomic import write_atomically
from ....datasets.tasks import Task
from ....errors import ConfigError, DataFileError, ResultsError, in_words
from ....spaces import Space

#: The name of the size: milliseconds of one forward pass with one image on one thread.
LATENCY = "latency_ms"
#: Number of forward passes whose median is the latency, after one that does not count.
PASSES = 5


class Latencies:
    """The latencies of the networks of a space for a task.

    Two measurements of a network differ. So a search whose latencies matter keeps them in a table, and whoever has the
    table repeats the search exactly.

    Args:
        space: Space of the networks.
        task: Task of the networks.
        path: JSON file with milliseconds by the text of the network; new measurements are added to it.

    Raises:
        DataFileError: The file is no such table.
    """

    def __init__(self, space: Space, task: Task, path: Path | None) -> None:
        self._space, self._task, self._path = space, task, path
        self._known = {} if path is None or not path.exists() else _read(path)

    def of(self, network: str) -> float:
        """Return the latency of a network in milliseconds.

        Raises:
            ConfigError: It is not known yet, and there is no table to keep it in.
            ResultsError: The table cannot be written.
        """
        if network not in self._known:
            if self._path is None:
                raise ConfigError(
                    "latencies: expected a JSON file that keeps latencies, got none: add --latencies FILE"
                )
            self._known[network] = self.measured(network)
            try:
                write_atomically(self._path, json.dumps(self._known, indent=1).encode())
            except OSError as error:
                raise ResultsError(f"latencies: cannot write to {self._path} ({error.strerror})") from None
        return self._known[network]

    def measured(self, network: str) -> float:
        """Measure the latency of a network in milliseconds: the median of forward passes in eval mode."""
        net = self._space.build(network, self._task, seed=0).eval()
        x = torch.zeros(1, *self._task.shape).contiguous(memory_format=self._space.memory_format)
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            with torch.inference_mode():
                net(x)
                return 1000 * statistics.median(_seconds(net, x) for _ in range(PASSES))
        finally:
            torch.set_num_threads(threads)


def _seconds(net: torch.nn.Module, x: torch.Tensor) -> float:
    started = time.perf_counter()
    net(x)
    return time.perf_counter() - started


def _read(path: Path) -> dict[str, float]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataFileError(f"latencies {path}: expected JSON ({in_words(error)})") from None
    if not isinstance(found, dict) or not all(type(ms) in {int, float} and 0 < ms < math.inf for ms in found.values()):
        raise DataFileError(f"latencies {path}: expected milliseconds above 0 by the text of the network")
    return {network: float(ms) for network, ms in found.items()}
