from __future__ import annotations

import csv
import math
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from zcbench.errors import NotApplicableError
from zcbench.proxies import PROXIES
from zcbench.proxies.eznas_a import SIGNS, eznas_a, first_of_triples
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.proxies.passes import DATA, Backward, Call, Tap
from zcbench.proxies.passes.objectives import SUM
from zcbench.proxies.probe import Probe
from zcbench.tools.parity import batches, load

SYNTHETIC = Path(__file__).parent / "synthetic"
PLACE = "a place"
NETS = sorted(path.stem for path in (SYNTHETIC / "nets").glob("*.npz"))


def determinant(matrix: list[list[int]]) -> int:
    """Return the determinant by fraction-free elimination (Bareiss), which is exact for integers."""
    rows, sign, previous = [list(row) for row in matrix], 1, 1
    for k in range(len(rows) - 1):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        for i in range(k + 1, len(rows)):
            rows[i] = [(rows[k][k] * b - rows[i][k] * a) // previous for a, b in zip(rows[k], rows[i], strict=True)]
        previous = rows[k][k]
    return sign * rows[-1][-1]


def value(matrix: list[list[int]]) -> float:
    d = determinant(matrix)
    return 0.0 if d == 0 else 0.5 if d < 0 else d / (1 + d)


def _gradient(place: object, activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


def triples_of(net: nn.Module) -> list[Call]:
    operations = record(Places(net), torch.zeros(2, 3, 32, 32), training=True)
    return [place for place in first_of_triples(operations) if isinstance(place, Call)]


@pytest.mark.parametrize("net", NETS)
def test_determinants_are_exact(net: str) -> None:
    x = batches(SYNTHETIC)["synthetic_16"][0][:2].double()
    signs = Tap(Backward(DATA, SUM), at=first_of_triples, reduce=SIGNS.reduce, side="input")
    gradients = Tap(signs.of, at=first_of_triples, reduce=_gradient, side="input")
    probe = Probe(load(SYNTHETIC / "nets" / f"{net}.npz").double(), x, plan=[signs, gradients])
    # Four triples suffice, because exact elimination is slow.
    for (_, score), (_, gradient) in list(zip(probe.read(signs), probe.read(gradients), strict=True))[-4:]:
        matrices = gradient.sign().to(torch.int64).flatten(0, 1)[:40].tolist()
        ours = SIGNS.reduce(PLACE, gradient, gradient.flatten(0, 1)[:40][None])
        assert ours == pytest.approx(math.sqrt(sum(value(m) ** 2 for m in matrices)), rel=1e-12)
        assert score >= ours


@pytest.mark.parametrize("net", NETS)
def test_the_reference_differs_only_by_its_round_off(net: str) -> None:
    """Singular matrices score 0, but the round-off of the reference gives some of them one half."""
    with (SYNTHETIC / "values.csv").open(newline="") as stream:
        (reference,) = (
            float(row["value"])
            for row in csv.DictReader(stream)
            if (row["net"], row["proxy"], row["variant"]) == (net, "eznas_a", "weights_as_given.float64")
        )
    known = batches(SYNTHETIC)
    signs = Tap(Backward(DATA, SUM), at=first_of_triples, reduce=SIGNS.reduce, side="input")
    probe = Probe(load(SYNTHETIC / "nets" / f"{net}.npz").double(), known["synthetic_16"][0].double(), plan=[signs])
    exact = eznas_a(probe.read(signs))
    assert exact <= reference
    assert reference == pytest.approx(exact, rel=1e-2)


def test_singular_signs_score_nothing_in_any_layout() -> None:
    signs = torch.randint(0, 2, (2, 20, 32, 32), generator=torch.Generator().manual_seed(0)).float() * 2 - 1
    signs[:, :, 9] = (signs[:, :, 17] + signs[:, :, 30]) / 2
    left = torch.linalg.slogdet(signs.double())
    assert ((left.sign > 0) & (left.logabsdet > 1)).any(), "round-off of LU does not matter, so this shows nothing"
    for layout in (torch.contiguous_format, torch.channels_last):
        assert SIGNS.reduce(PLACE, signs, signs.contiguous(memory_format=layout)) == 0
    signs[:, ::2, 9] = 1
    layouts = (signs, signs.contiguous(memory_format=torch.channels_last))
    scores = {float(SIGNS.reduce(PLACE, signs, g)) for g in layouts}
    assert len(scores) == 1
    matrices = signs[:, ::2].to(torch.int64).flatten(0, 1).tolist()
    assert scores.pop() == pytest.approx(math.sqrt(sum(value(m) ** 2 for m in matrices)), rel=1e-12)


def test_triples_of_the_benchmark_are_relu_conv_norm() -> None:
    net = load(SYNTHETIC / "nets" / "n04_best_cifar10.npz")
    calls = triples_of(net)
    assert len(calls) == 19  # as many as the reference scored
    assert all(call.relu for call in calls)


def test_cells_without_convolutions_fall_back_to_conv_norm_relu() -> None:
    net = load(SYNTHETIC / "nets" / "n09_convfree_mixed.npz")
    # The reference pairs the stem, both convolutions of the first reduction, and the second one of the other reduction.
    modules = ["stem.0", "cells.1.conv_a.op.1", "cells.1.conv_b.op.1", "cells.3.conv_b.op.1"]
    assert [call.module for call in triples_of(net)] == modules


def test_no_triple_and_no_square_are_not_applicable() -> None:
    with pytest.raises(NotApplicableError, match="triple"):
        triples_of(nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 2)))
    with pytest.raises(NotApplicableError, match="square"):
        SIGNS.reduce(PLACE, torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2, 3))


def test_the_score_grows_with_the_root_of_the_batch() -> None:
    g = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    assert SIGNS.reduce(PLACE, g, torch.cat([g, g])) == pytest.approx(math.sqrt(2) * SIGNS.reduce(PLACE, g, g))


class Cell(nn.Module):
    """A cell of two inputs and two operations in the manner of DARTS."""

    def __init__(self, before: int, last: int, width: int) -> None:
        super().__init__()
        self.fit_before, self.fit_last = (self.triple(inputs, width, 1) for inputs in (before, last))
        self.first, self.second = (self.triple(width, width, 3) for _ in range(2))

    @staticmethod
    def triple(inputs: int, outputs: int, kernel: int) -> nn.Sequential:
        convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False)
        return nn.Sequential(nn.ReLU(), convolution, nn.BatchNorm2d(outputs))

    def forward(self, before: Tensor, last: Tensor) -> Tensor:
        states = [self.fit_before(before), self.fit_last(last)]
        states.append(self.first(states[0]) + states[1])
        states.append(self.second(states[2]))
        return torch.cat(states[2:], 1)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6))
        self.cells = nn.ModuleList([Cell(6, 6, 4), Cell(6, 8, 4), Cell(8, 8, 4)])
        self.head = nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        before = last = self.stem(x)
        for cell in self.cells:
            before, last = last, cell(before, last)
        return self.head(last.mean((2, 3)))


def test_operations_are_the_triples_that_do_not_fit_the_inputs_of_cells() -> None:
    x = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0)).double()
    found = Probe(Cells().double(), x, plan=[SIGNS]).read(SIGNS)
    modules = [place.module for place, _ in found if isinstance(place, Call)]
    assert len(modules) == len(found) == 12  # four in each of three cells
    inside = [score for module, (_, score) in zip(modules, found, strict=True) if "fit" not in module]
    assert len(inside) == 6
    values = {name: PROXIES[name](Probe(Cells().double(), x)) for name in ("eznas_a", "eznas_a.operations")}
    assert values["eznas_a.operations"] == pytest.approx(sum(inside) / 6, rel=1e-12)
    assert values["eznas_a"] == pytest.approx(sum(score for _, score in found) / 12, rel=1e-12)
    assert values["eznas_a"] != values["eznas_a.operations"]


def test_operations_of_cells_without_any_are_not_applicable() -> None:
    net = Cells()
    for cell in net.cells:
        cell.first, cell.second = nn.Identity(), nn.Identity()
    with pytest.raises(NotApplicableError, match="triples"):
        PROXIES["eznas_a.operations"](Probe(net, torch.randn(2, 3, 8, 8)))
