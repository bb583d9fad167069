"""The product of the Hessian and the gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.autograd import forward_ad

from ...errors import NotApplicableError
from ...random_state import given_random_state
from ..operations.calls import NO_LAYER
from .backward import Backward, Found, Gradients, ParameterGradients, without_second_derivative
from .core import Host, Need
from .forward import Trace
from .tangents import NoTangentError, Tangents, tangent_of, with_tangent
from .taps import Looks


@dataclass(frozen=True)
class HessianProduct(Gradients):
    r"""The Hessian times the gradient of convolution and linear weights; the gradients it leaves are this product.

    With g held constant, it is the gradient of the derivative of the objective along g:

    $$H g = \nabla_\theta \, \frac{d}{d \epsilon} L(\theta + \epsilon g) \Big|_{\epsilon = 0}$$

    A forward pass carries the tangents along g beside the activations, and a backward pass differentiates what comes
    out. Together they cost about three forward-backwards. Where an operation has no tangents, the product is the
    gradient of $g^\top \nabla_\theta L$, by a backward pass that can be differentiated; that costs five to eight.
    """

    @property
    def forwards(self) -> int:
        """One, with tangents."""
        return 1

    @property
    def backwards(self) -> int:
        """One."""
        return 1

    @property
    def stands_on(self) -> Backward:
        """The backward pass that leaves the gradient."""
        return Backward(self.forward, self.objective)

    @property
    def needs(self) -> tuple[Need, ...]:
        """The gradient."""
        return (ParameterGradients(self.stands_on),)

    def run(self, probe: Host) -> Found:
        """Return the product for every weight."""
        gradients = probe.read(*self.needs)
        trace: Trace = probe.result(self.forward)
        if not trace.weights:
            raise NotApplicableError(NO_LAYER)
        along = {name: gradients[name] for name in trace.weights}
        try:
            found = self._forward_over(probe, trace, along)
            probe.forwards += 1
        except NoTangentError:
            found = self._backward_over(probe, along)
        probe.backwards += 1
        return Found(frozenset({"parameters"}), found, None)

    def _forward_over(self, probe: Host, trace: Trace, along: dict[str, Tensor]) -> dict[str, Tensor | None]:
        """Differentiate the derivative along g, which a forward pass carries.

        Raises:
            NoTangentError: The network has an operation without tangents.
        """
        if self.forward.mode != "train" or len(self.forward.inputs) != 1:
            raise NoTangentError(str(self.forward))
        state = self.forward.state(probe, trace.operations, looks := Looks())
        leaves = {name: state[name].requires_grad_() for name in along}
        (made,) = self.forward.inputs
        with forward_ad.dual_level():
            state |= {name: with_tangent(leaves[name], g) for name, g in along.items()}
            watch = Tangents(trace.operations, state, self.forward.mode)
            with probe.places.given(state, True), given_random_state(probe.seed, probe.x.device), torch.enable_grad():
                x = self.forward.input(probe, made, looks)
                try:
                    output = probe.logits(made.run(lambda x: watch.run(probe.net, x), x), len(x))
                except NotImplementedError as error:  # torch has no tangents of it
                    raise NoTangentError(str(error)) from None
                except RuntimeError as error:
                    if "forward" not in str(error).lower():
                        raise
                    raise NoTangentError(str(error)) from None
                logits, tangent = tangent_of(output)
        looks.check()
        if tangent is None:
            return dict.fromkeys(along)
        y = probe.labels(made, logits.shape[1]) if self.objective.labels else None
        with torch.enable_grad():
            (slope,) = torch.autograd.grad(self.objective(logits, y), logits, create_graph=True)
            derivative = (slope * tangent).sum()
        if not derivative.requires_grad:
            return dict.fromkeys(along)
        try:
            products = torch.autograd.grad(derivative, list(leaves.values()), allow_unused=True)
        except RuntimeError as error:
            if "inplace" not in str(error):
                raise
            raise NoTangentError("an operation in place wrote into what its tangents are differentiated by") from None
        return dict(zip(along, products, strict=True))

    def _backward_over(self, probe: Host, along: dict[str, Tensor]) -> dict[str, Tensor | None]:
        """Differentiate the gradient times g."""
        trace = probe.graph(self.forward)
        logits = trace.outputs[0]
        y = probe.labels(self.forward.inputs[0], logits.shape[1]) if self.objective.labels else None
        weights = [trace.weights[name] for name in along]
        keep = probe.is_pending(self.forward, self)
        try:
            with torch.enable_grad():
                values = self.objective(logits, y)
                if not values.requires_grad:
                    return dict.fromkeys(along)
                first: Sequence[Tensor | None] = torch.autograd.grad(
                    values, weights, create_graph=True, allow_unused=True
                )
                slopes = [(g * own).sum() for g, own in zip(first, along.values(), strict=True) if g is not None]
                product = sum(slopes, values.new_zeros(()))
                if not product.requires_grad:
                    return dict.fromkeys(along)
                products = torch.autograd.grad(product, weights, retain_graph=keep, allow_unused=True)
        except RuntimeError as error:
            raise without_second_derivative(error) from None
        finally:
            trace.graph_freed = not keep
        return dict(zip(along, products, strict=True))
