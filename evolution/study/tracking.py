"""Weights & Biases as a mirror of a search, and an estimate of the energy that it took."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from ...environment import environment
from ..engine.generations import State
from .config import EvolveConfig

#: What the paper estimates for its search of under 24 hours on one processor (section 6).
PAPER_CO2_G = 358.6


class Tracker:
    """Logs generations as they come, and the hall of fame at the end.

    W&B is offline unless the user is logged in or `WANDB_MODE` says otherwise. Energy is estimated by codecarbon where
    that is installed, from the processor's nominal power; it is no measurement.

    Args:
        config: Of the search.
    """

    def __init__(self, config: EvolveConfig) -> None:
        self.config = config
        self.notes: list[str] = []
        self._run: Any = None
        self._asked = config.tracker == "none"
        self._energy: Any = None

    def __enter__(self) -> Tracker:
        self._energy = _energy()
        return self

    def generation(self, state: State) -> None:
        """Log the last generation."""
        if self._started():
            record = dataclasses.asdict(state.records[-1])
            self._run.log(record, step=record["generation"])

    def finish(self, state: State, best: Sequence[Mapping[str, Any]]) -> None:
        """Log the best programs as a table, and the energy."""
        seconds = sum(record.wall_s for record in state.records)
        energy = self._stopped()
        if energy:
            self.notes.append(
                f"energy of this run, an estimate by codecarbon from nominal power: {1000 * energy['kwh']:.2f} Wh, "
                f"{energy['co2_g']:.2f} g CO2e at the mean of the US grid; the paper estimates {PAPER_CO2_G} g for its "
                "search"
            )
        if self._started():
            import wandb

            if best:
                table = wandb.Table(columns=list(best[0]))
                for record in best:
                    table.add_data(*record.values())
                self._run.log({"hall of fame": table})
            self._run.summary["seconds"] = seconds
            for name, value in energy.items():
                self._run.summary[f"estimated_{name}"] = value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped()
        if self._run is not None:
            self._run.finish(exit_code=0 if error is None else 1)

    def _started(self) -> bool:
        """Start a run when there is something to log, so that a user's fault leaves none, and tell if there is one."""
        if self._asked:
            return self._run is not None
        self._asked = True
        import wandb  # 1.2 s to import, and not needed without tracking

        mode: Any = os.environ.get("WANDB_MODE") or ("online" if wandb.login(prompt=False, verify=False) else "offline")
        if mode not in {"online", "offline"}:
            self.notes.append(f"not tracked: WANDB_MODE is {mode}")
            return False
        folder = Path(self.config.out).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        self._run = wandb.init(
            project="zcbench",
            dir=folder,
            mode=mode,
            job_type="evolution",
            config={**dataclasses.asdict(self.config), "environment": environment()},
            settings=wandb.Settings(silent=True),
        )
        self.notes.append(
            f"tracked at {self._run.url}"
            if mode == "online"
            else f"tracked offline; to upload: wandb sync {self._run.dir.removesuffix('/files')}"
        )
        return True

    def _stopped(self) -> dict[str, float]:
        if self._energy is None:
            return {}
        tracker, self._energy = self._energy, None
        tracker.stop()
        data = tracker.final_emissions_data
        return {"kwh": float(data.energy_consumed), "co2_g": 1000 * float(data.emissions)}


def _energy() -> Any:
    """Start an estimate, None where codecarbon is not installed."""
    try:
        from codecarbon import OfflineEmissionsTracker
    except ImportError:
        return None
    tracker = OfflineEmissionsTracker(
        country_iso_code="USA",
        save_to_file=False,
        log_level="critical",
        measure_power_secs=15,
        allow_multiple_runs=True,
    )
    tracker.start()
    return tracker
