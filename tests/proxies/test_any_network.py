"""Networks that people bring: scores depend on what a network computes, not on how it is written."""

from __future__ import annotations

import copy
import random
import warnings
from collections.abc import Callable

import numpy as np
import pytest
import torch
import zcbench
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations, prune, spectral_norm, weight_norm
from zcbench.errors import BatchError
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.proxies.passes.inits import INITS
from zcbench.proxies.registry import Score

X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(1))
Y = torch.tensor([0, 1, 2, 1])
#: Variants that choose modules by class name.
BY_MODULE = {"naswot.as_released", "meco.as_released"}
#: Proxies that read blocks, which are modules.
BY_BLOCK = {"az_expressivity", "az_progressivity", "az_trainability", "wrcor"}
#: Proxies that count parameters as they are stored, or read the first 128 tensors.
STORED = {"params", "vkdnw_dim", "vkdnw", "vkdnw.as_released", "grad_norm.all_params", "swap.regularised"}


def base() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 3),
    )


def scores(net: nn.Module, *names: str, x: Tensor = X, y: Tensor | None = Y) -> dict[str, Score]:
    return zcbench.score(net, x, y, proxies=names or None)


def values(net: nn.Module, *names: str) -> dict[str, tuple[float, str]]:
    return {name: (score.value, score.status) for name, score in scores(net, *names).items()}


@pytest.fixture(scope="module")
def plain() -> dict[str, tuple[float, str]]:
    return values(base())


def equal(found: dict[str, tuple[float, str]], plain: dict[str, tuple[float, str]], but: set[str] = BY_MODULE) -> None:
    for name, (value, status) in found.items():
        if name not in but:
            assert status == plain[name][1], name
            assert value == pytest.approx(plain[name][0], rel=1e-5, nan_ok=True), name


class Alias(nn.Module):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.body = base()
        self.last = self.body[3]

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class OneReLU(nn.Module):
    """One ReLU module that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body = base()
        self.body[5] = self.body[2]

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Functional(nn.Module):
    """The network as functions of its weights; ReLUs in every form."""

    def __init__(self, in_place: bool = False) -> None:
        super().__init__()
        self.body = base()
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        first, norm, _, second, other, _, _, _, head = self.body
        x = norm(functional.conv2d(x, first.weight, padding=1))
        if self.in_place:
            torch.relu_(x)  # the result is not used
        else:
            x = x.relu()
        x = other(nn.functional.conv2d(input=x, weight=second.weight, padding=(1, 1)))
        x = functional.relu(x, inplace=self.in_place)
        return functional.linear(x.mean((2, 3)), head.weight, head.bias)


class UnusedHead(nn.Module):
    """A head that never runs, defined before the network."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 4, 1))
        self.body = base()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Normed(nn.BatchNorm2d):
    """A subclass of batch norm that ends in a ReLU."""

    def forward(self, input: Tensor) -> Tensor:
        return functional.relu(super().forward(input))


def fused() -> nn.Module:
    body = base()
    return nn.Sequential(body[0], Normed(4), body[3], Normed(4), *body[6:])


def synchronised() -> nn.Module:
    return nn.SyncBatchNorm.convert_sync_batchnorm(base())


def compiled() -> nn.Module:
    return torch.compile(base())  # type: ignore[return-value]


def compiled_in_place() -> nn.Module:
    net = base()
    net.compile()
    return net


SAME: dict[str, tuple[Callable[[], nn.Module], set[str]]] = {
    "a module of two names": (Alias, BY_MODULE),
    "a module called twice": (OneReLU, {*BY_MODULE, *BY_BLOCK}),
    "functions": (Functional, {*BY_MODULE, *BY_BLOCK}),
    "in place": (lambda: Functional(in_place=True), {*BY_MODULE, *BY_BLOCK}),
    "a head that never runs": (UnusedHead, {*BY_MODULE, *STORED}),
    # The members of its sequence, which are its blocks, are others.
    "batch norm fused with ReLU": (fused, {*BY_MODULE, *BY_BLOCK}),
    "synchronised batch norm": (synchronised, BY_MODULE),
    "compiled": (compiled, set()),
    "compiled in place": (compiled_in_place, set()),
}


@pytest.mark.parametrize("kind", SAME)
def test_equal_functions_have_equal_scores(kind: str, plain: dict[str, tuple[float, str]]) -> None:
    build, but = SAME[kind]
    net = build()
    before = copy.deepcopy(net.state_dict())
    equal(values(net), plain, but)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert all(isinstance(parameter, nn.Parameter) for parameter in net.parameters())


def test_scores_of_the_plain_network(plain: dict[str, tuple[float, str]]) -> None:
    # The first three by the plain modules of torch with hooks, before this test existed; fisher is checked by hand in
    # test_equivalences.
    expected = {"fisher": 0.08517, "eznas_a": 2.20315, "wrcor": 16.88871, "zen": 1.48400, "near": 18.23214}
    for name, value in expected.items():
        assert plain[name][0] == pytest.approx(value, abs=5e-5 if value > 1 else 5e-6), name


def old_weight_norm(module: nn.Module) -> nn.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        return weight_norm(module)


PARAMETRISED: dict[str, Callable[[nn.Module], nn.Module]] = {
    "weight norm": parametrizations.weight_norm,
    "weight norm by hooks": old_weight_norm,
    "spectral norm": parametrizations.spectral_norm,
    "spectral norm by hooks": spectral_norm,
    "pruning": lambda module: prune.identity(module, "weight"),
}


@pytest.mark.parametrize("kind", PARAMETRISED)
def test_weights_are_what_operations_use(kind: str, plain: dict[str, tuple[float, str]]) -> None:
    net = base()
    PARAMETRISED[kind](net[3])
    before, attributes = copy.deepcopy(net.state_dict()), set(vars(net[3]))
    found = values(net)
    # Spectral norm divides the weight, which a batch norm after it does not see but for its epsilon, and l2_norm does.
    scaled = {"l2_norm", "synflow", "synflow.bn", "logsynflow", "ntk_trace", "ntk_trace.as_released", "grasp"}
    scaled |= {"grad_norm", "hnas.grad", "hnas.grasp", "zico", "zico_bc", "zico.b4", "l_swag", "plain", "hnas.snip"}
    scaled |= {"ntk_condition", "ntk_condition.eval", "hnas", "hnas.as_released", "fisher_trace", "snip", "near"}
    scaled |= {"naswot.eval", "naswot_conv.eval", "epe_nas", "jacob_cov", "wrcor", "fisher"}
    assert found["linear_regions"][1] == "not_applicable"  # a computed weight cannot be made thin
    equal(found, plain, {"linear_regions", *STORED, *BY_MODULE, *(scaled if "spectral" in kind else ())})
    for name in ("zen", "swap", "eznas_a", "phi"):  # weights are drawn
        assert found[name][0] == pytest.approx(plain[name][0], rel=1e-6), name
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state_dict().items())
    assert set(vars(net[3])) == attributes


def test_attention_counts_and_is_drawn() -> None:
    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.embed, self.attend = nn.Linear(3, 8), nn.MultiheadAttention(8, 2, batch_first=True)
            self.head = nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.embed(x.flatten(2).mT)
            return self.head(self.attend(x, x, x)[0].mean(1))

    found = scores(Attention())
    # 64 tokens: embedding, three projections, two products of 64 x 64 x 8, a projection, and the head; with biases.
    expected = 64 * 8 * (3 + 1) + 3 * 64 * 8 * (8 + 1) + 2 * 64 * 64 * 8 + 64 * 8 * (8 + 1) + 3 * (8 + 1)
    assert found["macs"].value == expected
    assert {name: score.message for name, score in found.items() if score.status == "error"} == {}
    double = copy.deepcopy(Attention())
    with torch.no_grad():
        double.attend.in_proj_weight.mul_(3)
    drawn = ("vkdnw", "swap", "az_expressivity")
    assert [s.value for s in scores(double, *drawn).values()] == pytest.approx(
        [s.value for s in scores(Attention(), *drawn).values()], nan_ok=True
    )


def test_transposed_convolutions_count() -> None:
    # 3 x 64 scalars of the input meet 6 x 2 x 2 weights each; 18 for the linear map.
    net = nn.Sequential(
        nn.ConvTranspose2d(3, 6, 2, stride=2, bias=False),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 3, bias=False),
    )
    found = scores(net, "macs", "conv_count", "snip", "l2_norm")
    assert found["macs"].value == 3 * 64 * 24 + 18 == 4626
    assert found["conv_count"].value == 1
    loss = functional.cross_entropy(net(X), Y)
    gradients = torch.autograd.grad(loss, list(net.parameters()))
    snip = sum((w * g).abs().sum().item() for w, g in zip(net.parameters(), gradients, strict=True))
    assert found["snip"].value == pytest.approx(snip, rel=1e-6)
    assert found["l2_norm"].value == pytest.approx(sum(w.norm().item() for w in net.parameters()), rel=1e-6)


class InPlaceSum(nn.Module):
    def __init__(self, in_place: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1), nn.Conv2d(3, 4, 3, padding=1)
        self.third, self.head = nn.Conv2d(4, 4, 1), nn.Linear(4, 3)
        self.in_place = in_place

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x)
        if self.in_place:
            y += self.second(x)
            y += self.third(functional.relu(y))
            y[:, 0] = 0
        else:
            y = y + self.second(x)
            y = y + self.third(functional.relu(y))
            y = torch.cat([0 * y[:, :1], y[:, 1:]], 1)
        return self.head(y.mean((2, 3)))


def test_activations_are_read_before_they_are_overwritten() -> None:
    found, expected = values(InPlaceSum(True)), values(InPlaceSum(False))
    equal(found, expected, {*BY_MODULE, "near", "meco", "meco.opt"})
    assert found["fisher"][0] == pytest.approx(expected["fisher"][0], rel=1e-9)


NORMS: dict[str, Callable[[], nn.Module]] = {
    "instance norm": lambda: nn.InstanceNorm2d(4, affine=True),
    "group norm": lambda: nn.GroupNorm(2, 4),
    "layer norm": lambda: nn.LayerNorm([4, 8, 8]),
    "RMS norm": lambda: nn.RMSNorm([4, 8, 8]),
    "local response norm": lambda: nn.LocalResponseNorm(2),
}


@pytest.mark.parametrize("kind", NORMS)
def test_every_norm_is_bypassed(kind: str, plain: dict[str, tuple[float, str]]) -> None:
    net = nn.Sequential(*(NORMS[kind]() if isinstance(m, nn.BatchNorm2d) else m for m in base()))
    for name in ("synflow", "logsynflow", "phi"):
        assert values(net, name)[name] == (pytest.approx(plain[name][0], rel=1e-12), "ok")


def test_a_norm_by_hand_cannot_be_bypassed() -> None:
    class ByHand(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x * torch.rsqrt(x.square().mean((1, 2, 3), keepdim=True) + 1e-5)

    net = nn.Sequential(*(ByHand() if isinstance(m, nn.BatchNorm2d) else m for m in base()))
    found = scores(net, "synflow", "snip")
    assert found["synflow"].status == "not_applicable"
    assert "rsqrt" in found["synflow"].message
    assert found["snip"].status == "ok"


def _dtype() -> dict[str, tuple[float, str]]:
    net = base()
    torch.set_default_dtype(torch.float64)
    try:
        return values(net)
    finally:
        torch.set_default_dtype(torch.float32)


def _autocast() -> dict[str, tuple[float, str]]:
    with torch.autocast("cpu", torch.bfloat16):
        return values(base())


def _inference() -> dict[str, tuple[float, str]]:
    with torch.inference_mode():
        net = base()
        return {k: (s.value, s.status) for k, s in scores(net, x=X.clone(), y=Y.clone()).items()}


def _device() -> dict[str, tuple[float, str]]:
    net = base()
    with torch.device("meta"):
        return values(net)


def _no_grad() -> dict[str, tuple[float, str]]:
    with torch.no_grad():
        return values(base())


@pytest.mark.parametrize("setting", [_dtype, _autocast, _inference, _device, _no_grad])
def test_settings_of_the_process_do_not_matter(
    setting: Callable[[], dict[str, tuple[float, str]]], plain: dict[str, tuple[float, str]]
) -> None:
    found = setting()
    assert {name: f for name, f in found.items() if repr(f) != repr(plain[name])} == {}
    assert torch.get_default_dtype() == torch.float32
    assert torch.get_default_device() == torch.device("cpu")


class Draws(nn.Module):
    """A network that draws from all three global generators, and keeps what it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self.body = base()
        self.calls = 0
        self.cache = torch.zeros(3)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.cache += 1
        self.body[0].weight.data.mul_(0.5)
        self.last = x
        return self.body(x * random.random() * float(np.random.rand()) * torch.rand(()))


def test_a_network_that_draws_and_writes_stays_as_it_was() -> None:
    net = Draws()
    weight, states = net.body[0].weight.clone(), (random.getstate(), np.random.get_state()[1].tolist())
    first = scores(net, "synflow", "snip", "naswot", "macs")
    assert (random.getstate(), np.random.get_state()[1].tolist()) == states
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    again = scores(net, "synflow", "snip", "naswot", "macs")
    assert [s.value for s in first.values()] == [s.value for s in again.values()]
    assert torch.equal(net.body[0].weight, weight)
    assert net.calls == 0
    assert not net.cache.any()
    assert not hasattr(net, "last")


def test_outputs_that_tell_nothing_have_a_note() -> None:
    features = scores(base()[:-1], "snip", "naswot")
    assert "are they logits?" in features["snip"].message
    assert not features["naswot"].message
    net = base()
    nn.init.zeros_(net[8].weight)
    assert "the last layer is zero" in scores(net, "snip")["snip"].message
    assert "all 2^4 patterns" in scores(base(), "swap")["swap"].message
    assert not scores(base(), "snip")["snip"].message


class Early(nn.Module):
    """A ReLU on the images, before any weight."""

    def __init__(self) -> None:
        super().__init__()
        self.body = base()

    def forward(self, x: Tensor) -> Tensor:
        return self.body(functional.relu(x))


def test_a_tap_before_all_weights_does_not_depend_on_the_plan() -> None:
    alone = scores(Early(), "wrcor")["wrcor"].value
    together = scores(Early(), "snip", "grad_norm", "wrcor", "jacob_cov")["wrcor"].value
    assert alone == together


def test_a_network_that_views_keeps_the_layout_of_its_images() -> None:
    class View(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.convolution, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(256, 3)

        def forward(self, x: Tensor) -> Tensor:
            x = self.convolution(x)
            return self.head(x.view(x.shape[0], -1))

    assert {name: s.message for name, s in scores(View()).items() if s.status == "error"} == {}


def test_one_image_and_a_norm_of_pooled_channels_is_a_reason() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 3)
    )
    found = scores(net, x=X[:1], y=Y[:1])
    assert {name: s.message for name, s in found.items() if s.status == "error"} == {}
    assert "single value per channel" in found["snip"].message


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (base().half(), "expected the dtype of the images, torch.float32, got torch.float16"),
        (nn.Sequential(nn.Flatten(), nn.LazyLinear(3)), "lazy"),
    ],
)
def test_networks_that_cannot_be_run_are_one_line(net: nn.Module, reason: str) -> None:
    with pytest.raises(BatchError, match=reason):
        scores(net)


def test_an_operation_without_a_second_derivative_is_a_reason() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.Hardsigmoid(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    found = scores(net, "grasp", "snip")
    assert found["grasp"].status == "not_applicable"
    assert "hardsigmoid" in found["grasp"].message
    assert found["snip"].status == "ok"


def test_operations_without_a_rule_are_named() -> None:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.lstm(x.flatten(2).mT)[0][:, -1])

    found = scores(Recurrent())
    assert {name: s.message for name, s in found.items() if s.status == "error"} == {}
    for name in ("snip", "macs", "synflow", "l2_norm", "zico", "fisher", "conv_count"):
        assert found[name].status == "not_applicable", name
        assert "lstm" in found[name].message, name
    assert found["params"].status == found["jacob_cov"].status == "ok"


def test_a_scripted_network_is_not_seen_and_says_so() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        net = torch.jit.script(base())
    found = scores(net, "snip", "macs", "naswot", "params")
    assert found["params"].status == "ok"
    for name in ("snip", "macs", "naswot"):
        assert found[name].status == "not_applicable", name


def test_an_error_of_the_network_is_an_error() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Tensor:
            raise RuntimeError("planted")

    found = scores(Broken())
    assert found["linear_regions"].status == found["snip"].status == "error"
    assert "planted" in found["linear_regions"].message


def test_operations_that_change_from_run_to_run_are_a_reason() -> None:
    class Sometimes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = base()

        def forward(self, x: Tensor) -> Tensor:
            return self.body(functional.relu(x) if len(x) == 4 else x)

    found = scores(Sometimes(), "snip", "params")
    assert found["snip"].status == "not_applicable"
    assert "change from run to run" in found["snip"].message


class Product(nn.Module):
    """A linear map in one of its forms, between two others."""

    def __init__(self, form: str, name: str = "weight") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.form, self.name = form, name
        self.stem = nn.Sequential(nn.Flatten(), nn.Linear(192, 6), nn.ReLU())
        draw = torch.Generator().manual_seed(0)
        torch.nn.init.normal_(self.stem[1].weight, 0.0, 0.1, generator=draw)
        weight = torch.randn(8, 6, generator=draw)
        self.register_parameter(name, nn.Parameter(weight.T.contiguous() if form == "x @ w" else weight))
        self.bias = nn.Parameter(torch.zeros(8))
        self.head = nn.Linear(8, 3)
        torch.nn.init.normal_(self.head.weight, 0.0, 0.1, generator=draw)

    def forward(self, x: Tensor) -> Tensor:
        x, w = self.stem(x), getattr(self, self.name)
        forms: dict[str, Callable[[], Tensor]] = {
            "linear": lambda: functional.linear(x, w, self.bias),
            "addmm": lambda: torch.addmm(self.bias, x, w.T),
            "matmul": lambda: x.matmul(w.mT) + self.bias,
            "@": lambda: x @ w.t() + self.bias,
            "x @ w": lambda: x @ w + self.bias,
            "mm": lambda: torch.mm(x, w.transpose(0, 1)) + self.bias,
            "view": lambda: functional.linear(x, w.view(2, 4, 6).reshape(8, 6), self.bias),
        }
        return self.head(torch.relu(forms[self.form]()))


@pytest.mark.parametrize("form", ["addmm", "matmul", "@", "mm", "view"])
def test_forms_of_a_linear_map_are_one(form: str) -> None:
    """`addmm(bias, x, W.T)` was an error in ntk_trace.as_released, and was drawn by a wrong fan-in."""
    added = set() if form in {"addmm", "view"} else {"macs", "ntk_trace", "ntk_trace.as_released", "hnas", "tnrd"}
    added |= {"hnas.as_released"} if added else set()
    equal(values(Product(form)), values(Product("linear")), {*BY_MODULE, *added, *BY_BLOCK})


def test_a_matrix_that_is_multiplied_from_the_right_has_the_fan_in_of_its_rows() -> None:
    operations = record(Places(Product("x @ w")), X, training=True)
    state = INITS["kaiming_fan_in"](operations, Product("x @ w").state_dict(), torch.Generator().manual_seed(0))
    assert operations.weights[0].name == "weight"  # it is drawn first
    draw = torch.Generator().manual_seed(0)
    assert torch.equal(state["weight"], torch.empty(6, 8).normal_(0.0, (2 / 6) ** 0.5, generator=draw))


def test_ntk_condition_does_not_read_the_names_of_parameters() -> None:
    names = ("ntk_condition", "ntk_condition.eval")
    assert values(Product("linear", "kernel"), *names) == values(Product("linear"), *names)


class Plain(nn.Module):
    """A block without a ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.gelu(self.conv(x))


def test_wrcor_without_a_relu_in_a_block_is_a_reason() -> None:
    """Before, the score was -inf: no ReLU was in a block or after one, and the sum over blocks was empty."""
    stem = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU())
    head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    found = scores(nn.Sequential(stem, Plain(), Plain(), head), "wrcor")["wrcor"]
    assert (found.status, found.message) == ("not_applicable", "no ReLU runs in a block of the network or after one")
