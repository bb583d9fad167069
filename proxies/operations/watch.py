"""What sees a network run: a mode that counts the calls of a pass, and one that records the network once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ...errors import NotApplicableError
from .attention import attention_in_parts, is_plain_attention
from .calls import Call, Layer, ModuleCall, Operations
from .channels import channel_dim
from .rules import (
    BACKEND,
    BY_HAND,
    FORMS_OF_RELU,
    ROOTS,
    SHAPED,
    TIMES,
    VIEWS,
    Args,
    Named,
    Rule,
    may_be_relu,
    plain_name,
    rule_of,
)

#: Attribute by which a tensor remembers the call that made it.
_MADE_BY = "_zcbench_call"

Function = Callable[..., Any]


class NamedNetwork(Protocol):
    """A network with its parameters and modules by name."""

    net: nn.Module
    parameters: dict[str, Tensor]
    modules: dict[str, nn.Module]


class Watch(TorchFunctionMode):
    """A mode that counts the calls of a network and gives each that has a rule to `called`."""

    def __init__(self) -> None:
        super().__init__()
        self.place = 0
        self.paused = False

    def __torch_function__(self, func: Function, types: Any, args: Args = (), kwargs: Named | None = None) -> Any:
        """See a call."""
        named = kwargs or {}
        if self.paused:  # a reduction of a tap
            return func(*args, **named)
        if (rule := rule_of(func)) is not None:
            place, self.place = self.place, self.place + 1
            return self.called(place, rule, func, args, named)
        if plain_name(func) == "multi_head_attention_forward" and is_plain_attention(args, named):
            with self:
                return attention_in_parts(*args, **named)
        return self.unruled(func, args, named)

    def called(self, place: int, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Run a call that has a rule."""
        return func(*args, **named)

    def unruled(self, func: Function, args: Args, named: Named) -> Any:
        """Run a call that has no rule."""
        return func(*args, **named)


class Recorder(Watch):
    """The mode that records a network.

    Args:
        net: Network and the names of its parameters and buffers.
        state: Tensors by name that lie in the places of parameters and buffers.
        x: Images.
    """

    def __init__(self, net: NamedNetwork, state: Mapping[str, Tensor], x: Tensor) -> None:
        super().__init__()
        self.net = net
        self.calls: list[Call] = []
        self.layers: dict[str, tuple[list[Call], Tensor | None]] = {}
        self.uncovered: dict[str, dict[str, None]] = {}
        self.running = ""  # the name of the function without a rule that is running
        self.stack = [ModuleCall("", net.net)]
        self.used: set[str] = set()
        self.origins: dict[str, frozenset[str]] = {}  # parameters from which a weight is computed
        for name, tensor in state.items():
            kind = "parameter" if name in net.parameters else "buffer"
            mark(tensor, Call(kind, name, shape=tuple(tensor.shape), fixed=True, weighted=kind == "parameter"))
        mark(x, Call("input", "input", shape=tuple(x.shape), channels=1))

    def called(self, place: int, rule: Rule, func: Function, args: Args, named: Named) -> Any:
        """Record a call that has a rule."""
        given = rule.bind(args, named)
        tensors = tensors_of((args, named))
        self._check(tensors, plain_name(func))
        output = self._run(func, args, named, accounted=True)
        call = self._made(rule.kind, func, _sources(tensors), output, place)
        self.calls.append(call)
        first = tensors[0] if tensors else None
        call.seen = tuple(first.shape) if first is not None else ()
        if rule.weight and first is not None and call.fixed and call.weighted and not made_by(first).weighted:
            call.fixed = False  # a layer on a constant, such as a table of positions
        if rule.kind == "pool" and not _pools(call, given, func):
            call.kind = "other"
        if not call.fixed:
            self._describe(call, rule, given, output)
            call.channels = channel_dim(call, (args, named), output)
        return output

    def unruled(self, func: Function, args: Args, named: Named) -> Any:
        """Record a call that has no rule."""
        name = plain_name(func)
        tensors = tensors_of((args, named))
        self._check(tensors, name)
        sources = _sources(tensors)
        fixed = bool(sources) and all(source.fixed for source in sources)
        if not fixed:
            self._by_hand(name, args, named, tensors)
        before, self.running = self.running, name
        output = self._run(func, args, named, accounted=fixed or name in BY_HAND)
        self.running = before
        if name not in {"__get__", "__set__"} or isinstance(output, Tensor):
            call = self._made("other", func, sources, output)
            if not call.fixed:
                call.channels = channel_dim(call, (args, named), output)
        return output

    def _check(self, tensors: Sequence[Tensor], name: str) -> None:
        """Refuse a trainable tensor that is none of the network's own: passes would neither see nor keep it.

        Raises:
            NotApplicableError: The tensor is no parameter of the network.
        """
        if any(t.is_leaf and t.requires_grad and _MADE_BY not in t.__dict__ for t in tensors):
            raise NotApplicableError(
                f"{name} reads a trainable tensor that is no parameter of the network, such as one of a module in a "
                "plain list: use nn.ModuleList or nn.Parameter"
            )
        if torch._C._functorch.peek_interpreter_stack() is not None:  # shapes are those of one example
            for what in BACKEND:
                self._not_covered(what, f"{name} under vmap")

    def _by_hand(self, name: str, args: Args, named: Named, tensors: Sequence[Tensor]) -> None:
        """Note operations by which norms, ReLUs and products with parameters are written out."""
        if name in BY_HAND or (name in {"pow", "__pow__"} and len(args) > 1 and args[1] in ROOTS):
            self._not_covered("norms", name)
        moving = [t for t in tensors if t.is_floating_point() and not made_by(t).fixed]
        if moving and may_be_relu(name, (*args, *named.values())):
            self._not_covered("ReLUs", name)
        if name in TIMES:
            weights = [t for t in tensors if (source := made_by(t)).fixed and source.weighted]
            # A scale of every position leaves the shape of what it scales; a matrix product first makes it larger.
            matrices = [t for t in weights if sum(size > 1 for size in t.shape) > 1]
            if any(_enlarges(matrix, t) for matrix in matrices for t in moving):
                self._not_covered("products", f"{name} with a matrix of parameters")

    def _run(self, func: Function, args: Args, named: Named, *, accounted: bool) -> Any:
        if not accounted:
            return func(*args, **named)
        with torch._C._DisableTorchDispatch():  # what runs inside is known, and need not be seen
            return func(*args, **named)

    def _made(self, kind: str, func: Function, sources: tuple[Call, ...], output: Any, place: int = -1) -> Call:
        tensors = tensors_of((output,))
        name = plain_name(func)
        if name == "__get__":
            name = getattr(getattr(func, "__self__", None), "__name__", name)
        call = Call(
            kind,
            name,
            self.stack[-1].name,
            place,
            tuple(tensors[0].shape) if tensors else (),
            sources=sources,
            fixed=name in SHAPED or all(source.fixed for source in sources),
            weighted=any(source.weighted for source in sources),
        )
        for tensor in tensors if kind != "skip" else []:  # a skip gives the tensor itself
            mark(tensor, call)
        if tensors and not call.fixed:
            moving = {source for source in sources if not source.fixed}
            self.stack[-1].joins |= len(moving) > 1 and (kind in {"add", "cat"} or name == "stack")
            for source in sources:
                if source.fixed and source.weighted:
                    self.used |= _roots(source)
        return call

    def _describe(self, call: Call, rule: Rule, given: Named, output: Any) -> None:
        if rule.relu is not None:
            other = given.get("other")
            call.relu = rule.relu(given) and not (isinstance(other, Tensor) and not made_by(other).fixed)
            if call.name in FORMS_OF_RELU and not call.relu:
                call.kind = "other"
                if given.get("max") == 0 or (call.name in {"maximum", "max"} and isinstance(other, Tensor)):
                    self._not_covered("ReLUs", call.name)
        if rule.products is not None:
            try:
                call.products = rule.products(given, output)
            except NotImplementedError:
                self._not_covered("products", call.name)
        if rule.kind == "product":
            self._find_weight_of_product(call, given)
        for argument in (rule.weight, rule.bias):
            if argument and isinstance(tensor := given.get(argument), Tensor):
                self._find(call, argument, tensor)
        if rule.kind == "convolution":
            call.groups, call.kernel = given.get("groups", 1), call.weight_shape[2:]
            stride = given.get("stride", 1)
            call.stride = (stride,) * len(call.kernel) if isinstance(stride, int) else tuple(stride)
        if rule.kind == "norm" and isinstance(variance := given.get("running_var"), Tensor):
            call.variance = made_by(variance).name
        if rule.bias and given.get(rule.bias) is not None and call.is_layer:
            call.additions = output.numel()

    def _find_weight_of_product(self, call: Call, given: Named) -> None:
        """Take a product of an activation and a matrix of parameters for a linear map."""
        weight = given.get("other")
        if isinstance(weight, Tensor) and weight.ndim == 2 and made_by(weight).weighted and made_by(weight).fixed:
            call.kind = "linear"
            self._find(call, "weight", weight)
        elif any(source.weighted and source.fixed for source in map(made_by, _factors(given))):
            self._not_covered("products", f"{call.name} with a parameter")

    def _find(self, call: Call, argument: str, tensor: Tensor) -> None:
        source = made_by(tensor)
        while source.name in VIEWS and len(source.sources) == 1:
            source = source.sources[0]
        name = ""
        if source.kind == "parameter":
            name = source.name
        elif source.fixed and source.weighted:
            name = self._computed(call, argument, tensor, frozenset(_roots(source)))
        if argument == "bias":
            call.bias = name
            return
        call.weight, call.weight_shape = name, tuple(tensor.shape)
        if tensor.is_complex():  # formulas over weights, their gradients and their counts are over real numbers
            self._not_covered("products", f"{call.name} with complex weights")
        if name and call.is_layer:
            calls, _ = self.layers.setdefault(
                name, ([], None if source.kind == "parameter" else tensor.detach().clone())
            )
            calls.append(call)

    def _computed(self, call: Call, argument: str, tensor: Tensor, origins: frozenset[str]) -> str:
        """Name a tensor that is computed from parameters by the module that uses it.

        Equal values from the same parameters are one weight, like a parameter that several calls use. Values that
        differ are weights of their own: spectral norm takes a step at each call of a module in train mode.
        """
        if argument == "weight" and call.is_layer:
            for known, (_, value) in self.layers.items():
                if value is not None and self.origins[known] == origins and torch.equal(value, tensor):
                    return known
        run = self.stack[-1]
        stem = f"{run.name}.{argument}" if run.name else argument
        name, count = f"{stem} (computed)", 1
        while name in self.origins:
            count += 1
            name = f"{stem} (computed {count})"
        self.origins[name] = origins
        return name

    def _not_covered(self, what: str, name: str) -> None:
        self.uncovered.setdefault(what, {})[name] = None

    def ran(self, name: str) -> None:
        """Note an operation of the backend."""
        for what, names in BACKEND.items():
            if name in names:
                self._not_covered(what, self.running or name)

    @contextmanager
    def modules_noted(self) -> Iterator[None]:
        """Note which module is running, by two hooks for all: two for each take longer to put and to take."""
        names = {id(module): name for name, module in self.net.modules.items() if name}

        def before(module: nn.Module, args: Args) -> None:
            if id(module) in names:
                run = ModuleCall(names[id(module)], module)
                self.stack[-1].children.append(run)
                self.stack.append(run)

        def after(module: nn.Module, args: Args, output: Any) -> None:
            if id(module) in names:
                run = self.stack.pop()
                if isinstance(output, Tensor):
                    run.last = made_by(output)

        with register_module_forward_pre_hook(before), register_module_forward_hook(after):
            yield

    def finish(self, output: object, defined: Iterable[str]) -> Operations:
        """Return the record."""
        root = self.stack[0]
        root.last = made_by(output) if isinstance(output, Tensor) else None
        order = {name: place for place, name in enumerate(defined)}

        def first_defined(item: tuple[str, tuple[list[Call], Tensor | None]]) -> int:
            name, (_, value) = item
            if value is None:
                return order[name]
            return min((order[origin] for origin in self.origins[name] if origin in order), default=len(order))

        layers = sorted(self.layers.items(), key=first_defined)
        return Operations(
            tuple(self.calls),
            tuple(Layer(name, tuple(calls), value) for name, (calls, value) in layers),
            root,
            {what: tuple(names) for what, names in self.uncovered.items()},
            tuple(order),
            frozenset(order) - self.net.parameters.keys(),
            frozenset(self.used),
            frozenset().union(*(self.origins[name] for name, (_, value) in layers if value is not None)),
        )


class Backend(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that tells a recorder the operations of the backend that run."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.recorder = recorder

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Torch would import its compiler to shield this mode from it, which takes 2 s. Passes run without the compiler.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Args = (), kwargs: Named | None = None) -> Any:
        """See an operation of the backend."""
        self.recorder.ran(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def mark(tensor: Tensor, call: Call) -> None:
    """Let a tensor remember the call that made it."""
    tensor.__dict__[_MADE_BY] = call


def made_by(tensor: Tensor) -> Call:
    """Return the call that made a tensor; a tensor that no call made is a constant."""
    found = tensor.__dict__.get(_MADE_BY)
    return found if found is not None else Call("constant", "constant", shape=tuple(tensor.shape), fixed=True)


def _roots(call: Call) -> set[str]:
    """Return the names of the parameters from which a tensor is computed."""
    known: set[Call] = set()
    waiting = [call]
    while waiting:
        source = waiting.pop()
        if source not in known:
            known.add(source)
            waiting += source.sources
    return {source.name for source in known if source.kind == "parameter"}


#: Kinds of arguments that hold no tensor.
_PLAIN = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})


def tensors_of(values: Iterable[Any]) -> list[Tensor]:
    """Return all tensors in some values and in the containers among them."""
    found: list[Tensor] = []
    for value in values:
        if type(value) in _PLAIN:
            continue
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += tensors_of(value)
        elif isinstance(value, dict):
            found += tensors_of(value.values())
    return found


def _factors(given: Named) -> list[Tensor]:
    """Return the tensors that a product multiplies; a mask or a bias is added to it."""
    return tensors_of(value for name, value in given.items() if name not in {"attn_mask", "bias"})


def _enlarges(first: Tensor, second: Tensor) -> bool:
    """Tell whether the product of two tensors, scalar by scalar, is larger than the second."""
    pairs = zip(reversed(first.shape), reversed(second.shape), strict=False)
    return first.ndim > second.ndim or any(a > b for a, b in pairs)


def _sources(tensors: list[Tensor]) -> tuple[Call, ...]:
    return tuple(map(made_by, tensors))


def _pools(call: Call, given: Named, func: Function) -> bool:
    """Tell whether a call pools over space: a mean only if it is over the last two of four dimensions."""
    if "pool" in call.name:
        return True
    dims = given.get("dim")
    dims = (dims,) if isinstance(dims, int) else tuple(dims or ())
    return len(call.seen) == 4 and {d % 4 for d in dims} == {2, 3}
