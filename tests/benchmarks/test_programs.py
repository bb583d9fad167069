"""What programs cost. Run with `tox -e bench`; times of one thread, ratios measured in one run.

pytest tests/benchmarks/test_programs.py --benchmark-enable
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
import torch
from pytest_benchmark.fixture import BenchmarkFixture
from zcbench.datasets import DATASETS
from zcbench.evolution.data.evaluation import Plan
from zcbench.evolution.data.statistics import TERMINALS, Statistics, collect, needs
from zcbench.evolution.language.primitives import PRIMITIVES
from zcbench.evolution.language.programs import Program, Vocabulary
from zcbench.evolution.language.variation import Trees
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES

Seconds = Callable[..., float]
PROGRAMS, NETWORKS = 50, 10


def statistics() -> list[Statistics]:
    """NAS-Bench-201 networks on one image of noise of 16 pixels."""
    images, space = DATASETS["noise-imagenet16-120"](None), SPACES["nb201"](None)
    x = images.probe_batch(1, 0).x
    found = []
    for index in space.sample(3 * NETWORKS):
        net = space.build(space.architecture(index), images.task, 0)
        try:
            found.append(collect(Probe(net, x, seed=0, plan=needs())))
        except Exception:  # without a convolution, or without a path to the output
            continue
    return found[:NETWORKS]


def programs(networks: list[Statistics]) -> list[Program]:
    """Grow programs that give numbers, as those of a search do."""
    trees, draw = Trees(Vocabulary(dict.fromkeys(TERMINALS, "tensor"), PRIMITIVES)), random.Random(0)
    grown = list(dict.fromkeys(trees.grow(draw, 2, 6) for _ in range(20 * PROGRAMS)))
    scores = Plan(grown).scores(networks[:1])[:, 0]
    return [program for program, score in zip(grown, scores, strict=True) if np.isfinite(score)][:PROGRAMS]


def test_programs_and_networks_together(seconds: Seconds, benchmark: BenchmarkFixture) -> None:
    if not benchmark.enabled:
        pytest.skip("a timing, not a test: run with --benchmark-enable")
    torch.set_num_threads(1)
    networks = statistics()
    many = programs(networks)
    assert (len(many), len(networks)) == (PROGRAMS, NETWORKS)
    together = Plan(many)
    benchmark.pedantic(together.scores, args=(networks,), rounds=5, warmup_rounds=1)
    whole = seconds(lambda: together.scores(networks))
    by_network = seconds(lambda: [together.scores([network]) for network in networks])
    alone = [Plan([program]) for program in many]
    by_program = seconds(lambda: [plan.scores(networks) for plan in alone])
    each = seconds(lambda: [plan.scores([network]) for plan in alone for network in networks], rounds=1)
    benchmark.extra_info.update(
        {
            "programs x networks": f"{PROGRAMS} x {NETWORKS}",
            "ms of one program on one network": round(1000 * whole / PROGRAMS / NETWORKS, 2),
            "networks one by one": round(by_network / whole, 2),
            "programs one by one": round(by_program / whole, 2),
            "both one by one": round(each / whole, 2),
        }
    )
