"""The registry of proxies: each is a pure function of what passes leave, with a card that describes it."""

from __future__ import annotations

import functools
import inspect
import json
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from torch import Tensor, nn

from ..engine import is_out_of_memory
from ..errors import NotApplicableError, NotFiniteError, ProxyError, one_line
from ..random_state import random_state, random_state_kept
from ..registry import Registry
from .operations.isolation import neutral
from .passes.core import Need, Pass, chain, expanded
from .passes.taps import bare
from .probe import Probe

ProxyFunction = Callable[..., float]
F = TypeVar("F", bound=ProxyFunction)
#: Limit for the characters of the message of a score.
LONGEST_MESSAGE = 1000
COSTS = Path(__file__).parent / "costs.json"


@dataclass(frozen=True)
class Read:
    """The default of a parameter of a proxy: it says what the parameter is given."""

    need: Need


def reads(need: Need) -> Any:
    """Return a default that says what a parameter of a proxy is given.

    Raises:
        TypeError: This is no need.

    Example:
        >>> import torch, zcbench
        >>> from zcbench.proxies.passes import LOSS, Layers
        >>> def largest_gradient(layers: Layers = zcbench.reads(LOSS)) -> float:
        ...     return max(float(gradient.abs().max()) for _, gradient in layers)
        >>> largest_gradient([(torch.ones(2), torch.tensor([-3.0, 2.0]))])
        3.0
    """
    if not isinstance(need, Need):
        raise TypeError(f"reads: expected what a pass leaves, such as LOSS, got {need!r}")
    return Read(need)


@dataclass(frozen=True, kw_only=True)
class Card:
    """The description of a proxy or an aggregate.

    Attributes:
        name: Name as in the papers, with the variant after a dot.
        function: Function that computes the score; its docstring has the formula.
        version: Number that goes up when a score changes; scores of different versions are never compared.
        paper: Reference of the definition.
        direction: Whether a `higher` or a `lower` score means a better network, according to the authors.
        tuned_on: Networks and accuracies on which the definition was evolved, fitted or chosen; empty if it was derived
            without any, or if none are known.
    """

    name: str
    function: Callable[..., Any]
    version: int = 1
    paper: str = ""
    tuned_on: str = ""
    direction: Literal["higher", "lower"] = "higher"

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


@dataclass(frozen=True, kw_only=True)
class Proxy(Card):
    """The card of a proxy.

    Attributes:
        function: Function from what passes leave to the score, which may be NaN or infinite.
        batch_size: Batch size of the protocol, used if a study does not name one.
        least_images: Smallest number of images for which the score is defined.
        note: Function from a score and the number of images to what a reader should know of it, or an empty text.

    Example:
        >>> import zcbench
        >>> snip = zcbench.PROXIES["snip"]
        >>> snip.direction, snip.reads, snip.passes
        ('higher', ('data', 'labels', 'gradients'), (1, 1))
    """

    function: ProxyFunction
    batch_size: int = 64
    least_images: int = 1
    note: Callable[[float, int], str] | None = None

    @functools.cached_property
    def given(self) -> Mapping[str, Need]:
        """What every parameter of the function is given, by the name of the parameter."""
        parameters = inspect.signature(self.function).parameters.values()
        return {p.name: p.default.need for p in parameters if isinstance(p.default, Read)}

    @property
    def needs(self) -> tuple[Need, ...]:
        """What the proxy reads, each once."""
        return tuple(dict.fromkeys(self.given.values()))

    @property
    def reads(self) -> tuple[str, ...]:
        """What the proxy reads beside the weights: `data`, `labels`, `gradients`, `noise`."""
        found = frozenset().union(
            *(need.reads for need in expanded(self.needs)),
            *(p.reads for need in expanded(self.needs) for p in chain(need.source)),
        )
        return tuple(name for name in ("data", "labels", "gradients", "noise") if name in found)

    @property
    def batch_free(self) -> bool:
        """Whether the score is the same for every batch: the proxy reads no data, labels or noise."""
        return not {"data", "labels", "noise"} & set(self.reads)

    @property
    def passes(self) -> tuple[int, int]:
        """The numbers of forward and backward passes that the proxy runs if it shares none."""
        return passes(self.needs)

    def card(self) -> dict[str, Any]:
        """Return the card as plain values, for JSON."""
        return card(self, self.reads, self.needs, self.batch_size)

    def __call__(self, probe: Probe, **options: Any) -> float:
        """Return the score of a probe's network, as the function gives it; options are its other parameters."""
        return self.function(**{name: probe.read(need) for name, need in self.given.items()}, **options)


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
        "tuned_on": of.tuned_on,
        "summary": of.summary,
    }


def passes(needs: Iterable[Need]) -> tuple[int, int]:
    """Return how many forward and backward passes some needs take together, each pass run once.

    A vectorised pass counts once, although an objective per image costs about N backward passes on a CPU.
    """
    found: set[Pass] = {source for need in expanded(needs) for source in chain(need.source)}
    return sum(source.forwards for source in found), sum(source.backwards for source in found)


@functools.cache
def costs() -> dict[str, float]:
    """Return milliseconds per network by name of the proxy, as measured by `tools/cost.py`."""
    ms: dict[str, float] = json.loads(COSTS.read_text("utf-8"))["ms"] if COSTS.exists() else {}
    return ms


PROXIES: Registry[Proxy] = Registry("proxy")


#: Names that are no proxies: all of them, and the random scores beside the proxies of a board.
RESERVED = ("all", "random")


def register(
    name: str,
    *,
    version: int = 1,
    paper: str = "",
    tuned_on: str = "",
    direction: Literal["higher", "lower"] = "higher",
    batch_size: int = 64,
    least_images: int = 1,
    note: Callable[[float, int], str] | None = None,
    **old: Any,
) -> Callable[[F], F]:
    """Register a function as a proxy, and return it unchanged; the arguments are the fields of `Proxy`.

    The defaults of the function's parameters say what they are given (see `reads`). Other parameters keep their
    defaults.

    Raises:
        ProxyError: A parameter has no default, or the function takes a probe, as before version 0.2; or the name is
            taken or reserved.

    Example:
        >>> import zcbench
        >>> from zcbench.proxies.passes import LOSS, Layers
        >>> @zcbench.register("largest_gradient", paper="ours, 2026")
        ... def largest_gradient(layers: Layers = zcbench.reads(LOSS)) -> float:
        ...     "Take the largest gradient of all weights."
        ...     return max(float(gradient.abs().max()) for _, gradient in layers)
        >>> zcbench.PROXIES["largest_gradient"].reads
        ('data', 'labels', 'gradients')
    """
    if name in RESERVED:
        raise ProxyError(f"proxy '{name}': expected another name, because zcbench uses this one")
    if old:
        raise ProxyError(
            f"proxy '{name}': expected no {', '.join(sorted(old))}, which register took before version 0.2: the "
            "parameters of the function say what it reads, as in `def snip(layers: Layers = reads(LOSS))`"
        )

    def decorate(function: F) -> F:
        _check_defaults(name, function)
        proxy = Proxy(
            name=name,
            function=function,
            version=version,
            paper=paper,
            tuned_on=tuned_on,
            direction=direction,
            batch_size=batch_size,
            least_images=least_images,
            note=note,
        )
        if name in PROXIES:
            raise ProxyError(f"proxy '{name}': expected a new name, got that of another proxy: choose another")
        PROXIES.add(name, proxy)
        return function

    return decorate


def _check_defaults(name: str, function: ProxyFunction) -> None:
    for parameter in inspect.signature(function).parameters.values():
        if parameter.default is parameter.empty:
            raise ProxyError(
                f"proxy '{name}': expected a default for the parameter {parameter.name} that says what it is "
                "given, got none: a proxy gets what it reads of a network, as in `layers: Layers = reads(LOSS)`"
            )
        if isinstance(parameter.default, Need):
            raise ProxyError(f"proxy '{name}': expected `{parameter.name} = reads(...)`, got no reads around it")


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

    Example:
        >>> import torch, zcbench
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> found = zcbench.score(net, torch.ones(2, 3, 2, 2), proxies=["params", "naswot"])
        >>> found["params"].status, found["naswot"].status, found["naswot"].message
        ('ok', 'not_applicable', 'the network lacks a ReLU')
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
    probe = Probe(net, x, y, seed=seed, plan=joined.from_iterable(proxy.needs for proxy in proxies))
    waiting, scores = list(proxies), {}
    with neutral(x):
        while waiting:
            # The proxy that needs the fewest new passes is next, so that finished passes are freed early.
            proxy = min(waiting, key=lambda proxy: probe.missing(proxy.needs))
            waiting.remove(proxy)
            scores[proxy.name] = _score(probe, proxy)
            probe.keep(joined.from_iterable(proxy.needs for proxy in waiting))
    return [scores[proxy.name] for proxy in proxies]


def _score(probe: Probe, proxy: Proxy) -> Score:
    before = probe.spent_s
    start = time.perf_counter()
    value, status, message = math.nan, "error", ""
    try:
        if len(probe.x) < proxy.least_images:
            raise NotApplicableError(f"expected {proxy.least_images} images or more, got {len(probe.x)}")
        value = _computed(probe, proxy)
        status = "ok" if math.isfinite(value) else repr(value)
        message = _note(probe, proxy, value) if status == "ok" else "the definition gives no finite number here"
    except NotApplicableError as error:
        status, message = "not_applicable", one_line(str(error))
    except NotFiniteError as error:
        status, message = "nan", one_line(str(error))
    except (Exception, SystemExit) as error:  # a failed network must not end the study
        message = one_line(f"{type(error).__name__}: {error}")
        status = "out_of_memory" if is_out_of_memory(error) else "error"
        bare(error)
    message = message[:LONGEST_MESSAGE]
    own = time.perf_counter() - start - (probe.spent_s - before)
    return Score(proxy.name, proxy.version, value, status, message, own + probe.cost_s(proxy.needs))


def _computed(probe: Probe, proxy: Proxy) -> float:
    """Return the value of a proxy that leaves what it was given, and the global generators, as they were.

    Raises:
        ProxyError: The proxy returned no number, wrote into what it was given, or drew from a global generator.
    """
    # A list or a mapping is a copy: what the proxy takes out of it, its neighbours still find.
    values = {name: _copied(probe.read(need)) for name, need in proxy.given.items()}
    own = [*probe.places.parameters.values(), *probe.places.buffers.values()]
    of_network = list(map(_version, own))
    tensors = list(tensors_in(values))
    versions = [tensor._version for tensor in tensors]
    before = random_state()
    with random_state_kept():
        result: Any = proxy.function(**values)
        drew = random_state() != before
    if list(map(_version, own)) != of_network:
        raise ProxyError("the proxy wrote into the network, which now has other weights: work on what passes leave")
    if any(tensor._version != version for tensor, version in zip(tensors, versions, strict=True)):
        probe.drop(proxy.needs)
        raise ProxyError("the proxy wrote into a tensor that it was given: work on a copy, as in `w = w.clone()`")
    if drew:
        raise ProxyError('the proxy drew from a global generator: read one instead, `reads(Draw("name"))`')
    if isinstance(result, Tensor) and result.numel() == 1:
        result = result.item()
    if isinstance(result, bool) or not isinstance(result, (int, float, np.number)):
        raise ProxyError(f"the proxy returned {type(result).__name__}, expected a number")
    return float(result)


def _version(tensor: Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version  # those of inference mode count no writes


def _copied(value: Any) -> Any:
    return type(value)(value) if type(value) in {list, dict} else value


def _note(probe: Probe, proxy: Proxy, value: float) -> str:
    """Return what a reader of the score should know, or an empty text."""
    notes = [proxy.note(value, len(probe.x))] if proxy.note else []
    notes += [need.note(probe.read(need)) for need in proxy.needs if need.kept]
    if "labels" in proxy.reads:
        notes.append(probe.operations(True).about_the_head)
    return next(filter(None, notes), "")


def tensors_in(values: Any) -> Iterator[Tensor]:
    """Yield the tensors in lists, tuples and mappings."""
    if isinstance(values, Tensor):
        yield values
    elif isinstance(values, Mapping):
        for value in values.values():
            yield from tensors_in(value)
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from tensors_in(value)
