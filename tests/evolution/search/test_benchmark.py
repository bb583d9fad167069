import math

import numpy as np
import pytest
from zcbench.errors import ConfigError
from zcbench.evolution.search.benchmark import read_benchmark
from zcbench.spaces import SPACES


def test_the_first_validation_accuracy_guides_and_the_first_accuracy_is_reported(benchmark_of, space):
    assert (benchmark_of.validation.name, benchmark_of.test.name) == ("cifar10/valid-made", "cifar10/test-made")
    assert benchmark_of.optimum == 89.0
    validation, test, seconds = benchmark_of.trained("wide 3")
    assert validation == space.truth("cifar10", "valid-made").values[3]
    assert test == 53.0
    assert math.isnan(seconds)


def test_without_a_validation_accuracy_the_reported_one_guides(space):
    found = read_benchmark(space, "cifar100")
    assert found.validation.name == found.test.name == "cifar100/test-made"


def test_an_accuracy_of_some_networks_only_is_refused(space):
    with pytest.raises(ConfigError, match="38 of 40 networks of wide have no accuracy cifar10/few"):
        read_benchmark(space, "cifar10", test="few")


def test_a_data_set_without_accuracy_is_refused(space):
    with pytest.raises(ConfigError, match="wide has no accuracies for imagenet16-120, only for cifar10, cifar100"):
        read_benchmark(space, "imagenet16-120")


def test_the_seconds_of_nas_bench_201_are_those_of_twelve_epochs(real_data):
    """Network 0 takes 86.653 s: twelve epochs of 7.2211 s, as its record in NATS-Bench says."""
    found = read_benchmark(SPACES["nb201"](real_data), "cifar10", "valid-12", "test-200", ["cifar100"])
    assert found.seconds is not None
    assert found.seconds[0] == pytest.approx(12 * 7.221093, abs=1e-3)
    assert np.round(found.optimum, 2) == 94.37
    assert np.round(found.others["cifar100"].values.max(), 2) == 73.51
    assert read_benchmark(SPACES["nb201"](real_data), "cifar10").seconds is None
