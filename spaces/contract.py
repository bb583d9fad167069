"""Tests that every benchmark space must pass. To test a space of your own, subclass `SpaceContract`.

    from zcbench.spaces.contract import SpaceContract

    class TestMySpace(SpaceContract):
        def make(self) -> Space:
            return MySpace()

This module needs pytest, which zcbench does not install.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.nn.utils import parameters_to_vector

from ..datasets.tasks import TASKS, Task
from ..errors import AbsentFileError, ArchitectureError, ConfigError, UnknownNameError
from ..proxies import PROXIES
from ..proxies.probe import Probe
from .space import Space

#: Faulty changes of a text, each of which every reader of architectures must refuse.
FAULTS: dict[str, Callable[[str], str]] = {
    "empty": lambda text: "",
    "space before": lambda text: " " + text,
    "space after": lambda text: text + " ",
    "trailing newline": lambda text: text + "\n",
    "unicode line separator": lambda text: text + "\u2028" + text,
    "NUL": lambda text: text + "\0",
    "first character missing": lambda text: text[1:],
    "last character missing": lambda text: text[:-1],
    "twice": lambda text: text + text,
    "very long": lambda text: text * 10_000,
    "deeply nested": lambda text: "[" * 100_000 + text,
    "another first character": lambda text: "9" + text[1:],
    "unicode digit": lambda text: text[:-1] + "\uff12",
    "regex": lambda text: "[" + text[1:],
    "minus": lambda text: "-" + text,
    "leading zero": lambda text: "0" + text,
}


class SpaceContract(ABC):
    """The tests of one space. Tests that need an absent data file are skipped."""

    #: Number of networks that are built for each task, besides the first and the last one.
    networks = 2

    @abstractmethod
    def make(self) -> Space:
        """Return the space to test."""

    @pytest.fixture
    def space(self) -> Space:
        """The space; tests are skipped if the file with its list of networks is absent."""
        space = self.make()
        try:
            assert space.size > 0
        except AbsentFileError as error:
            pytest.skip(str(error))
        return space

    def test_texts_round_trip(self, space: Space) -> None:
        """The index of a network's text is the network's index, and all texts differ."""
        indices = [0, space.size - 1, *space.sample(min(space.size, 200), seed=1)]
        architectures = [space.architecture(index) for index in indices]
        assert len(set(architectures)) == len(set(indices))
        assert [space.index(architecture) for architecture in architectures] == indices

    @pytest.mark.parametrize("beyond", [0, 1, 10**30])
    def test_indices_out_of_range_are_refused(self, space: Space, beyond: int) -> None:
        """An index outside of 0 to size - 1 is an error."""
        for index in (-1 - beyond, space.size + beyond):
            with pytest.raises(ArchitectureError, match=f"expected 0 to {space.size - 1}, got {index}$"):
                space.architecture(index)

    @pytest.mark.parametrize("fault", list(FAULTS))
    def test_malformed_texts_are_refused_on_one_line(self, space: Space, fault: str) -> None:
        """Every method that takes a text refuses a malformed one, with an error of one line."""
        text = FAULTS[fault](space.architecture(space.size // 2))
        task = self.tasks(space)[0]
        for read in (
            space.index,
            lambda text: space.params(text, task),
            lambda text: space.macs(text, task),
            lambda text: space.build(text, task, 0),
        ):
            with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
                read(text)
            message = str(caught.value)
            assert len(message.splitlines()) == 1
            assert len(message) < 400

    def test_samples_are_fixed_by_seed_and_begin_larger_ones(self, space: Space) -> None:
        """Samples of one seed are the beginnings of one shuffle."""
        count = min(space.size, 300)
        sample = space.sample(count, seed=5)
        assert sample == space.sample(count, seed=5)
        assert len(set(sample)) == count
        assert 0 <= min(sample) <= max(sample) < space.size
        assert sample[:20] == space.sample(min(count, 20), seed=5)
        for wrong in (0, space.size + 1):
            with pytest.raises(ConfigError, match=f"expected 1 to {space.size} networks of {space.name}, got {wrong}"):
                space.sample(wrong)

    def test_a_mutant_is_another_network_of_the_space(self, space: Space) -> None:
        """Mutation changes a network; draws depend on the generator alone; a space without mutations says so.

        In an open space a mutant may be the network itself, and need not have an index.
        """
        network = space.draw(random.Random(1))
        assert network == space.draw(random.Random(1))
        if type(space).mutate is Space.mutate:
            with pytest.raises(ConfigError, match=f"{space.name} has no mutations"):
                space.mutate(network, random.Random(0))
            return
        mutants = [space.mutate(network, random.Random(seed)) for seed in range(20)]
        assert mutants == [space.mutate(network, random.Random(seed)) for seed in range(20)]
        assert len(set(mutants)) > 1
        assert all(space.params(mutant, self.tasks(space)[0]) > 0 for mutant in mutants)
        if not space.is_open:
            assert network not in mutants
            assert [space.architecture(space.index(mutant)) for mutant in mutants] == mutants

    def test_weights_are_a_function_of_the_seed(self, space: Space) -> None:
        """The weights depend only on the seed, and the global random state does not change."""
        architecture, task = space.architecture(space.size // 2), self.tasks(space)[0]
        before = torch.get_rng_state()
        first = parameters_to_vector(space.build(architecture, task, seed=1).parameters())
        assert torch.equal(torch.get_rng_state(), before)
        torch.rand(3)
        assert torch.equal(parameters_to_vector(space.build(architecture, task, seed=1).parameters()), first)
        assert not torch.equal(parameters_to_vector(space.build(architecture, task, seed=2).parameters()), first)

    def test_sizes_are_those_of_the_network(self, space: Space) -> None:
        """The stated sizes are the scores of the proxies `params` and `macs`. Tasks but the first have one network."""
        for place, task in enumerate(self.tasks(space)):
            for index in self.some(space)[-1 if place else 0 :]:
                architecture = space.architecture(index)
                probe = Probe(space.build(architecture, task, seed=0), torch.zeros(2, *task.shape))
                assert space.params(architecture, task) == PROXIES["params"](probe), architecture
                assert space.macs(architecture, task) == PROXIES["macs"](probe), architecture

    def test_networks_run_both_ways(self, space: Space) -> None:
        """Two images give outputs of the task's shape, and finite gradients."""
        for task in self.tasks(space):
            for index in self.some(space)[: 1 if task.image_size > 64 else None]:
                architecture = space.architecture(index)
                network = space.build(architecture, task, seed=0)
                x = torch.randn(2, *task.shape, generator=torch.Generator().manual_seed(0))
                outputs = network(x)
                maps = (task.image_size, task.image_size) if task.outputs == "maps" else ()
                assert outputs.shape == (2, task.num_classes, *maps)
                outputs.square().mean().backward()
                gradients = [p.grad for p in network.parameters() if p.grad is not None]
                assert gradients
                assert all(gradient.isfinite().all() for gradient in gradients), architecture

    def test_accuracies_are_by_index(self, space: Space) -> None:
        """Every accuracy of the space can be read, unless its file is absent."""
        absent: list[str] = []
        for task, known in space.truths.items():
            assert task in TASKS
            for which, label in known.items():
                try:
                    truth = space.truth(task, which)
                except AbsentFileError as error:
                    absent.append(str(error))
                    continue
                assert truth.name == f"{task}/{which}"
                assert truth.label.startswith(label)
                assert truth.values.shape == (space.size,)
                assert truth.values.dtype == np.float64
                assert np.isfinite(truth.values).any()
                assert not np.isinf(truth.values).any()
        if absent:
            pytest.skip(absent[0])

    @pytest.mark.parametrize("task", ["mnist", "", "CIFAR10"])
    def test_unknown_tasks_are_refused(self, space: Space, task: str) -> None:
        """The error names the tasks that have accuracies."""
        only = f", only for {', '.join(space.truths)}" if space.truths else ": expected a space that has some"
        with pytest.raises(ConfigError, match=f"^dataset: {space.name} has no accuracies for {task}{only}$"):
            space.truth(task)

    def test_unknown_accuracies_are_refused(self, space: Space) -> None:
        """The error names the space and the task."""
        if not space.truths:
            pytest.skip("the space has no accuracies")
        task = next(iter(space.truths))
        with pytest.raises(UnknownNameError, match=f"unknown accuracy of {space.name} on {task} 'tset'"):
            space.truth(task, "tset")

    def tasks(self, space: Space) -> list[Task]:
        """Return the tasks that have accuracies; CIFAR-10 if none has."""
        return [TASKS[task] for task in space.truths or ["cifar10"]]

    def some(self, space: Space) -> list[int]:
        """Return the indices of the networks that are built."""
        return list(dict.fromkeys([0, space.size - 1, *space.sample(min(space.size, self.networks), seed=1)]))
