"""A program that was found, as a file with its recipe, and the file as a proxy."""

from __future__ import annotations

import dataclasses
import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from ...atomic import write_atomically
from ...errors import ProgramError, one_line
from ...proxies import AGGREGATES, PROXIES
from ...proxies.aggregate import Aggregate
from ...proxies.probe import Probe
from ...proxies.registry import Proxy
from ..data import statistics
from ..data.evaluation import Aggregation, Plan, ToScalar
from ..data.statistics import TERMINALS, Collection, collect, needs
from ..engine import pools as aggregates
from ..language import primitives
from ..language.primitives import PRIMITIVES
from ..language.programs import Program, Vocabulary

#: Of program files.
FORMAT = 1

#: Of a program that somebody wrote, rather than of those that are grown.
HEIGHT_LIMIT = 64

STATISTICS = Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES, HEIGHT_LIMIT)


@dataclass(frozen=True, kw_only=True)
class Found:
    """A program and all that makes a score of it.

    Attributes:
        name: What the proxy is called.
        program: As text.
        over: What its terminals are: `statistics` of a network, or relative `ranks` or `logs` of proxies' scores.
        direction: Whether a `higher` or a `lower` score is better.
        collection: How instances are found, for `statistics`.
        to_scalar: What makes a number of its result on an instance.
        aggregation: What makes a score of the numbers of all instances.
        batch_size: Of its protocol.
        paper: Where it comes from.
        recipe: How it was found, for people.
    """

    name: str
    program: str
    over: Literal["statistics", "ranks", "logs"] = "statistics"
    direction: Literal["higher", "lower"] = "higher"
    collection: Collection = "rcb"
    to_scalar: ToScalar = "mean"
    aggregation: Aggregation = "mean"
    batch_size: int = 16
    paper: str = "found by genetic programming"
    recipe: dict[str, Any] = field(default_factory=dict)

    def tree(self) -> Program:
        """Return the program.

        Raises:
            ProgramError: The text is none.
        """
        if self.over == "statistics":
            return STATISTICS.parse(self.program)
        return aggregates.vocabulary(list(PROXIES), HEIGHT_LIMIT).parse(self.program)

    def proxy(self) -> Proxy | Aggregate:
        """Return the card that a study takes.

        Raises:
            ProgramError: The text is no program.
        """
        tree = self.tree()
        if self.over != "statistics":
            return aggregates.as_aggregate(self.name, tree, self.over, self.paper)
        terminals = tuple(dict.fromkeys(node.name for node in tree.nodes() if not node.args))
        return Proxy(
            name=self.name,
            version=1000 * statistics.VERSION + primitives.VERSION,
            function=ProgramScore(tree, terminals, self.collection, self.to_scalar, self.aggregation),
            needs=needs(terminals, self.collection),
            paper=self.paper,
            direction=self.direction,
            batch_size=self.batch_size,
        )

    def write(self, path: Path) -> None:
        """Write the file."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(document, indent=1) + "\n").encode())


@dataclass(frozen=True)
class ProgramScore:
    """Score a network with a program: on the statistics of every instance, its numbers averaged over instances."""

    program: Program
    terminals: tuple[str, ...]
    collection: Collection
    to_scalar: ToScalar
    aggregation: Aggregation

    def __call__(self, probe: Probe) -> float:
        """Score the probe's network."""
        plan = Plan([self.program], self.to_scalar, self.aggregation)
        return float(plan.scores([collect(probe, self.terminals, self.collection)])[0, 0])


def read(path: Path) -> Found:
    """Read a program file.

    Raises:
        ProgramError: It is absent, torn, of a newer format, or holds no program.
    """
    try:
        document = json.loads(path.read_text("utf-8"))
        if document.pop("format") != FORMAT:
            raise ValueError(f"format is not {FORMAT}")
        found = Found(**document)
        _check(found)
    except ProgramError as error:
        raise ProgramError(f"program {path}: {error}") from None
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ProgramError(
            f"program {path}: expected a file that `zcbench evolve` wrote, got {type(error).__name__} "
            f"({one_line(str(error))[:120]})"
        ) from None
    return found


def register(path: Path) -> str:
    """Register the proxy of a program file and return its name; registered twice, the same file does nothing.

    Raises:
        ProgramError: It is no program file, or its name is that of another proxy.
    """
    found = read(path)
    card = found.proxy()
    registry: Any = AGGREGATES if isinstance(card, Aggregate) else PROXIES
    if found.name in {*PROXIES, *AGGREGATES}:
        known = PROXIES.get(found.name) or AGGREGATES.get(found.name)
        if known != card:
            raise ProgramError(f"program {path}: another proxy is called {found.name}: expected a name of its own")
        return found.name
    registry.add(found.name, card)
    return found.name


def _check(given: Found) -> None:
    found: Any = given  # what a file holds may be anything
    choices: dict[str, tuple[str, ...]] = {
        "over": ("statistics", "ranks", "logs"),
        "direction": ("higher", "lower"),
        "collection": get_args(Collection),
        "to_scalar": get_args(ToScalar),
        "aggregation": get_args(Aggregation),
    }
    for name, allowed in choices.items():
        if getattr(found, name) not in allowed:
            raise ValueError(f"{name}: expected {' or '.join(allowed)}, got {getattr(found, name)!r}")
    if not isinstance(found.name, str) or not re.fullmatch(r"[a-z0-9_.-]{1,60}", found.name):
        raise ValueError(f"name: expected lower-case letters, digits, dots and dashes, got {found.name!r}")
    if type(found.batch_size) is not int or found.batch_size < 1:
        raise ValueError(f"batch_size: expected 1 or more, got {found.batch_size!r}")
    if not isinstance(found.program, str) or not isinstance(found.paper, str) or not isinstance(found.recipe, dict):
        raise ValueError("expected program and paper as text and the recipe as an object")
    card = found.proxy()
    if isinstance(card, Aggregate) and not card.members:
        raise ValueError("expected a program that reads the score of a proxy")
