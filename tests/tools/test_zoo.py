"""Architectures of torchvision and timm: every proxy has a score or a reason, and equal functions have equal scores."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import zcbench
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from zcbench.proxies import PROXIES
from zcbench.proxies.operations.calls import IMAGES, Operations
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.tools.zoo import CELLS, CLASSES, SIZE, SLOW, architectures, batch, build, column, general, page

PAGE = Path(zcbench.__file__).parent / "docs" / "zoo.md"
#: Architectures whose columns are computed here; the others take too long for a test.
KEPT = ("torchvision squeezenet1_1", "torchvision shufflenet_v2_x0_5", "timm mixer_s32")
#: Variants that go by modules or their class names, and how parameters are stored.
BY_MODULE = {"naswot.as_released", "meco.as_released"}


@pytest.fixture(scope="module")
def known() -> dict[str, Callable[[], nn.Module]]:
    try:
        return architectures()
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"torchvision or timm is absent or does not fit: {error}")


def recorded(net: nn.Module, size: int = SIZE) -> Operations:
    x = torch.randn(IMAGES, 3, size, size, generator=torch.Generator().manual_seed(0))
    with sdpa_kernel(SDPBackend.MATH):
        return record(Places(net), x, training=True)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", KEPT)
def test_the_page_says_what_is_computed(name: str, known: dict[str, Callable[[], nn.Module]]) -> None:
    found = column(build(known[name]))
    assert "error" not in found.values()
    text = PAGE.read_text("utf-8")
    place = list(known).index(name) + 1
    assert f"{place}. {name}\n" in text
    cells = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", text, flags=re.MULTILINE))
    reasons = dict(re.findall(r"^- \*\*(\w+)\*\*: (.*)$", text, flags=re.MULTILINE))
    for proxy, result in found.items():
        shown = cells[proxy].split(" | ")[place - 1]
        if result in CELLS:
            assert shown == CELLS[result], proxy
        else:
            assert general(reasons[shown]) == general(result), proxy


def test_the_page_has_every_proxy_and_architecture_and_no_error(known: dict[str, Callable[[], nn.Module]]) -> None:
    text = PAGE.read_text("utf-8")
    assert len(known) >= 20
    assert all(f"{place}. {name}\n" in text for place, name in enumerate(known, start=1))
    assert all(f"| `{name}` |" in text for name in PROXIES)
    assert "**error**" not in text


def test_a_page_of_made_up_columns() -> None:
    columns = {"a net": dict.fromkeys(PROXIES, "ok") | {"zen": "sequence (4, 8) of norm in head.norm", "snip": "error"}}
    columns["b net"] = columns["a net"] | {"zen": "sequence (2, 6) of norm in other"}
    text = page(columns)
    assert "| `zen` | a | a |" in text
    assert "| `snip` | **error** | **error** |" in text
    assert "- **a**: sequence (4, 8) of norm in head.norm" in text


@pytest.mark.parametrize(
    ("name", "count", "first", "last"),
    [
        ("torchvision resnet18", 8, "layer1.0", "layer4.1"),
        ("timm resnet18", 8, "layer1.0", "layer4.1"),
        ("torchvision resnet50", 16, "layer1.0", "layer4.2"),
        ("timm convnext_atto", 12, "stages.0.blocks.0", "stages.3.blocks.1"),
        ("torchvision convnext_tiny", 18, "features.1.0", "features.7.2"),
        ("torchvision swin_t", 15, "features.1.0", "features.7.1"),  # with what merges patches between stages
        ("torchvision densenet121", 7, "features.denseblock1", "features.denseblock4"),
        ("torchvision mobilenet_v3_small", 11, "features.1", "features.11"),
        ("torchvision googlenet", 9, "inception3a", "inception5b"),
        ("torchvision squeezenet1_1", 10, "features.3", "features.12"),
        ("timm regnetx_002", 13, "s1.b1", "s4.b7"),
        ("torchvision regnet_x_400mf", 22, "trunk_output.block1.block1-0", "trunk_output.block4.block4-11"),
        ("torchvision mobilenet_v2", 17, "features.1", "features.17"),  # neither stem nor head
    ],
)
def test_blocks_are_the_whole_chain(
    name: str, count: int, first: str, last: str, known: dict[str, Callable[[], nn.Module]]
) -> None:
    blocks = recorded(build(known[name])).blocks
    assert (len(blocks), blocks[0], blocks[-1]) == (count, first, last)


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("torchvision swin_t", True),
        ("torchvision convnext_tiny", False),
        ("timm convnext_atto", False),
        ("torchvision resnet18", False),
        ("timm mixer_s32", False),
    ],
)
def test_blocks_with_channels_last_are_known(name: str, last: bool, known: dict[str, Callable[[], nn.Module]]) -> None:
    assert recorded(build(known[name])).has_channels_last is last


@pytest.mark.parametrize(
    "name",
    ["torchvision mobilenet_v3_small", "timm efficientnet_b0", "timm convnext_atto", "torchvision swin_t"],
)
def test_the_last_feature_map_is_the_one_before_the_logits(
    name: str, known: dict[str, Callable[[], nn.Module]]
) -> None:
    call, side = recorded(build(known[name])).feature_map
    assert side == "input"
    assert call.seen[2:] == (SIZE // 32, SIZE // 32)  # not that of a squeeze-and-excite


class Attention(nn.Module):
    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 16, 4, stride=4)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=batch_first)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).permute(0, 2, 1)
        return self.head(self.layer(tokens).mean(1))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 8, 3, stride=2, groups=1), nn.ConvTranspose2d(8, 6, 4, stride=2, groups=2)
        self.head = nn.Linear(6, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.up(self.down(x)).mean((2, 3)))


OWN: dict[str, Callable[[], nn.Module]] = {
    "attention": lambda: Attention(batch_first=True),
    "attention, positions first": lambda: Attention(batch_first=False),
    "transposed convolution": Decoder,
}


def all_networks() -> list[str]:
    try:
        return [*OWN, *architectures()]
    except (ImportError, RuntimeError):
        return [*OWN]


@pytest.mark.parametrize("name", all_networks())
def test_products_are_those_of_an_independent_counter(name: str) -> None:
    net = build(OWN[name] if name in OWN else architectures()[name])
    x = torch.randn(IMAGES, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(0))
    # The counter does not know fused attention on CPUs, but the products that it consists of.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH), torch.no_grad():
        copy.deepcopy(net).train()(x)
    products = sum(call.products for call in recorded(net).running)
    assert 2 * products == counter.get_total_flops()


def same_weights(first: nn.Module, second: nn.Module) -> nn.Module:
    """Give the second network the weights of the first, in the order of definition."""
    tensors = zip(second.state_dict(), first.state_dict().values(), strict=True)
    second.load_state_dict(dict(tensors))
    return second


class FunctionalResnet(nn.Module):
    """ResNet-18 as functions of the weights of another one."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        net = self.net
        x = functional.relu(self.norm(net.bn1, functional.conv2d(x, net.conv1.weight, stride=2, padding=3)))
        x = functional.max_pool2d(x, 3, 2, 1)
        for layer in (net.layer1, net.layer2, net.layer3, net.layer4):
            for block in layer:
                x = self.block(block, x)
        return functional.linear(x.mean((2, 3)), net.fc.weight, net.fc.bias)

    def block(self, block: Any, x: Tensor) -> Tensor:
        y = functional.conv2d(x, block.conv1.weight, stride=block.stride, padding=1)
        y = torch.relu(self.norm(block.bn1, y))
        y = self.norm(block.bn2, functional.conv2d(y, block.conv2.weight, padding=1))
        if block.downsample is not None:
            x = functional.conv2d(x, block.downsample[0].weight, stride=block.stride)
            x = self.norm(block.downsample[1], x)
        y += x
        return y.relu_()

    @staticmethod
    def norm(norm: Any, x: Tensor) -> Tensor:
        return functional.batch_norm(x, norm.running_mean, norm.running_var, norm.weight, norm.bias, True)


@pytest.mark.timeout(300)
def test_two_codings_of_one_function_have_equal_scores(known: dict[str, Callable[[], nn.Module]]) -> None:
    first = build(known["torchvision resnet18"]).double()
    second = same_weights(first, build(known["timm resnet18"]).double())
    x, y = batch(2)
    slow = {*SLOW, "vkdnw", "vkdnw.as_released"}
    names = [name for name in PROXIES if name not in {*slow, *BY_MODULE, "zico.b4", "l_swag"}]
    expected = zcbench.score(first, x.double(), y, proxies=names)
    for net, but in ((second, set()), (FunctionalResnet(first), BLOCKS)):
        found = zcbench.score(net, x.double(), y, proxies=[name for name in names if name not in but])
        for name, score in found.items():
            assert score.status == expected[name].status, (name, score.message)
            assert score.value == pytest.approx(expected[name].value, rel=1e-6, nan_ok=True), name


#: Blocks are modules, of which a network of functions has none; eval mode is not written there.
BLOCKS = {"az_expressivity", "az_progressivity", "az_trainability", "wrcor", "naswot.eval", "naswot_conv.eval"}
