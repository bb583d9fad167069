"""The mirror of what was found in Weights & Biases."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ....bench.report.tracking import Session, as_table, digest
from ..config import SearchConfig


def mirrored(config: SearchConfig, name: str, records: Sequence[Mapping[str, Any]]) -> str:
    """Log records with the same fields as a table of a new run, and return a line that says where the run is."""
    on = config.tracker != "none"
    asked = dataclasses.asdict(config)
    with Session(Path(config.out), "search", asked, name=Path(config.out).name, id=digest(asked), on=on) as session:
        if session.run is not None:
            session.run.log({name: as_table(records)})
    return session.note
