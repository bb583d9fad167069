"""The registry of proxies: each is a pure function of a `Probe` with a card that describes it."""

from __future__ import annotations

import functools
import json
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import torch
from torch import Tensor, nn

from ..errors import NotApplicableError, NotFiniteError, one_line
from ..registry import Registry
from .passes.needs import Need, PerImage, backward_of, forward_of
from .probe import Probe

ProxyFunction = Callable[[Probe], float]
F = TypeVar("F", bound=ProxyFunction)
COSTS = Path(__file__).parent / "costs.json"


@dataclass(frozen=True, kw_only=True)
class Card:
    """The description of a proxy or an aggregate.

    Attributes:
        name: Name as in the papers, with the variant after a dot.
        function: Function that computes the score; its docstring has the formula.
        version: Number that goes up when a score changes; scores of different versions are never compared.
        paper: Reference of the definition.
        direction: Whether a `higher` or a `lower` score means a better network, according to the authors.
    """

    name: str
    function: Callable[..., Any]
    version: int = 1
    paper: str = ""
    direction: Literal["higher", "lower"] = "higher"

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, kw_only=True)
class Proxy(Card):
    """The card of a proxy.

    Attributes:
        function: Function from a probe to the score, which may be NaN or infinite.
        needs: Passes that the proxy reads. Whether it reads data, labels or gradients follows from them.
        batch_size: Batch size of the protocol, used if a study does not name one.
        labels: Whether the proxy reads labels other than through a pass.
        least_images: Smallest number of images for which the score is defined.
    """

    function: ProxyFunction
    needs: tuple[Need, ...] = ()
    batch_size: int = 64
    labels: bool = False
    least_images: int = 1

    @property
    def reads(self) -> tuple[str, ...]:
        """What the proxy reads beside the weights: `data`, `labels`, `gradients`, `noise`."""
        forwards = [forward_of(need) for need in self.needs]
        backwards = [b for b in map(backward_of, self.needs) if b]
        inputs = {name for forward in forwards for name in forward.inputs}
        found = {
            "data": any(name.startswith(("data", "crops")) for name in inputs),
            "labels": self.labels or any(b.objective.startswith(("loss", "label")) for b in backwards),
            "gradients": bool(backwards),
            "noise": any("noise" in name for name in inputs),
        }
        return tuple(name for name, true in found.items() if true)

    @property
    def batch_free(self) -> bool:
        """Whether the score is the same for every batch: the proxy reads no data, labels or noise."""
        return bool(self.needs) and not {"data", "labels", "noise"} & set(self.reads)

    @property
    def passes(self) -> tuple[int, int]:
        """The numbers of forward and backward passes that the proxy runs if it shares none."""
        return passes(self.needs)

    def card(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON."""
        return card(self, self.reads, self.needs, self.batch_size)


def card(of: Card, reads: Iterable[str], needs: Iterable[Need], batch_size: int) -> dict[str, Any]:
    """Return the card of a proxy or an aggregate as plain values; `ms` is None if the cost was not measured."""
    forwards, backwards = passes(needs)
    return {
        "name": of.name,
        "version": of.version,
        "direction": of.direction,
        "reads": list(reads),
        "fwd": forwards,
        "bwd": backwards,
        "batch": batch_size,
        "ms": costs().get(of.name),
        "paper": of.paper,
        "summary": of.summary,
    }


def passes(needs: Iterable[Need]) -> tuple[int, int]:
    """Return how many forward and backward passes some needs take together, each pass run once.

    A vectorised pass counts once, although an objective `of each` costs about N backward passes on a CPU.
    """
    needs = set(needs)
    forwards = {forward_of(need) for need in needs if not isinstance(need, PerImage)}
    backwards = {b for b in map(backward_of, needs) if b}
    per_image = {b for b in backwards if b.objective.endswith("per image")}
    return sum(len(f.inputs) for f in forwards) + len(per_image), sum(b.order for b in backwards)


@functools.cache
def costs() -> dict[str, float]:
    """Return milliseconds per network by name of the proxy, as measured by `tools/cost.py`."""
    ms: dict[str, float] = json.loads(COSTS.read_text("utf-8"))["ms"] if COSTS.exists() else {}
    return ms


PROXIES: Registry[Proxy] = Registry("proxy")


def register(
    name: str,
    *,
    version: int = 1,
    needs: Iterable[Need] = (),
    paper: str = "",
    direction: Literal["higher", "lower"] = "higher",
    batch_size: int = 64,
    labels: bool = False,
    least_images: int = 1,
) -> Callable[[F], F]:
    """Register a function as a proxy, and return it unchanged; the arguments are the fields of `Proxy`.

    Raises:
        ValueError: The name is taken, or a need is no pass.
    """
    wanted = tuple(needs)

    def decorate(function: F) -> F:
        if wrong := [need for need in wanted if not isinstance(need, get_args(Need))]:
            raise ValueError(f"proxy '{name}': expected passes as needs, got {wrong[0]!r}")
        proxy = Proxy(
            name=name,
            function=function,
            version=version,
            needs=wanted,
            paper=paper,
            direction=direction,
            batch_size=batch_size,
            labels=labels,
            least_images=least_images,
        )
        PROXIES.add(name, proxy)
        return function

    return decorate


@dataclass(frozen=True)
class Score:
    """The score of one network by one proxy.

    Attributes:
        proxy: Name of the proxy.
        version: Version of the proxy.
        value: Score in float64; NaN if there is none.
        status: `ok` for a finite score; `nan`, `inf` or `-inf` if the definition gives that; `not_applicable`,
            `out_of_memory` or `error` if there is no score.
        message: Reason why there is no score, or an empty text.
        wall_s: Seconds that the proxy would take if it shared no pass: the time of each pass that it needs in full, and
            of its own arithmetic.
    """

    proxy: str
    version: int
    value: float
    status: str
    message: str
    wall_s: float


def score_all(net: nn.Module, x: Tensor, y: Tensor | None, proxies: Sequence[Proxy], *, seed: int = 0) -> list[Score]:
    """Score one network with several proxies, and run each pass that they share once.

    Args:
        net: Network from images to logits `(N, classes)`, which does not change.
        x: Images `(N, C, H, W)`, on the network's device.
        y: Labels `(N,)` int64, or None.
        proxies: Proxies to compute.
        seed: Seed of every random draw.

    Returns:
        One score per proxy, in the given order. The failure of a proxy is a status, and does not stop the others.
    """
    probe = Probe(net, x, y, seed=seed, plan=chain.from_iterable(proxy.needs for proxy in proxies))
    waiting, scores = list(proxies), {}
    while waiting:
        # The proxy that needs the fewest new passes is next, so that finished passes are freed early.
        proxy = min(waiting, key=lambda proxy: probe.missing(proxy.needs))
        waiting.remove(proxy)
        scores[proxy.name] = _score(probe, proxy)
        probe.keep(chain.from_iterable(proxy.needs for proxy in waiting))
    return [scores[proxy.name] for proxy in proxies]


def _score(probe: Probe, proxy: Proxy) -> Score:
    before = probe.spent_s
    start = time.perf_counter()
    value, status, message = math.nan, "error", ""
    try:
        if len(probe.x) < proxy.least_images:
            raise NotApplicableError(f"expected {proxy.least_images} images or more, got {len(probe.x)}")
        value = float(proxy.function(probe))
        status = "ok" if math.isfinite(value) else repr(value)
    except NotApplicableError as error:
        status, message = "not_applicable", one_line(str(error))
    except NotFiniteError as error:
        status, message = "nan", one_line(str(error))
    except (torch.OutOfMemoryError, MemoryError) as error:
        status, message = "out_of_memory", one_line(str(error))
    except Exception as error:  # a failed network must not end the study
        message = one_line(f"{type(error).__name__}: {error}")
    own = time.perf_counter() - start - (probe.spent_s - before)
    return Score(proxy.name, proxy.version, value, status, message, own + probe.cost_s(proxy.needs))
