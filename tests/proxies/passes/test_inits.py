from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from zcbench.errors import NotApplicableError
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.proxies.passes.inits import INITS, State
from zcbench.spaces.nb201.network import Network, parse

CELL = parse("|nor_conv_3x3~0|+|avg_pool_3x3~0|nor_conv_1x1~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|")
#: Images that the network `mixed` takes.
MIXED = (3, 10, 10)
REDRAWN = ("gaussian", "kaiming_fan_in", "kaiming_fan_out", "thin")


def state(init: str, net: nn.Module, seed: int = 0, shape: tuple[int, ...] = (3, 16, 16)) -> State:
    places = Places(net)
    dtype = next((p.dtype for p in net.parameters()), torch.float32)
    operations = record(places, torch.zeros(2, *shape).to(dtype), training=True)
    return INITS[init](operations, places.state(), torch.Generator().manual_seed(seed))


def mixed() -> nn.Sequential:
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, groups=4),
        nn.GroupNorm(4, 16),
        nn.Flatten(2),
        nn.Conv1d(16, 8, 5),
        nn.Flatten(),
        nn.LayerNorm(256),
        nn.Linear(256, 10),
    )
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.5)
    return net


def cells(channels: int) -> Network:
    torch.manual_seed(0)
    return Network(CELL, num_classes=10, channels=channels, cells=1)


@pytest.mark.parametrize("init", INITS)
def test_the_network_is_left_as_it_was(init: str) -> None:
    net = cells(4)
    before, random_state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    made = state(init, net)
    assert torch.equal(torch.get_rng_state(), random_state)
    for name, tensor in net.state_dict().items():
        assert torch.equal(tensor, before[name]), name
        assert made[name].data_ptr() != tensor.data_ptr(), name


@pytest.mark.parametrize("init", INITS)
def test_every_parameter_and_buffer_has_a_tensor_of_its_kind(init: str) -> None:
    net = cells(4).double()
    made = state(init, net)
    assert {name: tensor.dtype for name, tensor in made.items()} == {k: v.dtype for k, v in net.state_dict().items()}
    assert functional_call(net, made, (torch.zeros(2, 3, 8, 8).double(),)).shape == (2, 10)


@pytest.mark.parametrize("init", REDRAWN)
def test_draws_repeat_and_differ_between_seeds(init: str) -> None:
    first, second, other = state(init, cells(4), 0), state(init, cells(4), 0), state(init, cells(4), 1)
    assert all(torch.equal(a, b) for a, b in zip(first.values(), second.values(), strict=True))
    weights = [name for name, tensor in first.items() if tensor.ndim > 1]
    assert not any(torch.equal(first[name], other[name]) for name in weights)


@pytest.mark.parametrize("init", REDRAWN)
def test_draws_do_not_depend_on_the_weights_or_their_kind(init: str) -> None:
    net = cells(4).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.fill_(math.nan)
    expected = state(init, cells(4))
    assert all(torch.equal(tensor, expected[name].to(tensor)) for name, tensor in state(init, net).items())


def test_given_are_copies_of_the_parameters_and_buffers() -> None:
    net = mixed()
    made = state("given", net, shape=MIXED)
    for name, tensor in (*net.named_parameters(), *net.named_buffers()):
        assert torch.equal(made[name], tensor)
        assert made[name].data_ptr() != tensor.data_ptr()
        assert not made[name].requires_grad


def test_absolute_values() -> None:
    net = mixed()
    with torch.no_grad():
        net[0].weight.sub_(1)
        net[1].running_mean.sub_(1)
        net[1].num_batches_tracked.sub_(3)
    made = state("absolute", net, shape=MIXED)
    for name, tensor in net.state_dict().items():
        expected = tensor if tensor.dtype == torch.int64 else tensor.abs()
        assert torch.equal(made[name], expected), name
    assert (made["0.weight"] != net[0].weight).any()


def expected_weight(init: str, weight: Tensor, linear: bool, generator: torch.Generator) -> Tensor:
    tensor = torch.empty(weight.shape)
    if init == "gaussian":
        return tensor.normal_(generator=generator)
    if init == "kaiming_fan_out" and linear:
        return tensor.normal_(0, 0.01, generator=generator)
    return nn.init.kaiming_normal_(tensor, mode=init.removeprefix("kaiming_"), nonlinearity="relu", generator=generator)


@pytest.mark.parametrize("init", ["gaussian", "kaiming_fan_in", "kaiming_fan_out"])
def test_weights_are_those_of_the_framework(init: str) -> None:
    net = mixed()
    made, generator = state(init, net, shape=MIXED), torch.Generator().manual_seed(0)
    for i, module in enumerate(net):
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Linear)):
            weight = expected_weight(init, module.weight, isinstance(module, nn.Linear), generator)
            assert torch.equal(made[f"{i}.weight"], weight)
            assert not made[f"{i}.bias"].any()
        elif isinstance(module, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
            assert (made[f"{i}.weight"] == 1).all()
            assert not made[f"{i}.bias"].any()


@pytest.mark.parametrize(
    ("init", "deviations"),
    [
        ("gaussian", (1, 1, 1, 1)),
        ("kaiming_fan_in", (2 / (3 * 9), 2 / (128 // 4 * 9), 2 / (64 * 3), 2 / 500)),
        ("kaiming_fan_out", (2 / (128 * 9), 2 / (64 * 9), 2 / (500 * 3), 0.01**2)),
    ],
)
def test_variances(init: str, deviations: tuple[float, ...]) -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 128, 3),
        nn.Conv2d(128, 64, 3, groups=4),
        nn.Flatten(2),
        nn.Conv1d(64, 500, 3),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(500, 100),
    )
    made = state(init, net)
    for i, variance in zip((0, 1, 3, 6), deviations, strict=True):
        weight = made[f"{i}.weight"]
        # Five standard errors of a variance.
        assert weight.var().item() == pytest.approx(variance, rel=5 * math.sqrt(2 / weight.numel()))
        assert weight.mean().item() == pytest.approx(0, abs=5 * math.sqrt(variance / weight.numel()))


def test_thin_is_the_network_of_one_channel() -> None:
    thin, small = state("thin", cells(4)), state("kaiming_fan_out", cells(1))
    assert {name: tensor.shape for name, tensor in thin.items()} == {k: v.shape for k, v in small.items()}
    assert all(torch.equal(thin[name], tensor) for name, tensor in small.items())


def test_thin_keeps_colours_and_classes() -> None:
    net = nn.Sequential(
        nn.Conv2d(3, 4, 3),
        nn.ReLU(),
        nn.Conv2d(4, 12, 1),
        nn.BatchNorm2d(12),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(12, 4),
    )
    made = state("thin", net)
    assert made["0.weight"].shape == (1, 3, 3, 3)
    assert made["2.weight"].shape == (3, 1, 1, 1)
    assert made["3.running_var"].shape == (3,)
    assert made["6.weight"].shape == (4, 3)
    assert made["6.bias"].shape == (4,)


@pytest.mark.parametrize(
    ("net", "reason"),
    [
        (mixed(), "without groups"),
        (
            nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3), nn.Conv2d(6, 8, 3)),
            "1.weight: 6 is no multiple of 4",
        ),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.LayerNorm(8), nn.Linear(8, 4)), "only convolutions"),
        (nn.Sequential(nn.Conv2d(3, 4, 3), nn.PReLU(4), nn.Conv2d(4, 4, 3)), "only convolutions"),
        (nn.Sequential(nn.Flatten(2), nn.TransformerEncoderLayer(100, 2, 8)), "only convolutions"),
        (nn.ReLU(), "only convolutions"),
    ],
)
def test_thin_refuses_other_networks(net: nn.Module, reason: str) -> None:
    with pytest.raises(NotApplicableError, match=reason):
        state("thin", net, shape=MIXED)
