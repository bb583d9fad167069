"""Images, labels and weights that give no score, with and without a path from the images to the logits."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn
from zcbench.errors import BatchError
from zcbench.proxies import PROXIES
from zcbench.proxies.passes import Backward, Forward, PerImage
from zcbench.proxies.passes.core import Pass, chain, expanded
from zcbench.proxies.registry import Score, score_all
from zcbench.spaces.nb201.network import Network, parse

Batch = tuple[Tensor, Tensor]
EVERY = list(PROXIES.values())
ARCHITECTURES = {
    "path": "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|",
    "no path": "|nor_conv_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|none~0|none~1|none~2|",
}
READ_IMAGES = {name for name, proxy in PROXIES.items() if "data" in proxy.reads}
READ_LABELS = {name for name, proxy in PROXIES.items() if "labels" in proxy.reads}


def passes(name: str) -> set[Pass]:
    return {source for need in expanded(PROXIES[name].needs) for source in chain(need.source)}


def forwards(name: str) -> set[Forward]:
    alone = {source.forward for source in passes(name) if isinstance(source, PerImage)}
    return alone | {source for source in passes(name) if isinstance(source, Forward)}


READ_WEIGHTS = {"l2_norm"} | {
    name for name in PROXIES if any(forward.init in {"given", "absolute"} for forward in forwards(name))
}
DIFFERENTIATE = {name for name, proxy in PROXIES.items() if "gradients" in proxy.reads}
DIFFERENTIATE_THE_LOSS = {
    name
    for name in PROXIES
    if any(source.objective.name == "loss" for source in passes(name) if isinstance(source, Backward | PerImage))
}


@pytest.fixture(params=ARCHITECTURES)
def net(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(1)
    return Network(parse(ARCHITECTURES[request.param]), num_classes=10, channels=4, cells=1)


def scores(net: nn.Module, x: Tensor, y: Tensor | None) -> dict[str, Score]:
    return {s.proxy: s for s in score_all(net, x, y, EVERY)}


@pytest.fixture(scope="module")
def known() -> dict[str, dict[str, Score]]:
    return {}


@pytest.fixture
def clean(
    request: pytest.FixtureRequest, known: dict[str, dict[str, Score]], net: nn.Module, batch: Batch
) -> dict[str, Score]:
    """The scores of the network and the batch as they are, computed once."""
    name = request.node.callspec.params["net"]
    if name not in known:
        known[name] = scores(net, *batch)
    return known[name]


def finite(found: dict[str, Score]) -> set[str]:
    return {name for name, score in found.items() if score.status == "ok"}


def as_before(found: dict[str, Score], clean: dict[str, Score], names: set[str]) -> bool:
    return [repr(found[name].value) for name in names] == [repr(clean[name].value) for name in names]


def test_most_proxies_read_something() -> None:
    structure = {"params", "macs", "conv_count", "relu_count", "tpc", "nsc", "vkdnw_dim"}
    drawn = {name for name, proxy in PROXIES.items() if "noise" in proxy.reads and "data" not in proxy.reads}
    assert set(PROXIES) - READ_IMAGES == structure | drawn | {"l2_norm", "synflow", "synflow.bn", "logsynflow"}
    assert {
        "accuracy_at_init",
        "epe_nas",
        "hnas",
        "hnas.as_released",
        "ntk_trace",
        "ntk_trace.as_released",
    } == READ_LABELS - DIFFERENTIATE_THE_LOSS


@pytest.mark.parametrize("pixel", [math.nan, math.inf, -math.inf])
def test_a_pixel_that_is_not_finite(net: nn.Module, pixel: float, batch: Batch, clean: dict[str, Score]) -> None:
    x = batch[0].clone()
    x[5, 1, 8, 8] = pixel
    found = scores(net, x, batch[1])
    assert finite(found) & READ_IMAGES == set()
    assert as_before(found, clean, set(PROXIES) - READ_IMAGES)


@pytest.mark.parametrize(
    "name", ["stem.0.weight", "stem.1.bias", "cells.0.layers.0.op.1.weight", "classifier.weight", "classifier.bias"]
)
def test_a_weight_that_is_not_finite(net: nn.Module, name: str, batch: Batch, clean: dict[str, Score]) -> None:
    net.get_parameter(name).data.view(-1)[0] = math.nan
    found = scores(net, *batch)
    reading = READ_WEIGHTS - ({"l2_norm"} if name.endswith("bias") else set())
    assert finite(found) & reading == set()
    assert as_before(found, clean, set(PROXIES) - reading)


def test_a_logit_that_is_not_finite(net: nn.Module, batch: Batch) -> None:
    net.get_parameter("classifier.bias").data[3] = math.inf
    assert finite(scores(net, *batch)) & {*DIFFERENTIATE_THE_LOSS, "near"} == set()


class _Steep(nn.Module):
    """The identity, with a gradient of NaN."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (x * 0).pow(0.3) * 0


@pytest.mark.parametrize("net", ["path"], indirect=True)
def test_a_gradient_that_is_not_finite(net: nn.Module, batch: Batch, clean: dict[str, Score]) -> None:
    net.get_submodule("cells.2.layers.0.op").append(_Steep())
    found = scores(net, *batch)
    assert finite(found) & DIFFERENTIATE == set()
    others = {name for name in set(PROXIES) - DIFFERENTIATE if not name.startswith("meco")}  # meco reads every module
    assert as_before(found, clean, others)


@pytest.mark.parametrize("label", [-100, -1, 10, 2**40])
def test_a_label_that_is_no_class(net: nn.Module, label: int, batch: Batch, clean: dict[str, Score]) -> None:
    y = batch[1].clone()
    y[3] = label
    found = scores(net, batch[0], y)
    assert {name: found[name].status for name in READ_LABELS} == dict.fromkeys(READ_LABELS, "error")
    assert {name for name in READ_LABELS if "BatchError: labels" not in found[name].message} == set()
    assert as_before(found, clean, set(PROXIES) - READ_LABELS)


@pytest.mark.parametrize(
    "labels", [lambda y: y[:7], lambda y: y.int(), lambda y: y.double(), lambda y: y[:, None], lambda y: y[0]]
)
@pytest.mark.parametrize("proxies", [EVERY, [PROXIES["params"]]], ids=["all", "params"])
def test_labels_of_another_shape_or_kind(labels: object, proxies: list[object], net: nn.Module, batch: Batch) -> None:
    with pytest.raises(BatchError, match=r"labels: expected \(8,\) int64"):
        score_all(net, batch[0], labels(batch[1]), proxies)  # type: ignore[operator,arg-type]


@pytest.mark.parametrize(
    "images",
    [
        lambda x: x.half(),
        lambda x: x.bfloat16(),
        lambda x: x.long(),
        lambda x: (255 * x).to(torch.uint8),
        lambda x: x[:0],
        lambda x: x[0, 0, 0],
        lambda x: x.numpy(),
        lambda x: x.tolist(),
    ],
)
@pytest.mark.parametrize("proxies", [EVERY, [PROXIES["params"]]], ids=["all", "params"])
def test_images_of_another_shape_or_kind(images: object, proxies: list[object], net: nn.Module, batch: Batch) -> None:
    x = images(batch[0])  # type: ignore[operator]
    with pytest.raises(BatchError, match="images: expected"):
        score_all(net, x, batch[1][: len(x)], proxies)  # type: ignore[arg-type]


def test_one_image(net: nn.Module, batch: Batch) -> None:
    found = scores(net, batch[0][:1], batch[1][:1])
    parted = {"zico", "zico.b4", "zico_bc", "l_swag"}
    refused = {name for name, score in found.items() if score.status == "not_applicable"}
    assert refused == parted | {name for name, proxy in PROXIES.items() if proxy.least_images > 1}
    constant = {"az_expressivity", "az_progressivity", "zen", "phi"}
    reached = found["grad_norm"].value > 0
    assert finite(found) == set(PROXIES) - refused - (set() if reached else constant)


@pytest.mark.parametrize("images", [2, 3])
def test_fewer_images_than_parts(net: nn.Module, images: int, batch: Batch) -> None:
    found = scores(net, batch[0][:images], batch[1][:images])
    assert {name for name, score in found.items() if score.status == "not_applicable"} == {"zico.b4", "l_swag"}
