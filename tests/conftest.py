from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command line does, before NumPy is imported

import pandas as pd
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import settings
from zcbench.proxies import PROXIES

SHARED = Path(__file__).parents[2] / "shared"

# The study gives every worker one thread; tests compare with it to the last digit.
torch.set_num_threads(1)
# A search for garbage among all objects takes a sixth of a second here, and Python starts one every three seconds.
gc.set_threshold(700, 10, 300)
# A deadline is a timing, which a busy machine fails.
settings.register_profile("zcbench", deadline=None)
settings.load_profile("zcbench")
os.environ["WANDB_MODE"] = "offline"
os.environ["WANDB_SILENT"] = "true"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data files."""
    folder = Path(os.environ.get("ZCBENCH_DATA", SHARED / "data"))
    if not (folder / "tables" / "nb201" / "nats_bench.csv").exists():
        pytest.skip("needs the data files: set ZCBENCH_DATA")
    return folder


@pytest.fixture(scope="session")
def public_reference() -> Path:
    """Reference vectors on CIFAR-10 images, which may not be copied into the repository."""
    folder = SHARED / "reference" / "public"
    if not folder.exists():
        pytest.skip("needs the reference vectors on CIFAR-10 images, which lie beside the repository")
    return folder


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Forget the proxies that a test registers: the next test in this process has its own."""
    known = set(PROXIES)
    yield
    for name in set(PROXIES) - known:
        PROXIES._items.pop(name)


@pytest.fixture
def batch() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(8, 3, 16, 16, generator=torch.Generator().manual_seed(3))
    return x, torch.arange(8) % 10


@pytest.fixture
def every_row() -> Callable[[Path], pd.DataFrame]:
    """Read all parts of a results folder, without the questions of the store."""

    def read(folder: Path) -> pd.DataFrame:
        parts = sorted((folder / "scores").rglob("[0-9]*.parquet"))
        return pd.concat([pq.ParquetFile(part).read().to_pandas() for part in parts], ignore_index=True)

    return read
