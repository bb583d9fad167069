"""A probe: one network, one batch and one seed, with every pass through them run at most once.

Proxies declare the passes that they need (see `passes`). The probe joins the needs of all proxies for one pass and runs
it once. It leaves the weights, buffers, gradients, flags and hooks of the network and the global random state as they
were.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, jacrev, vmap
from torch.utils.hooks import RemovableHandle

from ..errors import BatchError, NotApplicableError, NotFiniteError
from .passes.inits import INITS, NORMS
from .passes.inputs import images_of, make
from .passes.needs import (
    DATA,
    Backward,
    Forward,
    Gradient,
    Need,
    PerImage,
    Tap,
    backward_of,
    forward_of,
    layer_weights,
)

R = TypeVar("R")
Args = tuple[Any, ...]
Named = dict[str, Any]
Errors = dict[Need | Backward, Exception]

#: Number of images that a vectorised pass over images takes at a time.
IMAGES_AT_ONCE = 16


@dataclass
class Trace:
    """The results of a forward pass.

    Attributes:
        parameters: Parameters by name, leaves of the graph.
        buffers: Buffers by name, as the pass left them.
        inputs: Inputs `(N, C, H, W)`, leaves of the graph.
        outputs: Logits `(N, classes)` of each input.
        taps: Module names and reduced values by tap, in the order in which the modules ran. The values of a backward
            pass are there after it has run.
        watched: Activations that taps of backward passes wait at.
        chains: Tapped activations of the objective `signs`, in the order in which the modules ran.
        graph_freed: Whether the graph has been freed by a backward pass.
    """

    parameters: dict[str, Tensor]
    buffers: dict[str, Tensor]
    inputs: list[Tensor] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    taps: dict[Tap, list[tuple[str, Any]]] = field(default_factory=dict)
    watched: list[_Watched] = field(default_factory=list, repr=False)
    chains: dict[Tap, list[tuple[str, Tensor]]] = field(default_factory=dict, repr=False)
    graph_freed: bool = False


@dataclass(frozen=True)
class _Gradients:
    """The results of a backward pass; `of` says what it was differentiated for."""

    of: frozenset[str]
    parameters: dict[str, Tensor | None]
    input: Tensor | None


@dataclass
class _Watched:
    """An activation that a tap of a backward pass waits at.

    It holds a detached alias and no reference to the graph. A reference cycle would keep the memory of a whole graph
    until the garbage collector runs.
    """

    tap: Tap
    name: str
    activation: Tensor
    reduce: Callable[[Tensor], Any]
    errors: Errors
    value: Any = None
    arrived: bool = False

    def arrive(self, gradient: Tensor) -> None:
        """Reduce the gradient."""
        self.arrived = True
        with _errors_kept(self.errors, self.tap):
            self.value = self.reduce(_finite(f"the gradient at {self.name}", gradient))

    def take(self) -> Any:
        """Return the reduced value; the gradient is zero if no path leads to the output."""
        if not self.arrived:
            self.arrive(torch.zeros_like(self.activation))
        self.arrived = False
        return self.value


@dataclass
class _Running:
    """The backward pass that is running; hooks refer to this instead of the probe."""

    backward: Backward | None = None


class Probe:
    """One network, one batch and one seed, with passes that run on demand and are kept.

    Args:
        net: Module from images `(N, C, H, W)` to logits `(N, classes)`.
        x: Images of the network's floating-point dtype, on its device.
        y: Labels `(N,)` int64, or None if no proxy needs them.
        seed: Seed of every random draw: initialisations and noise.
        plan: Needs of all proxies to come. The needs of one pass are joined; a need that is not planned may run its
            pass again.
        inputs: Tensors by name that replace random draws (`noise`, `noise2`, `signs[i]`).

    Raises:
        BatchError: The images or labels have a wrong shape or dtype.
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
        self.net = net
        self.x = x
        self.y = y
        self.seed = seed
        self.forwards = 0
        self.backwards = 0
        self._inputs = dict(inputs or {})
        self._plan = dict.fromkeys(plan)
        self._traces: dict[Forward, Trace] = {}
        self._gradients: dict[Backward, _Gradients] = {}
        self._weights: dict[Forward, dict[str, Tensor]] = {}
        self._pairs: dict[Gradient, list[tuple[Tensor, Tensor]]] = {}
        self._per_image: dict[PerImage, Tensor] = {}
        self._seconds: dict[Forward | Backward, float] = {}
        self._errors: Errors = {}
        self._running = _Running()

    def trace(self, forward: Forward) -> Trace:
        """Return the forward pass, and run it if it has not run."""
        if forward not in self._traces:
            self._traces[forward] = self._once(forward, lambda: self._forward(forward))
        return self._traces[forward]

    def gradients(self, gradient: Gradient) -> dict[str, Tensor]:
        """Return the gradient of every parameter by name, zeros if no path leads to it.

        For an objective `of each`, gradients have a first dimension of N.

        Raises:
            NotFiniteError: A gradient holds NaN or an infinity.
        """
        found = self._differentiate(gradient).parameters
        trace = self.trace(gradient.backward.forward)
        each = (len(trace.outputs[0]),) if "of each" in gradient.backward.objective else ()
        return {
            name: _finite(f"the gradient of {name}", _or_zeros(found[name], leaf, each))
            for name, leaf in trace.parameters.items()
        }

    def input_gradient(self, gradient: Gradient) -> Tensor:
        """Return the gradient of the input `(N, C, H, W)`, zeros if no path leads to it.

        Raises:
            NotFiniteError: The gradient holds NaN or an infinity.
        """
        found = self._differentiate(gradient).input
        return _finite("the gradient of the input", _or_zeros(found, self.trace(gradient.backward.forward).inputs[0]))

    def tap(self, tap: Tap) -> list[tuple[str, Any]]:
        """Return the module names and reduced values of a tap, in the order in which the modules ran."""
        forward = forward_of(tap)
        if tap not in self._plan:
            self._plan[tap] = None
            self._forget(forward)
        if isinstance(tap.source, Backward) and tap not in self.trace(forward).taps and tap not in self._errors:
            self._gradients[tap.source] = self._run_backward(tap.source)
        taps = self.trace(forward).taps
        if tap in self._errors:
            raise self._errors[tap]
        return taps[tap]

    def per_image(self, need: PerImage) -> Tensor:
        """Return the reduced gradients of every image, joined along the first dimension."""
        if need not in self._per_image:
            self._plan.setdefault(need)
            needs = [
                n for n in self._plan if isinstance(n, PerImage) and (n.backward, n.of) == (need.backward, need.of)
            ]
            with torch.inference_mode(False), torch.enable_grad():
                found = self._once(need.backward, lambda: self._run_per_image(needs))
            self._per_image |= found
        if need in self._errors:
            raise self._errors[need]
        return self._per_image[need]

    def labels(self, forward: Forward = DATA) -> Tensor:
        """Return the labels `(N,)` of the images, each a class of the network.

        Raises:
            NotApplicableError: There are no labels.
            BatchError: A label is not the index of an output.
        """
        return self._labels(len(self.trace(forward).outputs[0][0]))

    def weights(self, forward: Forward = DATA) -> dict[str, Tensor]:
        """Return the float64 weight of every convolution and linear layer by parameter name, in definition order.

        For the initialisation `given`, no pass runs.
        """
        if forward not in self._weights:
            parameters = (
                dict(self.net.named_parameters()) if forward.init == "given" else self.trace(forward).parameters
            )
            self._weights[forward] = {name: parameters[name].detach().double() for name in layer_weights(self.net)}
        return self._weights[forward]

    def weights_and_gradients(self, gradient: Gradient) -> list[tuple[Tensor, Tensor]]:
        """Return the float64 weight and gradient of every convolution and linear layer, in definition order."""
        if gradient not in self._pairs:
            gradients = self.gradients(gradient)
            weights = self.weights(gradient.backward.forward)
            self._pairs[gradient] = [(weight, gradients[name].double()) for name, weight in weights.items()]
        return self._pairs[gradient]

    def cost_s(self, needs: Iterable[Need]) -> float:
        """Return the seconds that the passes behind some needs took, with each pass counted once."""
        passes = {of(need) for need in needs for of in (forward_of, backward_of)}
        return sum(self._seconds.get(key, 0.0) for key in passes if key)

    @property
    def spent_s(self) -> float:
        """Seconds that passes have taken so far."""
        return sum(self._seconds.values())

    def generator(self, name: str) -> torch.Generator:
        """Return a fresh CPU generator for a named draw, independent of every other draw of this seed."""
        digest = hashlib.sha256(f"{self.seed}/{name}".encode()).digest()
        return torch.Generator().manual_seed(int.from_bytes(digest[:7], "little"))

    def _forward(self, forward: Forward) -> Trace:
        state = self._state(forward)
        names = {name for name, _ in self.net.named_parameters()}
        trace = Trace(
            {k: v.requires_grad_(forward.graph and v.is_floating_point()) for k, v in state.items() if k in names},
            {k: v for k, v in state.items() if k not in names},
        )
        with (
            _isolated(self.net, forward.mode, self.seed, self.x.device),
            self._taps_installed(forward, trace),
            torch.inference_mode(False),
            torch.set_grad_enabled(forward.graph),
        ):
            for name in forward.inputs:
                x = self._input(name, forward.dtype).requires_grad_(forward.graph)
                trace.inputs.append(x)
                logits = _logits(functional_call(self.net, state, (x,)))
                trace.outputs.append(_finite(f"the output on {name}", logits))
                self.forwards += 1
        return trace

    def _state(self, forward: Forward) -> dict[str, Tensor]:
        with torch.inference_mode(False), torch.no_grad():
            state = INITS[forward.init](self.net, torch.Generator().manual_seed(self.seed))
        for name, _ in self.net.named_parameters():
            _finite(name, state[name])
        if forward.dtype is not None:
            state = {k: v.to(forward.dtype) if v.is_floating_point() else v for k, v in state.items()}
        return state

    @contextlib.contextmanager
    def _taps_installed(self, forward: Forward, trace: Trace) -> Iterator[None]:
        modules = dict(self.net.named_modules())
        handles: list[RemovableHandle] = []
        try:
            for tap in self._plan:
                if isinstance(tap, Tap) and forward_of(tap) == forward:
                    try:
                        names = tap.at(self.net)
                    except NotApplicableError as error:
                        self._errors[tap] = error
                        continue
                    if isinstance(tap.source, Forward):
                        trace.taps[tap] = []
                    handles += [self._install(tap, name, modules[name], trace) for name in names]
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _install(self, tap: Tap, name: str, module: nn.Module, trace: Trace) -> RemovableHandle:
        def visit(activation: Tensor, reduce: Callable[[Tensor], Any]) -> None:
            if isinstance(tap.source, Forward):
                with _errors_kept(self._errors, tap):
                    trace.taps[tap].append((name, tap.reduce(activation.detach())))
                return
            watched = _Watched(tap, name, activation.detach(), reduce, self._errors)
            trace.watched.append(watched)
            if activation.requires_grad:
                running = self._running
                # Several objectives can be differentiated through one forward; only that of the tap counts.
                activation.register_hook(  # type: ignore[no-untyped-call]
                    lambda g: watched.arrive(g) if running.backward == tap.source else None
                )

        def before(module: nn.Module, args: Args, named: Named) -> tuple[Args, Named]:
            # An alias is a node of its own in the graph, so its gradient is the part that flows through this module. A
            # `view_as` would change the strides of a batch of one, and convolutions would choose another algorithm.
            first = _first(args, named)
            alias = torch.ops.aten.alias(first)
            visit(alias, partial(tap.reduce, alias.detach()))
            return (alias, *args[1:]) if args else args, named if args else named | {next(iter(named)): alias}

        def after(module: nn.Module, args: Args, named: Named, output: object) -> None:
            if not isinstance(output, Tensor):  # a container can return anything
                return
            if tap.side == "layer":
                visit(output, partial(tap.reduce, module, _first(args, named).detach()))
            else:
                visit(output, partial(tap.reduce, output.detach()))

        def link(module: nn.Module, args: Args, named: Named, output: object) -> None:
            with _errors_kept(self._errors, tap):
                if not isinstance(output, Tensor):
                    raise NotApplicableError(f"{name}: expected an activation (a tensor), got {type(output).__name__}")
                trace.chains.setdefault(tap, [("", _first(args, named))]).append((name, output))

        if isinstance(tap.source, Backward) and tap.source.objective == "signs":
            return module.register_forward_hook(link, with_kwargs=True)
        if tap.side == "input":
            return module.register_forward_pre_hook(before, with_kwargs=True)
        return module.register_forward_hook(after, with_kwargs=True)

    def _differentiate(self, gradient: Gradient) -> _Gradients:
        backward = gradient.backward
        found = self._gradients.get(backward)
        if found is None or gradient.of not in found.of:
            self._plan.setdefault(gradient)
            found = self._gradients[backward] = self._run_backward(backward)
        return found

    def _run_backward(self, backward: Backward) -> _Gradients:
        if self.trace(backward.forward).graph_freed:
            self._forget(backward.forward)
        trace = self.trace(backward.forward)
        with torch.inference_mode(False), torch.enable_grad():
            return self._once(backward, lambda: self._backward(trace, backward))

    def _backward(self, trace: Trace, backward: Backward) -> _Gradients:
        later = {backward_of(need) for need in self._plan if forward_of(need) == backward.forward}
        keep = bool(later - {None, backward, *self._gradients})
        if backward.objective == "signs":
            self._send_signs(trace, backward, keep)
            return _Gradients(frozenset(), {}, None)
        scalar = self._scalar(trace, backward)
        of = self._targets(backward)
        parameters = {k: v for k, v in trace.parameters.items() if v.requires_grad} if "parameters" in of else {}
        leaves = [*parameters.values(), *([trace.inputs[0]] if "input" in of else [])]
        gradients: list[Tensor | None] = [None] * len(leaves)
        if scalar.requires_grad:
            self._running.backward = backward
            try:
                gradients = self._autograd(trace, scalar, leaves, backward, keep)
            finally:
                self._running.backward = None
            trace.graph_freed = not keep
        self.backwards += backward.order
        watched = [w for w in trace.watched if w.tap.source == backward]
        for tap in self._plan:
            if isinstance(tap, Tap) and tap.source == backward and tap not in self._errors:
                trace.taps[tap] = [(w.name, w.take()) for w in watched if w.tap == tap]
        found = dict.fromkeys(trace.parameters) | dict(zip(parameters, gradients, strict=False))
        return _Gradients(of, found, gradients[-1] if "input" in of else None)

    def _send_signs(self, trace: Trace, backward: Backward, keep: bool) -> None:
        """Send random signs from every activation of a chain back to the previous one, from the last to the first."""
        for tap in [t for t in self._plan if isinstance(t, Tap) and t.source == backward and t not in self._errors]:
            chain, values = trace.chains.pop(tap, []), []
            for place in range(len(chain) - 1, 0, -1):
                (_, before), (name, after) = chain[place - 1], chain[place]
                signs = self._signs(place, after)
                gradient = None
                if after.requires_grad and before.requires_grad:
                    (gradient,) = torch.autograd.grad(after, before, signs, retain_graph=keep, allow_unused=True)
                with _errors_kept(self._errors, tap):
                    gradient = _finite(f"the gradient at {name}", _or_zeros(gradient, before))
                    values.append((name, tap.reduce(signs, gradient)))
            trace.taps[tap] = values[::-1]
        self.backwards += backward.order
        trace.graph_freed = not keep

    def _signs(self, place: int, like: Tensor) -> Tensor:
        name = f"signs[{place}]"
        if name in self._inputs:
            return self._inputs[name].to(like)
        return (2 * torch.randint(0, 2, like.shape, generator=self.generator(name)) - 1).to(like)

    def _run_per_image(self, needs: Sequence[PerImage]) -> dict[PerImage, Tensor]:
        """Differentiate for every image in a batch of its own, vectorised over images."""
        forward, objective = needs[0].backward.forward, needs[0].backward.objective
        x = self._input(forward.inputs[0], forward.dtype)
        state = self._state(forward)
        names = [name for name, _ in self.net.named_parameters()]
        y = self._labels() if objective == "loss per image" else torch.zeros(len(x), dtype=torch.int64, device=x.device)
        highest = int(y.max())

        def scalar(parameters: dict[str, Tensor], image: Tensor, label: Tensor) -> Tensor:
            # The first element goes back to its place in the tensor.
            whole = {
                name: value
                if needs[0].of == "parameters"
                else torch.cat([value, state[name].flatten()[1:]]).view(state[name].shape)
                for name, value in parameters.items()
            }
            logits = _logits(functional_call(self.net, state | whole, (image[None],)))
            if objective == "loss per image":
                _check_highest(highest, logits.shape[1])
                return nn.functional.cross_entropy(logits, label[None])
            return logits[0] if objective == "logits per image" else logits.sum()

        leaves = {name: state[name].detach() for name in names}
        if needs[0].of == "first":
            leaves = {name: leaf.flatten()[:1] for name, leaf in leaves.items()}
        differentiate = (jacrev if objective == "logits per image" else grad)(scalar)
        parts: dict[PerImage, list[Tensor]] = {need: [] for need in needs}
        for start in range(0, len(x), IMAGES_AT_ONCE):
            some = slice(start, start + IMAGES_AT_ONCE)
            with _isolated(self.net, forward.mode, self.seed, self.x.device), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="There is a performance drop")  # slower, but right
                found = vmap(differentiate, in_dims=(None, 0, 0), randomness="different")(leaves, x[some], y[some])
            for name, gradient in found.items():
                _finite(f"the gradient of {name}", gradient)
            for need in needs:
                if need not in self._errors:
                    with _errors_kept(self._errors, need):
                        parts[need].append(need.reduce(found))
        self.forwards += 1
        self.backwards += 1
        return {need: torch.cat(values) for need, values in parts.items() if need not in self._errors}

    def _targets(self, backward: Backward) -> frozenset[str]:
        """Return what to differentiate for: the planned gradients, and what makes the gradient pass every tap."""
        needs = [need for need in self._plan if backward_of(need) == backward]
        of = {need.of for need in needs if isinstance(need, Gradient)}
        sides = {need.side for need in needs if isinstance(need, Tap)}
        if "layer" in sides:
            of.add("parameters")
        if "input" in sides or (sides and not of):
            of.add("input")
        return frozenset(of)

    def _autograd(
        self, trace: Trace, scalar: Tensor, leaves: list[Tensor], backward: Backward, keep: bool
    ) -> list[Tensor | None]:
        if "of each" in backward.objective:
            options: dict[str, Any] = {"retain_graph": True, "allow_unused": True}
            each = torch.eye(len(scalar), dtype=scalar.dtype, device=scalar.device)
            try:  # row n of the product with the identity is the gradient of the outputs of image n
                return list(torch.autograd.grad(scalar, leaves, each, is_grads_batched=True, **options))
            except torch.OutOfMemoryError:
                raise
            except RuntimeError:  # some gradients cannot be batched, such as that of group norm
                rows = [torch.autograd.grad(scalar, leaves, unit, **options) for unit in each]
            return [None if of[0] is None else torch.stack(of) for of in zip(*rows, strict=True)]
        if backward.order == 1:
            return list(torch.autograd.grad(scalar, leaves, retain_graph=keep, allow_unused=True))
        weights = [trace.parameters[name] for name in layer_weights(self.net)]
        first: Sequence[Tensor | None] = torch.autograd.grad(scalar, weights, create_graph=True, allow_unused=True)
        product = sum(((g.detach() * g).sum() for g in first if g is not None), scalar.new_zeros(()))
        if not product.requires_grad:
            return [None] * len(leaves)
        return list(torch.autograd.grad(product, leaves, retain_graph=keep, allow_unused=True))

    def _scalar(self, trace: Trace, backward: Backward) -> Tensor:
        outputs, name = trace.outputs[0], backward.forward.inputs[0]
        match backward.objective:
            case "ones":
                return outputs.sum()
            case "ones of each":
                return outputs.sum(1)
            case "labels":
                return outputs.gather(1, self._labels(outputs.shape[1], name)[:, None]).sum()
            case "label of each":
                return outputs.gather(1, self._labels(outputs.shape[1], name)[:, None])[:, 0]
            case "loss":
                return nn.functional.cross_entropy(outputs, self._labels(outputs.shape[1], name))
        raise ValueError(f"'{backward.objective}' has no scalar")

    def _labels(self, classes: int | None = None, name: str = "data") -> Tensor:
        if self.y is None:
            raise NotApplicableError("expected labels, got none: the proxy reads them")
        labels = self.y[images_of(name, len(self.y))]
        if (lowest := int(labels.min())) < 0:
            raise BatchError(f"labels: expected 0 or more, got {lowest}")
        if classes is not None:
            _check_highest(int(labels.max()), classes)
        return labels

    def _input(self, name: str, dtype: torch.dtype | None) -> Tensor:
        """Return a copy, with images channels-last, because convolutions on CPUs are then 1.3 to 1.8 times faster."""
        x = _finite(name, make(name, self.x, self._inputs, self.generator)).detach()
        layout = torch.channels_last if x.ndim == 4 else torch.contiguous_format
        return x.to(dtype or x.dtype, memory_format=layout, copy=True)

    def _once(self, key: Forward | Backward, run: Callable[[], R]) -> R:
        """Run a pass, and keep its seconds or its error; the error is raised again if the pass is needed again."""
        if key in self._errors:
            raise self._errors[key]
        start = time.perf_counter()
        try:
            result = run()
        except Exception as error:
            self._errors[key] = error
            raise
        if self.x.is_cuda:
            torch.cuda.synchronize(self.x.device)
        self._seconds[key] = time.perf_counter() - start
        return result

    def missing(self, needs: Iterable[Need]) -> int:
        """Return how many forward passes some needs take that have not run, or have been freed."""
        return len({forward_of(need) for need in needs} - self._traces.keys())

    def keep(self, needs: Iterable[Need]) -> None:
        """Free the results of all forward passes but those behind some needs; a freed pass can run again."""
        kept = {forward_of(need) for need in needs}
        for forward in [forward for forward in self._traces if forward not in kept]:
            self._forget(forward)
            self._weights.pop(forward, None)
            self._pairs = {g: pairs for g, pairs in self._pairs.items() if g.backward.forward != forward}
        self._per_image = {n: found for n, found in self._per_image.items() if forward_of(n) in kept}

    def _forget(self, forward: Forward) -> None:
        self._traces.pop(forward, None)
        self._gradients = {b: g for b, g in self._gradients.items() if b.forward != forward}


@contextlib.contextmanager
def _errors_kept(errors: Errors, need: Need) -> Iterator[None]:
    """Keep an error of a reduction for the proxies that read it, so that the pass goes on."""
    try:
        yield
    except Exception as error:
        errors[need] = error.with_traceback(None)


def _check_highest(label: int, classes: int) -> None:
    if label >= classes:
        raise BatchError(f"labels: expected 0 to {classes - 1}, the classes of the network, got {label}")


def _check_batch(x: Tensor, y: Tensor | None) -> None:
    dtype = getattr(x, "dtype", type(x).__name__)
    if dtype not in {torch.float32, torch.float64}:
        raise BatchError(f"images: expected a float32 or float64 tensor, got {dtype}: call .float()")
    if x.ndim < 2 or not len(x):
        raise BatchError(f"images: expected one or more, (N, C, H, W), got the shape {tuple(x.shape)}")
    if y is not None and (y.shape != x.shape[:1] or y.dtype != torch.int64):
        raise BatchError(f"labels: expected ({len(x)},) int64, one per image, got {tuple(y.shape)} {y.dtype}")


def _finite(name: str, tensor: Tensor) -> Tensor:
    """Return a tensor as it is, if it is finite; otherwise comparisons such as those of ReLU codes hide a NaN.

    Raises:
        NotFiniteError: The tensor holds NaN or an infinity.
    """
    if not tensor.isfinite().all():
        raise NotFiniteError(f"{'NaN' if tensor.isnan().any() else 'an infinity'} in {name}")
    return tensor


def _logits(output: object) -> Tensor:
    if isinstance(output, Tensor) and output.ndim == 2:
        return output
    items = output if isinstance(output, (tuple, list)) else (output,)
    shapes = [tuple(o.shape) if isinstance(o, Tensor) else type(o).__name__ for o in items]
    raise NotApplicableError(f"the network must return logits (N, classes); it returns {shapes}: wrap it")


def _first(args: Args, named: Named) -> Tensor:
    """Return the first argument of a module, given by position or by keyword."""
    first: Tensor = args[0] if args else next(iter(named.values()))
    return first


def _or_zeros(gradient: Tensor | None, leaf: Tensor, each: tuple[int, ...] = ()) -> Tensor:
    return leaf.new_zeros(each + tuple(leaf.shape)) if gradient is None else gradient


@contextlib.contextmanager
def _isolated(net: nn.Module, mode: str, seed: int, device: torch.device) -> Iterator[None]:
    """Set train flags, in-place flags, norm layers and random state for a pass, and restore them afterwards."""
    modules = list(net.modules())
    flags = [(m, m.training, getattr(m, "inplace", None)) for m in modules]
    bypassed: dict[nn.Module, Callable[[Tensor], Tensor]] = {}
    if mode == "linear":
        bypassed = {m: lambda input: input for m in modules if isinstance(m, NORMS)}
    elif mode == "per_image":
        bypassed = {m: partial(_norm_per_image, m) for m in modules if isinstance(m, NORMS[0])}
    cuda = [device] if device.type == "cuda" else []
    try:
        for module, _, inplace in flags:
            module.training = mode != "eval"
            if inplace:  # an activation that is overwritten cannot be tapped
                module.inplace = False  # type: ignore[assignment]
        for module, instead in bypassed.items():
            module.forward = instead
        with torch.random.fork_rng(devices=cuda):
            torch.default_generator.manual_seed(seed)
            for d in cuda:
                torch.cuda.default_generators[d.index or 0].manual_seed(seed)
            yield
    finally:
        for module in bypassed:
            del module.forward
        for module, training, inplace in flags:
            module.training = training
            if inplace:
                module.inplace = inplace


def _norm_per_image(norm: nn.Module, input: Tensor) -> Tensor:
    """Normalise every image by its own statistics, as batch norm does for a batch of one."""
    assert isinstance(norm, NORMS[0])
    if input[0, 0].numel() < 2:
        raise NotApplicableError("a batch norm sees a single value per image, which has no variance")
    return nn.functional.instance_norm(input, weight=norm.weight, bias=norm.bias, eps=norm.eps)
