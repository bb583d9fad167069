"""One search for programs or for aggregates: it is resolved, run, tracked, and reported in tables and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ...bench.report.figures import available
from ...errors import ResultsError
from ..engine.generations import State
from ..language.programs import Program
from .combine import combine
from .config import EvolveConfig
from .discover import KEPT, discover
from .report import candidates, combination
from .resolve import ProgramSearch, resolve_search
from .tracking import Tracker


def search(config: EvolveConfig) -> tuple[list[Table], list[str]]:
    """Run a search and return tables of its result, and lines that say where its files are."""
    resolved = resolve_search(config)
    fresh: list[int] = []
    with Tracker(config) as tracker:

        def each(state: State) -> None:
            fresh.append(state.generation)
            tracker.generation(state)

        try:
            if isinstance(resolved, ProgramSearch):
                discovery = discover(resolved, each=each)
                state, best = discovery.state, [candidate.flat() for candidate in discovery.candidates]
                tables, notes = candidates(discovery), [*discovery.notes]
                drawn = {
                    f"{candidate.found.name}: {candidate.fitness:.3f}": candidate.found.tree()
                    for candidate in discovery.candidates[:KEPT]
                }
            else:
                found = combine(resolved, each=each)
                state, best = found.state, [vars(outcome) for outcome in found.outcomes]
                tables, notes, drawn = [combination(found)], [*found.notes], found.programs
            notes += _draw(resolved.out / "best.svg", drawn)
        except OSError as error:
            raise ResultsError(
                f"out: cannot write to {error.filename or resolved.out} ({error.strerror}): choose another folder"
            ) from None
        tracker.finish(state, best)
    return tables, [*notes, *_fresh(fresh, state), *tracker.notes, f"programs, records, state: {resolved.out}"]


def _fresh(generations: list[int], state: State) -> list[str]:
    """Return a line that says which generations were there already."""
    if not generations:
        return [f"all {state.generation + 1} generations are there already: nothing is evolved anew"]
    return [f"continued from generation {generations[0] - 1}"] if generations[0] else []


def _draw(path: Path, programs: dict[str, Program]) -> list[str]:
    """Draw the best programs, if matplotlib is installed."""
    if not available() or not programs:
        return []
    from .draw import trees

    trees(path, programs)
    return [f"figure: {path}"]
