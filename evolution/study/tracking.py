"""The mirror of a search in Weights & Biases, and an estimate of the energy that the search took."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ...bench.report.tracking import Session, as_table, digest, scores_of
from ..engine.generations import State
from .config import EvolveConfig, as_document

#: Grams of CO2 that the paper estimates for its search of under 24 hours on one processor (section 6).
PAPER_CO2_G = 358.6

#: Settings that change no program: a search with others is the same run in Weights & Biases.
MACHINE = ("statistics", "data", "include", "workers", "tracker")


class Tracker:
    """Logs every generation when it ends, and the hall of fame at the end of the search.

    codecarbon, if it is installed, estimates the energy from the nominal power of the processor, without measuring it.
    """

    def __init__(self, config: EvolveConfig) -> None:
        on = config.tracker != "none"
        document = as_document(config)
        asked = {name: value for name, value in document.items() if name not in MACHINE}
        self._session = Session(
            Path(config.out),
            "evolution",
            document,
            name=Path(config.out).name,
            id=digest(asked),
            on=on,
        )
        self._pools = Path(config.results) if config.over in {"ranks", "logs"} else None
        self._estimator: Any = None
        self._energy_note = ""

    @property
    def notes(self) -> list[str]:
        """Lines for the user: where the run is, and the energy."""
        return [note for note in (self._session.note, self._energy_note) if note]

    def __enter__(self) -> Tracker:
        try:
            from codecarbon import OfflineEmissionsTracker
        except ImportError:
            return self
        # Its first lines come before it reads `log_level`.
        logging.getLogger("codecarbon").setLevel(logging.CRITICAL)
        self._estimator = OfflineEmissionsTracker(
            country_iso_code="USA",
            output_methods=[],
            log_level="critical",
            measure_power_secs=15,
            allow_multiple_runs=True,
        )
        self._estimator.start()
        return self

    def generation(self, state: State) -> None:
        """Log the last generation; before the first, say which scores the search reads, if it reads any."""
        if (run := self._session.run) is not None:
            if self._pools is not None:
                self._session.use(scores_of(self._pools))
                self._pools = None
            record = dataclasses.asdict(state.records[-1])
            run.log(record, step=record["generation"])

    def finish(self, state: State, best: Sequence[Mapping[str, Any]]) -> None:
        """Log the best programs as a table, one record each, and the energy."""
        energy = self._stop()
        if energy:
            self._energy_note = (
                f"energy of this run, an estimate by codecarbon from nominal power: {1000 * energy['kwh']:.2f} Wh, "
                f"{energy['co2_g']:.2f} g CO2e at the mean of the US grid; the paper estimates {PAPER_CO2_G} g for its "
                "search"
            )
        if (run := self._session.run) is not None:
            if best:
                run.log({"hall of fame": as_table(best)})
            run.summary["seconds"] = sum(record.wall_s for record in state.records)
            for name, value in energy.items():
                run.summary[f"estimated_{name}"] = value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._session.__exit__(kind, error, trace)

    def _stop(self) -> dict[str, float]:
        """End the estimate and return it; nothing without an estimate, or if it has ended before."""
        if self._estimator is None:
            return {}
        estimator, self._estimator = self._estimator, None
        estimator.stop()
        data = getattr(estimator, "final_emissions_data", None)
        if data is None:  # codecarbon keeps its own errors to itself
            self._energy_note = "no estimate of the energy: codecarbon failed"
            return {}
        return {"kwh": float(data.energy_consumed), "co2_g": 1000 * float(data.emissions)}
