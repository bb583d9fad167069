import dataclasses
import random

import numpy as np
import pytest
import torch
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ConfigError
from zcbench.evolution.search.asks import METHODS, Score
from zcbench.evolution.search.hnas import MU, NU, agreement, condition, kernel
from zcbench.evolution.search.play import Run
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe

pytest.importorskip("bayes_opt")


@pytest.mark.parametrize("metric", ["ntk_trace", "ntk_trace.as_released"])
def test_the_condition_number_is_that_of_the_kernel(space, metric):
    """It is compared with the eigenvalues of the kernel itself, from gradients that autograd gives for each image."""
    task = TASKS["cifar10"]
    network = space.build("wide 6", task, seed=0)
    x, y = torch.randn(4, *task.shape, generator=torch.Generator().manual_seed(0)), torch.arange(4)
    probe = Probe(network, x, y)
    criterion, trace = (np.array([PROXIES[name](probe)]) for name in kernel(metric))
    found = condition(criterion, trace)[0]
    if metric == "ntk_trace":
        logits = network.train()(x)
        layers = [m for m in network if isinstance(m, torch.nn.Conv2d | torch.nn.Linear)]
        weights = [p for layer in layers for p in layer.parameters()]
        rows = [
            torch.cat([g.flatten() for g in torch.autograd.grad(logits[n, y[n]], weights, retain_graph=True)])
            for n in range(4)
        ]
        eigenvalues = torch.linalg.eigvalsh(torch.stack(rows).double() @ torch.stack(rows).double().T)
        assert found == pytest.approx(float(eigenvalues[-1] / eigenvalues[0]), rel=1e-3)
    assert found >= 1


def test_a_singular_kernel_has_an_infinite_condition_number():
    trace = np.array([2.0, 2.0])
    kappa = np.array([-1e9, 0.5])
    assert np.isinf(condition(MU * np.abs(trace**2 - NU**2) + kappa / (trace + 1e-6), trace)).all()


def asked(setting, accuracy, m):
    """Return the networks that a search trains; M is a function of the width, and the condition number is 2."""
    search = METHODS["hnas"].search(setting)
    question, trained = next(search), []
    try:
        while True:
            if isinstance(question, Score):
                trace = np.array([m(int(n.split()[1])) for n in question.networks])
                criterion = MU * np.abs(trace**2 - NU**2) + 2.0 / (trace + 1e-6)
                question = search.send((-criterion if question.proxy == "hnas.as_released" else trace).tolist())
            else:
                trained.append(question.network)
                question = search.send(accuracy(question.network))
    except StopIteration as end:
        found = end.value
    assert found == tuple(trained)
    return trained


def test_constants_are_fitted_to_the_validation_accuracy(setting, space):
    """The trace of width i is 125 i, so that nu chooses the width of nearest trace; a width of 20 is the best."""
    config = dataclasses.replace(setting.config, pool=0, iterations=20)
    given = dataclasses.replace(setting, proxy="hnas.grad", config=config)
    trained = asked(given, lambda network: -abs(space.index(network) - 20.0), lambda width: 125.0 * width)
    assert len(set(trained)) == len(trained) <= 20
    assert min(abs(space.index(network) - 20) for network in trained) <= 1
    again = dataclasses.replace(given, generator=random.Random(0))
    assert asked(again, lambda network: -abs(space.index(network) - 20.0), lambda width: 125.0 * width) == trained


def test_agreement_is_the_rank_correlation_within_a_pool():
    networks = [f"wide {i}" for i in range(5)]
    scores = {("hnas.grad", n): float(i) for i, n in enumerate(networks)}
    scores |= {("ntk_trace.as_released", n): float(i**2) for i, n in enumerate(networks)}
    ((metric, trace, rho),) = agreement([Run("hnas", "hnas.grad", 0, scored=scores)])
    assert (metric, trace, rho.value) == ("hnas.grad", "ntk_trace.as_released", 1.0)


def test_a_proxy_that_is_no_metric_is_refused():
    with pytest.raises(ConfigError, match=r"proxy: expected a metric of hnas, one of ntk_trace, .*, got params"):
        kernel("params")


@pytest.mark.parametrize(
    ("changes", "words"), [({"iterations": 0}, "iterations: expected 1"), ({"largest_nu": 0.0}, "largest_nu: expected")]
)
def test_impossible_numbers_are_refused(config, space, changes, words):
    with pytest.raises(ConfigError, match=words):
        METHODS["hnas"].check(dataclasses.replace(config, **changes), space)
