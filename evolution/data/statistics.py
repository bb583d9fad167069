"""Network statistics: the tensors around every convolution, on which programs are evaluated.

A network has instances, which are triples of a ReLU, a convolution and a batch norm. An instance has 22 tensors
(Akhauri et al., EZNAS, NeurIPS 2022, section 3.2 and appendix 8.3): activations, weights and their gradients on images
(D), on noise (N), and their change when the images are perturbed (P).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from ...errors import NotApplicableError, unknown_name
from ...proxies.eznas_b import INIT, PERTURBED
from ...proxies.operations.calls import NO_TRIPLE, Triple, conv_norm_relu, released_triples
from ...proxies.passes import OPERATIONS, Backward, Call, Forward, Need, Operations, ParameterGradients, Tap
from ...proxies.passes.core import Host
from ...proxies.passes.forward import State
from ...proxies.passes.inputs import DATA, NOISE
from ...proxies.passes.objectives import SUM
from ...proxies.passes.taps import Place

#: Version of the statistics. It is raised whenever the same network, images and seed give other tensors than before.
VERSION = 2
#: T1 is the input of the ReLU, T2 the input of the convolution, T3 the weight of the convolution and T4 the output of
#: the batch norm. G marks the gradient of the sum of all logits.
TERMINALS = (
    *("T1_D", "T1_N", "T1_P", "T1G_D", "T1G_N", "T1G_P"),
    *("T2_D", "T2_N", "T2_P", "T2G_D", "T2G_N", "T2G_P"),
    *("T3", "T3G_D", "T3G_N", "T3G_P"),
    *("T4_D", "T4_N", "T4_P", "T4G_D", "T4G_N", "T4G_P"),
)
Collection = Literal["rcb", "cbr", "flow"]
_INPUTS = {"D": DATA, "N": NOISE, "P": PERTURBED}


@dataclass(frozen=True)
class Group:
    """Instances of a network whose tensors have equal shapes.

    Attributes:
        tensors: Tensors of k instances, by terminal, each `(k, *shape)` and contiguous.
        places: Positions of the k instances among all instances of the network, from 0, ascending.
    """

    tensors: Mapping[str, Tensor]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Statistics:
    """The statistics of all instances of a network.

    Attributes:
        instances: Number of instances.
        groups: Groups of instances, in the order of their first instance; every instance is in one group.
    """

    instances: int
    groups: tuple[Group, ...]


def needs(terminals: Iterable[str] = TERMINALS, collection: Collection = "rcb", init: str = INIT) -> tuple[Need, ...]:
    """Return what a probe has to run for some terminals: one pass for each of D, N and P that they read.

    P reads D as well. A pass goes backward if a gradient is read. Inputs of which only activations are read share one
    pass without a graph. The pass for T4_P is that of the proxy `eznas_b`, and the pass for T1G_D that of `eznas_a`.

    Raises:
        UnknownNameError: The name of a terminal or of the collection is unknown.
    """
    return _Collector(terminals, collection, init).needs()


@dataclass(frozen=True)
class Collected(Need):
    """The statistics of the network of a probe, as `collect` returns them.

    Attributes:
        terminals: Names from `TERMINALS`.
        collection: Rule that finds the instances.
        init: Initialisation of the weights.
    """

    terminals: tuple[str, ...] = TERMINALS
    collection: Collection = "rcb"
    init: str = INIT

    @property
    def parts(self) -> tuple[Need, ...]:
        """What the statistics are made of."""
        return needs(self.terminals, self.collection, self.init)

    def value(self, probe: Host) -> Statistics:
        """Return the statistics."""
        return collect(probe, self.terminals, self.collection, self.init)


def collect(
    probe: Host, terminals: Iterable[str] = TERMINALS, collection: Collection = "rcb", init: str = INIT
) -> Statistics:
    r"""Collect the tensors of every instance of the probe's network.

    $$a_D = a(x) \quad a_N = a(\epsilon_1) \quad a_P = a(x + 0.1 \epsilon_2) - a(x) \quad
    \mathrm{T1G} = \partial {\textstyle\sum} f / \partial \mathrm{T1}$$

    for every activation a, and by the same formulas for gradients. f are the logits, and $\epsilon$ is drawn from
    N(0, 1) in the shape of the images x. The gradient at an input is that through the given operation only. Weights are
    initialised with Kaiming fan-out, and batch norm is in train mode. Activations of an instance are `(N, C, H, W)`;
    weights and their gradients have the shape of the weight. All tensors have the network's dtype.

    Args:
        probe: Probe of the network. Its plan should contain `needs` of the same arguments; otherwise every terminal
            runs its passes again.
        terminals: Names from `TERMINALS`.
        collection: Rule that finds the instances.
            `rcb`: ReLU-Conv-BatchNorm triples as the released code finds them, in execution order, without the stem.
            If two convolutions follow each other, as in a separable convolution, the second counts. ReLUs are
            seen as modules and as functions. If the operations do not form triples, as in cells without convolutions,
            the rule is `cbr`.
            `cbr`: Conv-BatchNorm-ReLU triples as the released code finds them. Tensors go by position: T1 is the input
            of the convolution, T2 the input of the batch norm, T3 its scale, and T4 the output of the ReLU.
            `flow`: triples by data flow, in execution order, on any network: a batch norm that reads the output of a
            convolution that reads the output of a ReLU. If convolutions follow each other, the first counts, as in
            section 6 of the paper. A ReLU may belong to several instances. Any other operation in between breaks a
            triple, such as the concatenation in a factorised reduction.
        init: Initialisation of the weights, a name from `inits.INITS`.

    Returns:
        Instances in the order of the collection.

    Raises:
        NotApplicableError: The network has no instance, or T3 is the scale of a batch norm without a scale.
        UnknownNameError: The name of a terminal or of the collection is unknown.

    Deviations: the released code passes to a program the tensor before the one that the program names; here it passes
    the tensor that is named. The noise of the released code is new for every network; here it follows from the seed.
    """
    collector = _Collector(terminals, collection, init)
    triples = _triples(collection, probe.read(OPERATIONS))
    columns = [collector.column(probe, terminal, triples) for terminal in collector.terminals]
    instances = list(zip(*columns, strict=True))
    alike: dict[tuple[torch.Size, ...], list[int]] = {}
    for place, row in enumerate(instances):
        alike.setdefault(tuple(parts[0].shape for parts in row), []).append(place)
    groups = []
    for places in alike.values():
        rows = [instances[place] for place in places]
        stacks = (torch.stack([_value(*parts) for parts in column]) for column in zip(*rows, strict=True))
        groups.append(Group(dict(zip(collector.terminals, stacks, strict=True)), tuple(places)))
    return Statistics(len(instances), tuple(groups))


#: Position in the triple of the operation that a terminal belongs to, and the side of the operation on which the tensor
#: lies, both by the number in the terminal's name.
_OPERATION = {"1": 0, "2": 1, "3": 1, "4": 2}
_SIDE: dict[str, Literal["input", "output"]] = {"1": "input", "2": "input", "4": "output"}


class _Collector:
    """The passes and taps that some terminals read."""

    def __init__(self, terminals: Iterable[str], collection: str, init: str) -> None:
        self.terminals = tuple(dict.fromkeys(terminals))
        for terminal in self.terminals:
            if terminal not in TERMINALS:
                raise unknown_name("terminal", terminal, TERMINALS)
        if collection not in get_args(Collection):
            raise unknown_name("collection", collection, get_args(Collection))
        self.collection = collection
        read = {(letter, "G" in terminal) for terminal in self.terminals for letter in _letters(terminal)}
        read = read or {("D", False)}  # only weights
        backward = [letter for letter in _INPUTS if (letter, True) in read]
        forward = [letter for letter in _INPUTS if (letter, False) in read and letter not in backward]
        together = Forward(init=init, inputs=tuple(_INPUTS[letter] for letter in forward), graph=False)
        self.passes = {letter: Forward(init=init, inputs=(_INPUTS[letter],)) for letter in backward}
        self.passes |= dict.fromkeys(forward, together)
        self.first = next(iter(self.passes))

    def needs(self) -> tuple[Need, ...]:
        """Return the needs of the terminals, each once."""
        needs = [self._need(t, letter) for t in self.terminals for letter in _letters(t) or self.first]
        return tuple(dict.fromkeys(needs))

    def column(self, probe: Host, terminal: str, triples: Sequence[Triple]) -> list[list[Tensor]]:
        """Return the tensors that a terminal is computed from, by triple."""
        calls = [triple[_OPERATION[terminal[1]]] for triple in triples]
        columns = [self._values(probe, terminal, letter, calls) for letter in _letters(terminal) or self.first]
        return [list(parts) for parts in zip(*columns, strict=True)]

    def _values(self, probe: Host, terminal: str, letter: str, calls: Sequence[Call]) -> list[Tensor]:
        need = self._need(terminal, letter)
        if isinstance(need, Tap):
            found, inputs = probe.read(need), self.passes[letter].inputs
            each, place = len(found) // len(inputs), inputs.index(_INPUTS[letter])
            of_input = dict(found[place * each : (place + 1) * each])
            return [of_input[call] for call in calls]
        weights: Mapping[str, Tensor] = probe.read(need)
        return [weights[_weight(call)].detach() for call in calls]

    def _need(self, terminal: str, letter: str) -> Need:
        number, forward = terminal[1], self.passes[letter]
        backward = Backward(forward, SUM) if "G" in terminal else None
        if number == "3":
            return ParameterGradients(backward) if backward else State(forward)
        at = _at(self.collection, _OPERATION[number])
        return Tap(backward or forward, at, _gradient if backward else _copy, _SIDE[number])


def _letters(terminal: str) -> str:
    """Return the letters of the inputs that a terminal reads; empty for a weight."""
    return {"3": "", "P": "DP"}.get(terminal[-1], terminal[-1])


def _triples(collection: str, operations: Operations) -> list[Triple]:
    """Return the triples of a collection.

    Raises:
        NotApplicableError: The network has none.
    """
    if collection == "flow":
        if triples := operations.flow_triples:
            return triples
        raise NotApplicableError(NO_TRIPLE)
    return (released_triples if collection == "rcb" else conv_norm_relu)(operations.of_triples)


@functools.cache  # taps are equal only if their functions are identical
def _at(collection: str, place: int) -> Callable[[Operations], Sequence[Place]]:
    """Return the function that finds the n-th operations of the triples, each once."""

    def at(operations: Operations) -> Sequence[Place]:
        return list(dict.fromkeys(triple[place] for triple in _triples(collection, operations)))

    return at


def _value(data: Tensor, perturbed: Tensor | None = None) -> Tensor:
    return (data if perturbed is None else perturbed - data).contiguous()


def _weight(call: Call) -> str:
    """Return the name of the weight of a convolution, or of the scale of a batch norm."""
    if not call.weight:
        raise NotApplicableError(
            f"{call} is a batch norm without scale, but T3 of a Conv-BatchNorm-ReLU triple is that scale"
        )
    return call.weight


def _copy(place: Place, activation: Tensor) -> Tensor:
    # A later operation may overwrite the activation in place.
    return activation.clone(memory_format=torch.contiguous_format)


def _gradient(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient
