"""The pass that differentiates for every image in a batch of its own, vectorised over images."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.func import grad, jacrev, vmap

from ...errors import NotApplicableError
from ...random_state import given_random_state
from .core import Host, Need, Pass
from .forward import Forward, Substituting
from .objectives import ALL, Objective
from .taps import Looks, all_real, errors_kept

#: Number of images that the vectorised pass takes at a time.
IMAGES_AT_ONCE = 16

#: Function from gradients by parameter name, `(n, *shape)` or `(n, classes, *shape)` for n images, to a tensor.
Reduce = Callable[[dict[str, Tensor]], Tensor]


@dataclass(frozen=True)
class PerImage(Pass):
    """The gradients of an objective for every image in a batch of its own.

    Attributes:
        forward: Initialisation, input, mode and dtype; it is run here, and nobody else reads it.
        objective: What is differentiated; the objective `ALL` gives a Jacobian.
        of: Parameters to differentiate for: all `parameters`, or the `first` element of each parameter tensor.
    """

    forward: Forward
    objective: Objective
    of: Literal["parameters", "first"] = "parameters"

    @property
    def forwards(self) -> int:
        """One."""
        return 1

    @property
    def backwards(self) -> int:
        """One."""
        return 1

    @property
    def training(self) -> bool:
        """Whether modules are in train mode."""
        return self.forward.training

    @property
    def reads(self) -> frozenset[str]:
        """What the input is made from, gradients, and the labels if the objective does."""
        return self.forward.reads | {"gradients"} | ({"labels"} if self.objective.labels else set())

    def run(self, probe: Host) -> dict[Need, Tensor]:
        """Differentiate, and reduce for all needs."""
        forward, objective = self.forward, self.objective
        operations = probe.operations(forward.training)
        looks = Looks()
        x = forward.input(probe, forward.inputs[0], looks)
        state = forward.state(probe, operations, looks)
        # A parameter that a weight is computed from changes nothing: the pass takes the computed weight.
        names = [name for name in state if name not in operations.buffers and name not in operations.replaced]
        if not names:
            raise NotApplicableError("the network has no parameters")
        y = torch.zeros(len(x), dtype=torch.int64, device=x.device)
        if objective.labels:
            y = probe.labels(forward.inputs[0])
        watch = Substituting(operations, state, forward.mode)

        def value(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
            # The first element goes back to its place in the tensor.
            whole = {
                name: value
                if self.of == "parameters"
                else torch.cat([value, state[name].flatten()[1:]]).view(state[name].shape)
                for name, value in parameters.items()
            }
            # A network that counts its batches may not write into what it shares with other images.
            watch.state = state | whole | {name: state[name].clone() for name in operations.buffers}
            with probe.places.given(watch.state, forward.training):
                logits = probe.logits(watch.run(probe.net, image[None]), 1)
            if objective.labels:
                probe.labels(forward.inputs[0], logits.shape[1])
            return objective(logits, label[None])

        leaves = {name: state[name] for name in names}
        if self.of == "first":
            leaves = {name: leaf.flatten()[:1] for name, leaf in leaves.items()}
        all_real(leaves)
        differentiate = (jacrev if objective == ALL else grad)(value)
        needs = [need for need in probe.asked(self) if isinstance(need, OfEach)]

        def chosen(need: OfEach, found: dict[str, Tensor]) -> dict[str, Tensor]:
            if need.of == "parameters":
                return found
            operations.covered("products", "the proxy reads the weights of all layers")
            names = operations.factors if need.of == "factors" else [layer.name for layer in operations.weights]
            return {name: found[name] for name in names}

        parts: dict[Need, list[Tensor]] = {need: [] for need in needs}
        for start in range(0, len(x), IMAGES_AT_ONCE):
            some = slice(start, start + IMAGES_AT_ONCE)
            found: dict[str, Tensor] = self._vectorised(probe, differentiate, leaves, x[some], y[some])
            for name, gradient in found.items():
                looks.at(f"the gradient of {name}", gradient)
            for need in needs:
                if need not in probe.errors:
                    with errors_kept(probe.errors, need), probe.seconds.spent_on(need):
                        parts[need].append(need.reduce(chosen(need, found)))
        looks.check()
        probe.forwards += 1
        probe.backwards += 1
        return {need: torch.cat(values) for need, values in parts.items() if need not in probe.errors}

    def _vectorised(self, probe: Host, differentiate: Any, leaves: dict[str, Tensor], x: Tensor, y: Tensor) -> Any:
        """Return the gradients of all images at once, or else of one after another."""

        def at_once() -> dict[str, Tensor]:
            found: dict[str, Tensor] = vmap(differentiate, in_dims=(None, 0, 0), randomness="different")(leaves, x, y)
            return found

        def one_by_one() -> dict[str, Tensor]:
            each = [differentiate(leaves, *image) for image in zip(x, y, strict=True)]
            return {name: torch.stack([found[name] for found in each]) for name in leaves}

        reason = ""
        # Some operations cannot be vectorised, such as a random draw in place.
        for way in (at_once, one_by_one):
            with given_random_state(probe.seed, x.device), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop")  # slower, but right
                try:
                    return way()
                except torch.OutOfMemoryError:
                    raise
                except RuntimeError as error:
                    reason = str(error).split(".", maxsplit=1)[0][:200]
        raise NotApplicableError(f"the network cannot be differentiated image by image ({reason})")


@dataclass(frozen=True)
class OfEach(Need):
    """A reduction of the gradients of every image, joined along the first dimension.

    Attributes:
        of_pass: The pass.
        reduce: Module-level function, see `Reduce`.
        of: What the reduction gets: gradients of all `parameters`, of the weights of the `layers` (convolutions and
            linear maps), or of all `factors`: the weights of layers and norms.
    """

    of_pass: PerImage
    reduce: Reduce
    of: Literal["parameters", "layers", "factors"] = "parameters"

    @property
    def source(self) -> PerImage:
        """The pass."""
        return self.of_pass

    def value(self, probe: Host) -> Tensor:
        """Return the tensor."""
        found: Tensor = probe.reduced(self)
        return found
