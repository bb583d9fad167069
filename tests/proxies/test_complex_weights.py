"""A network with complex weights: what reads weights, their gradients or their shapes does not apply."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import Score, score_all

#: They read the logits, the real features behind the weights, or count parameters and ReLUs.
APPLY = {
    *("accuracy_at_init", "epe_nas", "jacob_cov", "linear_regions", "meco.as_released", "naswot", "naswot.eval"),
    *("params", "random", "relu_count", "swap", "swap.regularised", "vkdnw_dim"),
}


class Complex(nn.Module):
    """A convolution or a product with complex weights, whose real part goes on to a linear map."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind = kind
        if kind == "convolution":
            self.first: nn.Module = nn.Conv2d(3, 4, 3, dtype=torch.cfloat)
        elif kind == "linear":
            self.first = nn.Linear(3 * 64, 4, dtype=torch.cfloat)
        else:
            self.weight = nn.Parameter(torch.randn(4, 3 * 64, dtype=torch.cfloat))
        self.head = nn.Linear(4, 10)

    def forward(self, x: Tensor) -> Tensor:
        z = x.to(torch.cfloat)
        if self.kind == "convolution":
            return self.head(torch.relu(self.first(z).real).mean((2, 3)))
        z = z.flatten(1)
        return self.head(torch.relu((self.first(z) if self.kind == "linear" else z @ self.weight.T).real))


@pytest.fixture(scope="module", params=["convolution", "linear", "product"])
def scores(request: pytest.FixtureRequest) -> dict[str, Score]:
    torch.manual_seed(0)
    net, x, y = Complex(request.param), torch.randn(4, 3, 8, 8), torch.arange(4)
    return {s.proxy: s for s in score_all(net, x, y, list(PROXIES.values()))}


def test_nothing_fails_and_few_have_a_score(scores: dict[str, Score]) -> None:
    assert [s for s in scores.values() if s.status == "error"] == []
    assert {name for name, s in scores.items() if s.status == "ok"} <= APPLY
    assert scores["params"].status == "ok"


def test_the_reason_is_said(scores: dict[str, Score]) -> None:
    assert "with complex weights" in scores["nsc"].message
    assert "complex" in scores["snip"].message
    for name in ("gradsign", "gradsign.sum", "grad_norm.all_params"):
        assert "is complex, and the proxy reads the gradients of real parameters" in scores[name].message
