"""Tasks: the form of the inputs and outputs that a network is built for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..registry import Registry


@dataclass(frozen=True)
class Task:
    """The form of a network's inputs and outputs. Trained accuracies have the name of a task.

    Attributes:
        name: Name of the task.
        num_classes: Number of outputs of the network: logits, numbers or maps.
        image_size: Side of a square image in pixels.
        channels: Number of channels of an image.
        outputs: Kind of the outputs: logits of one label per image, numbers (regression), maps as large as the image.
    """

    name: str
    num_classes: int
    image_size: int
    channels: int = 3
    outputs: Literal["logits", "numbers", "maps"] = "logits"

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape `(C, H, W)` of one image."""
        return self.channels, self.image_size, self.image_size


TASKS: Registry[Task] = Registry("task")

for _task in (
    Task("cifar10", 10, 32),
    Task("cifar100", 100, 32),
    Task("imagenet16-120", 120, 16),
    Task("imagenet", 1000, 224),
    # The seven tasks of TransNAS-Bench-101 have the outputs of its released code, not those of its label files.
    Task("class_scene", 63, 256),
    Task("class_object", 100, 256),
    # An image is nine tiles, stacked as channels; a label is one of 1,000 permutations.
    Task("jigsaw", 1000, 64, channels=27),
    Task("room_layout", 9, 256, outputs="numbers"),
    Task("autoencoder", 3, 256, outputs="maps"),
    Task("normal", 3, 256, outputs="maps"),
    Task("segmentsemantic", 17, 256, outputs="maps"),
):
    TASKS.add(_task.name, _task)
