"""Being registered is enough for a space to be tested here."""

from __future__ import annotations

import functools

import pytest
from zcbench.bench.contract import SpaceContract
from zcbench.bench.spaces import SPACES, Space


@functools.cache
def space(name: str) -> Space:
    return SPACES[name](None)  # its list of networks is read once


class TestEverySpace(SpaceContract):
    @pytest.fixture(autouse=True, params=list(SPACES))
    def name(self, request: pytest.FixtureRequest) -> None:
        self.registered: str = request.param

    def make(self) -> Space:
        return space(self.registered)
