"""One search: whatever is evolved, it is tracked, and its outcome laid out in tables."""

from __future__ import annotations

from rich.table import Table

from ..errors import ConfigError
from .combine import combine
from .config import CONFIG_VERSION, EvolveConfig
from .discover import discover
from .report import candidates, combination, tests
from .tracking import Tracker


def search(config: EvolveConfig) -> tuple[list[Table], list[str]]:
    """Search as configured and return tables, and lines that say where everything is.

    Raises:
        ZcbenchError: Whatever the user has to mend.
    """
    if config.version != CONFIG_VERSION:
        raise ConfigError(f"version: expected {CONFIG_VERSION}, got {config.version}")
    with Tracker(config) as tracker:
        if config.over == "statistics":
            discovery = discover(config, each=tracker.generation)
            tables, notes = [candidates(discovery), *tests(discovery)], [*discovery.notes]
            tracker.finish(discovery.state, [candidate.flat() for candidate in discovery.candidates])
        else:
            found = combine(config, each=tracker.generation)
            tables, notes = [combination(found)], []
            tracker.finish(found.state, [outcome.flat() for outcome in found.outcomes])
    return tables, [*notes, *tracker.notes, f"programs, records, state: {config.out}"]
