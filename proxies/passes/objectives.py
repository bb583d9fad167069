"""The objectives of a backward pass: functions from logits and labels to what is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Objective:
    """What a pass differentiates.

    Attributes:
        name: Name for people.
        of: Module-level function from logits `(N, classes)` and labels `(N,)` to a scalar. If the objective is per
            image, it returns one value per image `(N,)`.
        labels: Whether it reads the labels; otherwise it may be given None.
        per_image: Whether it gives one value per image.
    """

    name: str
    of: Callable[[Tensor, Tensor], Tensor]
    labels: bool = False
    per_image: bool = False

    def __call__(self, logits: Tensor, labels: Tensor | None) -> Tensor:
        """Return the value or values."""
        return self.of(logits, labels)  # type: ignore[arg-type]


def _cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits, labels)


def _sum(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.sum()


def _sum_at_labels(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels[:, None]).sum()


def _sum_of_each(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.sum(1)


def _label_of_each(logits: Tensor, labels: Tensor) -> Tensor:
    return logits.gather(1, labels[:, None])[:, 0]


def _all(logits: Tensor, labels: Tensor) -> Tensor:
    return logits[0]


#: The mean cross entropy with the labels.
CROSS_ENTROPY = Objective("loss", _cross_entropy, labels=True)
#: The sum of all logits.
SUM = Objective("sum of logits", _sum)
#: The sum of the logits at the labels.
LABELS = Objective("sum of logits at labels", _sum_at_labels, labels=True)
#: The sum of the logits of every image of a batch.
SUM_OF_EACH = Objective("sum of logits of each image", _sum_of_each, per_image=True)
#: The logit at the label of every image of a batch.
LABEL_OF_EACH = Objective("logit at label of each image", _label_of_each, labels=True, per_image=True)
#: All logits of a single image.
ALL = Objective("all logits", _all)
