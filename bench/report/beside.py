"""What a leaderboard shows beside its scores: a former version of it, searches for networks, and evolved programs."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...errors import ResultsError, in_words
from ..results.published.changes import Change, Row, changes, of_standings
from ..results.standing import Standing
from .numbers import null_if_not_finite

#: The file of a leaderboard that holds it, and the version of its format.
BESIDE = "beside.json"
FORMAT = 1


@dataclass(frozen=True)
class Reached:
    """What a search method has found at its end, on average over repeats.

    Attributes:
        name: Method and proxy.
        repeats: Number of runs.
        trained: Mean number of trained networks.
        scored: Mean number of scored networks.
        test: Test accuracy in percent of the network with the best validation accuracy, with its 95 % interval.
        gain: `test` less that of the first method with the same seed, with its 95 % interval; NaN for the first.
        better: Number of repeats in which `test` is higher than that of the first method; NaN for the first.
        steps: Numbers of trainings at which the curve is known.
        curve: `test` after so many trainings, with the ends of its 95 % interval.
    """

    name: str
    repeats: int
    trained: float
    scored: float
    test: tuple[float, float, float]
    gain: tuple[float, float, float]
    better: float
    steps: tuple[int, ...]
    curve: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class Search:
    """One search, with several methods.

    Attributes:
        title: Space and accuracy.
        optimum: The highest test accuracy of the space, in percent.
        notes: How it was searched, in short sentences.
    """

    title: str
    optimum: float
    notes: tuple[str, ...]
    methods: tuple[Reached, ...]

    def flat(self) -> list[dict[str, Any]]:
        """Return one record for every method and number of trainings, for CSV."""
        return [
            {"search": self.title, "method": of.name, "repeats": of.repeats, "trained": trained}
            | dict(zip(("test", "test_low", "test_high"), values, strict=True))
            for of in self.methods
            for trained, values in zip(of.steps, of.curve, strict=True)
        ]


@dataclass(frozen=True)
class Program:
    """A program that `zcbench evolve` found, which is a proxy.

    Attributes:
        name: Name of the proxy.
        title: Name by what it reads.
        text: The program.
        tree: Name of the root, followed by the trees of its arguments.
        reads: What each terminal is, by its name.
        operations: What each operation computes, by its name; empty for a program over scores.
        higher: Whether a higher score is better.
        fitted: Kendall's tau-b, or the coefficient that it was evolved for, on the networks that it was evolved on, by
            the words that say which and where.
        sealed: Kendall's tau-b and its interval on networks that no search reads, by what was opened and when.
    """

    name: str
    title: str
    text: str
    tree: Sequence[Any]
    reads: Mapping[str, str]
    operations: Mapping[str, str]
    higher: bool
    fitted: Mapping[str, float]
    sealed: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)

    def flat(self) -> dict[str, Any]:
        """Return one level of plain values, for CSV."""
        direction = "higher" if self.higher else "lower"
        return (
            {"program": self.name, "text": self.text, "reads": " ".join(self.reads), "direction": direction}
            | dict(self.fitted)
            | {f"tau on {opened}": tau for opened, (tau, _, _) in self.sealed.items()}
        )


@dataclass(frozen=True)
class Beside:
    """All that a leaderboard shows beside its scores, as it was given; empty where nothing was."""

    former: tuple[Row, ...] = ()
    searches: tuple[Search, ...] = ()
    programs: tuple[Program, ...] = ()

    def document(self) -> dict[str, Any]:
        """Return it as JSON holds it, for `read` to read; a number that is not finite is None."""
        record: dict[str, Any] = null_if_not_finite(dataclasses.asdict(self))
        return {"format": FORMAT} | record

    def changes(self, standings: Sequence[Standing]) -> list[Change]:
        """Return what changed since the former version; nothing if there is none."""
        return changes(self.former, of_standings(standings)) if self.former else []

    def over(self, kept: Beside) -> Beside:
        """Return this, with what it lacks taken from what another leaderboard shows."""
        return Beside(self.former or kept.former, self.searches or kept.searches, self.programs or kept.programs)


#: A leaderboard that shows its scores alone.
NOTHING = Beside()


def read(folder: Path) -> Beside:
    """Read what a leaderboard shows beside its scores; nothing if its folder has no such file.

    Raises:
        ResultsError: The file is torn, or of another format.
    """
    path = folder / BESIDE
    if not path.exists():
        return NOTHING
    try:
        document = json.loads(path.read_text("utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"expected format {FORMAT}, got {document['format']}")
        return Beside(
            tuple(_made(Row, record) for record in document["former"]),
            tuple(_search(record) for record in document["searches"]),
            tuple(_made(Program, record) for record in document["programs"]),
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ResultsError(
            f"leaderboard {path}: expected what zcbench leaderboard wrote ({in_words(error)}): "
            "delete it and name --since, --searches and --programs again"
        ) from None


def _search(record: Mapping[str, Any]) -> Search:
    methods = tuple(_made(Reached, method) for method in record["methods"])
    return Search(str(record["title"]), float(record["optimum"]), tuple(record["notes"]), methods)


def _made(kind: Any, record: Mapping[str, Any]) -> Any:
    """Return a record as one of the classes above; its lists become tuples, and None becomes NaN."""
    return kind(**{name: _frozen(value) if name != "tree" else value for name, value in record.items()})


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_frozen, value))
    return float("nan") if value is None else value
