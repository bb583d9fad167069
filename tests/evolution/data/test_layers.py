"""Tests of the layer table: its columns are held against the proxies that they are the parts of, and against loops."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from zcbench.evolution.data import layers
from zcbench.evolution.data.layers import COLUMNS, LayerTable
from zcbench.evolution.language.layers import PRIMITIVES
from zcbench.proxies import PROXIES
from zcbench.proxies.passes import Call
from zcbench.proxies.probe import Probe


def made(seed=0):
    torch.manual_seed(seed)
    body = [nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 1, bias=False), nn.ReLU()]
    return nn.Sequential(*body, nn.AvgPool2d(2), nn.Flatten(), nn.Linear(36, 5))


@pytest.fixture
def probe():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 3, 8, 8, generator=generator)
    return Probe(made(), x, torch.tensor([0, 1, 2, 3]), seed=0)


@pytest.fixture
def table(probe):
    return {name: column.numpy() for name, column in probe.read(LayerTable()).items()}


@pytest.mark.parametrize(
    ("proxy", "column"),
    [("params", "params"), ("macs", "macs"), ("snip", "snip"), ("synflow", "synflow"), ("meco", "min_eigenvalue")],
)
def test_the_sum_of_a_column_is_the_proxy(probe, table, proxy, column):
    # meco to round-off: the smaller of both Gram matrices is used, and what it cannot see is exactly 0
    assert table[column].sum() == pytest.approx(PROXIES[proxy](probe), rel=1e-9, abs=1e-12)


def test_the_rows_are_the_maps_in_their_order(table):
    # convolution, norm, ReLU, convolution, ReLU, pooling, linear
    assert table["is_layer"].tolist() == [1, 0, 0, 1, 0, 0, 1]
    assert table["is_norm"].tolist() == [0, 1, 0, 0, 0, 0, 0]
    assert table["is_activation"].tolist() == [0, 0, 1, 0, 1, 0, 0]
    assert table["depth"] == pytest.approx(np.arange(1, 8) / 7)
    assert table["channels"].tolist() == [6, 6, 6, 4, 4, 4, 5]
    assert table["positions"].tolist() == [36, 36, 36, 36, 36, 9, 1]
    # 6 (3 9 + 1), 2 6 of the norm, 4 6 without a bias, 5 (36 + 1)
    assert table["params"].tolist() == [168, 12, 0, 24, 0, 0, 185]


def test_all_numbers_are_finite_and_of_the_network_alone(probe, table):
    assert set(table) == set(COLUMNS)
    assert all(np.isfinite(column).all() and column.dtype == np.float64 for column in table.values())
    before = probe.net[0].weight.clone()
    again = Probe(made(), probe.x, probe.y, seed=0).read(LayerTable(("saliency", "depth")))
    assert again["saliency"].numpy() == pytest.approx(table["saliency"], rel=1e-6)
    assert torch.equal(before, probe.net[0].weight)


def test_a_column_runs_only_the_passes_that_it_reads(probe):
    probe.read(LayerTable(("depth", "params")))
    assert (probe.forwards, probe.backwards) == (0, 0)
    probe.read(LayerTable(("effective_rank",)))
    assert (probe.forwards, probe.backwards) == (1, 0)


MAP = Call("convolution", "conv2d", channels=1)


def test_the_spectrum_is_that_of_the_channel_correlations():
    x = torch.randn(2, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    values = np.linalg.eigvalsh(np.corrcoef(x[0].reshape(3, -1).double().numpy()))
    share = values / values.sum()
    rank = math.exp(-(share * np.log(share)).sum())
    assert layers._spectrum(MAP, x).tolist() == pytest.approx((values[0], values[-1], rank), rel=1e-9)


def test_more_channels_than_positions_are_dependent():
    x = torch.randn(1, 9, 2, 2, generator=torch.Generator().manual_seed(0))
    least, largest, _ = layers._spectrum(MAP, x).tolist()
    values = np.linalg.eigvalsh(np.corrcoef(x[0].reshape(9, -1).double().numpy()))
    assert least == 0.0
    assert abs(values[0]) < 1e-12
    assert largest == pytest.approx(values[-1], rel=1e-9)


def test_images_differ_as_a_loop_says():
    x = torch.randn(3, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    rows = x.reshape(3, -1).double().numpy()
    kernel = np.array([[np.mean((a > 0) == (b > 0)) for b in rows] for a in rows])
    pairs = [(0, 1), (0, 2), (1, 2)]
    distance = np.mean([1 - kernel[pair] for pair in pairs])
    alike = np.mean([abs(np.corrcoef(rows)[pair]) for pair in pairs])
    logdet = np.linalg.slogdet(kernel + np.eye(3))[1]
    assert layers._images(MAP, x).tolist() == pytest.approx((logdet, distance, alike), rel=1e-5)


def test_gradients_are_reduced_as_a_loop_says():
    draw = torch.Generator().manual_seed(0)
    x, g = (torch.randn(3, 2, 3, 3, generator=draw) for _ in range(2))
    g[:, 0, 0, 0] = 0.5  # does not vary, so it counts as 0
    rows = g.reshape(3, -1).double().numpy()
    saliency = sum(0.5 * np.mean([float((x[n, c] * g[n, c]).sum()) ** 2 for n in range(3)]) for c in range(2))
    varies = rows.std(0) > 0
    steady = (np.abs(rows).mean(0)[varies] / rows.std(0)[varies]).sum()
    alike = np.mean([abs(np.corrcoef(rows)[pair]) for pair in [(0, 1), (0, 2), (1, 2)]])
    expected = (np.linalg.norm(rows), saliency, steady, alike)
    assert layers._gradients(MAP, x, g).tolist() == pytest.approx(expected, rel=1e-4)


def test_the_jacobian_is_reduced_as_a_loop_says():
    g = torch.randn(4, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    alike = np.corrcoef(g.reshape(4, -1).double().numpy())
    sign, logdet = np.linalg.slogdet(alike + 1e-5 * np.eye(4))
    assert sign == 1
    assert layers._jacobian(MAP, g, g).item() == pytest.approx(logdet, rel=1e-6)


def test_images_of_one_gradient_are_dependent_and_a_constant_one_counts_as_nothing():
    g = torch.randn(1, 2, 3, 3, generator=torch.Generator().manual_seed(0)).repeat(3, 1, 1, 1)
    # The eigenvalues are 3 + k, k and k.
    assert layers._jacobian(MAP, g, g).item() == pytest.approx(math.log(3) + 2 * math.log(1e-5), rel=1e-3)
    g[1] = 0.25
    assert layers._jacobian(MAP, g, g).item() == 0


def test_the_page_names_every_column_and_operation():
    page = (Path(__file__).parents[3] / "docs" / "evolve.md").read_text("utf-8")
    assert [name for name in [*COLUMNS, *PRIMITIVES] if f"| `{name}` |" not in page] == []
    assert all(column.summary.endswith(".") for column in COLUMNS.values())
