"""Being registered is enough for a space to be tested here."""

from __future__ import annotations

import pytest
from zcbench.bench.contract import SpaceContract
from zcbench.bench.spaces import SPACES, Space


class TestEverySpace(SpaceContract):
    @pytest.fixture(autouse=True, params=list(SPACES))
    def name(self, request: pytest.FixtureRequest) -> None:
        self.registered: str = request.param

    def make(self) -> Space:
        return SPACES[self.registered](None)
