"""The trace of the neural tangent kernel: how fast gradient descent moves the logits of the labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.func import vjp, vmap

from ..errors import NotApplicableError
from .operations.calls import NO_LAYER
from .passes import DATA, OPERATIONS, Backward, Operations, ParameterGradients, Tap, Tapped
from .passes.objectives import LABEL_OF_EACH, LABELS
from .passes.taps import Place, layers, of_each_image
from .registry import reads, register

EACH = ParameterGradients(Backward(DATA, LABEL_OF_EACH))


def _gram_of_products(
    place: Place,
    x: Tensor,
    gradient: Tensor,
    layer: Callable[[Tensor, Tensor, Tensor | None], Tensor],
    weight: Tensor,
    bias: Tensor | None,
) -> Tensor:
    """Return the Gram matrix `(N, N)` of the parameter gradients of a layer, each from the activations of one image."""
    parameters = (weight,) if bias is None else (weight, bias)

    def of_image(image: Tensor, output: Tensor) -> Tensor:
        back = vjp(lambda *given: layer(image[None], given[0], given[1] if len(given) > 1 else None), *parameters)[1]
        return torch.cat([g.flatten() for g in back(output[None])])

    rows = vmap(of_image)(x, gradient).double()
    return rows @ rows.T


PRODUCTS = Tap(Backward(DATA, LABELS), at=layers, reduce=_gram_of_products, side="layer")


def kernel(gradients: Mapping[str, Tensor], operations: Operations) -> Tensor:
    """Return the kernel `(N, N)` of the logits of the labels, float64, over convolution and linear parameters."""
    operations.covered("products", "the proxy reads the parameters of all layers")
    names = [name for layer in operations.weights for name in (layer.name, layer.calls[0].bias)]
    rows = [gradients[name].flatten(1).double() for name in dict.fromkeys(names) if name in gradients]
    if not rows:
        raise NotApplicableError(NO_LAYER)
    total: Tensor = sum((r @ r.T for r in rows[1:]), rows[0] @ rows[0].T)
    return total


def kernel_as_released(products: Tapped) -> Tensor:
    """Return the kernel `(N, N)` of the released code, see `ntk_trace.as_released`."""
    first, *others = of_each_image(products)
    return sum(others, first)


def root_trace(theta: Tensor) -> float:
    """Return sqrt(trace / N)."""
    return float((theta.trace() / len(theta)).sqrt())


@register("ntk_trace", paper="Shu et al., HNAS, NeurIPS 2022 (M_Trace)")
def ntk_trace(gradients: dict[str, Tensor] = reads(EACH), operations: Operations = reads(OPERATIONS)) -> float:
    r"""Measure how fast gradient descent moves the logits of the labels: the root mean square of their gradients.

    $$M_{\text{trace}} = \sqrt{\operatorname{tr} \Theta / N}, \qquad \Theta_{nm} = \Big\langle \frac{\partial
    f_{y_n}(x_n)}{\partial \theta}, \frac{\partial f_{y_m}(x_m)}{\partial \theta} \Big\rangle$$

    Here $\theta$ are the weights and biases of convolution and linear layers. Batch norm is in train mode, so a logit
    and its gradient depend on the other images through the statistics of the batch. The Gram matrix is float64.

    Deviation: the released code multiplies activations and gradients image by image, which misses that dependence; see
    `ntk_trace.as_released`.
    """
    return root_trace(kernel(gradients, operations))


@register("ntk_trace.as_released", paper="Shu et al., HNAS, NeurIPS 2022, as their code computes it")
def ntk_trace_as_released(products: Tapped = reads(PRODUCTS)) -> float:
    r"""Compute ntk_trace from products of the activations and output gradients of each image.

    $$\sqrt{\operatorname{tr} G G^\top / N}, \qquad
    G_n = \Big( \sum_{ij} \frac{\partial \sum_m f_{y_m}(x_m)}{\partial z_{lnij}} a_{lnij}^\top \Big)_l$$

    Here a is the input of layer l and z its output, at every position ij. One backward pass suffices. With batch
    statistics, $G_n$ is not the gradient of logit n.
    """
    return root_trace(kernel_as_released(products))
