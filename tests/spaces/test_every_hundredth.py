"""Every hundredth network of every space, fifty at most, built for real: sizes, a pass forward and one back."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import nn
from zcbench.datasets import TASKS
from zcbench.errors import AbsentFileError
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES

#: The networks take images of any size; smaller ones than their own are enough to run them.
SIDE = {32: 8, 16: 8, 224: 64, 256: 64, 64: 32}


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in SPACES if not name.startswith("nds")])
def test_every_hundredth_network(name: str) -> None:
    space = SPACES[name](None)
    try:
        indices = range(0, space.size, max(100, space.size // 50))
    except AbsentFileError as error:
        pytest.skip(str(error))
    task = TASKS[next(iter(space.truths), "cifar10")]
    smaller = dataclasses.replace(task, image_size=SIDE[task.image_size])
    x = torch.randn(2, *smaller.shape, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, task.num_classes - 1])
    for place, index in enumerate(indices):
        architecture = space.architecture(index)
        network = space.build(architecture, smaller, seed=0)
        assert space.params(architecture, task) == sum(p.numel() for p in network.parameters()), architecture
        if place % 4 == 0:
            assert space.macs(architecture, smaller) == PROXIES["macs"](Probe(network, x)), architecture
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        assert loss.isfinite(), architecture
        gradient = next(p.grad for p in reversed(list(network.parameters())) if p.grad is not None)
        assert gradient.isfinite().all(), architecture
        assert gradient.any(), architecture
