"""Scores of random networks equal what plain torch gives, and the networks stay as they were."""

from __future__ import annotations

import math
import random
from collections import Counter

import numpy as np
import pytest
import torch
import zcbench
from torch import Tensor, nn
from torch.nn import functional

from .random_networks import CLASSES, KINDS, SIDE, RandomNetwork, Tape

COUNT, GROUPS = 300, 30
X = torch.randn(5, 3, SIDE, SIDE, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
Y = torch.arange(5) % CLASSES
PROXIES = ("grad_norm", "snip", "fisher", "jacob_cov", "synflow", "naswot", "macs")
COMPARED: Counter[str] = Counter()


def expected(seed: int) -> dict[str, float]:
    """Return the scores of a network by plain torch."""
    net, tape, x = RandomNetwork(seed), Tape(), X.clone().requires_grad_()
    logits = net.plain(x, tape)
    loss = functional.cross_entropy(logits, Y)
    weights, outputs = list(tape.weights.values()), [output for output, _, _ in tape.layers]
    found = torch.autograd.grad(loss, [*weights, *outputs], retain_graph=True, allow_unused=True)
    gradients = [torch.zeros_like(w) if g is None else g for w, g in zip(weights, found, strict=False)]
    fisher = 0.0
    for (output, fan, dim), gradient in zip(tape.layers, found[len(weights) :], strict=True):
        if gradient is not None:
            per_channel = (output * gradient).movedim(dim, 1).reshape(len(X), output.shape[dim], -1).sum(2)
            fisher += fan * 0.5 * per_channel.square().mean(0).sum().item()
    (jacobian,) = torch.autograd.grad(logits.sum(), x)
    correlations = torch.corrcoef(jacobian.flatten(1))
    eigenvalues = torch.full((5,), math.nan)
    if correlations.isfinite().all():
        eigenvalues = torch.linalg.eigvalsh(correlations) + 1e-5
    codes = torch.cat([(a > 0).flatten(1) for a in tape.relus], 1).double()
    kernel = codes @ codes.T + (1 - codes) @ (1 - codes).T
    flow = Tape(linear=True)
    for buffer in net.buffers():
        buffer.data = buffer.abs()
    with_abs(net)
    out = net.plain(torch.ones(1, 3, SIDE, SIDE, dtype=torch.float64), flow)
    flows = torch.autograd.grad(out.sum(), list(flow.weights.values()), allow_unused=True)
    return {
        "grad_norm": sum(g.norm().item() for g in gradients),
        "snip": sum((w * g).abs().sum().item() for w, g in zip(weights, gradients, strict=True)),
        "fisher": fisher,
        "jacob_cov": -(eigenvalues.log() + 1 / eigenvalues).sum().item(),
        "synflow": sum(
            (w * g).abs().sum().item() for w, g in zip(flow.weights.values(), flows, strict=True) if g is not None
        ),
        "naswot": torch.linalg.slogdet(kernel).logabsdet.item(),
        "macs": tape.products,
    }


def with_abs(net: nn.Module) -> None:
    """Take absolute values of all parameters that are no weights of layers; the tape takes those of the weights."""
    for step in net.modules():
        for name, parameter in step.named_parameters(recurse=False):
            if name in {"scale"} or isinstance(step, nn.modules.batchnorm._BatchNorm):
                parameter.data = parameter.abs()


def state(net: nn.Module) -> list[object]:
    """Return all that may not change."""
    tensors = [(name, tensor.clone()) for name, tensor in net.state_dict().items()]
    modules = [
        (name, m.training, len(m._forward_hooks), len(m._forward_pre_hooks), sorted(vars(m)))
        for name, m in net.named_modules()
    ]
    flags = [(name, p.requires_grad, p.grad is None, type(p)) for name, p in net.named_parameters()]
    counts = [m.calls for m in net.modules() if hasattr(m, "calls")]
    return [tensors, modules, flags, counts, torch.get_rng_state(), random.getstate(), np.random.get_state()[1]]


def same(a: object, b: object) -> bool:
    if isinstance(a, Tensor) and isinstance(b, Tensor):
        return torch.equal(a, b)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(same(c, d) for c, d in zip(a, b, strict=True))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool((a == b).all())
    return a == b


@pytest.mark.parametrize("group", range(GROUPS))
def test_scores_equal_plain_torch(group: int) -> None:
    for seed in range(group, COUNT, GROUPS):
        net = RandomNetwork(seed)
        before, wanted = state(net), expected(seed)
        found = zcbench.score(net, X, Y, proxies=PROXIES)
        assert same(before, state(net)), net.kinds
        for name, score in found.items():
            assert score.status in {"ok", "nan", "-inf", "not_applicable"}, (seed, name, score, net.kinds)
            if score.status == "not_applicable":
                assert score.message
                continue
            COMPARED[name] += 1
            tolerance = 1e-6 if name == "jacob_cov" else 1e-9
            same_value = pytest.approx(wanted[name], rel=tolerance, abs=1e-12, nan_ok=True)
            assert score.value == same_value, (seed, name, net.kinds)


def test_all_kinds_occur_and_nearly_all_scores_are_compared() -> None:
    nets = [RandomNetwork(seed) for seed in range(COUNT)]
    assert {kind for net in nets for kind in net.kinds} == set(KINDS)
    assert len(KINDS) >= 30
    refused = [
        name
        for net in nets[::20]
        for name, score in zcbench.score(net, X, Y, proxies=PROXIES).items()
        if score.status == "not_applicable"
    ]
    assert len(refused) <= 0.05 * len(nets[::20]) * len(PROXIES)
