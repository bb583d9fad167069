"""The trained accuracies of a space as a search sees them: the validation accuracy guides, the test is reported."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import ConfigError
from ...spaces import Space, Truth


@dataclass(frozen=True)
class Benchmark:
    """A space with accuracies of every network on one data set.

    Attributes:
        validation: The accuracy that guides a search.
        test: The accuracy that is reported, which no method sees.
        others: The accuracies on other data sets that are reported too, by data set.
        seconds: Seconds of the training behind the validation accuracy, in the order of the index; None if the files of
            the space do not say them.
    """

    space: Space
    validation: Truth
    test: Truth
    seconds: NDArray[np.float64] | None
    others: Mapping[str, Truth]

    def trained(self, network: str) -> tuple[float, float, float]:
        """Return the validation accuracy, the test accuracy and the seconds (or NaN) of a training."""
        index = self.space.index(network)
        seconds = math.nan if self.seconds is None else float(self.seconds[index])
        return float(self.validation.values[index]), float(self.test.values[index]), seconds

    @property
    def optimum(self) -> float:
        """The highest test accuracy of the space."""
        return float(self.test.values.max())


def read_benchmark(
    space: Space, task: str, validation: str = "default", test: str = "default", others: Sequence[str] = ()
) -> Benchmark:
    """Read the accuracies of a space.

    Args:
        space: The space.
        task: The task of the data set.
        validation: Name of the accuracy that guides; `default` is the first validation accuracy, or the reported one if
            the space has no other.
        test: Name of the accuracy that is reported; `default` is the first one.
        others: Tasks of other data sets, of which the first accuracy is reported too.

    Raises:
        ConfigError: The space has no accuracies for the data set, or not for every network.
        DataFileError: A file is absent or faulty.
    """
    reported = space.truth(task, test)
    if validation == "default":
        validation = next((name for name in space.truths[task] if name.startswith("valid")), test)
    guide = space.truth(task, validation)
    transferred = {name: space.truth(name) for name in others}
    for truth in (guide, reported, *transferred.values()):
        if lacking := int(np.isnan(truth.values).sum()):
            raise ConfigError(
                f"dataset: {lacking} of {space.size} networks of {space.name} have no accuracy {truth.name}: expected "
                "one of every network"
            )
    seconds = space.training_seconds(task, guide.name.partition("/")[2])
    return Benchmark(space, guide, reported, seconds, transferred)
