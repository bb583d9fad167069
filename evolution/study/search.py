"""One search: whatever is evolved, it is tracked, and its outcome laid out in tables and a picture."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table

from ...bench.report.figures import available
from ...errors import ConfigError, ResultsError
from ..engine.generations import State
from ..language.programs import Program
from .combine import combine
from .config import CONFIG_VERSION, EvolveConfig
from .discover import KEPT, discover
from .found import STATISTICS
from .report import candidates, combination, tests
from .tracking import Tracker


def search(config: EvolveConfig) -> tuple[list[Table], list[str]]:
    """Search as configured and return tables, and lines that say where everything is.

    Raises:
        ZcbenchError: Whatever the user has to mend.
    """
    if config.version != CONFIG_VERSION:
        raise ConfigError(f"version: expected {CONFIG_VERSION}, got {config.version}")
    fresh: list[int] = []
    with Tracker(config) as tracker:

        def each(state: State) -> None:
            fresh.append(state.generation)
            tracker.generation(state)

        try:
            if config.over == "statistics":
                discovery = discover(config, each=each)
                state, best = discovery.state, [candidate.flat() for candidate in discovery.candidates]
                tables, notes = [candidates(discovery), *tests(discovery)], [*discovery.notes]
                drawn = {
                    f"{candidate.name}: {candidate.fitness:.3f}": STATISTICS.parse(candidate.program)
                    for candidate in discovery.candidates[:KEPT]
                }
            else:
                found = combine(config, each=each)
                state, best = found.state, [outcome.flat() for outcome in found.outcomes]
                tables, notes, drawn = [combination(found)], [*found.notes], found.programs
            notes += _draw(Path(config.out) / "best.svg", drawn)
        except OSError as error:
            raise ResultsError(
                f"out: cannot write to {error.filename or config.out} ({error.strerror}): choose another folder"
            ) from None
        tracker.finish(state, best)
    return tables, [*notes, *_fresh(fresh, state), *tracker.notes, f"programs, records, state: {config.out}"]


def _fresh(generations: list[int], state: State) -> list[str]:
    """Say what of a search was there already."""
    if not generations:
        return [f"all {state.generation + 1} generations are there already: nothing is evolved anew"]
    return [f"went on from generation {generations[0] - 1}"] if generations[0] else []


def _draw(path: Path, programs: dict[str, Program]) -> list[str]:
    """Draw the best programs, which takes matplotlib."""
    if not available() or not programs:
        return []
    from .draw import trees

    trees(path, programs)
    return [f"figure: {path}"]
