"""Program files: a program that a search found, with its recipe, and the proxy that a file describes."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import numpy as np
from torch import Tensor

from ...atomic import write_atomically
from ...errors import ProgramError, in_words
from ...proxies import AGGREGATES, PROXIES
from ...proxies.aggregate import Aggregate
from ...proxies.registry import Proxy, reads
from ..data import layers as tables
from ..data import statistics
from ..data.evaluation import Aggregation, Plan, ToScalar
from ..data.layers import COLUMNS, LayerTable
from ..data.statistics import TERMINALS, Collected, Collection, Statistics
from ..engine.config import HEIGHT_LIMIT
from ..engine.pools import PoolScore, is_constant, vocabulary
from ..language import layers, primitives
from ..language.parse import parse
from ..language.primitives import PRIMITIVES
from ..language.programs import WORD, Program, Vocabulary

#: Version of the format of program files.
FORMAT = 1

#: Vocabulary of programs over network statistics.
STATISTICS = Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES, HEIGHT_LIMIT)

#: Vocabulary of formulas over layer tables.
LAYERS = layers.vocabulary(list(COLUMNS), HEIGHT_LIMIT)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The content of a program file: a program and all settings that determine its score.

    Attributes:
        name: Name of the proxy.
        over: Inputs of the program: the `statistics` of a network, its table of `layers`, or relative `ranks` or `logs`
            of scores of proxies.
        direction: Whether a `higher` or a `lower` score is better.
        collection: Rule that finds the instances of a network, for `statistics`.
        to_scalar: Reduction of the result on one instance to a number.
        aggregation: Reduction of the numbers of all instances to a score.
        batch_size: Number of images in the probe batch, by default.
        paper: Origin of the program.
        recipe: Settings of the search that found the program, for information.
        openings: What every opening of sealed networks gave, with its date; see `opening.open_sealed`.
    """

    name: str
    program: str
    over: Literal["statistics", "layers", "ranks", "logs"] = "statistics"
    direction: Literal["higher", "lower"] = "higher"
    collection: Collection = "rcb"
    to_scalar: ToScalar = "mean"
    aggregation: Aggregation = "mean"
    batch_size: int = 16
    paper: str = "found by genetic programming"
    recipe: dict[str, Any] = field(default_factory=dict)
    openings: list[dict[str, Any]] = field(default_factory=list)

    def tree(self) -> Program:
        """Return the program as a tree.

        Raises:
            ProgramError: The text describes no program.
        """
        known = {"statistics": STATISTICS, "layers": LAYERS}
        constants = [word for word in WORD.findall(self.program) if is_constant(word)]
        return parse(known.get(self.over) or vocabulary(list(PROXIES), HEIGHT_LIMIT, constants), self.program)

    def proxy(self) -> Proxy | Aggregate:
        """Return the proxy, or the aggregate, that scores with the program.

        Raises:
            ProgramError: The text describes no program.
        """
        tree = self.tree()
        terminals = tuple(dict.fromkeys(node.name for node in tree.nodes() if not node.args))
        if self.over == "layers":
            columns = tuple(name for name in terminals if name in COLUMNS)
            return Proxy(
                name=self.name,
                version=1000 * tables.VERSION + layers.VERSION,
                function=LayerScore(tree, columns),
                paper=self.paper,
                direction=self.direction,
                batch_size=self.batch_size,
            )
        if self.over != "statistics":
            members = tuple(name for name in terminals if not is_constant(name))
            return Aggregate(name=self.name, function=PoolScore(tree, self.over), members=members, paper=self.paper)
        return Proxy(
            name=self.name,
            version=1000 * statistics.VERSION + primitives.VERSION,
            function=ProgramScore(tree, terminals, self.collection, self.to_scalar, self.aggregation),
            paper=self.paper,
            direction=self.direction,
            batch_size=self.batch_size,
        )

    def write(self, path: Path) -> None:
        """Write the program file."""
        document = {"format": FORMAT, **dataclasses.asdict(self)}
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (json.dumps(document, indent=1) + "\n").encode())


@dataclass(frozen=True)
class ProgramScore:
    """The function that scores a network with a program, applied to every instance and averaged over these.

    Attributes:
        program: Program over the terminals.
        terminals: Terminals that it reads.
        collection: Rule that finds the instances.
        to_scalar: How a tensor becomes a score of an instance.
        aggregation: How scores of instances become one.
    """

    program: Program
    terminals: tuple[str, ...]
    collection: Collection
    to_scalar: ToScalar
    aggregation: Aggregation

    @property
    def __signature__(self) -> inspect.Signature:
        """Its only parameter, with the default that says what it is given."""
        given = reads(Collected(self.terminals, self.collection))
        return inspect.Signature(
            [inspect.Parameter("statistics", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=given)]
        )

    @property
    def content(self) -> str:
        """What the scores depend on, so that another program under the same name has other scores."""
        return f"{self.program} {self.collection} {self.to_scalar} {self.aggregation}"

    def __call__(self, statistics: Statistics) -> float:
        """Return the score."""
        plan = Plan([self.program], self.to_scalar, self.aggregation)
        return float(plan.scores([statistics])[0, 0])


@dataclass(frozen=True)
class LayerScore:
    """The function that scores a network with a formula over its layer table.

    Attributes:
        program: Formula.
        columns: Columns that it reads.
    """

    program: Program
    columns: tuple[str, ...]

    @property
    def __signature__(self) -> inspect.Signature:
        """Its only parameter, with the default that says what it is given."""
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        return inspect.Signature([inspect.Parameter("table", kind, default=reads(LayerTable(self.columns)))])

    @property
    def content(self) -> str:
        """What the scores depend on, so that another program under the same name has other scores."""
        return str(self.program)

    def __call__(self, table: Mapping[str, Tensor]) -> float:
        """Return the score."""
        columns = {name: column.numpy() for name, column in table.items()}
        networks = layers.Networks(np.array([len(next(iter(columns.values())))]))
        return float(layers.scores(self.program, columns, networks)[0])


def read(path: Path) -> Found:
    """Read a program file.

    Raises:
        ProgramError: The file is absent or torn, has another format, or holds no program.
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
        raise ProgramError(f"program {path}: expected a file that `zcbench evolve` wrote ({in_words(error)})") from None
    return found


def register(path: Path) -> str:
    """Register the proxy of a program file and return its name; the second call with the same file has no effect.

    Raises:
        ProgramError: The file is no program file, or another proxy has the same name.
    """
    found = read(path)
    card = found.proxy()
    registry: Any = AGGREGATES if isinstance(card, Aggregate) else PROXIES
    if found.name in {*PROXIES, *AGGREGATES}:
        known = PROXIES.get(found.name) or AGGREGATES.get(found.name)
        if known != card:
            raise ProgramError(f"program {path}: another proxy is called {found.name}: expected a unique name")
        return found.name
    registry.add(found.name, card)
    return found.name


def digest(found: Found) -> str:
    """Return a digest of all settings that determine the score of a program."""
    settings = dataclasses.asdict(dataclasses.replace(found, name="", recipe={}, openings=[]))
    del settings["openings"]
    return hashlib.sha256(json.dumps(settings).encode()).hexdigest()


def _check(given: Found) -> None:
    found: Any = given  # the values of a file may have any type
    for name, kind in get_type_hints(Found).items():
        allowed = get_args(kind)
        if get_origin(kind) is Literal and getattr(found, name) not in allowed:
            raise ValueError(f"{name}: expected {' or '.join(allowed)}, got {getattr(found, name)!r}")
    if not isinstance(found.name, str) or not re.fullmatch(r"[a-z0-9_.-]{1,60}", found.name):
        raise ValueError(f"name: expected lower-case letters, digits, dots and dashes, got {found.name!r}")
    if type(found.batch_size) is not int or found.batch_size < 1:
        raise ValueError(f"batch_size: expected 1 or more, got {found.batch_size!r}")
    if not isinstance(found.program, str) or not isinstance(found.paper, str) or not isinstance(found.recipe, dict):
        raise ValueError("expected program and paper as text and the recipe as an object")
    if not isinstance(found.openings, list) or not all(isinstance(record, dict) for record in found.openings):
        raise ValueError("expected openings as a list of objects")
    card = found.proxy()
    if isinstance(card.function, LayerScore) and not card.function.columns:
        raise ValueError("expected a program that reads a column of the layer table")
    if isinstance(card, Aggregate) and not card.members:
        raise ValueError("expected a program that reads the score of a proxy")
