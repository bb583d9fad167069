"""Random networks score as in plain torch, or are refused for the right reason, and are as they were afterwards."""

from __future__ import annotations

import collections
import functools
import math
import random
import re
from typing import Any

import numpy as np
import pytest
import torch
import zcbench
from torch import Tensor, nn

from .plain_torch import READS, Run, plain_scores
from .random_networks import KINDS, Network, batch, build

NETWORKS = range(300)
HOOKS = [name for name in nn.Module().__dict__ if name.endswith(("_hooks", "_hooks_with_kwargs", "_always_called"))]


def bits(tensor: Tensor | None) -> object:
    return None if tensor is None else (tensor.dtype, tensor.shape, tensor.stride(), tensor.detach().numpy().tobytes())


def frozen(value: object) -> object:
    """Return what an attribute holds, as values that can be compared."""
    if isinstance(value, Tensor):
        return id(value), bits(value)
    if isinstance(value, (list, tuple)):
        return id(value), [frozen(v) for v in value]
    if isinstance(value, dict):
        return id(value), [(key, frozen(v)) for key, v in value.items()]
    return value


def everything(net: nn.Module, x: Tensor, y: Tensor) -> dict[str, Any]:
    """Return all that a network, a batch and the process hold."""
    numpy: Any = np.random.get_state()
    return {
        "attributes": [(name, frozen(m.__dict__)) for name, m in net.named_modules(remove_duplicate=False)],
        "state": {name: bits(tensor) for name, tensor in net.state_dict().items()},
        "flags": [(id(p), p.requires_grad, p._version) for p in net.parameters()],
        "gradients": [(id(p.grad), bits(p.grad)) for p in net.parameters()],
        "hooks": [[list(getattr(module, name).items()) for name in HOOKS] for module in net.modules()],
        "training": [module.training for module in net.modules()],
        "batch": [bits(x), bits(y), x.requires_grad, x._version],
        "random": (torch.get_rng_state().numpy().tobytes(), random.getstate(), numpy[1].tobytes(), numpy[2:]),
        "process": (torch.get_default_dtype(), torch.is_grad_enabled(), torch.get_num_threads()),
    }


@functools.cache
def scored(seed: int) -> dict[str, zcbench.Score]:
    """Return the scores of a network; the network is as it was."""
    net, (x, y) = build(seed), batch(seed)
    before = everything(net, x, y)
    found = zcbench.score(net, x, y, proxies=READS)
    after = everything(net, x, y)
    assert [key for key in before if before[key] != after[key]] == []
    return found


@pytest.mark.parametrize("seed", NETWORKS)
def test_random_networks_score_as_in_plain_torch(seed: int) -> None:
    expected, refused = plain_scores(build(seed).train(), *batch(seed))
    for proxy, score in scored(seed).items():
        if score.status == "not_applicable":
            assert refused[proxy], (proxy, score.message)
            assert any(re.search(reason, score.message) for reason in refused[proxy]), (proxy, score.message)
            continue
        assert score.status in {"ok", "nan", "-inf"}, (proxy, score.message)
        assert not refused[proxy], (proxy, refused[proxy])
        if math.isfinite(expected[proxy]):
            assert score.value == pytest.approx(expected[proxy], rel=1e-9, abs=1e-12), proxy
        else:
            assert repr(score.value) == repr(expected[proxy]), proxy


@pytest.mark.parametrize("seed", NETWORKS)
def test_equations_are_those_of_the_network(seed: int) -> None:
    """The logits are the same, so that the comparison above means something."""
    net, (x, _) = build(seed).train(), batch(seed)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        expected = net.plain(x, Run())
        torch.manual_seed(0)
        torch.testing.assert_close(net(x.requires_grad_().clone()), expected, rtol=1e-9, atol=1e-11)


def test_all_kinds_of_layers_occur() -> None:
    networks: list[Network] = [build(seed) for seed in NETWORKS]
    counts = collections.Counter(kind for net in networks for kind in set(net.kinds))
    assert len(KINDS) >= 30
    assert min(counts[kind] for kind in KINDS) >= 8, counts


def test_most_values_are_compared() -> None:
    statuses = collections.Counter(score.status for seed in NETWORKS for score in scored(seed).values())
    assert statuses["not_applicable"] <= 0.2 * statuses.total(), statuses
    assert statuses["ok"] >= 0.75 * statuses.total(), statuses
