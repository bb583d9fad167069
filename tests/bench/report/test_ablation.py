from __future__ import annotations

import math

import numpy as np
import pytest
from zcbench.bench.report.ablation import as_markdown
from zcbench.bench.report.figures import Drawing
from zcbench.bench.results.ablation import Ablation, ablate
from zcbench.bench.results.board import Board
from zcbench.bench.results.panel import Panel, Sample
from zcbench.bench.stats.bootstrap import resamples
from zcbench.bench.study.recipe import Recipe, Work

N = 30


@pytest.fixture(scope="module")
def ablation() -> Ablation:
    truth = np.random.RandomState(0).normal(size=N)
    weights = resamples(N, 30)
    panels = []
    for proxy, size, noise in (("p|q", 1, 3.0), ("p|q", 8, 0.5), ("nothing", 1, math.nan), ("nothing", 8, math.nan)):
        scores = truth[:, None] + noise * np.random.RandomState(size).normal(size=(N, 2))
        panels.append(Panel(proxy, 1, size, (0, 1), scores, np.ones((N, 2), dtype=bool), True))
    recipe = Recipe(
        space="s",
        dataset="d",
        truth="d/test",
        label="made up",
        protocol="2",
        device="cpu",
        torch="2",
        accuracies={str(i): float(value) for i, value in enumerate(truth)},
        work=tuple(Work(seed, size, ("p|q", "nothing")) for seed in (0, 1) for size in (1, 8)),
        batches={(size, seed): "h" for seed in (0, 1) for size in (1, 8)},
        versions={"p|q": 1, "nothing": 1},
        lower=(),
        aggregates=(),
        batch_sizes=(1, 8),
        resamples=30,
    )
    sample = Sample(tuple(map(str, range(N))), truth, weights, tuple(panels))
    board = Board("s-d v2", "s on d, 2 seeds", recipe, {}, ())
    return ablate([board], sample)


def test_every_row_is_there_and_tables_are_whole(ablation: Ablation) -> None:
    drawings = {
        ablation.id: [
            Drawing("x-seeds", "all | proxies", "<svg/>"),
            Drawing("x-batch-p", "p", "<svg/>"),
            Drawing("x-curves", "tops", "<svg/>"),
        ]
    }
    text = as_markdown([ablation], drawings, "figures")
    tables = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    # Spreads, trends, differences and agreement between batch sizes.
    assert [len(rows) - 2 for rows in tables] == [4, 2 + 1, 2, 2]
    for rows in tables:
        cells = {row.replace("\\|", "").count("|") for row in rows}
        assert len(cells) == 1, rows[0]
    assert "nan" not in text.replace("nothing", "")
    assert "## s-d v2: s on d, 2 seeds" in text
    assert "![all \\| proxies](figures/x-seeds.svg)" in text
    assert "(figures/x-batch-p.svg)" in text
    assert "x-curves" not in text
    row = next(line for line in text.splitlines() if line.startswith("| p\\|q | 8 |"))
    spread = next(s for s in ablation.spreads if (s.proxy, s.batch_size) == ("p|q", 8))
    assert f"{spread.tau:.3f}".removeprefix("0") in row
    assert "| nothing | 1 | 0 | 0 | 0.0% |" in text


def test_differences_are_of_the_larger_batch(ablation: Ablation) -> None:
    line = next(line for line in as_markdown([ablation], {}, "f").splitlines() if line.startswith("| p\\|q | 8 | 1 |"))
    (found,) = (d for d in ablation.differences if d.first.proxy == "p|q")
    assert found.tau.difference < 0
    assert f"{-found.tau.difference:.3f}".removeprefix("0") in line
