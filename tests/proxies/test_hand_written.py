"""Operations that are written out, or that run where passes cannot look: a reason, and never a wrong number.

The numbers of the plain network are those that every form of it would have; `tried` says what came before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import zcbench
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import prune
from zcbench.errors import BatchError
from zcbench.proxies import PROXIES
from zcbench.proxies.passes import DATA, LABELS, LOSS, OPERATIONS, PARAMETERS, Tap
from zcbench.proxies.passes.taps import relus
from zcbench.proxies.registry import Score, reads, register

X = torch.randn(8, 3, 8, 8, generator=torch.Generator().manual_seed(0))
Y = torch.arange(8) % 4
OK, NONE = "ok", "not_applicable"


class Fn(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def network() -> nn.Sequential:
    torch.manual_seed(1)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))


def changed(place: int, module: nn.Module) -> nn.Sequential:
    net = network()
    net[place] = module
    return net


def coded(place: int, kind: type[nn.Module]) -> nn.Sequential:
    """Give a module another class, so that its weights stay."""
    net = network()
    net[place].__class__ = kind
    return net


def scores(net: nn.Module, *names: str, y: Tensor | None = Y) -> dict[str, Score]:
    return zcbench.score(net, X, y, proxies=names or None)


def without_score(net: nn.Module, *names: str, reason: str) -> None:
    for name, score in scores(net, *names).items():
        assert score.status == NONE, (name, score)
        assert reason in score.message, (name, score.message)


def same(net: nn.Module, *names: str) -> None:
    expected = scores(network(), *names)
    for name, score in scores(net, *names).items():
        assert score.status == OK, (name, score.message)
        assert score.value == pytest.approx(expected[name].value, rel=1e-5), name


class ConvF(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        ctx.save_for_backward(x, w)
        return functional.conv2d(x, w, b)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:  # type: ignore[override]
        x, w = ctx.saved_tensors
        return nn.grad.conv2d_input(x.shape, w, g), nn.grad.conv2d_weight(x, w.shape, g), g.sum((0, 2, 3))


class OwnConv(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return ConvF.apply(x, self.weight, self.bias)


class ReluF(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return g * (ctx.saved_tensors[0] > 0)


def test_gradients_inside_of_an_autograd_function() -> None:
    """Before: fisher .0156 instead of .0614, eznas_a 0 instead of 3.846, wrcor 16.4 instead of 33.6, all ok."""
    net = coded(3, OwnConv)
    same(net, "grad_norm", "snip", "synflow", "naswot")
    without_score(net, "fisher", "ntk_trace.as_released", reason="inside of an autograd.Function")
    relu = changed(5, Fn(ReluF.apply))
    same(relu, "grad_norm", "naswot", "relu_count")
    without_score(relu, "wrcor", reason="inside of an autograd.Function")


class Mapped(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return torch.func.vmap(lambda t: functional.conv2d(t, self.weight, self.bias))(x)


def test_operations_under_vmap() -> None:
    """Before: 12,772 products instead of 17,444."""
    without_score(coded(3, Mapped), "macs", "naswot", "synflow", "zen", reason="under vmap")


class NormByHand(nn.Module):
    def __init__(self, root: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.weight, self.bias, self.root = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8)), root

    def forward(self, x: Tensor) -> Tensor:
        d = x - x.mean((0, 2, 3), keepdim=True)
        normed = d * self.root((d * d).mean((0, 2, 3), keepdim=True) + 1e-5)
        return normed * self.weight[:, None, None] + self.bias[:, None, None]


class NativeNorm(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        mean, variance = self.running_mean, self.running_var
        return torch.native_batch_norm(x, self.weight, self.bias, mean, variance, self.training, 0.1, 1e-5)[0]


READ_NORMS = ("synflow", "logsynflow", "phi", "zen", "meco", "near", "eznas_a", "eznas_b", "ntk_condition")


@pytest.mark.parametrize(
    "root",
    [
        lambda v: 1 / torch.sqrt(v),
        lambda v: 1 / v.sqrt(),
        lambda v: v**-0.5,
        lambda v: v.pow(-0.5),
        torch.rsqrt,
    ],
    ids=["sqrt", "x.sqrt", "**", "pow", "rsqrt"],
)
def test_norms_by_hand(root: Callable[[Tensor], Tensor]) -> None:
    """Before: synflow 0, 7.4 or 23.2 instead of 192.9, phi 2.3 instead of 5.6, ok."""
    net = changed(4, NormByHand(root))
    without_score(net, *READ_NORMS, reason="no rule covers")
    same(net, "snip", "naswot", "macs")


def test_a_norm_of_the_backend() -> None:
    """Before: eznas_a 2.73 instead of 3.85, meco .93 instead of 1.12, ok."""
    without_score(coded(4, NativeNorm), *READ_NORMS, reason="native_batch_norm")


RELUS: dict[str, Callable[[Tensor], Tensor]] = {
    "masked_fill": lambda x: x.masked_fill(x < 0, 0.0),
    "x[x < 0] = 0": lambda x: (y := x.clone()).__setitem__(y < 0, 0.0) or y,
    "-(-x).clamp(max=0)": lambda x: -(-x).clamp(max=0),
    "-minimum(-x, 0)": lambda x: -torch.minimum(-x, torch.zeros(())),
    "x * (x > 0)": lambda x: x * (x > 0),
    "where": lambda x: torch.where(x > 0, x, 0.0),
    "(x + |x|) / 2": lambda x: (x + x.abs()) / 2,
}


@pytest.mark.parametrize("form", RELUS)
def test_relus_by_hand(form: str) -> None:
    """Before: one ReLU instead of two, naswot 41.8 instead of 44.8, ok."""
    net = changed(5, Fn(RELUS[form]))
    without_score(net, "relu_count", "naswot", "swap", "wrcor", "meco", "near", reason="no rule covers")
    same(net, "snip", "macs")


@pytest.mark.parametrize(
    "form",
    [
        lambda x: functional.leaky_relu(x, 0.0),
        lambda x: x.clamp(min=torch.zeros(())),
        lambda x: torch.maximum(x, torch.zeros_like(x)),
    ],
    ids=["leaky_relu(0)", "clamp(min=tensor)", "maximum"],
)
def test_more_forms_of_a_relu(form: Callable[[Tensor], Tensor]) -> None:
    same(changed(5, Fn(form)), "relu_count", "naswot", "swap", "wrcor", "meco", "near", "snip")


class TwoBranches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 1)
        nn.init.zeros_(self.b.weight)
        nn.init.zeros_(self.b.bias)

    def forward(self, x: Tensor) -> Tensor:
        return torch.maximum(self.a(x), self.b(x))


def test_a_maximum_of_two_branches_is_no_relu() -> None:
    without_score(changed(5, TwoBranches()), "relu_count", "swap", reason="maximum")


def test_a_maximum_along_a_dimension_is_no_relu() -> None:
    net = changed(5, Fn(lambda x: torch.relu(x) * x.max(1, keepdim=True)[0]))
    assert scores(net, "relu_count")["relu_count"].value == 2


class Products(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return (x[:, None] * self.weight).sum(-1) + self.bias


def test_a_matrix_product_by_hand() -> None:
    """Before: grad_norm .868 instead of 1.108, synflow 127 instead of 193, ok."""
    net = coded(8, Products)
    without_score(net, "grad_norm", "snip", "plain", "synflow", "macs", "fisher", reason="mul with a matrix")


@pytest.mark.parametrize("kind", ["prune", "times one"])
def test_a_computed_weight_is_one_weight(kind: str) -> None:
    """Before: vkdnw 10.534 instead of 10.768, since the gradient of what the weight is computed from is zero."""
    net = network()
    if kind == "prune":
        prune.identity(net[3], "weight")
    else:

        class Scaled(nn.Conv2d):
            def forward(self, x: Tensor) -> Tensor:
                return functional.conv2d(x, self.weight * 1.0, self.bias)

        net[3].__class__ = Scaled
    same(net, "vkdnw", "grad_norm", "fisher", "synflow")


class InAList(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)]
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(functional.relu(self.layers[1](self.layers[0](x))).mean((2, 3)))


def test_layers_in_a_plain_list_are_named_and_stay_as_they_are() -> None:
    """Before: grad_norm without the convolution, ok, and the statistics of the norm changed."""
    net = InAList()
    without_score(net, "grad_norm", "macs", "zen", "synflow.bn", "gradsign", reason="plain list: use nn.ModuleList")
    assert net.layers[1].num_batches_tracked == 0


class Loop(nn.Conv2d):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([functional.conv2d(image[None], self.weight, self.bias) for image in x])


def test_a_loop_over_images() -> None:
    """Before: three convolutions instead of two, tpc 12.83 instead of 8.55, ok."""
    net = coded(3, Loop)
    without_score(net, "conv_count", "tpc", reason="runs for a part of the images")
    same(net, "macs")


def test_a_pooling_in_two_steps() -> None:
    """Before: zen -.468 instead of 1.302."""
    same(changed(6, Fn(lambda x: x.mean(3, True).mean(2, True))), "zen", "phi", "naswot")


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x.flatten(2).transpose(1, 2))[0][:, -1])


@pytest.mark.parametrize(
    "net",
    [
        Recurrent(),
        nn.Sequential(nn.Conv2d(3, 8, 3), nn.PReLU(), nn.Flatten(), nn.Linear(288, 4)),
        nn.Sequential(Fn(lambda x: x.float()), *network()),
        nn.Sequential(nn.Flatten(), Fn(lambda x: x[:, :4])),
        nn.Sequential(nn.Flatten(), Fn(lambda x: x[:, :8].T)),
        nn.Sequential(nn.Flatten(), nn.Linear(192, 4), Fn(lambda x: x > 0)),
    ],
    ids=["GRU", "PReLU", "casts", "no parameters", "classes first", "booleans"],
)
def test_networks_that_gave_errors_of_torch(net: nn.Module) -> None:
    found = scores(net)
    assert {name: score.message for name, score in found.items() if score.status == "error"} == {}


def zeroed(place: object, activation: Tensor) -> float:
    activation.zero_()
    return 1.0


def write_labels(y: Tensor = reads(LABELS)) -> float:
    y.zero_()
    return 1.0


def take_layer(layers: list[Any] = reads(LOSS)) -> float:
    layers.pop()
    return 1.0


def take_parameter(parameters: dict[str, Tensor] = reads(PARAMETERS)) -> float:
    parameters.popitem()
    return 1.0


def write_network(operations: Any = reads(OPERATIONS)) -> float:
    with torch.no_grad():
        for parameter in operations.root.module.parameters():
            parameter.add_(1)
    return 1.0


def leave(layers: list[Any] = reads(LOSS)) -> float:
    raise SystemExit(3)


@pytest.mark.parametrize(
    ("function", "status"),
    [(write_labels, "error"), (take_layer, "ok"), (take_parameter, "ok"), (leave, "error")],
)
def test_neighbours_of_a_proxy_that_misbehaves(
    function: Callable[..., float], status: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: the labels of the caller were zeroed, and snip was 1.065 or .885 instead of 1.070."""
    monkeypatch.setattr(PROXIES, "_items", {**PROXIES._items})
    register("misbehaves", paper="none")(function)
    names = ("snip", "grad_norm", "params", "accuracy_at_init")
    y, expected = Y.clone(), scores(network(), *names)
    for order in (("misbehaves", *names), (*names, "misbehaves")):
        found = scores(network(), *order, y=y)
        assert found["misbehaves"].status == status
        assert {name: found[name].value for name in names} == {name: expected[name].value for name in names}
    assert torch.equal(y, Y)


def test_a_reduction_that_writes_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: it was ok, and snip was NaN. What ran after the write is wrong, so nobody has a score of this pass."""
    monkeypatch.setattr(PROXIES, "_items", {**PROXIES._items})

    @register("misbehaves", paper="none")
    def misbehaves(tapped: Any = reads(Tap(DATA, at=relus, reduce=zeroed))) -> float:
        return 1.0

    found = scores(network(), "misbehaves", "snip", "params")
    assert [found[name].status for name in ("misbehaves", "snip", "params")] == ["error", "error", "ok"]
    assert all("the reduction zeroed of a tap wrote" in found[name].message for name in ("misbehaves", "snip"))


def test_a_proxy_that_writes_into_the_network_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PROXIES, "_items", {**PROXIES._items})
    register("misbehaves", paper="none")(write_network)
    found = scores(network(), "misbehaves")["misbehaves"]
    assert (found.status, "wrote into the network" in found.message) == ("error", True)


@pytest.mark.parametrize(
    ("net", "x", "y", "message"),
    [
        (None, X, Y, "network: expected a torch.nn.Module, got NoneType"),
        (network(), X.numpy(), Y, "images: expected a tensor, got ndarray: use torch.as_tensor"),
        (network(), X, Y.tolist(), "labels: expected a tensor, got list: use torch.as_tensor"),
    ],
)
def test_arguments_of_another_kind(net: Any, x: Any, y: Any, message: str) -> None:
    with pytest.raises(BatchError, match=message):
        zcbench.score(net, x, y)


def test_one_name_is_a_list_of_one() -> None:
    assert list(zcbench.score(network(), X, Y, proxies="snip, params")) == ["snip", "params"]
