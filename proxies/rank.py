"""A few networks side by side: what proxies say of each, and which comes first."""

from __future__ import annotations

import functools
import html
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor, nn

from ..errors import BatchError, ZcbenchError, one_line
from ..progress import Progress
from . import AGGREGATES, PROXIES
from .aggregate import Vector, ranks, split
from .registry import LONGEST_MESSAGE, Proxy, Score, score_all
from .score import check_batch, check_network, first_images, listed, suited

if TYPE_CHECKING:
    import pandas as pd
    from pytorch_lightning import LightningDataModule

#: The proxies that rank networks by default. They read different things: the weights alone, how the logits of images
#: move apart, which ReLUs images switch, the loss, and how its gradients vary. Together they take three forward and
#: backward passes. All but naswot, which needs ReLUs, apply to almost every architecture of docs/zoo.md.
CHEAP = ("synflow", "jacob_cov", "naswot", "snip", "zico")
#: What stands beside the proxies in every table: the simple rivals that a proxy has to beat.
SIZES = ("params", "macs")
#: Seconds after which a call from Python shows its progress.
QUIET_S = 2.0
#: What a cell shows in place of a rank.
MARKS = {"not_applicable": "n/a", "out_of_memory": "memory"}


@dataclass(frozen=True)
class Scored:
    """What was found of one network.

    Attributes:
        name: Name of the network.
        scores: Scores by name of the proxy; empty if the network failed as a whole.
        wall_s: Seconds that building and scoring took.
        failure: How the network failed as a whole, as `error: ...`, or an empty text.
    """

    name: str
    scores: Mapping[str, Score]
    wall_s: float = math.nan
    failure: str = ""

    def status(self, proxy: str) -> str:
        """Return `ok`, or why there is no score, as `not_applicable: ...`."""
        if proxy not in self.scores:
            return self.failure
        found = self.scores[proxy]
        return found.status if found.status == "ok" else f"{found.status}: {found.message}"


@dataclass(frozen=True)
class Ranked:
    """Networks and what proxies say of them; notebooks show it as a table.

    Attributes:
        networks: What was found of each network, in the order in which they were given.
        proxies: Names of the proxies and aggregates that were asked for.
    """

    networks: tuple[Scored, ...]
    proxies: tuple[str, ...]

    @functools.cached_property
    def values(self) -> Mapping[str, Vector]:
        """Scores `(networks,)`, float64, by name: sizes, proxies and aggregates; NaN where there is none."""
        computed, aggregates = split(self.proxies)
        names = dict.fromkeys((*SIZES, *(proxy.name for proxy in computed)))
        missing = Score("", 0, math.nan, "", "", math.nan)
        found = {k: np.array([each.scores.get(k, missing).value for each in self.networks], float) for k in names}
        return found | {each.name: each.score(found) for each in aggregates}

    def ranks(self, proxy: str) -> Vector:
        """Return ranks `(networks,)` by one proxy: 1 for the best, equal scores share the mean, NaN without a score."""
        values = self.values[proxy]
        card = AGGREGATES[proxy] if proxy in AGGREGATES else PROXIES[proxy]
        known = ~np.isnan(values)
        result = np.full(len(values), math.nan)
        result[known] = ranks(values[known] if card.direction == "lower" else -values[known])
        return result

    @functools.cached_property
    def pool(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which networks have a score of any of the proxies, `(networks,)`; the mean rank is among these."""
        known = [~np.isnan(self.values[proxy]) for proxy in self.proxies]
        return np.any(known, axis=0) if known else np.zeros(len(self.networks), bool)

    @functools.cached_property
    def ranked_by(self) -> tuple[str, ...]:
        """The proxies that the mean rank is over: those with a score of every network of the pool.

        A proxy that leaves a network out would compare the others among fewer.
        """
        return tuple(proxy for proxy in self.proxies if not np.isnan(self.values[proxy][self.pool]).any())

    @functools.cached_property
    def mean_rank(self) -> Vector:
        r"""$\frac{1}{|P|} \sum_{p \in P} r_p$, `(networks,)`: the mean of the ranks by `ranked_by`; lower is better."""
        if not self.ranked_by:
            return np.full(len(self.networks), math.nan)
        mean: Vector = np.mean([self.ranks(proxy) for proxy in self.ranked_by], axis=0)
        return mean

    def order(self, proxy: str = "") -> list[str]:
        """Return names from best to worst by a proxy, or by the mean rank; those without a rank come last, as given."""
        by = self.ranks(proxy) if proxy else self.mean_rank
        places = np.argsort(np.where(np.isnan(by), math.inf, by), kind="stable")
        return [self.networks[place].name for place in places]

    @property
    def table(self) -> pd.DataFrame:
        """Networks, best first: params, macs, the score of every proxy, seconds, mean rank; empty where there is none.

        The index holds the names. `params` and `macs` are whole numbers, `wall_s` is in seconds.
        """
        import pandas as pd

        found = pd.DataFrame(
            {
                **{name: self.values[name] for name in (*SIZES, *self.proxies)},
                "wall_s": [each.wall_s for each in self.networks],
                "mean_rank": self.mean_rank,
            },
            index=pd.Index([each.name for each in self.networks], name="network"),
        )
        return found.astype(dict.fromkeys(SIZES, "Int64")).loc[self.order()]

    @property
    def status(self) -> pd.DataFrame:
        """For every network and proxy `ok`, or why there is no score; best network first."""
        import pandas as pd

        texts = {proxy: [status_of(each, proxy) for each in self.networks] for proxy in self.proxies}
        names = pd.Index([each.name for each in self.networks], name="network")
        return pd.DataFrame(texts, index=names).loc[self.order()]

    def cells(self) -> list[list[str]]:
        """Return the table in short, best first: name, params, MACs, the rank by every proxy, seconds, mean rank."""
        placed = {proxy: _ranks(self.ranks(proxy)) for proxy in self.proxies}
        means = _ranks(self.mean_rank, digits=2)
        places = {each.name: place for place, each in enumerate(self.networks)}
        rows = []
        for name in self.order():
            place = places[name]
            each = self.networks[place]
            cells = [
                "-" if each.failure else placed[proxy][place] or _mark(status_of(each, proxy)) for proxy in self.proxies
            ]
            sizes = [_short(self.values[size][place]) for size in SIZES]
            seconds = "" if math.isnan(each.wall_s) else f"{each.wall_s:.1f}"
            rows.append([name, *sizes, *cells, seconds, means[place]])
        return rows

    def notes(self) -> list[str]:
        """Return what a reader of the table has to know: what the mean rank is over, and why scores are missing."""
        named = ", ".join(self.ranked_by) or "no proxy: none has a score of every network"
        lines = [f"mean rank over {named}"]
        why: dict[str, list[str]] = {}
        for each in self.networks:
            if each.failure:
                why.setdefault(f"{each.name} has no score ({each.failure})", [])
                continue
            for proxy in self.proxies:
                if (text := status_of(each, proxy)) != "ok":
                    why.setdefault(f"{proxy}: {text}", []).append(each.name)
        return lines + [f"{text} ({', '.join(names)})" if names else text for text, names in why.items()]

    def __str__(self) -> str:
        return f"{self.table.to_string(float_format='{:.4g}'.format, na_rep='')}\n" + "\n".join(self.notes())

    def _repr_html_(self) -> str:
        """Return the table for notebooks; a cell without a score shows its status."""
        shown = self.table.astype(object)
        for proxy in self.proxies:
            shown[proxy] = [
                f"{value:.4g}" if not math.isnan(value) else _mark(text)
                for value, text in zip(self.table[proxy], self.status[proxy], strict=True)
            ]
        notes = "".join(f"<br>{html.escape(note)}" for note in self.notes())
        return f"{shown.to_html(float_format='{:.3g}'.format, na_rep='')}<small>{notes.removeprefix('<br>')}</small>"


def rank(
    nets: Mapping[str, nn.Module | Callable[[], nn.Module]],
    x: Tensor | None = None,
    y: Tensor | None = None,
    *,
    datamodule: LightningDataModule | None = None,
    batch_size: int = 16,
    proxies: Iterable[str] = CHEAP,
    seed: int = 0,
) -> Ranked:
    """Score networks with several proxies and rank them; the networks do not change.

    A network that fails has a status and no rank. In this process, one that ends the process ends the call;
    `zcbench rank` gives each network a process of its own.

    Args:
        nets: Networks by name, or functions that build them, which are called one after another.
        x: Images `(N, C, H, W)` for all networks.
        y: Labels `(N,)` int64 of the images. Without them, proxies that need a loss have the status `not_applicable`.
        datamodule: A `LightningDataModule`, in place of images and labels, as for `score`.
        batch_size: Number of images that a data module gives.
        proxies: Names of proxies and aggregates, a list or a text with commas. Aggregates rank within these networks.
        seed: Seed of every random draw.

    Raises:
        UnknownNameError: There is no proxy or aggregate of that name.
        ConfigError: The data module fails, or has too few images.
        BatchError: A network is no module, or the images or labels have a wrong kind, shape or dtype; or there are
            both images and a data module.

    Example:
        >>> import torch, zcbench
        >>> nets = {str(n): torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, n)) for n in (2, 5)}
        >>> zcbench.rank(nets, torch.ones(2, 3, 2, 2), proxies=["params"]).order()
        ['5', '2']
    """
    for net in nets.values():
        if not callable(net):
            check_network(net)
    names = tuple(listed(proxies))
    computed = to_compute(names)
    given = x, y
    if datamodule is not None:
        given = first_images(x, y, datamodule, batch_size, seed)
    images = check_batch(*given)
    found: list[Scored] = []
    started, progress = time.monotonic(), None
    for name, net in nets.items():
        make = functools.partial(_given, net, name)
        found.append(scored(name, make, images, given[1], computed, seed=seed, moved=datamodule is not None))
        if progress is None and time.monotonic() - started > QUIET_S:
            progress = Progress(f"ranking {len(nets)} networks", len(nets))
        if progress is not None:
            progress.update(len(found))
    if progress is not None:
        progress.close()
    return Ranked(tuple(found), names)


def to_compute(names: Sequence[str]) -> list[Proxy]:
    """Return the proxies to compute for a table of some proxies and aggregates: sizes and members included.

    Raises:
        UnknownNameError: There is no proxy or aggregate of that name.
    """
    return split(list(dict.fromkeys((*SIZES, *names))))[0]


def scored(
    name: str,
    make: Callable[[], nn.Module],
    x: Tensor,
    y: Tensor | None,
    proxies: Sequence[Proxy],
    *,
    seed: int = 0,
    moved: bool = False,
) -> Scored:
    """Build one network and score it; what it raises is its status.

    Args:
        name: Name of the network.
        make: Function that builds it.
        x: Images `(N, C, H, W)`.
        y: Labels `(N,)`, or None.
        proxies: Proxies to compute.
        seed: Seed of every random draw.
        moved: Whether the images get the dtype and the device of the network.

    Raises:
        BatchError: The images or labels have a wrong kind, shape or dtype, or this is no network.
    """
    start = time.perf_counter()
    try:
        net = make()
    except BatchError:
        raise
    except (Exception, SystemExit) as error:  # code of others may raise anything
        kind = "" if isinstance(error, ZcbenchError) else f"{type(error).__name__}: "
        said = one_line(f"error: {kind}{error}")[:LONGEST_MESSAGE]
        return Scored(name, {}, time.perf_counter() - start, said)
    images, labels = suited(net, x, y) if moved else (x, y)
    found = score_all(net, images, labels, proxies, seed=seed)
    return Scored(name, {each.proxy: each for each in found}, time.perf_counter() - start)


def _given(net: object, name: str) -> nn.Module:
    made = net if isinstance(net, nn.Module) or not callable(net) else net()
    check_network(made, name)
    assert isinstance(made, nn.Module)
    return made


def status_of(each: Scored, proxy: str) -> str:
    """Return `ok`, or why a network has no score by a proxy or an aggregate, as `not_applicable: ...`."""
    if proxy not in AGGREGATES:
        return each.status(proxy)
    lacks = [f"{member}: {text}" for member in AGGREGATES[proxy].members if (text := each.status(member)) != "ok"]
    return lacks[0] if lacks else "ok"


def _mark(status: str) -> str:
    kind = status.partition(":")[0]
    return MARKS.get(kind, kind)


def _ranks(values: Vector, digits: int | None = None) -> list[str]:
    """Return the ranks of one column, all with as many digits; by default with one if any lies between two ranks.

    A 5 behind the last digit is rounded up.
    """
    digits = int((values % 1 > 0).any()) if digits is None else digits
    step = Decimal(1).scaleb(-digits)
    return ["" if math.isnan(value) else str(Decimal(value).quantize(step, ROUND_HALF_UP)) for value in values.tolist()]


def _short(value: float) -> str:
    """Return a count with three digits and its unit, and one below a thousand as it is.

    >>> _short(25_557_032), _short(3_000), _short(999_999), _short(970), _short(7)
    ('25.6M', '3.00k', '1.00M', '970', '7')
    """
    if math.isnan(value):
        return ""
    rounded = float(f"{value:.3g}")
    for unit, size in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rounded >= size:
            return f"{rounded / size:#.3g}".removesuffix(".") + unit
    return f"{value:.0f}"
