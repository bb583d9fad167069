"""Being registered is enough for a space to be tested here; NDS is tested on made files, in test files of its own."""

from __future__ import annotations

import functools

import pytest
from zcbench.spaces import SPACES, Space
from zcbench.spaces.contract import SpaceContract


@functools.cache
def space(name: str) -> Space:
    return SPACES[name](None)  # its list of networks is read once


class TestEverySpace(SpaceContract):
    @pytest.fixture(autouse=True, params=[name for name in SPACES if not name.startswith("nds_")])
    def name(self, request: pytest.FixtureRequest) -> None:
        self.registered: str = request.param

    def make(self) -> Space:
        return space(self.registered)
