"""The product of the Hessian and the gradient: a backward pass that can be differentiated, and another through it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import NotApplicableError
from ..operations.calls import NO_LAYER
from .backward import Backward
from .forward import Trace


@dataclass(frozen=True)
class HessianProduct(Backward):
    """The Hessian times the gradient of convolution and linear weights; the gradients it leaves are this product."""

    @property
    def backwards(self) -> int:
        """Two."""
        return 2

    def differentiate(self, trace: Trace, values: Tensor, leaves: list[Tensor], keep: bool) -> list[Tensor | None]:
        """Return the product for every leaf."""
        weights = list(trace.weights.values())
        if not weights:
            raise NotApplicableError(NO_LAYER)
        first: Sequence[Tensor | None] = torch.autograd.grad(values, weights, create_graph=True, allow_unused=True)
        product = sum(((g.detach() * g).sum() for g in first if g is not None), values.new_zeros(()))
        if not product.requires_grad:
            return [None] * len(leaves)
        return list(torch.autograd.grad(product, leaves, retain_graph=keep, allow_unused=True))
