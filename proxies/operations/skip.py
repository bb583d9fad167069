"""The skip connection of a search space, as an operation that passes see."""

from __future__ import annotations

from torch import Tensor, nn
from torch.overrides import handle_torch_function, has_torch_function_unary


def skip(input: Tensor) -> Tensor:
    """Return the input as it is."""
    if has_torch_function_unary(input):
        output: Tensor = handle_torch_function(skip, (input,), input)
        return output
    return input


class Skip(nn.Identity):
    """An identity that counts as an operation of the network, since its search space has it as one.

    A plain `nn.Identity` leaves no trace in what a network computes, so passes do not see it.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Return the input as it is."""
        return skip(input)
