"""The layer table: numbers that strong proxies use, one row for every feature map of a network.

A program of `language.layers` is a formula over the columns of this table. A column declares what it reads, as a proxy
does, so a program runs only the passes of its own columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...errors import NotApplicableError
from ...proxies.jacob_cov import EPSILON, correlations
from ...proxies.naswot import agreement
from ...proxies.operations.calls import IMAGES
from ...proxies.passes import DATA, JACOBIAN, LOSS, LOSS_PASS, OPERATIONS, PARAMETERS, Call, Layers, Need, Tap, Tapped
from ...proxies.passes.core import Host
from ...proxies.passes.taps import Place, maps
from ...proxies.synflow import FLOW
from ...registry import Registry

#: Version of the columns. It is raised whenever the same network, images and seed give other numbers than before.
VERSION = 2

#: Function from what a need gives, and the calls of the rows, to one number a row.
Rows = Callable[[Any, Sequence[Call]], Sequence[float]]


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Attributes:
        need: What it reads.
        function: Function that returns its numbers; its docstring has the formula.
    """

    name: str
    need: Need
    function: Rows

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        return (self.function.__doc__ or "").strip().partition("\n")[0]


COLUMNS: Registry[Column] = Registry("column")


def _column(need: Need) -> Callable[[Rows], Rows]:
    def add(function: Rows) -> Rows:
        name = function.__name__.removeprefix("_")
        COLUMNS.add(name, Column(name, need, function))
        return function

    return add


def _dimension(place: Place) -> int:
    """Return the dimension of a map that has its channels.

    Raises:
        NotApplicableError: It is not known.
    """
    assert isinstance(place, Call)
    if place.channels is None:
        raise NotApplicableError(f"{place}: it is not known which dimension of {place.shape} is channels")
    return place.channels


def _by_channel(place: Place, tensor: Tensor) -> Tensor:
    """Return a map as `(N, C, positions)`."""
    channels = _dimension(place)
    return tensor.movedim(channels, 1).reshape(len(tensor), tensor.shape[channels], -1)


def _flat(tensor: Tensor) -> Tensor:
    """Return a map as `(N, D)`, in the order of its memory, which takes no copy."""
    return (tensor.permute(0, 2, 3, 1) if tensor.ndim == 4 else tensor).flatten(1)


# What a map is, by the record of the network.


@_column(OPERATIONS)
def _is_layer(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """1 at the outputs of convolutions and linear maps, 0 elsewhere."""
    return [float(call.is_layer) for call in rows]


@_column(OPERATIONS)
def _is_norm(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """1 at the outputs of norms, 0 elsewhere."""
    return [float(call.kind == "norm") for call in rows]


@_column(OPERATIONS)
def _is_activation(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """1 at the outputs of activation functions, 0 elsewhere."""
    return [float(call.kind == "activation") for call in rows]


@_column(OPERATIONS)
def _depth(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """Position of the map among all maps, in the order in which they ran: above 0, and 1 for the last."""
    return [(place + 1) / len(rows) for place in range(len(rows))]


@_column(OPERATIONS)
def _channels(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """Number of channels of the map."""
    return [float(call.shape[_dimension(call)]) for call in rows]


@_column(OPERATIONS)
def _positions(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """Number of positions of the map, its height times its width."""
    channels = _channels(operations, rows)
    return [math.prod(call.shape[1:]) / c for call, c in zip(rows, channels, strict=True)]


@_column(OPERATIONS)
def _macs(operations: Any, rows: Sequence[Call]) -> Sequence[float]:
    """Multiply-accumulates of the operation for one image; their sum is the proxy `macs`."""
    return [(call.products + call.additions) / IMAGES for call in rows]


@_column(PARAMETERS)
def _params(parameters: Mapping[str, Tensor], rows: Sequence[Call]) -> Sequence[float]:
    """Number of parameters of the operation at its first call; their sum is the proxy `params` if all are called."""
    seen: set[str] = set()
    found = []
    for call in rows:
        own = {call.weight, call.bias} - seen
        seen |= own
        found.append(float(sum(parameters[name].numel() for name in own if name in parameters)))
    return found


# What the images leave in a map.


# Reductions return one tensor `(numbers,)`, so that no pass waits for a device.


def _spectrum(place: Place, activation: Tensor) -> Tensor:
    """Return the smallest and the largest eigenvalue and the effective rank of the channel correlations, one image."""
    rows = _by_channel(place, activation[:1])[0].double()
    rows = rows - rows.mean(1, keepdim=True)
    rows = (rows / rows.norm(dim=1, keepdim=True)).nan_to_num(0.0, 0.0, 0.0)
    channels, positions = rows.shape
    # Both products have the same eigenvalues but for zeros, and the smaller one takes less time.
    values = torch.linalg.eigvalsh(rows @ rows.T if channels < positions else rows.T @ rows)
    share = values.clamp(min=0) / values.clamp(min=0).sum().clamp(min=1e-30)
    # Centred rows are dependent if they are many.
    least = values[0] if channels < positions else torch.zeros_like(values[0])
    return torch.stack([least, values[-1], torch.special.entr(share).sum().exp()])


def _images(place: Place, activation: Tensor) -> Tensor:
    """Return how far images differ: log det of the sign kernel, mean distance of signs, mean |correlation|."""
    kernel = agreement(place, activation)
    kernel = kernel / kernel[0, 0].clamp(min=1)
    n = len(kernel)
    logdet = torch.logdet(kernel + torch.eye(n, dtype=kernel.dtype, device=kernel.device))
    return torch.stack([logdet, (1 - kernel).sum() / max(n * (n - 1), 1), _likeness(_flat(activation))])


def _likeness(rows: Tensor) -> Tensor:
    """Return the mean absolute correlation of rows `(N, D)`, over pairs; a constant row correlates with none."""
    alike = correlations(rows).nan_to_num(0.0, 0.0, 0.0).abs().double()
    found: Tensor = (alike.sum() - alike.diagonal().sum()) / max(len(alike) * (len(alike) - 1), 1)
    return found


def _sizes(place: Place, activation: Tensor) -> Tensor:
    """Return the mean square, and the share of positive elements."""
    return torch.stack([activation.square().mean(), (activation > 0).float().mean()])


SPECTRA = Tap(DATA, at=maps, reduce=_spectrum)
KERNELS = Tap(DATA, at=maps, reduce=_images)
SIZES = Tap(DATA, at=maps, reduce=_sizes)


def _nth(tapped: Tapped, place: int) -> Sequence[float]:
    found: list[float] = torch.stack([value[place] for _, value in tapped]).tolist() if tapped else []
    return found


@_column(SPECTRA)
def _min_eigenvalue(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Smallest eigenvalue of the channel correlations on the first image; their sum is the proxy `meco`."""
    return _nth(tapped, 0)


@_column(SPECTRA)
def _max_eigenvalue(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Largest eigenvalue of the channel correlations on the first image."""
    return _nth(tapped, 1)


@_column(SPECTRA)
def _effective_rank(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Effective rank of the channel correlations on the first image, exp of the entropy of eigenvalues; at least 1."""
    return _nth(tapped, 2)


@_column(KERNELS)
def _sign_logdet(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Logarithm of det(I + K), where K is the share of units whose sign two images agree on, as in naswot."""
    return _nth(tapped, 0)


@_column(KERNELS)
def _sign_distance(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Share of units whose sign differs between two images, mean over pairs of images."""
    return _nth(tapped, 1)


@_column(KERNELS)
def _image_correlation(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Absolute correlation of the maps of two images, mean over pairs of images; that of a constant map is 0."""
    return _nth(tapped, 2)


@_column(SIZES)
def _mean_square(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Mean square of the elements of the map."""
    return _nth(tapped, 0)


@_column(SIZES)
def _positive(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Share of the elements of the map that are above 0."""
    return _nth(tapped, 1)


# What the loss leaves in a map.


def _gradients(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    """Return the norm of the gradient, saliency, mean over deviation by image, and mean |correlation| of images."""
    product = _by_channel(place, activation * gradient).sum(2).double()
    wide = _flat(gradient)
    spread = (wide - wide.mean(0)).square().mean(0).sqrt()  # `std` takes five times as long
    # Elements whose gradient does not vary count as 0.
    steady = (wide.abs().mean(0) / spread).nan_to_num(0.0, 0.0, 0.0)
    norm, saliency = wide.norm(dim=1).double().norm(), 0.5 * product.square().mean(0).sum()
    return torch.stack([norm, saliency, steady.double().sum(), _likeness(wide)])


GRADIENTS = Tap(LOSS_PASS, at=maps, reduce=_gradients)


@_column(GRADIENTS)
def _gradient_norm(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""L2 norm of the gradient of the mean cross entropy at the map."""
    return _nth(tapped, 0)


@_column(GRADIENTS)
def _saliency(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Fisher saliency of the map: half the mean over images of (sum over positions of a g)^2, summed over channels."""
    return _nth(tapped, 1)


@_column(GRADIENTS)
def _steadiness(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Mean of |g| over its deviation between images, summed over elements that vary, as zico does for weights."""
    return _nth(tapped, 2)


@_column(GRADIENTS)
def _gradient_correlation(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Absolute correlation of the gradients of two images at the map, mean over pairs of images."""
    return _nth(tapped, 3)


# What all logits together leave in a map.


def _jacobian(place: Place, activation: Tensor, gradient: Tensor) -> Tensor:
    """Return log det(C + k I) of the correlations of the gradients of images; 0 if that of an image is constant."""
    alike = correlations(_flat(gradient).double())
    shifted = alike + EPSILON * torch.eye(len(alike), dtype=alike.dtype, device=alike.device)
    # The determinant of an indefinite matrix, which only round-off makes, may be negative.
    values = torch.linalg.eigvalsh(shifted.nan_to_num(0.0, 0.0, 0.0)).clamp(min=EPSILON / 2)
    return torch.where(alike.isfinite().all(), values.log().sum(), 0.0)


RESPONSES = Tap(JACOBIAN.of, at=maps, reduce=_jacobian)


@_column(RESPONSES)
def _jacobian_logdet(tapped: Tapped, rows: Sequence[Call]) -> Sequence[float]:
    r"""Logarithm of det(C + k I), where C correlates the gradients of all logits at the map by image, see jacob_cov."""
    return [value for _, value in tapped]


# Weights. A weight counts at the first map that it makes, and other maps have 0.


@dataclass(frozen=True)
class Weighted(Need):
    """The weights and gradients of a layer need, by the call at which each is first used."""

    of: Need

    @property
    def parts(self) -> tuple[Need, ...]:
        """What it reads."""
        return self.of, OPERATIONS

    def value(self, probe: Host) -> Mapping[Call, tuple[Tensor, Tensor]]:
        """Return the pairs."""
        layers: Layers = probe.read(self.of)
        weights = probe.read(OPERATIONS).weights
        return {layer.calls[0]: pair for layer, pair in zip(weights, layers, strict=True)}


def _of_weights(found: Mapping[Call, Any], rows: Sequence[Call], number: Callable[..., Tensor]) -> Sequence[float]:
    return [float(number(*found[call])) if call in found else 0.0 for call in rows]


@_column(Weighted(LOSS))
def _weight_norm(found: Mapping[Call, Any], rows: Sequence[Call]) -> Sequence[float]:
    r"""L2 norm of the weight of the operation."""
    return _of_weights(found, rows, lambda w, g: w.norm())


@_column(Weighted(LOSS))
def _weight_gradient(found: Mapping[Call, Any], rows: Sequence[Call]) -> Sequence[float]:
    r"""L2 norm of the loss gradient of the weight."""
    return _of_weights(found, rows, lambda w, g: g.norm())


@_column(Weighted(LOSS))
def _snip(found: Mapping[Call, Any], rows: Sequence[Call]) -> Sequence[float]:
    r"""Sum of |w g| over the weight; its sum over maps is the proxy `snip`."""
    return _of_weights(found, rows, lambda w, g: (w * g).abs().sum())


@_column(Weighted(FLOW))
def _synflow(found: Mapping[Call, Any], rows: Sequence[Call]) -> Sequence[float]:
    r"""Sum of |w g| over the weight in the network of absolute weights; its sum over maps is the proxy `synflow`."""
    return _of_weights(found, rows, lambda w, g: (w * g).abs().sum())


@dataclass(frozen=True)
class LayerTable(Need):
    """Columns of the layer table of a network: float64 tensors `(rows,)`, by name.

    Attributes:
        columns: Names from `COLUMNS`.
    """

    columns: tuple[str, ...] = tuple(COLUMNS)

    @property
    def parts(self) -> tuple[Need, ...]:
        """What the columns read."""
        return tuple(dict.fromkeys([*_needs(self.columns), OPERATIONS]))

    def value(self, probe: Host) -> dict[str, Tensor]:
        """Return the columns."""
        rows = maps(probe.read(OPERATIONS))
        return {
            name: torch.tensor(COLUMNS[name].function(probe.read(COLUMNS[name].need), rows), dtype=torch.float64)  # type: ignore[arg-type]
            for name in self.columns
        }


def _needs(columns: Iterable[str]) -> list[Need]:
    return [COLUMNS[name].need for name in columns]
