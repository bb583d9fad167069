"""What every registered space has to keep; being registered is enough to be tested here."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from zcbench.bench.spaces import SPACES, Space
from zcbench.datasets import DATASETS
from zcbench.errors import ArchitectureError, ConfigError, DataFileError, UnknownNameError
from zcbench.proxies.macs import macs
from zcbench.proxies.params import params
from zcbench.proxies.probe import Probe

TRUTHS = [
    (name, task, which) for name, space in SPACES.items() for task, known in space.truths.items() for which in known
]


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


def some(space: Space, count: int) -> list[int]:
    return [0, space.size - 1, *space.sample(count, seed=1)]


def texts(space: Space, count: int) -> list[str]:
    return [space.architecture(index) for index in some(space, count)]


def weights(network: nn.Module) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in network.parameters()])


def test_texts_round_trip(space: Space) -> None:
    indices = some(space, 200)
    architectures = [space.architecture(index) for index in indices]
    assert len(set(architectures)) == len(set(indices))
    assert [space.index(architecture) for architecture in architectures] == indices


@pytest.mark.parametrize("beyond", [0, 1, 10**30])
def test_indices_out_of_range_are_refused(space: Space, beyond: int) -> None:
    for index in (-1 - beyond, space.size + beyond):
        with pytest.raises(ArchitectureError, match=f"expected 0 to {space.size - 1}, got {index}$"):
            space.architecture(index)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(lambda text: "", id="empty"),
        pytest.param(lambda text: " " + text, id="space before"),
        pytest.param(lambda text: text + " ", id="space after"),
        pytest.param(lambda text: text + "\n", id="trailing newline"),
        pytest.param(lambda text: text + "\u2028" + text, id="unicode line separator"),
        pytest.param(lambda text: text + "\0", id="NUL"),
        pytest.param(lambda text: text[1:], id="first character missing"),
        pytest.param(lambda text: text[:-1], id="last character missing"),
        pytest.param(lambda text: text + text, id="twice"),
        pytest.param(lambda text: text * 10_000, id="very long"),
        pytest.param(lambda text: "9" + text[1:], id="another first character"),
        pytest.param(lambda text: text[:-1] + "\uff12", id="unicode digit"),
        pytest.param(lambda text: "[" + text[1:], id="regex"),
        pytest.param(lambda text: "-" + text, id="minus"),
        pytest.param(lambda text: "0" + text, id="leading zero"),
    ],
)
def test_malformed_texts_are_refused_on_one_line(space: Space, fault: object) -> None:
    assert callable(fault)
    for read in (
        space.index,
        lambda t: space.params(t, 10),
        lambda t: space.macs(t, 10, 32),
        lambda t: space.build(t, 10, 0),
    ):
        with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
            read(fault(space.architecture(space.size // 2)))
        message = str(caught.value)
        assert len(message.splitlines()) == 1
        assert len(message) < 400


def test_samples_are_fixed_by_seed_and_begin_larger_ones(space: Space) -> None:
    sample = space.sample(300, seed=5)
    assert sample == space.sample(300, seed=5) != space.sample(300, seed=6)
    assert len(set(sample)) == 300
    assert 0 <= min(sample) <= max(sample) < space.size
    assert sample[:20] == space.sample(20, seed=5)
    assert sorted(space.sample(space.size)) == list(range(space.size))
    for count in (0, space.size + 1):
        with pytest.raises(ConfigError, match=f"expected 1 to {space.size} networks of {space.name}, got {count}"):
            space.sample(count)


def test_weights_are_a_function_of_the_seed(space: Space) -> None:
    architecture = space.architecture(space.size // 2)
    before = torch.get_rng_state()
    first = weights(space.build(architecture, 10, seed=1))
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(3)  # the global state is not what decides
    assert torch.equal(weights(space.build(architecture, 10, seed=1)), first)
    assert not torch.equal(weights(space.build(architecture, 10, seed=2)), first)


@pytest.mark.parametrize(("name", "task"), sorted({(name, task) for name, task, _ in TRUTHS}))
def test_networks_run_and_have_the_stated_sizes(name: str, task: str) -> None:
    space, images = SPACES[name], DATASETS[task]
    x = torch.randn(2, 3, images.image_size, images.image_size, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, images.num_classes - 1])
    for architecture in texts(space, 8):
        network = space.build(architecture, images.num_classes, seed=0)
        probe = Probe(network, x, y)
        assert space.params(architecture, images.num_classes) == params(probe), architecture
        assert space.macs(architecture, images.num_classes, images.image_size) == macs(probe), architecture
        logits = network(x)
        assert logits.shape == (2, images.num_classes)
        nn.functional.cross_entropy(logits, y).backward()
        gradients = [p.grad for p in network.parameters() if p.grad is not None]
        assert gradients
        assert all(gradient.isfinite().all() for gradient in gradients)


@pytest.mark.parametrize(("name", "task", "which"), TRUTHS)
def test_accuracies_are_by_index_in_percent(name: str, task: str, which: str, real_data: Path) -> None:
    space = SPACES[name]
    try:
        truth = space.truth(task, which, real_data)
    except DataFileError as error:
        if not any(words in str(error) for words in ("is absent", "not installed")):
            raise
        pytest.skip(str(error))
    assert truth.name == f"{task}/{which}"
    assert truth.label.startswith(space.truths[task][which])
    assert truth.values.shape == (space.size,)
    assert truth.values.dtype == np.float64
    known = truth.values[~np.isnan(truth.values)]
    assert len(known)
    assert ((known > 0) & (known <= 100)).all()


@pytest.mark.parametrize("task", ["mnist", "", "CIFAR10"])
def test_unknown_tasks_are_refused(space: Space, task: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{space.name} has no accuracies for {task}, only for cifar10"):
        space.truth(task, "default", tmp_path)


def test_unknown_accuracies_are_refused(space: Space, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=f"unknown accuracy of {space.name} on cifar10 'tset'"):
        space.truth("cifar10", "tset", tmp_path)


def test_default_accuracy_is_one_of_the_test_set(space: Space) -> None:
    assert all(next(iter(known)).startswith("test-") for known in space.truths.values())
