"""The trace of the neural tangent kernel: how fast gradient descent moves the logits of the labels."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call, vjp, vmap

from .passes.needs import DATA, Backward, Gradient, Tap, layers
from .probe import Probe
from .registry import register

EACH = Gradient(Backward(DATA, "label of each"), of="parameters")


def _gram_of_products(layer: nn.Module, x: Tensor, gradient: Tensor) -> Tensor:
    """Return the Gram matrix `(N, N)` of the parameter gradients of a layer, each from the activations of one image."""
    parameters = {name: p.detach() for name, p in layer.named_parameters(recurse=False)}

    def of_image(image: Tensor, output: Tensor) -> Tensor:
        back = vjp(lambda p: functional_call(layer, p, (image[None],)), parameters)[1]
        return torch.cat([g.flatten() for g in back(output[None])[0].values()])

    rows = vmap(of_image)(x, gradient).double()
    return rows @ rows.T


PRODUCTS = Tap(Backward(DATA, "labels"), at=layers, reduce=_gram_of_products, side="layer")


def kernel(probe: Probe) -> Tensor:
    """Return the kernel `(N, N)` of the logits of the labels, float64, over convolution and linear parameters."""
    gradients = probe.gradients(EACH)
    names = [f"{layer}.{key}" if layer else key for layer in layers(probe.net) for key in ("weight", "bias")]
    rows = [gradients[name].flatten(1).double() for name in names if name in gradients]
    return sum((r @ r.T for r in rows), _zero(probe))


def kernel_as_released(probe: Probe) -> Tensor:
    """Return the kernel `(N, N)` of the released code, see `ntk_trace.as_released`."""
    return sum((gram for _, gram in probe.tap(PRODUCTS)), _zero(probe))


def _zero(probe: Probe) -> Tensor:
    return probe.x.new_zeros(len(probe.x), len(probe.x), dtype=torch.float64)


def root_trace(theta: Tensor) -> float:
    """Return sqrt(trace / N)."""
    return float((theta.trace() / len(theta)).sqrt())


@register("ntk_trace", needs=[EACH], paper="Shu et al., HNAS, NeurIPS 2022 (M_Trace)")
def ntk_trace(probe: Probe) -> float:
    r"""Measure how fast gradient descent moves the logits of the labels: the root mean square of their gradients.

    $$M_{\text{trace}} = \sqrt{\operatorname{tr} \Theta / N}, \qquad \Theta_{nm} = \Big\langle \frac{\partial
    f_{y_n}(x_n)}{\partial \theta}, \frac{\partial f_{y_m}(x_m)}{\partial \theta} \Big\rangle$$

    Here $\theta$ are the weights and biases of convolution and linear layers. Batch norm is in train mode, so a logit
    and its gradient depend on the other images through the statistics of the batch. The Gram matrix is float64.

    Deviation: the released code multiplies activations and gradients image by image, which misses that dependence; see
    `ntk_trace.as_released`.
    """
    return root_trace(kernel(probe))


@register("ntk_trace.as_released", needs=[PRODUCTS], paper="Shu et al., HNAS, NeurIPS 2022, as their code computes it")
def ntk_trace_as_released(probe: Probe) -> float:
    r"""Compute ntk_trace from products of the activations and output gradients of each image.

    $$\sqrt{\operatorname{tr} G G^\top / N}, \qquad
    G_n = \Big( \sum_{ij} \frac{\partial \sum_m f_{y_m}(x_m)}{\partial z_{lnij}} a_{lnij}^\top \Big)_l$$

    Here a is the input of layer l and z its output, at every position ij. One backward pass suffices. With batch
    statistics, $G_n$ is not the gradient of logit n.
    """
    return root_trace(kernel_as_released(probe))
