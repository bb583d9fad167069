"""A probe: one network, one batch and one seed, with every pass through them run at most once.

Proxies declare what they read, and passes leave it (see `passes`). The probe joins the needs of all proxies for one
pass and runs it once. It leaves the network, the random state and all settings of the process as they were.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import BatchError, NotApplicableError
from .operations.calls import IMAGES, Operations
from .operations.isolation import Places, neutral, plain
from .operations.record import logits_of, record
from .passes.core import Need, Pass, chain, expanded, root
from .passes.forward import Forward, Trace
from .passes.inputs import Input
from .passes.seconds import Seconds
from .passes.taps import Tap, Tapped, bare


class Probe:
    """One network, one batch and one seed, with passes that run on demand and are kept.

    Args:
        net: Module from images `(N, C, H, W)` to logits `(N, classes)`, or to an object or a mapping with `logits`.
        x: Images of the network's floating-point dtype, on its device.
        y: Labels `(N,)` int64, or None if no proxy needs them.
        seed: Seed of every random draw: initialisations and noise.
        plan: Needs of all proxies to come. The needs of one pass are joined; a need that is not planned may run its
            pass again.
        inputs: Tensors by name that replace random draws (`noise`, `noise2`, `signs[i]`).

    Attributes:
        forwards: Number of forward passes that have run; the record of the network does not count.
        backwards: Number of backward passes that have run.
        errors: Error by pass or need that failed.
        places: Places of the parameters and buffers of the network.
        seconds: Seconds by pass and need; what a reduction takes is charged to its need, not to the pass.

    Raises:
        BatchError: The images, the labels or the network have a wrong shape or dtype.

    Example:
        >>> import torch, zcbench
        >>> from zcbench.proxies.passes import LOSS
        >>> net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 3))
        >>> probe = zcbench.Probe(net, torch.ones(2, 3, 2, 2), torch.tensor([0, 1]))
        >>> [tuple(gradient.shape) for _, gradient in probe.read(LOSS)]
        [(3, 12)]
        >>> probe.forwards, probe.backwards
        (1, 1)
    """

    def __init__(
        self,
        net: nn.Module,
        x: Tensor,
        y: Tensor | None = None,
        *,
        seed: int = 0,
        plan: Iterable[Need] = (),
        inputs: Mapping[str, Tensor] | None = None,
    ) -> None:
        _check_batch(x, y)
        self.net = plain(net)
        self.x = _outside_of_inference(x)
        self.y = None if y is None else _outside_of_inference(y)
        self.seed = seed
        self.drawn = dict(inputs or {})
        self.forwards = 0
        self.backwards = 0
        self.errors: dict[Need | Pass | bool, Exception] = {}
        self.places = Places(self.net)
        # Known before any pass, so that no pass has to ask a device.
        self._labels = (0, 0) if y is None or not len(y) else (int(y.min()), int(y.max()))
        _check_network(self.places, x)
        self._plan = dict.fromkeys(expanded(plan))
        self._operations: dict[bool, Operations] = {}
        self._results: dict[Pass, Any] = {}
        self._values: dict[Need, Any] = {}
        self.seconds = Seconds()

    # What proxies and their tests call.

    def read(self, need: Need) -> Any:
        """Return what a proxy reads; the same object for the same need.

        Raises:
            NotApplicableError: The network has no such value.
            NotFiniteError: The value holds NaN or an infinity.
        """
        if need in self._values:
            return self._values[need]
        for part in expanded([need]):
            self._plan.setdefault(part)
        with neutral(self.x), self.seconds.spent_on(need):
            value = need.value(self)
        if need.kept:
            self._values[need] = value
        return value

    def result(self, source: Pass) -> Any:
        """Return what a pass leaves, and run it if it has not run."""
        if source not in self._results:
            with neutral(self.x):
                self._results[source] = self._once(source)
        return self._results[source]

    @property
    def spent_s(self) -> float:
        """Seconds that passes and needs have taken so far."""
        return self.seconds.total

    def cost_s(self, needs: Iterable[Need]) -> float:
        """Return the seconds that some needs would take alone: each pass that they stand on, and their reductions."""
        needs = set(expanded(needs))
        keys = {key for need in needs for key in (need, *chain(need.source))}
        keys |= {key for need in needs for key in self.seconds.inside.get(need, ()) if isinstance(key, Need)}
        keys |= {("operations", need.training) for need in needs if need.recorded}
        return sum(self.seconds.of.get(key, 0.0) for key in keys)

    def missing(self, needs: Iterable[Need]) -> int:
        """Return how many forward passes some needs take that have not run, or have been freed."""
        return len({root(need.source) for need in expanded(needs) if need.source} - self._results.keys())

    def keep(self, needs: Iterable[Need]) -> None:
        """Free the results of all passes but those behind some needs; a freed pass can run again."""
        needs = set(expanded(needs))
        kept = {root(need.source) for need in needs}
        for source in [source for source in self._results if root(source) not in kept]:
            del self._results[source]
        for need in [need for need in self._values if need not in needs and (need.source or need.parts)]:
            del self._values[need]

    def drop(self, needs: Iterable[Need]) -> None:
        """Forget all that some needs have read, because somebody has written into it."""
        for source in {root(need.source) for need in expanded(needs) if need.source}:
            self._forget(source)
        self._values.clear()

    # What passes call.

    def operations(self, training: bool) -> Operations:
        """Return the record of the network in train or eval mode."""
        if training in self.errors:
            raise self.errors[training]
        if training not in self._operations:
            with neutral(self.x), self.seconds.spent_on(("operations", training)):
                try:
                    self._operations[training] = self._record(training)
                except Exception as error:
                    self.errors[training] = bare(error)
                    raise
        return self._operations[training]

    def state(self) -> dict[str, Tensor]:
        """Return copies of the parameters and buffers of the network by name."""
        return self.places.state()

    def asked(self, source: Pass) -> list[Need]:
        """Return the planned needs of a pass."""
        return [need for need in self._plan if need.source == source]

    def taps_on(self, forward: Pass) -> list[Tap]:
        """Return the planned taps of a forward pass and of all passes that stand on it."""
        return [need for need in self._plan if isinstance(need, Tap) and root(need.source) == forward]

    def is_pending(self, forward: Pass, but: Pass) -> bool:
        """Tell whether another pass that stands on a forward pass is planned and has not run."""
        later = {source for need in self._plan for source in chain(need.source) if source.stands_on == forward}
        return bool(later - {but} - self._results.keys() - self.errors.keys())

    def graph(self, forward: Forward) -> Trace:
        """Return a forward pass whose graph has not been freed."""
        trace: Trace = self.result(forward)
        if trace.graph_freed:
            self._forget(forward)
            trace = self.result(forward)
        return trace

    def tapped(self, tap: Tap) -> Tapped:
        """Return the places and the reduced values of a tap."""
        forward = root(tap.source)
        assert forward is not None
        if tap in self.errors:
            raise self.errors[tap]
        trace: Trace = self.result(forward)
        if tap not in trace.taps and tap not in self.errors:
            if not any(tap == w.tap for w in trace.watched) and tap not in trace.chains:
                self._forget(forward)  # the tap was not planned
                trace = self.result(forward)
            if tap.of != forward:
                self.again(tap.of)
                trace = self.result(forward)
        if tap in self.errors:
            raise self.errors[tap]
        return trace.taps.get(tap, [])

    def reduced(self, need: Need) -> Tensor:
        """Return the reduction of a pass that reduces for its needs."""
        source = need.source
        assert source is not None
        found: dict[Need, Tensor] = self.result(source)
        if need not in found and need not in self.errors:
            self._forget(source)
            found = self.result(source)
        if need in self.errors:
            raise self.errors[need]
        return found[need]

    def again(self, source: Pass) -> Any:
        """Run a pass that did not leave what a need that was not planned reads."""
        self._results.pop(source, None)
        return self.result(source)

    def generator(self, name: str) -> torch.Generator:
        """Return a fresh CPU generator for a named draw, independent of every other draw of this seed."""
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        return torch.Generator(device="cpu").manual_seed(int.from_bytes(digest[:7], "little"))

    def labels(self, of: Input, classes: int | None = None) -> Tensor:
        """Return the labels of the images of an input.

        Raises:
            NotApplicableError: There are no labels.
            BatchError: A label is not the index of an output.
        """
        if self.y is None:
            raise NotApplicableError("expected labels, got none: the proxy reads them")
        labels = of.labels(self.y.clone())  # a proxy that writes into them writes into its own
        if self._labels[0] >= 0 and (classes is None or self._labels[1] < classes):
            return labels
        if (lowest := int(labels.min())) < 0:
            raise BatchError(f"labels: expected 0 or more, got {lowest}")
        if classes is not None:
            self.check_label(int(labels.max()), classes)
        return labels

    def check_label(self, label: int, classes: int) -> None:
        """Require that a label is the index of an output."""
        if label >= classes:
            raise BatchError(
                f"labels: expected 0 to {classes - 1}, the classes of the network, got {label}: give images of its "
                "classes, or labels modulo their number, as `zcbench rank --classes` does"
            )

    def logits(self, output: object, images: int) -> Tensor:
        """Return the output of the network for some images if it is logits, or has them by that name."""
        output = logits_of(output)
        if isinstance(output, Tensor) and output.ndim == 2 and output.is_floating_point() and len(output) == images:
            return output
        items = output if isinstance(output, (tuple, list)) else (output,)
        shapes = [tuple(o.shape) if isinstance(o, Tensor) else type(o).__name__ for o in items]
        if isinstance(output, Tensor) and output.ndim == 2:
            raise NotApplicableError(
                f"the network must return floating-point logits ({images}, classes), a row for each image; it returns "
                f"{shapes[0]} {output.dtype}"
            )
        raise NotApplicableError(
            f"the network must return logits (N, classes); it returns {shapes}: wrap it, or give them the name logits"
        )

    def _record(self, training: bool) -> Operations:
        """Run the network on two images and see all operations."""
        x = self.x[:IMAGES] if len(self.x) >= IMAGES else torch.cat([self.x[:1]] * IMAGES)
        return record(self.places, x, training=training, seed=self.seed)

    def _once(self, source: Pass) -> Any:
        """Run a pass, and keep its error; the error is raised again if the pass is needed again."""
        if source in self.errors:
            raise self.errors[source]
        for below in chain(source)[:0:-1]:
            self.result(below)
        try:
            with self.seconds.spent_on(source):
                result = source.run(self)
                if self.x.is_cuda:
                    torch.cuda.synchronize(self.x.device)
        except Exception as error:
            self.errors[source] = bare(error)
            raise self.errors[source] from None
        return result

    def _forget(self, forward: Pass | None) -> None:
        for source in [source for source in self._results if root(source) == forward]:
            del self._results[source]


def _check_batch(x: Tensor, y: Tensor | None) -> None:
    dtype = getattr(x, "dtype", type(x).__name__)
    if dtype not in {torch.float32, torch.float64}:
        raise BatchError(f"images: expected a float32 or float64 tensor, got {dtype}: call .float()")
    if x.ndim < 2 or not len(x):
        raise BatchError(f"images: expected one or more, (N, C, H, W), got the shape {tuple(x.shape)}")
    if y is not None and (y.shape != x.shape[:1] or y.dtype != torch.int64):
        raise BatchError(f"labels: expected ({len(x)},) int64, one per image, got {tuple(y.shape)} {y.dtype}")


def _outside_of_inference(tensor: Tensor) -> Tensor:
    """Return a tensor that autograd takes: one that was made in inference mode is copied."""
    with torch.inference_mode(False):
        return tensor.clone() if tensor.is_inference() else tensor


def _check_network(net: Places, x: Tensor) -> None:
    if any(nn.parameter.is_lazy(tensor) for tensor in (*net.parameters.values(), *net.buffers.values())):
        raise BatchError("network: expected parameters with shapes, got lazy ones: run the network once on the images")
    dtypes = {p.dtype for p in net.parameters.values() if p.is_floating_point()}
    if odd := dtypes - {x.dtype}:
        names = ", ".join(sorted(map(str, odd)))
        raise BatchError(f"network: expected the dtype of the images, {x.dtype}, got {names}: call .to({x.dtype})")
