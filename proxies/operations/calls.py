"""The operations that a network called, and what can be read off them: layers, ReLUs, triples, blocks, feature map.

A network is recorded once, on two images. Tensors remember the call that made them, so the record is a graph. Passes
count the calls as they run and find each in the record by its place.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from torch import Tensor, nn

from ...errors import NotApplicableError
from .rules import BACKEND, REDUCTIONS

#: Number of images that a network is recorded on.
IMAGES = 2


@dataclass(eq=False)
class Call:
    """One operation that the network called, or a source of tensors: an input, a parameter, a buffer.

    Attributes:
        kind: Kind of its rule; `other` without a rule; `input`, `parameter`, `buffer` or `constant` for a source.
        name: Name of the function, such as `conv2d`; the name in the state for a parameter or a buffer.
        module: Name of the innermost module that was running.
        place: Position among all calls that have a rule, -1 for others.
        shape: Shape of the output.
        seen: Shape of the first input.
        channels: Dimension of the output that has the channels, None if it is not known.
        sources: Calls that made the inputs.
        fixed: Whether no input image takes part: the call computes with parameters and constants alone.
        weighted: Whether a parameter has taken part, here or before.
        weight: Name of its weight in the state, empty if it has none.
        bias: Name of its bias in the state, empty if it has none.
        variance: Name of its running variance in the state, empty if it has none.
        weight_shape: Shape of the weight as used.
        products: Number of multiply-accumulates.
        additions: Number of scalars that a bias is added to.
        groups: Number of groups of a convolution.
        kernel: Size of the kernel of a convolution.
        stride: Stride of a convolution.
        relu: Whether this is a ReLU.
    """

    kind: str
    name: str
    module: str = ""
    place: int = -1
    shape: tuple[int, ...] = ()
    seen: tuple[int, ...] = ()
    channels: int | None = None
    sources: tuple[Call, ...] = field(default=(), repr=False)
    fixed: bool = False
    weighted: bool = False
    weight: str = ""
    bias: str = ""
    variance: str = ""
    weight_shape: tuple[int, ...] = ()
    products: int = 0
    additions: int = 0
    groups: int = 1
    kernel: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    relu: bool = False

    def __str__(self) -> str:
        """Name the call for people: the function and the module that called it."""
        return f"{self.name} in {self.module}" if self.module else self.name

    @property
    def outputs(self) -> int:
        """Number of channels of the output of a layer."""
        return self.shape[1] if self.kind == "convolution" else self.shape[-1]

    @property
    def has_channels_last(self) -> bool:
        """Whether the output is a map `(N, H, W, C)`."""
        return len(self.shape) == 4 and self.channels == 3

    @property
    def is_layer(self) -> bool:
        """Whether this is a convolution or a linear map."""
        return self.kind in {"convolution", "linear"}


@dataclass(eq=False)
class ModuleCall:
    """One run of a module.

    Attributes:
        name: Name of the module.
        module: The module.
        children: Runs of modules that it called.
        last: Call that made its output, None if this is no tensor.
        joins: Whether it called an addition or a concatenation of several activations by itself.
    """

    name: str
    module: nn.Module = field(repr=False)
    children: list[ModuleCall] = field(default_factory=list, repr=False)
    last: Call | None = None
    joins: bool = False


@dataclass(frozen=True)
class Layer:
    """The weight of convolutions or linear maps, one or several calls.

    Attributes:
        name: Name in the state.
        calls: Calls that use it.
        value: Weight as used, if it is computed from other parameters; None if it is a parameter.
    """

    name: str
    calls: tuple[Call, ...]
    value: Tensor | None = field(default=None, repr=False)


Triple = tuple[Call, Call, Call]
NO_LAYER = "the network lacks a convolution or linear map with a weight"
NO_TRIPLE = "the network has no ReLU-Conv-BatchNorm triple"


@dataclass(frozen=True, eq=False)
class Operations:
    """The record of a network.

    Attributes:
        calls: All calls that have a rule, by place.
        weights: Layers in the order in which their parameters are defined.
        root: Run of the whole network.
        uncovered: Names of what ran without a rule, by what it belongs to: `products`, `ReLUs`, `norms`.
        defined: Names of all parameters and buffers, in order of definition.
        buffers: Names of the buffers.
        used: Names of the parameters that any operation on images used.
        replaced: Names of the parameters that weights are computed from: a pass takes the computed weights instead.
    """

    calls: tuple[Call, ...]
    weights: tuple[Layer, ...]
    root: ModuleCall
    uncovered: dict[str, tuple[str, ...]]
    defined: tuple[str, ...]
    buffers: frozenset[str]
    used: frozenset[str]
    replaced: frozenset[str]

    @property
    def running(self) -> Iterator[Call]:
        """The calls that images take part in, in the order in which they ran."""
        return (call for call in self.calls if not call.fixed)

    def covered(self, what: str, why: str) -> None:
        """Require that every operation of a group was seen.

        Raises:
            NotApplicableError: An operation ran that no rule covers.
        """
        if names := self.uncovered.get(what):
            raise NotApplicableError(f"{why}, and no rule covers {', '.join(names)}")

    def all_covered(self, why: str) -> None:
        """Require that every product, ReLU and norm was seen.

        Raises:
            NotApplicableError: One of them ran outside of any rule.
        """
        for what in BACKEND:
            self.covered(what, why)

    @property
    def layers(self) -> tuple[Call, ...]:
        """The convolutions and linear maps with weights, in the order in which they ran."""
        self.covered("products", "the proxy reads all convolutions and linear maps")
        return tuple(call for call in self.running if call.is_layer and call.weight) or _lacks(
            "a convolution or linear map"
        )

    @property
    def relus(self) -> tuple[Call, ...]:
        """The ReLUs, in the order in which they ran.

        Raises:
            NotApplicableError: The network has no ReLU, or one that cannot be seen.
        """
        self.covered("ReLUs", "the proxy reads all ReLUs")
        return tuple(call for call in self.running if call.relu) or _lacks("a ReLU")

    @property
    def factors(self) -> tuple[str, ...]:
        """Names of the weights of convolutions, linear maps and norms, in the order of definition."""
        self.covered("products", "the proxy reads all weights")
        self.covered("norms", "the proxy reads all weights")
        norms = {call.weight for call in self.of_kinds("norm") if call.weight in self.defined}
        layers = [layer.name for layer in self.weights]
        if not norms and not layers:
            _lacks("a weight")
        return (
            *sorted({*norms, *layers} & {*self.defined}, key=self.defined.index),
            *(name for name in layers if name not in self.defined),
        )

    @property
    def of_triples(self) -> tuple[Call, ...]:
        """The calls among which triples of ReLU, convolution and batch norm are found.

        Raises:
            NotApplicableError: One of them cannot be seen.
        """
        self.all_covered("the proxy reads triples of ReLU, convolution and batch norm")
        return tuple(self.running)

    def of_kinds(self, *kinds: str) -> tuple[Call, ...]:
        """Return the calls of some kinds, in the order in which they ran."""
        return tuple(call for call in self.running if call.kind in kinds)

    @property
    def variances(self) -> list[str]:
        """Names of the running variances of batch norms of feature maps, in the order of definition.

        Raises:
            NotApplicableError: A batch norm has no running variance, or a norm cannot be seen.
        """
        self.covered("norms", "the proxy reads all batch norms")
        norms = [call for call in self.running if call.name == "batch_norm" and len(call.seen) == 4]
        if missing := [str(call) for call in norms if not call.variance]:
            raise NotApplicableError(f"batch norms without running statistics: {', '.join(missing)}")
        return sorted({call.variance for call in norms}, key=self.defined.index)

    @property
    def feature_map(self) -> tuple[Call, str]:
        """The call at which the last feature map before the logits can be read, and its side.

        It is the input of the last global pooling, or else the last feature map.

        Raises:
            NotApplicableError: No feature map `(N, C, H, W)` leads to the logits.
        """
        queue = deque([self.root.last] if self.root.last else [])
        known: set[Call] = set()
        while queue:
            call = queue.popleft()
            if call in known or call.fixed:
                continue
            known.add(call)
            if call.kind == "pool" and _is_global(call):
                return call, "input"
            is_part = call.name in REDUCTIONS and call.shape != call.seen  # of a pooling in two steps
            if (
                len(call.shape) == 4
                and call.place >= 0
                and not is_part
                and sum(size > 1 for size in call.shape[1:]) > 1
            ):
                if call.has_channels_last:
                    raise NotApplicableError(f"the last feature map, of {call}, has its channels last (N, H, W, C)")
                return call, "output"
            if len(call.shape) == 3 and call.place >= 0 and not is_part:
                raise NotApplicableError(
                    f"the logits come from a sequence {call.shape[1:]} of {call}, not from a feature map (N, C, H, W)"
                )
            queue += [source for source in call.sources if source.kind not in {"parameter", "buffer", "constant"}]
        raise NotApplicableError("the network lacks a feature map (N, C, H, W) before its logits")

    @functools.cached_property
    def rows(self) -> int:
        """Number of rows that the first layer gives, one per image or one per tile of an image."""
        return next((call.shape[0] for call in self.running if call.is_layer and call.shape), IMAGES)

    def is_by_image(self, call: Call) -> bool:
        """Tell whether the first dimension of an output is that of the images, or of the tiles that they consist of."""
        return call.shape[:1] in {(IMAGES,), (self.rows,)}

    def for_all_images(self, calls: Iterable[Call]) -> tuple[Call, ...]:
        """Return calls, each of which must run once for all images, so that their number is that of the network.

        Raises:
            NotApplicableError: A call runs for a part of the images.
        """
        found = tuple(calls)
        if part := next((call for call in found if not self.is_by_image(call)), None):
            raise NotApplicableError(f"{part} runs for a part of the images, so the number of calls depends on theirs")
        return found

    @property
    def about_the_head(self) -> str:
        """What a reader should know if the outputs do not come from a layer, or an empty text."""
        call = self.root.last
        while call is not None and not call.is_layer and call.kind in {"other", "activation", "softmax", "pool"}:
            call = next((source for source in call.sources if not source.fixed), None)
        if call is None or call.is_layer:
            return ""
        return f"the outputs are features of {call}, not of a linear map or convolution: are they logits?"

    @property
    def blocks(self) -> tuple[str, ...]:
        """Names of the blocks of the network, in the order in which they ran.

        A block is a module in which paths meet, by an addition or a concatenation, and every other module of its class.
        A class of which paths meet inside of some modules and not of others is one too. Of modules inside of each
        other, the outermost counts. In a sequence of modules, what stands between two blocks is a block too. A stem or
        a head in which no paths meet is none. If there are fewer than two blocks, they are the members of the longest
        sequence of modules that ran.

        Raises:
            NotApplicableError: The network runs no sequence of two modules.
        """
        sequences = {name for name, module in self.root.module.named_modules() if _is_sequence(module)}
        runs = list(_below(self.root))
        classes = {type(run.module) for run in runs if run.joins}
        inside = {
            join: {type(run.module) for run in runs if _has_parts(run) and _joins_inside(run) is join}
            for join in (True, False)
        }
        classes |= inside[True] & inside[False]
        while classes:
            blocks = _blocks(self.root, classes, sequences)
            between = {type(run.module) for run in blocks if _has_parts(run)} - classes
            if not between and (names := _names(blocks))[1:]:
                return names
            classes = classes | between if between else classes - {type(run.module) for run in blocks}
        return self._longest_sequence(sequences)

    def _longest_sequence(self, sequences: set[str]) -> tuple[str, ...]:
        members: dict[str, list[ModuleCall]] = {name: [] for name in sequences}
        for run in _below(self.root):
            if (parent := _parent(run)) in members and run.name:
                members[parent].append(run)
        longest = max(map(_names, members.values()), key=len, default=())
        return longest if len(longest) > 1 else _lacks("a sequence of blocks")

    @property
    def has_channels_last(self) -> bool:
        """Whether a block gives a map `(N, H, W, C)`."""
        names = set(self.blocks)
        return any(run.name in names and run.last and run.last.has_channels_last for run in _below(self.root))

    @property
    def flow_triples(self) -> list[Triple]:
        """ReLU, convolution and batch norm that follow each other, in the order of the batch norms.

        Of convolutions that follow each other, the first counts, as in section 6 of the paper of EZNAS.
        """
        found: dict[Call, tuple[Call, Call]] = {}
        triples: list[Triple] = []
        for call in self.of_triples:
            before = next((s for s in call.sources if not s.fixed), None)
            if call.name.startswith("conv2d") and before is not None:
                if before.relu:
                    found[call] = (before, call)
                elif before in found:
                    found[call] = found[before]
            elif call.name == "batch_norm" and before in found and before is not None:
                triples.append((*found[before], call))
        return triples


def _is_global(call: Call) -> bool:
    return (
        len(call.seen) == 4
        and (call.name.startswith("adaptive") or len(call.shape) == 2 or call.shape[2:] == (1, 1))
        and call.seen[:2] == call.shape[:2]
    )


def _below(run: ModuleCall) -> Iterator[ModuleCall]:
    """Yield all runs of modules inside of a run."""
    for child in run.children:
        yield child
        yield from _below(child)


def _is_sequence(module: nn.Module) -> bool:
    return isinstance(module, (nn.Sequential, nn.ModuleList))


def _has_parts(run: ModuleCall) -> bool:
    return any(True for _ in run.module.children()) and not _is_sequence(run.module)


def _joins_inside(run: ModuleCall) -> bool:
    return any(child.joins or _joins_inside(child) for child in run.children)


def _parent(run: ModuleCall) -> str:
    return run.name.rpartition(".")[0]


def _names(runs: Iterable[ModuleCall]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(run.name for run in runs))


def _blocks(run: ModuleCall, classes: set[type[nn.Module]], sequences: set[str]) -> list[ModuleCall]:
    """Return the outermost runs of some classes, with what stands between two of them in a sequence."""
    places: dict[str, list[int]] = {}
    for place, child in enumerate(run.children):
        if type(child.module) in classes and (parent := _parent(child)) in sequences:
            places.setdefault(parent, []).append(place)
    found = []
    for place, child in enumerate(run.children):
        among = places.get(_parent(child), [])
        inside = [] if type(child.module) in classes else _blocks(child, classes, sequences)
        is_between = bool(among) and among[0] < place < among[-1]
        found += inside or [child] * (type(child.module) in classes or is_between)
    return found


def _lacks(what: str) -> NoReturn:
    raise NotApplicableError(f"the network lacks {what}")


def released_triples(calls: Sequence[Call]) -> list[Triple]:
    """Return the ReLU-Conv-BatchNorm triples as the released code of EZNAS finds them in the order of execution.

    The calls are the ReLUs, convolutions and batch norms, without the stem, the head and convolutions that no batch
    norm follows. If they do not form triples, the triples are those of `conv_norm_relu`.
    """
    found = [(kind, call) for call in calls if (kind := _letter(call))]
    following = [kind for kind, _ in found[1:]] + [""]
    body = [(k, c) for (k, c), after in zip(found, following, strict=False) if k != "C" or after == "B"][2:]
    if body and body[-1][0] == "R":
        body.pop()
    if [k for k, _ in body[-2:]] == ["B", "B"]:
        body.pop()
    if not body or [k for k, _ in body] != ["R", "C", "B"] * (len(body) // 3):
        return conv_norm_relu(calls)
    return _threes([call for _, call in body])


def conv_norm_relu(calls: Sequence[Call]) -> list[Triple]:
    """Return the Conv-BatchNorm-ReLU triples as the released code of EZNAS finds them.

    From the convolutions, batch norms and ReLUs, the code drops each whose predecessor is of the wrong kind. It does so
    three times. Some convolutions are then paired with the ReLU of another block.

    Raises:
        NotApplicableError: The network has no triple.
    """
    found = [(kind, call) for call in calls if (kind := _letter(call))]
    wanted = {"C": "R", "B": "C", "R": "B"}
    for _ in range(3):
        before = ["R"] + [kind for kind, _ in found]
        found = [(k, c) for (k, c), last in zip(found, before, strict=False) if last == wanted[k]]
    if triples := _threes([call for _, call in found]):
        return triples
    raise NotApplicableError(NO_TRIPLE)


def _threes(calls: list[Call]) -> list[Triple]:
    return list(zip(calls[::3], calls[1::3], calls[2::3], strict=False))


def _letter(call: Call) -> str:
    if call.relu:
        return "R"
    return {"conv2d": "C", "batch_norm": "B"}.get(call.name, "")
