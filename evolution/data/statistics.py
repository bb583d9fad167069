"""Network statistics: the tensors around every convolution that programs are evaluated on.

A network has instances, triples of a ReLU, a convolution and a batch norm, and an instance has 22 tensors (Akhauri et
al., EZNAS, NeurIPS 2022, section 3.2 and appendix 8.3): activations, weights and their gradients on images (D), on
noise (N), and what a perturbation of the images changes in them (P).
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

#: Goes up when the same network, images and seed give other tensors than before.
VERSION = 2
#: T1 is the input of the ReLU, T2 that of the convolution, T3 its weight, T4 the output of the batch norm; G marks the
#: gradient of the sum of all logits.
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
        tensors: By terminal, each `(k, *shape)`, contiguous, for k instances.
        places: Which of the network's instances these are, k numbers from 0, ascending.
    """

    tensors: Mapping[str, Tensor]
    places: tuple[int, ...]


@dataclass(frozen=True)
class Statistics:
    """All instances of a network.

    Attributes:
        instances: How many.
        groups: In the order of their first instance; every instance is in one.
    """

    instances: int
    groups: tuple[Group, ...]


def needs(terminals: Iterable[str] = TERMINALS, collection: Collection = "rcb", init: str = INIT) -> tuple[Need, ...]:
    """Return what a probe has to run for some terminals: one pass for each of D, N and P that they read.

    P reads D as well. A pass goes backward where a gradient is read. Inputs of which only activations are read share
    one without a graph, which for T4_P is the one of the proxy `eznas_b`; that of T1G_D is the one of `eznas_a`.

    Raises:
        UnknownNameError: No terminal or no collection has this name.
    """
    return _Reading(terminals, collection, init).needs()


def collect(
    probe: Probe, terminals: Iterable[str] = TERMINALS, collection: Collection = "rcb", init: str = INIT
) -> Statistics:
    r"""Collect the tensors of every instance of the probe's network.

    $$a_D = a(x) \quad a_N = a(\epsilon_1) \quad a_P = a(x + 0.1 \epsilon_2) - a(x) \quad
    \mathrm{T1G} = \partial {\textstyle\sum} f / \partial \mathrm{T1}$$

    for every activation a, and likewise for gradients, with f the logits and $\epsilon$ from N(0, 1) in the shape of
    the images x. Gradients at an input are those through that module only. Kaiming fan-out weights, batch norm in train
    mode. Activations are `(N, C, H, W)` an instance, weights and their gradients have the shape of the weight; the
    network's dtype.

    Args:
        probe: With `needs` of the same arguments in its plan; otherwise every terminal runs its passes again.
        terminals: Which of `TERMINALS`.
        collection: How instances are found.
            `rcb`: ReLU-Conv-BatchNorm triples as the released code finds them, in definition order, without the stem.
            Of two convolutions in a row, as in a separable one, the second counts. Where modules do not come out in
            threes, as in cells without convolutions, it is `cbr`.
            `cbr`: Conv-BatchNorm-ReLU triples as the released code finds them. Tensors go by position: T1 is the input
            of the convolution, T2 that of the batch norm, T3 the scale of the batch norm, T4 the output of the ReLU.
            `flow`: by the tensors themselves, in execution order, on any network: a `BatchNorm2d` of what a `Conv2d`
            gave of what a `ReLU` or `ReLU6` gave. Of convolutions in a row the first counts, as section 6 of the paper
            has it. A ReLU may belong to several instances. Anything in between breaks a triple, such as the
            concatenation in a factorised reduction, and functional ReLUs are not seen.
        init: Where weights come from, a name of `inits.INITS`.

    Returns:
        Instances in the order of the collection. In `rcb` and `cbr` those are left out of which a module did not run,
        and of a module that ran several times the last run counts.

    Raises:
        NotApplicableError: The network has no instance, or T3 is the scale of a batch norm that has none.
        UnknownNameError: No terminal or no collection has this name.

    Deviations: the released code hands programs the tensor before the one they name; here a name is what it says. Its
    noise is new for every network, here it is the seed's.
    """
    reading = _Reading(terminals, collection, init)
    triples = reading.triples(probe)
    columns = [reading.column(probe, terminal, triples) for terminal in reading.terminals]
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
        groups.append(Group(dict(zip(reading.terminals, stacks, strict=True)), tuple(places)))
    return Statistics(len(instances), tuple(groups))


#: A module's name, and which of its runs.
_Run = tuple[str, int]
_Triple = tuple[_Run, _Run, _Run]
_LAST = -1
_NONE = "the network has no ReLU-Conv-BatchNorm triple"
#: Of the triple's modules, by the number in a terminal's name, and whether it is what goes in or what comes out.
_MODULE = {"1": 0, "2": 1, "3": 1, "4": 2}
_SIDE: dict[str, Literal["input", "output"]] = {"1": "input", "2": "input", "4": "output"}


class _Reading:
    """Which passes and taps some terminals read."""

    def __init__(self, terminals: Iterable[str], collection: str, init: str) -> None:
        self.terminals = tuple(dict.fromkeys(terminals))
        for terminal in self.terminals:
            if terminal not in TERMINALS:
                raise unknown_name("terminal", terminal, TERMINALS)
        if collection not in get_args(Collection):
            raise unknown_name("collection", collection, get_args(Collection))
        self.collection = collection
        read = {(letter, "G" in terminal) for terminal in self.terminals for letter in _letters(terminal)}
        read = read or {("D", False)}  # weights alone
        backward = [letter for letter in _INPUTS if (letter, True) in read]
        forward = [letter for letter in _INPUTS if (letter, False) in read and letter not in backward]
        together = Forward(init=init, inputs=tuple(_INPUTS[letter] for letter in forward), graph=False)
        self.passes = {letter: Forward(init=init, inputs=(_INPUTS[letter],)) for letter in backward}
        self.passes |= dict.fromkeys(forward, together)
        self.first = next(iter(self.passes))

    def needs(self) -> tuple[Need, ...]:
        """Return what the probe has to run, each need once."""
        needs = [self._need(t, letter) for t in self.terminals for letter in _letters(t) or self.first]
        return tuple(dict.fromkeys([*self._marks(), *needs]))

    def triples(self, probe: Probe) -> list[_Triple]:
        """Return the modules of every instance.

        Raises:
            NotApplicableError: There is none.
        """
        if self.collection == "flow":
            return _follow(*(list(_numbered(self._tapped(probe, mark, self.first))) for mark in self._marks()))
        names = (relu_conv_norm if self.collection == "rcb" else conv_norm_relu)(probe.net)
        runs = [(name, _LAST) for name in names]
        return list(zip(runs[::3], runs[1::3], runs[2::3], strict=True))

    def column(self, probe: Probe, terminal: str, triples: Sequence[_Triple]) -> list[list[Tensor]]:
        """Return the tensors that a terminal is made of, for every triple; none where its module did not run."""
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
        """Return taps that know activations again: what ReLUs give, convolutions take and give, and norms take."""
        if self.collection != "flow":
            return ()
        sides: tuple[tuple[int, Literal["input", "output"]], ...]
        sides = ((0, "output"), (1, "input"), (1, "output"), (2, "input"))
        return tuple(Tap(self.passes[self.first], _at("flow", module), _mark, side) for module, side in sides)

    def _tapped(self, probe: Probe, tap: Tap, letter: str) -> list[tuple[str, Any]]:
        """Return name and value of a tap for one of the inputs that its pass runs on, one after the other."""
        found, inputs = probe.tap(tap), self.passes[letter].inputs
        each, place = len(found) // len(inputs), inputs.index(_INPUTS[letter])
        return found[place * each : (place + 1) * each]


def _letters(terminal: str) -> str:
    """Return the inputs that a terminal reads; a weight reads none."""
    return {"3": "", "P": "DP"}.get(terminal[-1], terminal[-1])


@functools.cache  # a tap is known by its functions
def _at(collection: str, module: int) -> Callable[[nn.Module], tuple[str, ...]]:
    """Return what names the candidates for the n-th module of a triple."""

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


def _follow(
    relus: Sequence[tuple[_Run, Any]],
    inputs: Sequence[tuple[_Run, Any]],
    outputs: Sequence[tuple[_Run, Any]],
    norms: Sequence[tuple[_Run, Any]],
) -> list[_Triple]:
    """Match the marks of what ReLUs give, convolutions take and give, and norms take, each in execution order."""
    active = {mark[0]: relu for relu, mark in relus}
    convolved: dict[Any, tuple[_Run, _Run]] = {}
    for (convolution, before), (_, after) in zip(inputs, outputs, strict=True):
        if before[0] in active:
            convolved[after[0]] = (active[before[0]], convolution)
        elif before[0] in convolved:
            convolved[after[0]] = convolved[before[0]]
    return [(*convolved[mark[0]], norm) for norm, mark in norms if mark[0] in convolved]


def _numbered(found: Iterable[tuple[str, Any]]) -> Iterator[tuple[_Run, Any]]:
    """Yield values by module and run."""
    runs: dict[str, int] = {}
    for name, value in found:
        runs[name] = runs.get(name, -1) + 1
        yield (name, runs[name]), value


def _value(data: Tensor, perturbed: Tensor | None = None) -> Tensor:
    return (data if perturbed is None else perturbed - data).contiguous()


def _weights(net: nn.Module, modules: Iterable[str]) -> Iterator[str]:
    """Yield the names of the parameters that are modules' weights; parameters in several places have one name."""
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    for module in modules:
        weight = net.get_submodule(module)._parameters.get("weight")
        if id(weight) not in names:
            raise NotApplicableError(
                f"{module}, a batch norm without scale, lacks what T3 is in Conv-BatchNorm-ReLU triples"
            )
        yield names[id(weight)]


def _copy(activation: Tensor) -> Tensor:
    # Whoever comes after the module may overwrite what it gave.
    return activation.clone(memory_format=torch.contiguous_format)


def _gradient(activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


def _mark(activation: Tensor) -> tuple[Any, Tensor]:
    """Return what tells an activation from every other, with itself, so that its memory is not given away."""
    return (activation.data_ptr(), activation.shape, activation.stride(), activation._version), activation
