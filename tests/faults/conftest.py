from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from zcbench.bench.results.ranking import select
from zcbench.bench.scoring.parts import KEY
from zcbench.bench.scoring.store import Store
from zcbench.bench.study.config import StudyConfig
from zcbench.bench.study.resolve import resolve

SPACE = Path(__file__).with_name("hard_space.py")
PROXIES = ["params", "l2_norm", "snip", "naswot"]


class Command:
    """A run of the space of hard networks, as a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def arguments(self, out: str, **options: object) -> list[str]:
        given = {
            **{"include": SPACE, "space": "hard", "dataset": "noise-cifar10", "sample": 20, "batch_sizes": 2},
            **{"proxies": ",".join(PROXIES), "tracker": "none", "out": out, **options},
        }
        return [sys.executable, "-m", "zcbench", "run", *(f"--{name}={value}" for name, value in given.items())]

    def __call__(self, out: str, hard: str = "yes", **options: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(out, **options),
            cwd=self.folder,
            env={**os.environ, "HARD": hard},
            capture_output=True,
            text=True,
            check=False,
        )

    def start(self, out: str, hard: str = "no", **options: object) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.arguments(out, **options),
            cwd=self.folder,
            env={**os.environ, "HARD": hard},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def rows(self, out: str) -> pd.DataFrame:
        """Return all rows of a results folder, without what is measured."""
        config = StudyConfig(
            **{"include": str(SPACE), "space": "hard", "dataset": "noise-cifar10", "sample": 20, "batch_sizes": 2},
            **{"proxies": PROXIES, "out": out},  # type: ignore[arg-type]
        )
        recipe = resolve(config).recipe
        rows = select(Store(self.folder / out), recipe).sort_values(list(KEY), ignore_index=True)
        return rows[[*KEY, "value", "status", "message"]]


@pytest.fixture
def command(tmp_path: Path) -> Command:
    return Command(tmp_path)


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The rows of an undisturbed run in which every network is plain."""
    own = Command(tmp_path_factory.mktemp("clean"))
    done = own("results", hard="no")
    assert done.returncode == 0, done.stderr
    return own.rows("results")
