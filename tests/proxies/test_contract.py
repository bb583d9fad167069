"""The contract of every registered proxy, for any formula."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from zcbench.datasets.tasks import TASKS
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import Score, score_all
from zcbench.spaces import SPACES
from zcbench.spaces.nb201.network import Network, parse

Batch = tuple[Tensor, Tensor]
EVERY = list(PROXIES.values())
STATUSES = {"ok", "nan", "inf", "-inf", "not_applicable", "error"}
BEST = "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"
NO_PATH = "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|none~0|none~1|none~2|"


def cell(text: str = BEST) -> nn.Module:
    torch.manual_seed(1)
    return Network(parse(text), num_classes=10, channels=4, cells=1)


def one(name: str, net: nn.Module, x: Tensor, y: Tensor | None, seed: int = 0) -> Score:
    return score_all(net, x, y, [PROXIES[name]], seed=seed)[0]


def same(a: float, b: float) -> bool:
    return a == b or (math.isnan(a) and math.isnan(b))


@pytest.mark.parametrize("name", PROXIES)
def test_the_card_is_complete(name: str) -> None:
    card = PROXIES[name].card()
    assert card["name"] == name
    assert card["version"] >= 1
    assert card["direction"] in {"higher", "lower"}
    assert card["paper"]
    assert card["summary"].endswith(".")
    assert "$$" in (PROXIES[name].function.__doc__ or "")
    assert PROXIES[name].function.__module__.rsplit(".", 1)[1] == name.split(".", maxsplit=1)[0]


@pytest.mark.parametrize("name", PROXIES)
def test_without_labels_exactly_those_that_read_them_refuse(name: str, batch: Batch) -> None:
    refused = one(name, cell(), batch[0], None).status == "not_applicable"
    assert refused == ("labels" in PROXIES[name].reads)


@pytest.mark.parametrize("name", PROXIES)
def test_the_network_is_left_as_it_was(name: str, batch: Batch) -> None:
    net = cell()
    net.cells[0].eval()
    net.classifier.bias.requires_grad_(False)
    net.stem[0].weight.grad = torch.ones_like(net.stem[0].weight)
    before = copy.deepcopy(net)
    gradients = {key: parameter.grad for key, parameter in net.named_parameters()}
    random_state = torch.get_rng_state()
    x = batch[0].clone()
    one(name, net, *batch)
    assert torch.equal(torch.get_rng_state(), random_state)
    assert torch.equal(batch[0], x)
    assert batch[0].grad is None
    for (key, now), then in zip(net.state_dict().items(), before.state_dict().values(), strict=True):
        assert torch.equal(now, then), key
    for (key, now), (_, then) in zip(net.named_parameters(), before.named_parameters(), strict=True):
        assert now.requires_grad == then.requires_grad, key
        assert now.grad is gradients[key], key
    for (key, now), (_, then) in zip(net.named_modules(), before.named_modules(), strict=True):
        assert now.training == then.training, key
        assert not now._forward_hooks, key
        assert not now._forward_pre_hooks, key
        assert "forward" not in vars(now), key
    assert torch.equal(net.stem[0].weight.grad, torch.ones_like(net.stem[0].weight))


@pytest.mark.parametrize("name", PROXIES)
def test_the_score_is_deterministic_and_independent_of_the_others(name: str, batch: Batch) -> None:
    expected = one(name, cell(), *batch).value
    assert math.isfinite(expected)
    torch.manual_seed(99)  # the global state must not matter
    assert one(name, cell_with_other_noise(), *batch).value == expected
    together, backwards = all_values(batch, 1), all_values(batch, -1)
    assert together[name] == backwards[name] == expected


TOGETHER: dict[int, dict[str, float]] = {}


def all_values(batch: Batch, step: int) -> dict[str, float]:
    if step not in TOGETHER:
        TOGETHER[step] = {s.proxy: s.value for s in score_all(cell(), *batch, EVERY[::step])}
    return TOGETHER[step]


def cell_with_other_noise() -> nn.Module:
    net = cell()
    torch.rand(100)
    return net


@pytest.mark.parametrize("name", PROXIES)
def test_gradients_need_not_be_enabled_by_the_caller(name: str, batch: Batch) -> None:
    with torch.no_grad():
        score = one(name, cell(), *batch)
    assert score.value == one(name, cell(), *batch).value


# Noise and crops are drawn by position, zico and l_swag split the batch, meco and near read the first images.
BY_POSITION = {name for name, proxy in PROXIES.items() if "noise" in proxy.reads} | {
    "linear_regions",
    "zico",
    "zico.b4",
    "zico_bc",
    "l_swag",
    "meco",
    "meco.as_released",
    "meco.opt",
    "near",
}
IN_FLOAT32 = {"eznas_a.as_released": 1e-6}


# Sums over the batch in another order differ in the last digits.
@pytest.mark.parametrize("name", [name for name in PROXIES if name not in BY_POSITION])
def test_the_order_of_the_images_does_not_matter(name: str, batch: Batch) -> None:
    order = torch.randperm(len(batch[0]), generator=torch.Generator().manual_seed(0))
    net, (x, y) = cell().double(), (batch[0].double(), batch[1])
    tolerance = IN_FLOAT32.get(name, 1e-9)
    assert one(name, net, x[order], y[order]).value == pytest.approx(one(name, net, x, y).value, rel=tolerance)


@pytest.mark.parametrize("name", [proxy.name for proxy in EVERY if proxy.batch_free])
def test_a_batch_free_score_is_the_same_for_every_batch(name: str, batch: Batch) -> None:
    x, y = batch
    other = torch.randn(3, *x.shape[1:], generator=torch.Generator().manual_seed(9))
    assert one(name, cell(), x, y).value == one(name, cell(), other, y[:3]).value


@pytest.mark.parametrize("name", PROXIES)
def test_memory_layout_does_not_matter(name: str, batch: Batch) -> None:
    x, y = batch[0].double(), batch[1]
    expected = one(name, cell().double(), x, y).value
    last = x.contiguous(memory_format=torch.channels_last)
    assert one(name, cell().double(), last, y).value == pytest.approx(expected, rel=1e-9, abs=1e-9)
    turned = cell().double().to(memory_format=torch.channels_last)
    assert one(name, turned, x, y).value == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Every block gives zeros. Correlations, shares of zero variance and ratios of zeros are then NaN, and the logarithm of
# a distance of zero is -inf. The kernel of hnas comes from the bias of the classifier.
NO_PATH_STATUS = {
    "jacob_cov": "nan",
    "ntk_condition": "nan",
    "ntk_condition.eval": "nan",
    "az_expressivity": "nan",
    "az_progressivity": "nan",
    "zen": "-inf",
    "phi": "-inf",
}


@pytest.mark.parametrize("name", PROXIES)
def test_a_network_without_a_path_ends_in_a_status(name: str, batch: Batch) -> None:
    score = one(name, cell(NO_PATH), *batch)
    assert score.status in STATUSES
    assert (score.status == "ok") == math.isfinite(score.value)
    # With one image per class epe_nas compares no images, so it is a constant.
    assert score.status == NO_PATH_STATUS.get(name, "ok")


def test_scores_of_a_network_without_a_path(batch: Batch) -> None:
    net = cell(NO_PATH)
    values = {s.proxy: s.value for s in score_all(net, *batch, EVERY)}
    zero = (
        "grad_norm",
        "snip",
        "hnas.grasp",
        "gradsign",
        "gradsign.sum",
        "eznas_a",
        "eznas_a.l2",
        "eznas_a.sum",
        "l_swag",
        "zico",
        "zico.b4",
    )
    for name in zero:
        assert values[name] == 0, name
    # Only the bias of the classifier moves a logit, by one; the labels differ, so the kernel is the identity.
    assert values["ntk_trace"] == values["ntk_trace.as_released"] == 1
    assert values["hnas"] == values["hnas.as_released"] == pytest.approx(1e-2 * (2500**2 - 1) + 1 / (1 + 1e-6))
    # One non-zero eigenvalue, above the highest decile.
    assert values["vkdnw"] == values["vkdnw.as_released"] == values["vkdnw_dim"]


def vgg(*middle: nn.Module, channels: int = 8) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), *middle, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)
    )


class Tokens(nn.Module):
    """A small vision transformer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 16, 4, stride=4)
        self.block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, activation="gelu", batch_first=True)
        self.head = nn.Linear(16, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.block(self.patches(x).flatten(2).mT).mean(1))


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = vgg(nn.ReLU())

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.body(x)


class Keyword(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = vgg(nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        for module in self.body:
            x = module(input=x)
        return x


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = vgg(nn.BatchNorm2d(8), nn.ReLU())
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * self.body(x)


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.third = (nn.Conv2d(3 if i == 0 else 8, 8, 3, padding=1) for i in range(3))
        self.third.weight = self.second.weight
        self.activation, self.pool, self.head = nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Linear(8, 10)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.pool(self.activation(self.third(self.second(self.first(x))))).flatten(1))


class Auxiliary(nn.Module):
    """A second head that does not run."""

    def __init__(self) -> None:
        super().__init__()
        self.body = vgg(nn.BatchNorm2d(8), nn.ReLU())
        self.other = nn.Sequential(nn.Conv2d(8, 8, 3), nn.BatchNorm2d(8), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


NETWORKS = {
    "groups": lambda: vgg(nn.Conv2d(8, 16, 3, padding=1, groups=4), nn.ReLU(), channels=16),
    "dilation": lambda: vgg(nn.Conv2d(8, 8, 3, padding=2, dilation=2), nn.BatchNorm2d(8), nn.ReLU()),
    "depthwise": lambda: vgg(nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.Conv2d(8, 16, 1), nn.ReLU(), channels=16),
    "no norm": lambda: vgg(nn.ReLU()),
    "GELU": lambda: vgg(nn.BatchNorm2d(8), nn.GELU()),
    "SiLU": lambda: vgg(nn.BatchNorm2d(8), nn.SiLU()),
    "GroupNorm": lambda: vgg(nn.GroupNorm(2, 8), nn.ReLU()),
    "linear only": lambda: nn.Sequential(nn.Flatten(), nn.Linear(768, 8), nn.ReLU(), nn.Linear(8, 10)),
    "tuple output": Pair,
    "transformer": Tokens,
    "stateless norm": lambda: vgg(nn.BatchNorm2d(8, affine=False, track_running_stats=False), nn.ReLU()),
    "frozen": lambda: vgg(nn.BatchNorm2d(8), nn.ReLU()).requires_grad_(False),
    "uneven stride": lambda: vgg(nn.Conv2d(8, 8, 3, stride=(2, 1)), nn.BatchNorm2d(8), nn.ReLU()),
    "called by keyword": Keyword,
    "a scalar parameter": Scaled,
    "tied weights": Tied,
    "unused head": Auxiliary,
}
# Proxies that have the status not_applicable; all others must give a finite score.
NO_TRIPLE = {name for name in PROXIES if name.startswith("eznas")}
NO_RELU_MAP = {"swap", "swap.regularised", "l_swag", "linear_regions"}
NO_RELU = {"naswot", "naswot.eval", "naswot.as_released", "wrcor", *NO_RELU_MAP}
NO_BLOCKS = {"az_expressivity", "az_progressivity", "az_trainability"}
NO_POOLING = {"zen", "phi"}
NO_NORM = {"apd"}
STRUCTURE = {"params", "macs", "l2_norm", "conv_count", "relu_count", "vkdnw_dim", "tpc", "nsc"}
NOT_APPLICABLE: dict[str, set[str]] = {
    "groups": {*NO_TRIPLE, *NO_NORM, "linear_regions"},
    "depthwise": {*NO_TRIPLE, *NO_NORM, "linear_regions"},
    "dilation": set(),  # stem, norm and ReLU are a Conv-BatchNorm-ReLU triple
    "no norm": NO_TRIPLE | NO_NORM,
    "GELU": NO_TRIPLE | NO_RELU,
    "SiLU": NO_TRIPLE | NO_RELU,
    "GroupNorm": {*NO_TRIPLE, *NO_NORM, "linear_regions"},
    # Its layers take 16 x 16 pixels, but crops have 4 x 4.
    "linear only": {*NO_TRIPLE, *NO_NORM, *NO_RELU_MAP, *NO_BLOCKS, *NO_POOLING, "tpc"},
    "transformer": NO_TRIPLE | NO_NORM | NO_RELU | NO_BLOCKS | NO_POOLING | {"nsc"},
    "stateless norm": {"zen"},
    "frozen": set(),
    "uneven stride": set(),
    "called by keyword": set(),
    "a scalar parameter": set(),
    "tied weights": {*NO_TRIPLE, *NO_NORM, *NO_BLOCKS, "wrcor"},
    "unused head": set(),
    "tuple output": set(PROXIES) - STRUCTURE,
}


@pytest.mark.parametrize("kind", NETWORKS)
def test_other_networks_are_scored_or_say_why_not(kind: str, batch: Batch) -> None:
    scores = score_all(NETWORKS[kind](), *batch, EVERY)
    refused = {s.proxy for s in scores if s.status == "not_applicable"}
    assert refused == NOT_APPLICABLE[kind]
    assert all(s.message for s in scores if s.proxy in refused)
    assert {s.proxy: s.status for s in scores if s.proxy not in refused and s.status != "ok"} == {}


def test_equal_seeds_give_equal_networks() -> None:
    first, second, other = (
        SPACES["nb201"](None).build(BEST, TASKS["cifar10"], seed=seed).state_dict() for seed in (5, 5, 6)
    )
    assert all(torch.equal(a, b) for a, b in zip(first.values(), second.values(), strict=True))
    assert not torch.equal(first["classifier.weight"], other["classifier.weight"])


def test_equal_seeds_give_equal_scores(batch: Batch) -> None:
    def scores(seed: int) -> list[Score]:
        torch.manual_seed(seed)
        return score_all(Network(parse(BEST), 10, channels=8, cells=1), *batch, EVERY, seed=seed)

    first, second, other = scores(5), scores(5), scores(6)
    assert [s.value for s in first] == [s.value for s in second]
    equal = {a.proxy for a, b in zip(first, other, strict=True) if same(a.value, b.value)}
    # Equal are: structure, a count that saturates at 2^8 patterns, and a comparison of classes of one image each.
    structure = STRUCTURE - {"l2_norm"}
    assert equal == {*structure, "swap", "swap.regularised", "epe_nas"}
