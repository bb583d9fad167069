"""The forward pass, and what it leaves for proxies and for the passes that stand on it."""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ...errors import NotApplicableError, ProxyError
from ...random_state import given_random_state
from ..operations.calls import Call, Operations
from ..operations.rules import Args, Named, Rule, plain_name, writes
from ..operations.watch import Function, Watch
from . import inputs
from .core import Host, Need, Pass
from .inits import INITS
from .inputs import Input
from .taps import Looks, Place, Tap, Watched, as_numbers, errors_kept

Mode = Literal["train", "eval", "linear", "per_image"]


@dataclass(frozen=True)
class Forward(Pass):
    """A forward pass.

    Attributes:
        init: Initialisation of parameters and buffers, a name of `inits.INITS`.
        inputs: Input tensors, which run one after another on the same buffers.
        mode: `train` or `eval`; `linear`, train mode with every norm replaced by the identity; `per_image`, train mode
            with batch norm statistics per image.
        dtype: Type of parameters, buffers and inputs; None keeps that of the network.
        graph: Whether the pass can be differentiated.
    """

    init: str = "given"
    inputs: tuple[Input, ...] = (inputs.DATA,)
    mode: Mode = "train"
    dtype: torch.dtype | None = None
    graph: bool = True

    @property
    def forwards(self) -> int:
        """One for each input."""
        return len(self.inputs)

    @property
    def reads(self) -> frozenset[str]:
        """What the inputs are made from."""
        return frozenset().union(*(i.reads for i in self.inputs))

    @property
    def training(self) -> bool:
        """Whether modules are in train mode."""
        return self.mode != "eval"

    def run(self, probe: Host) -> Trace:
        """Run the network on every input, with the taps of all passes that stand on this one."""
        looks = Looks()
        try:
            trace = self._run(probe, looks)
        except Exception:
            looks.check()  # a NaN on the way says more than what it led to
            raise
        if error := looks.errors().get(None):
            for tap in probe.taps_on(self):
                probe.errors.pop(tap, None)
            raise error
        trace.taps = {tap: as_numbers(tapped) for tap, tapped in trace.taps.items()}
        return trace

    def _run(self, probe: Host, looks: Looks) -> Trace:
        operations = probe.operations(self.training)
        if self.mode == "linear":
            operations.covered("norms", "every norm has to be bypassed")
        state = self.state(probe, operations, looks)
        trace = Trace(operations, state)
        for tensor in trace.parameters.values():
            tensor.requires_grad_(self.graph and tensor.is_floating_point())
        watch = Running(self, trace, probe.errors, probe.seconds.spent_on)
        with (
            probe.places.given(state, self.training),
            given_random_state(probe.seed, probe.x.device),
            watch.installed(probe.places.modules, probe.taps_on(self)),
            torch.set_grad_enabled(self.graph),
        ):
            for made in self.inputs:
                x = self.input(probe, made, looks).requires_grad_(self.graph)
                trace.inputs.append(x)
                # A network may write into its input, which must not be a leaf of the graph.
                with self._in_dtype():
                    logits = probe.logits(made.run(partial(watch.run, probe.net), x.clone()), len(x))
                trace.outputs.append(looks.at(f"the output on {made}", logits))
                probe.forwards += 1
        return trace

    @contextlib.contextmanager
    def _in_dtype(self) -> Iterator[None]:
        """Say so when a network casts to a dtype of its own, which does not meet that of the pass."""
        try:
            yield
        except RuntimeError as error:
            if self.dtype is None or ("dtype" not in str(error) and "type (" not in str(error)):
                raise
            raise NotApplicableError(f"the network does not run in {self.dtype} ({str(error)[:100]})") from None

    def state(self, probe: Host, operations: Operations, looks: Looks | None = None) -> dict[str, Tensor]:
        """Return the tensors of the network by name, initialised; without `looks` they are checked at once."""
        with torch.no_grad():
            given = {**probe.state(), **{w.name: w.value.clone() for w in operations.weights if w.value is not None}}
            state = INITS[self.init](operations, given, torch.Generator(device="cpu").manual_seed(probe.seed))
            parameters = {name: tensor for name, tensor in state.items() if name not in probe.places.buffers}
            (own := looks or Looks()).at_held(parameters)
            if self.dtype is not None:
                state = {k: v.to(self.dtype) if v.is_floating_point() else v for k, v in state.items()}
        if looks is None:
            own.check()
        return {name: tensor.detach() for name, tensor in state.items()}

    def input(self, probe: Host, made: Input, looks: Looks | None = None) -> Tensor:
        """Return a copy of an input, in the memory layout of the images; without `looks` it is checked at once."""
        x = (own := looks or Looks()).at(str(made), made.make(probe)).detach()
        if looks is None:
            own.check()
        return x.to(self.dtype or x.dtype, memory_format=inputs.layout(probe.x), copy=True)


#: The forward pass on the images, with the weights as given and batch norm in train mode.
DATA = Forward()


@dataclass
class Trace:
    """The results of a forward pass.

    Attributes:
        operations: Record of the network.
        state: Parameters, computed weights and buffers by name. Parameters are leaves of the graph.
        inputs: Inputs `(N, C, H, W)`, leaves of the graph.
        outputs: Logits `(N, classes)` of each input.
        taps: Places and reduced values by tap, in the order in which they ran. The values of a backward pass are there
            after it has run.
        watched: Activations that taps of backward passes wait at.
        chains: Tapped activations of the pass `Signs`, in the order in which they ran.
        running: The backward pass that is running; hooks refer to this instead of the probe.
        looks: What the running backward pass has seen at its taps.
        graph_freed: Whether the graph has been freed by a backward pass.
    """

    operations: Operations
    state: dict[str, Tensor]
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    taps: dict[Tap, list[tuple[Place, Any]]] = field(default_factory=dict)
    watched: list[Watched] = field(default_factory=list, repr=False)
    chains: dict[Tap, list[tuple[Place, Tensor]]] = field(default_factory=dict, repr=False)
    running: Pass | None = None
    looks: Looks = field(default_factory=Looks, repr=False)
    graph_freed: bool = False

    @property
    def parameters(self) -> dict[str, Tensor]:
        """Parameters and computed weights by name."""
        return {name: tensor for name, tensor in self.state.items() if name not in self.operations.buffers}

    @property
    def weights(self) -> dict[str, Tensor]:
        """Weights of convolutions and linear maps by name, in the order of definition."""
        self.operations.covered("products", "the proxy reads the weights of all layers")
        return {layer.name: self.state[layer.name] for layer in self.operations.weights}


class Substituting(Watch):
    """A mode that gives operations the weights of a state, and replaces norms."""

    def __init__(self, operations: Operations, state: Mapping[str, Tensor], mode: Mode) -> None:
        super().__init__()
        self.operations = operations
        self.state = state
        self.mode = mode

    def run(self, net: nn.Module, x: Tensor) -> Any:
        """Run a network."""
        self.place = 0
        with self:
            return net(x)

    def called(self, place: int, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Run a call, with its weight from the state."""
        call = self.call(place, func)
        if call.fixed:
            return func(*args, **named)
        if call.weight.endswith(")") and call.is_layer:  # computed from parameters
            argument = rule.weight or "other"
            args, named = rule.replace(args, named, argument, self.state[call.weight])
        if rule.kind == "norm" and self.mode == "linear":
            return self.operated(call, rule, lambda *args, **named: rule.bind(args, named)["input"], args, named)
        if call.name == "batch_norm":
            given = rule.bind(args, named)
            if self.mode == "per_image":
                return _norm_per_image(**given)
            _check_batch_norm(given)
        return self.operated(call, rule, func, args, named)

    def operated(self, call: Call, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Run a call."""
        return func(*args, **named)

    def call(self, place: int, func: Function) -> Call:
        """Return the recorded call of a place.

        Raises:
            NotApplicableError: The network called another operation when it was recorded.
        """
        known = self.operations.calls
        if place >= len(known) or known[place].name != plain_name(func):
            before = str(known[place]) if place < len(known) else "nothing more"
            raise NotApplicableError(
                f"the operations of the network change from run to run: {plain_name(func)} for {before}"
            )
        return known[place]


class Running(Substituting):
    """The mode of a forward pass: it visits the taps."""

    def __init__(self, forward: Forward, trace: Trace, errors: dict[Any, Exception], charged: Any) -> None:
        super().__init__(trace.operations, trace.state, forward.mode)
        self.trace = trace
        self.errors = errors
        self.charged = charged
        self.at: dict[int, list[tuple[Tap, Call]]] = {}

    @contextlib.contextmanager
    def installed(self, modules: Mapping[str, nn.Module], taps: list[Tap]) -> Iterator[None]:
        """Find the places of taps, and put hooks on modules that are tapped."""
        handles: list[RemovableHandle] = []
        try:
            for tap in taps:
                with errors_kept(self.errors, tap), self.charged(tap):
                    places = tap.at(self.operations)
                    if isinstance(tap.of, Forward):
                        self.trace.taps[tap] = []
                    for place in places:
                        if isinstance(place, str):
                            handles.append(self._hook(tap, place, modules[place]))
                        elif not self.operations.is_by_image(place):
                            raise NotApplicableError(f"{place}: the first dimension is not that of the images")
                        else:
                            self.at.setdefault(place.place, []).append((tap, place))
            yield
        finally:
            for handle in handles:
                handle.remove()

    def operated(self, call: Call, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Run a call and visit its taps."""
        written = self._before_write(func, args, named)
        taps = self.at.get(call.place, ())
        if not taps:
            return func(*args, **named)
        if before := [tap for tap, _ in taps if tap.side == "input"]:
            # An alias is a node of its own in the graph, so its gradient is the part that flows through this operation.
            # A `view_as` would change the strides of a batch of one, and convolutions would choose another algorithm.
            alias = torch.ops.aten.alias(rule.bind(args, named)["input"])
            args, named = rule.replace(args, named, "input", alias)
            for tap in before:
                self.visit(tap, call, alias, partial(tap.reduce, call))
        if written is not None:  # the operation writes into a copy, and the result is written back
            args, named = rule.replace(args, named, "input", rule.bind(args, named)["input"].clone())
        output = func(*args, **named)
        if written is not None:
            for watched in self.trace.watched:
                watched.before_write(written)
            output = written.copy_(output)
        for tap, _ in taps:
            if tap.side == "output":
                self.visit(tap, call, output, partial(tap.reduce, call))
            elif tap.side == "layer":
                self.visit(tap, call, output, _of_layer(tap, call, rule, func, args, named))
        return output

    def unruled(self, func: Function, args: Args, named: Named) -> Any:
        """Run a call that has no rule."""
        self._before_write(func, args, named)
        return func(*args, **named)

    def _before_write(self, func: Function, args: Args, named: Named) -> Tensor | None:
        written = writes(func, args, named)
        if written is not None:
            for watched in self.trace.watched:
                watched.before_write(written)
        return written

    def visit(self, tap: Tap, place: Place, activation: Tensor, reduce: Any) -> None:
        """Reduce an activation, or wait for its gradient.

        Raises:
            ProxyError: The reduction wrote into the activation, so what follows in this pass is wrong.
        """
        with self.charged(tap):
            if isinstance(tap.of, Forward):
                before, self.paused = self.paused, True
                version = activation._version
                with errors_kept(self.errors, tap):
                    self.trace.taps[tap].append((place, reduce(activation.detach())))
                self.paused = before
                if activation._version != version:
                    name = getattr(tap.reduce, "__name__", tap.reduce)
                    raise ProxyError(f"the reduction {name} of a tap wrote into an activation: work on a copy")
            elif not torch.is_grad_enabled() and _is_in_a_function():
                self.errors[tap] = NotApplicableError(
                    f"{place} runs inside of an autograd.Function of the network, where gradients cannot be read"
                )
            else:
                self._wait(tap, place, activation, reduce)

    def _wait(self, tap: Tap, place: Place, activation: Tensor, reduce: Any) -> None:
        trace, errors, charged, source = self.trace, self.errors, self.charged, tap.of

        @contextlib.contextmanager
        def kept(tap: Tap) -> Iterator[None]:
            with errors_kept(errors, tap), charged(tap):
                yield

        watched = Watched(tap, place, activation.detach(), reduce, kept, trace.looks)
        trace.watched.append(watched)
        if activation.requires_grad:
            # Several objectives can be differentiated through one forward; only that of the tap counts.
            # A reference to the trace would be a cycle.
            weak = weakref.ref(trace)

            def hook(gradient: Tensor) -> None:
                running = weak()
                if running is not None and running.running == source:
                    watched.arrive(gradient)

            activation.register_hook(hook)  # type: ignore[no-untyped-call]

    def _hook(self, tap: Tap, name: str, module: nn.Module) -> RemovableHandle:
        """Visit a module; only `as_released` variants and blocks go by modules."""

        def before(module: nn.Module, args: Args, named: Named) -> tuple[Args, Named]:
            alias = torch.ops.aten.alias(_first(args, named))
            self.visit(tap, name, alias, partial(tap.reduce, name))
            return (alias, *args[1:]) if args else args, named if args else named | {next(iter(named)): alias}

        def after(module: nn.Module, args: Args, named: Named, output: object) -> None:
            if isinstance(output, Tensor):  # a container can return anything
                self.visit(tap, name, output, partial(tap.reduce, name))

        def link(module: nn.Module, args: Args, named: Named, output: object) -> None:
            with errors_kept(self.errors, tap):
                if not isinstance(output, Tensor):
                    raise NotApplicableError(f"{name}: expected an activation (a tensor), got {type(output).__name__}")
                self.trace.chains.setdefault(tap, [("", _first(args, named))]).append((name, output))

        if getattr(tap.of, "links", False):
            return module.register_forward_hook(link, with_kwargs=True)
        if tap.side == "input":
            return module.register_forward_pre_hook(before, with_kwargs=True)
        return module.register_forward_hook(after, with_kwargs=True)


_APPLY = torch.autograd.Function.__dict__["apply"].__func__.__code__


def _is_in_a_function() -> bool:
    """Tell whether this runs in the forward of an `autograd.Function`; under `no_grad`, gradients are just zero."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code is not _APPLY:
        frame = frame.f_back
    return frame.f_code is _APPLY


def _of_layer(tap: Tap, call: Call, rule: Rule, func: Function, args: Args, named: Named) -> Any:
    given = rule.bind(args, named)
    of_weight = rule.weight or "other"
    x, weight = given["input"].detach(), given[of_weight].detach()
    bias = None if given.get("bias") is None else given["bias"].detach()

    def apply(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        values = {"input": x, of_weight: weight} | ({} if bias is None else {"bias": bias})
        other = args, named
        for name, value in values.items():
            other = rule.replace(*other, name, value)
        result: Tensor = func(*other[0], **other[1])
        return result

    return lambda activation, gradient: tap.reduce(call, x, gradient, apply, weight, bias)


def _norm_per_image(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """Normalise every image by its own statistics, as batch norm does for a batch of one."""
    if input[0, 0].numel() < 2:
        raise NotApplicableError("a batch norm sees a single value per image, which has no variance")
    return nn.functional.instance_norm(input, weight=weight, bias=bias, eps=eps)


def _check_batch_norm(given: Named) -> None:
    x = given["input"]
    if given.get("training") and x.numel() == x.shape[1]:
        raise NotApplicableError(
            "a batch norm sees a single value per channel, which has no variance: use two images or more"
        )


def _first(args: Args, named: Named) -> Tensor:
    """Return the first argument of a module, given by position or by keyword."""
    first: Tensor = args[0] if args else next(iter(named.values()))
    return first


@dataclass(frozen=True)
class Logits(Need):
    """The logits `(N, classes)` of the first input, float64, without a graph."""

    of: Forward = DATA

    @property
    def source(self) -> Forward:
        """The forward pass."""
        return self.of

    def value(self, probe: Host) -> Tensor:
        """Return the logits."""
        trace: Trace = probe.result(self.of)
        return trace.outputs[0].detach().double()


@dataclass(frozen=True)
class State(Need):
    """The parameters and buffers of the network by name, as a forward pass used and left them, without a graph."""

    of: Forward

    @property
    def source(self) -> Forward:
        """The forward pass."""
        return self.of

    def value(self, probe: Host) -> dict[str, Tensor]:
        """Return the tensors."""
        trace: Trace = probe.result(self.of)
        return {name: tensor.detach() for name, tensor in trace.state.items()}


@dataclass(frozen=True)
class Variances(Need):
    """The running variances of the batch norms after a forward pass, a list of `(channels,)` in order of definition."""

    of: Forward

    @property
    def source(self) -> Forward:
        """The forward pass."""
        return self.of

    def value(self, probe: Host) -> list[Tensor]:
        """Return the variances."""
        trace: Trace = probe.result(self.of)
        return [trace.state[name] for name in trace.operations.variances]


@dataclass(frozen=True)
class Labels(Need):
    """The labels `(n,)` int64 of the images of the first input of a forward pass, each a class of the network."""

    of: Forward = DATA

    @property
    def source(self) -> Forward:
        """The forward pass."""
        return self.of

    @property
    def reads(self) -> frozenset[str]:
        """Labels."""
        return frozenset({"labels"})

    def value(self, probe: Host) -> Tensor:
        """Return the labels.

        Raises:
            NotApplicableError: There are no labels.
            BatchError: A label is not the index of an output.
        """
        trace: Trace = probe.result(self.of)
        return probe.labels(self.of.inputs[0], trace.outputs[0].shape[1])


#: The labels of the images.
LABELS = Labels()
