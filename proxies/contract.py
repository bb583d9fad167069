"""Tests that every proxy must pass. To test a proxy of your own, subclass `ProxyContract`.

from zcbench.contract import ProxyContract

class TestMyProxy(ProxyContract):
name = "my_proxy"
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from .checks import Report, check
from .registry import PROXIES


class ProxyContract:
    """The tests of one proxy, on small networks that are different functions.

    Attributes:
        name: Name of the proxy. The module that registers it has to be imported.
    """

    name: str
    _report: Report

    @classmethod
    def report(cls) -> Report:
        """Return the results of all checks, which run once."""
        if "_report" not in vars(cls):
            contract = cls()
            networks = [functools.partial(contract.network, place) for place in range(6)]
            cls._report = check(PROXIES[cls.name], networks, *contract.batch())
        return cls._report

    def network(self, place: int) -> nn.Module:
        """Return a small network; each place is another one, and is the same each time."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(place)
            width = 4 + 2 * (place % 3)
            layers: list[nn.Module] = [nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            for _ in range(1 + place // 3):
                layers += [nn.ReLU(), nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width)]
            return nn.Sequential(*layers, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))

    def batch(self) -> tuple[Tensor, Tensor]:
        """Return images `(N, 3, 8, 8)` and labels."""
        draw = torch.Generator().manual_seed(0)
        return torch.randn(8, 3, 8, 8, generator=draw), torch.arange(8) % 3

    def test_every_network_has_a_number(self) -> None:
        """No network gives NaN, None or an error."""
        assert not self.report().findings[0].fault

    def test_scores_differ(self) -> None:
        """Networks of different sizes have different scores."""
        assert not self.report().findings[1].fault

    def test_a_second_score_is_the_same(self) -> None:
        """The score does not depend on what was scored before."""
        assert not self.report().findings[2].fault

    def test_neighbours_change_nothing(self) -> None:
        """The score is the same beside other proxies, and so are theirs."""
        assert not self.report().findings[3].fault

    def test_what_is_given_stays(self) -> None:
        """The function writes into nothing that it is given."""
        assert not self.report().findings[4].fault

    def test_no_global_generator_is_drawn_from(self) -> None:
        """The function draws from a generator that it reads."""
        assert not self.report().findings[5].fault
