"""Network statistics: the tensors around every convolution, on which programs are evaluated.

A network has instances, which are triples of a ReLU, a convolution and a batch norm. An instance has 22 tensors
(Akhauri et al., EZNAS, NeurIPS 2022, section 3.2 and appendix 8.3): activations, weights and their gradients on images
(D), on noise (N), and their change when the images are perturbed (P).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from ...errors import NotApplicableError, unknown_name
from ...proxies.eznas_a import conv_norm_relu, relu_conv_norm
from ...proxies.eznas_b import INIT, PERTURBED
from ...proxies.passes.needs import Backward, Forward, Gradient, Need, Tap, named
from ...proxies.probe import Probe

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
_INPUTS = {"D": "data", "N": "noise", "P": PERTURBED}


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


def collect(
    probe: Probe, terminals: Iterable[str] = TERMINALS, collection: Collection = "rcb", init: str = INIT
) -> Statistics:
    r"""Collect the tensors of every instance of the probe's network.

    $$a_D = a(x) \quad a_N = a(\epsilon_1) \quad a_P = a(x + 0.1 \epsilon_2) - a(x) \quad
    \mathrm{T1G} = \partial {\textstyle\sum} f / \partial \mathrm{T1}$$

    for every activation a, and by the same formulas for gradients. f are the logits, and $\epsilon$ is drawn from
    N(0, 1) in the shape of the images x. The gradient at an input is that through the given module only. Weights are
    initialised with Kaiming fan-out, and batch norm is in train mode. Activations of an instance are `(N, C, H, W)`;
    weights and their gradients have the shape of the weight. All tensors have the network's dtype.

    Args:
        probe: Probe of the network. Its plan should contain `needs` of the same arguments; otherwise every terminal
            runs its passes again.
        terminals: Names from `TERMINALS`.
        collection: Rule that finds the instances.
            `rcb`: ReLU-Conv-BatchNorm triples as the released code finds them, in definition order, without the stem.
            If two convolutions follow each other, as in a separable convolution, the second counts. If the modules do
            not form triples, as in cells without convolutions, the rule is `cbr`.
            `cbr`: Conv-BatchNorm-ReLU triples as the released code finds them. Tensors go by position: T1 is the input
            of the convolution, T2 the input of the batch norm, T3 its scale, and T4 the output of the ReLU.
            `flow`: triples by data flow, in execution order, on any network: a `BatchNorm2d` that reads the output of
            a `Conv2d` that reads the output of a `ReLU` or `ReLU6`. If convolutions follow each other, the first
            counts, as in section 6 of the paper. A ReLU may belong to several instances. Any other operation in
            between breaks a triple, such as the concatenation in a factorised reduction. Functional ReLUs are not seen.
        init: Initialisation of the weights, a name from `inits.INITS`.

    Returns:
        Instances in the order of the collection. In `rcb` and `cbr`, an instance is left out if one of its modules did
        not run, and the last run of a module counts.

    Raises:
        NotApplicableError: The network has no instance, or T3 is the scale of a batch norm without a scale.
        UnknownNameError: The name of a terminal or of the collection is unknown.

    Deviations: the released code passes to a program the tensor before the one that the program names; here it passes
    the tensor that is named. The noise of the released code is new for every network; here it follows from the seed.
    """
    collector = _Collector(terminals, collection, init)
    triples = collector.triples(probe)
    columns = [collector.column(probe, terminal, triples) for terminal in collector.terminals]
    instances = [row for row in zip(*columns, strict=True) if all(row)]
    if not instances:
        raise NotApplicableError(_NONE)
    alike: dict[tuple[torch.Size, ...], list[int]] = {}
    for place, row in enumerate(instances):
        alike.setdefault(tuple(parts[0].shape for parts in row), []).append(place)
    groups = []
    for places in alike.values():
        rows = [instances[place] for place in places]
        stacks = (torch.stack([_value(*parts) for parts in column]) for column in zip(*rows, strict=True))
        groups.append(Group(dict(zip(collector.terminals, stacks, strict=True)), tuple(places)))
    return Statistics(len(instances), tuple(groups))


#: Name of a module, and number of the run among the runs of that module.
_Run = tuple[str, int]
_Triple = tuple[_Run, _Run, _Run]
_Marks = Sequence[tuple[_Run, Any]]
_LAST = -1
_NONE = "the network has no ReLU-Conv-BatchNorm triple"
#: Position in the triple of the module that a terminal belongs to, and the side of the module on which the tensor lies,
#: both by the number in the terminal's name.
_MODULE = {"1": 0, "2": 1, "3": 1, "4": 2}
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
        return tuple(dict.fromkeys([*self._marks(), *needs]))

    def triples(self, probe: Probe) -> list[_Triple]:
        """Return the modules of every instance."""
        if self.collection == "flow":
            return _follow(*(list(_numbered(self._tapped(probe, mark, self.first))) for mark in self._marks()))
        names = (relu_conv_norm if self.collection == "rcb" else conv_norm_relu)(probe.net)
        runs = [(name, _LAST) for name in names]
        return list(zip(runs[::3], runs[1::3], runs[2::3], strict=True))

    def column(self, probe: Probe, terminal: str, triples: Sequence[_Triple]) -> list[list[Tensor]]:
        """Return the tensors that a terminal is computed from, by triple; empty if the module did not run."""
        runs = [triple[_MODULE[terminal[1]]] for triple in triples]
        columns = [self._values(probe, terminal, letter, runs) for letter in _letters(terminal) or self.first]
        found = ([value for value in parts if value is not None] for parts in zip(*columns, strict=True))
        return [parts if len(parts) == len(columns) else [] for parts in found]

    def _values(self, probe: Probe, terminal: str, letter: str, runs: Iterable[_Run]) -> list[Tensor | None]:
        need = self._need(terminal, letter)
        if isinstance(need, Tap):
            tapped = self._tapped(probe, need, letter)
            found = dict(_numbered(tapped)) | {(name, _LAST): value for name, value in tapped}
            return [found.get(run) for run in runs]
        weights = probe.gradients(need) if isinstance(need, Gradient) else probe.trace(self.passes[letter]).parameters
        return [weights[name].detach() for name in _weights(probe.net, [name for name, _ in runs])]

    def _need(self, terminal: str, letter: str) -> Forward | Gradient | Tap:
        number, forward = terminal[1], self.passes[letter]
        backward = Backward(forward, "ones") if "G" in terminal else None
        if number == "3":
            return Gradient(backward, of="parameters") if backward else forward
        at = _at(self.collection, _MODULE[number])
        return Tap(backward or forward, at, _gradient if backward else _copy, _SIDE[number])

    def _marks(self) -> tuple[Tap, ...]:
        """Return taps that mark outputs of ReLUs, inputs and outputs of convolutions, and inputs of batch norms."""
        if self.collection != "flow":
            return ()
        sides: tuple[tuple[int, Literal["input", "output"]], ...]
        sides = ((0, "output"), (1, "input"), (1, "output"), (2, "input"))
        return tuple(Tap(self.passes[self.first], _at("flow", module), _mark, side) for module, side in sides)

    def _tapped(self, probe: Probe, tap: Tap, letter: str) -> list[tuple[str, Any]]:
        """Return the names and values of a tap for one of the inputs, which its pass runs on in turn."""
        found, inputs = probe.tap(tap), self.passes[letter].inputs
        each, place = len(found) // len(inputs), inputs.index(_INPUTS[letter])
        return found[place * each : (place + 1) * each]


def _letters(terminal: str) -> str:
    """Return the letters of the inputs that a terminal reads; empty for a weight."""
    return {"3": "", "P": "DP"}.get(terminal[-1], terminal[-1])


@functools.cache  # taps are equal only if their functions are identical
def _at(collection: str, module: int) -> Callable[[nn.Module], tuple[str, ...]]:
    """Return the function that names the candidates for the n-th module of a triple."""

    def at(net: nn.Module) -> tuple[str, ...]:
        if collection == "flow":
            kinds: tuple[tuple[type[nn.Module], ...], ...] = ((nn.ReLU, nn.ReLU6), (nn.Conv2d,), (nn.BatchNorm2d,))
            names = named(net, kinds[module])
        else:
            names = tuple((relu_conv_norm if collection == "rcb" else conv_norm_relu)(net)[module::3])
        if not names:
            raise NotApplicableError(_NONE)
        return names

    return at


def _follow(relus: _Marks, inputs: _Marks, outputs: _Marks, norms: _Marks) -> list[_Triple]:
    """Match the marks of `_Collector._marks`, each in execution order."""
    active = {mark[0]: relu for relu, mark in relus}
    convolved: dict[Any, tuple[_Run, _Run]] = {}
    for (convolution, before), (_, after) in zip(inputs, outputs, strict=True):
        if before[0] in active:
            convolved[after[0]] = (active[before[0]], convolution)
        elif before[0] in convolved:
            convolved[after[0]] = convolved[before[0]]
    return [(*convolved[mark[0]], norm) for norm, mark in norms if mark[0] in convolved]


def _numbered(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[_Run, Any]]:
    """Yield every value with the name and the run number of its module."""
    runs: dict[str, int] = {}
    for name, value in found:
        runs[name] = runs.get(name, -1) + 1
        yield (name, runs[name]), value


def _value(data: Tensor, perturbed: Tensor | None = None) -> Tensor:
    return (data if perturbed is None else perturbed - data).contiguous()


def _weights(net: nn.Module, modules: Iterable[str]) -> Iterator[str]:
    """Yield the names of the weights of modules; a parameter that modules share has one name."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    for module in modules:
        weight = net.get_submodule(module)._parameters.get("weight")
        if id(weight) not in names:
            raise NotApplicableError(
                f"{module} is a batch norm without scale, but T3 of a Conv-BatchNorm-ReLU triple is that scale"
            )
        yield names[id(weight)]


def _copy(activation: Tensor) -> Tensor:
    # A later module may overwrite the activation in place.
    return activation.clone(memory_format=torch.contiguous_format)


def _gradient(activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


def _mark(activation: Tensor) -> tuple[Any, Tensor]:
    """Return a mark that identifies an activation, with the activation, so that its memory is not used again."""
    return (activation.data_ptr(), activation.shape, activation.stride(), activation._version), activation
