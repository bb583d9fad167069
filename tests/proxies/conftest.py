from __future__ import annotations

import pytest
from torch import Tensor


@pytest.fixture
def doubles(batch: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    return batch[0].double(), batch[1]
