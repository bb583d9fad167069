from __future__ import annotations

import gc
import itertools
import weakref
from typing import Literal

import pytest
import torch
from torch import Tensor, nn
from zcbench.errors import NotApplicableError
from zcbench.proxies import PROXIES
from zcbench.proxies.naswot import called_relu
from zcbench.proxies.operations.calls import Call, Operations
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.proxies.passes import DATA, JACOBIAN, LOSS_PASS, Backward, OfEach, ParameterGradients, Signs, Tap
from zcbench.proxies.passes.objectives import SUM
from zcbench.proxies.passes.taps import blocks, first_block, layers, relus
from zcbench.proxies.probe import Probe

Batch = tuple[Tensor, Tensor]

EIGHT = ("grad_norm", "snip", "fisher", "jacob_cov", "plain", "synflow", "l2_norm", "naswot")


def small() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1, bias=False),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Conv2d(4, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 10),
    )


def planned(names: tuple[str, ...], net: nn.Module, batch: Batch) -> Probe:
    probe = Probe(net, *batch, plan=itertools.chain.from_iterable(PROXIES[name].needs for name in names))
    for name in names:
        PROXIES[name](probe)
    return probe


# The counts follow by hand from the definitions. All proxies together take 27 forward passes: on the images, also in
# eval mode and without a graph (3), on two halves and four quarters (6), synflow with and without norms (2), Gaussian
# weights for swap, zen and phi (5), fan-in weights on noise in train and in eval mode (2), fan-out weights on images
# and perturbed images without a graph, with one each, and on noise (5), thin (1), and per image for loss, sum and
# logits (3). They take 22 backward passes: loss (1), loss twice for grasp (2), sum and label of all and of each (4) on
# the images, parts (6), synflow (2), signs (1), fan-out weights (3), per image (3).
@pytest.mark.parametrize(
    ("names", "forwards", "backwards"),
    [
        (("params",), 0, 0),
        (("l2_norm",), 0, 0),
        (("naswot",), 1, 0),
        (("macs", "naswot"), 1, 0),
        (("grad_norm",), 1, 1),
        (("grad_norm", "snip", "plain", "fisher", "naswot", "macs"), 1, 1),
        (("jacob_cov",), 1, 1),
        (("grad_norm", "jacob_cov"), 1, 2),
        (("synflow",), 1, 1),
        (("zen",), 2, 0),
        (("eznas_a",), 1, 1),
        (EIGHT, 2, 3),
        (("fisher_trace", "gradsign", "gradsign.sum"), 1, 1),
        (("ntk_condition", "ntk_trace", "hnas", "hnas.as_released"), 1, 3),
        (("hnas.grad", "hnas.snip", "hnas.grasp", "wrcor"), 2, 2),
        (("az_expressivity", "az_progressivity", "az_trainability"), 1, 1),
        (("eznas_a", "eznas_a.as_released", "eznas_a.l2", "eznas_a.conv_bn_relu"), 1, 1),
        (("eznas_a", "eznas_a.operations", "eznas_a.per_channel", "eznas_a.sum"), 1, 1),
        (("apd", "naswot"), 1, 0),
        (("eznas_a", "eznas_b.as_printed"), 2, 2),
        (("near", "meco", "meco.as_released", "meco.opt"), 1, 0),
        (("zico", "zico_bc", "zico.b4", "l_swag", "naswot"), 7, 6),
        (("vkdnw", "vkdnw.as_released"), 2, 1),
        (tuple(PROXIES), 28, 21),
    ],
    ids=lambda value: ("+".join(value) if len(value) < 10 else "all") if isinstance(value, tuple) else str(value),
)
def test_a_pass_that_several_proxies_need_runs_once(
    names: tuple[str, ...], forwards: int, backwards: int, batch: Batch
) -> None:
    net = small()
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    net.register_forward_hook(count)
    probe = planned(names, net, batch)
    assert (probe.forwards, probe.backwards) == (forwards, backwards)
    records = {("params",): 0, tuple(PROXIES): 2}.get(names, 1)  # in train mode, in eval mode
    assert calls - forwards == records


@pytest.mark.parametrize("name", PROXIES)
def test_cards_count_the_passes(name: str, batch: Batch) -> None:
    probe = planned((name,), small(), batch)
    assert PROXIES[name].passes == (probe.forwards, probe.backwards)


def test_unplanned_needs_give_the_same_values(batch: Batch) -> None:
    net = small()
    lazy = Probe(net, *batch)
    together = planned(EIGHT, net, batch)
    for name in reversed(EIGHT):
        assert PROXIES[name](lazy) == PROXIES[name](together)
    assert lazy.forwards > together.forwards


def test_gradients_equal_autograd(batch: Batch) -> None:
    net, (x, y) = small().double(), (batch[0].double(), batch[1])
    probe = Probe(net, x, y, plan=[ParameterGradients(LOSS_PASS), JACOBIAN])
    nn.functional.cross_entropy(net(x), y).backward()
    for name, gradient in probe.read(ParameterGradients(LOSS_PASS)).items():
        torch.testing.assert_close(gradient, net.get_parameter(name).grad, rtol=1e-12, atol=1e-14)
    inputs = x.clone().requires_grad_()
    net(inputs).sum().backward()
    torch.testing.assert_close(probe.read(JACOBIAN), inputs.grad, rtol=1e-10, atol=1e-14)


def test_a_parameter_without_a_path_has_a_zero_gradient(batch: Batch) -> None:
    class Detached(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.unused = nn.Linear(3, 3)
            self.used = nn.Linear(3 * 16 * 16, 10)

        def forward(self, x: Tensor) -> Tensor:
            return self.used(x.flatten(1))

    gradients = Probe(Detached(), *batch).read(ParameterGradients(LOSS_PASS))
    assert not gradients["unused.weight"].any()
    assert gradients["used.weight"].any()


def test_an_input_tap_sees_the_gradient_of_its_own_branch(batch: Batch) -> None:
    class Fork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.left, self.right = nn.ReLU(), nn.ReLU()

        def forward(self, x: Tensor) -> Tensor:
            return (2 * self.left(x) + 5 * self.right(x)).flatten(1)

    tap = Tap(Backward(DATA, SUM), at=relus, reduce=_values, side="input")
    x = batch[0].abs() + 1
    (_, left), (_, right) = Probe(Fork(), x, plan=[tap]).read(tap)
    assert (left == 2).all()
    assert (right == 5).all()


def _values(place: object, activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient


def _fail(place: object, activation: Tensor) -> float:
    raise ArithmeticError("planted")


@pytest.mark.parametrize("images", [1, 2])
def test_a_tap_at_an_input_leaves_strides_as_they_are(images: int) -> None:
    """Torch takes a batch of one with other strides for another memory layout, and uses another convolution."""
    seen = []

    class Watched(nn.Conv2d):
        def forward(self, input: Tensor) -> Tensor:
            seen.append(input.stride())
            return super().forward(input)

    net = small()
    net[3] = Watched(4, 8, 3, padding=1, bias=False)
    x = torch.randn(images, 3, 8, 8)
    sides: tuple[Literal["output", "input"], ...] = ("output", "input")
    for side in sides:
        tap = Tap(Backward(DATA, SUM), second_convolution, lambda place, activation, gradient: 0.0, side)
        Probe(net, x, plan=[tap]).read(tap)
    assert len(set(seen[1::2])) == 1  # the record sees two images


def test_a_tap_that_fails_does_not_stop_the_others_of_its_pass(batch: Batch) -> None:
    broken = Tap(DATA, at=layers, reduce=_fail)
    probe = Probe(small(), *batch, plan=[broken, *PROXIES["naswot"].needs])
    with pytest.raises(ArithmeticError, match="planted"):
        probe.read(broken)
    assert PROXIES["naswot"](probe) > 0
    assert probe.forwards == 1


def _fail_per_image(gradients: dict[str, Tensor]) -> Tensor:
    raise ArithmeticError("planted")


def test_a_reduction_per_image_that_fails_does_not_stop_the_others_of_its_pass(batch: Batch) -> None:
    (needed,) = PROXIES["gradsign"].needs
    assert isinstance(needed, OfEach)
    broken = OfEach(needed.of_pass, _fail_per_image)
    probe = Probe(small(), *batch, plan=[broken, needed])
    with pytest.raises(ArithmeticError, match="planted"):
        probe.read(broken)
    assert PROXIES["gradsign"](probe) > 0
    assert probe.forwards == 1


def test_a_block_that_returns_no_activation_refuses_only_those_that_follow_signs(batch: Batch) -> None:
    class Split(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x, x

    class Join(nn.Module):
        def forward(self, pair: tuple[Tensor, Tensor]) -> Tensor:
            return pair[0] + pair[1]

    net = nn.Sequential(nn.Conv2d(3, 4, 3), Split(), Join(), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    expressivity, trainability = PROXIES["az_expressivity"], PROXIES["az_trainability"]
    expected = expressivity(Probe(net, *batch, plan=expressivity.needs))
    together = Probe(net, *batch, plan=(*trainability.needs, *expressivity.needs))
    with pytest.raises(NotApplicableError, match="expected an activation"):
        trainability(together)
    assert expressivity(together) == expected


def _sum_of_products(place: object, signs: Tensor, gradient: Tensor) -> float:
    return float(signs.double().sum() * gradient.double().sum())


def _squares(place: object, signs: Tensor, gradient: Tensor) -> float:
    return float(gradient.double().square().sum())


def test_two_taps_of_one_pass_of_signs(batch: Batch) -> None:
    """The first tap freed the graph that the second one goes back through."""
    net = nn.Sequential(*(nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.ReLU()) for _ in range(3)))
    net = nn.Sequential(net, nn.AdaptiveAvgPool2d(1), nn.Flatten())
    taps = [Tap(Signs(DATA), at=blocks, reduce=reduce) for reduce in (_sum_of_products, _squares)]
    alone = [Probe(net, *batch, plan=[tap]).read(tap) for tap in taps]
    for order in (taps, taps[::-1]):
        probe = Probe(net, *batch, plan=order)
        assert [probe.read(tap) for tap in taps] == alone
    assert all(len(values) == 3 for values in alone)


def test_a_pass_that_fails_is_not_run_again(batch: Batch) -> None:
    class Broken(nn.Linear):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            Broken.calls += 1
            raise ArithmeticError("planted")

    probe = Probe(Broken(1, 1), *batch)
    for _ in range(3):
        with pytest.raises(ArithmeticError, match="planted"):
            probe.result(DATA)
    assert Broken.calls == 1


def test_activations_in_place_are_tapped_before_they_are_overwritten(batch: Batch) -> None:
    def net(inplace: bool) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(inplace), nn.Flatten(), nn.Linear(4 * 14 * 14, 10))

    assert PROXIES["fisher"](Probe(net(True), *batch)) == PROXIES["fisher"](Probe(net(False), *batch))
    changed = net(True)
    Probe(changed, *batch).result(DATA)
    assert changed[1].inplace


def test_memory_goes_with_the_probe(batch: Batch) -> None:
    net = small()
    gc.collect()
    gc.disable()
    try:
        probe = weakref.ref(planned(tuple(PROXIES), net, batch))
        # A reference cycle would keep whole graphs in memory until the collector runs.
        assert probe() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_gradients_do_not_depend_on_the_caller(context: type[torch.no_grad], batch: Batch) -> None:
    net = small()
    expected = PROXIES["grad_norm"](Probe(net, *batch))
    with context():
        assert PROXIES["grad_norm"](Probe(net, *batch)) == expected


def test_labels_are_only_needed_for_the_loss(batch: Batch) -> None:
    probe = Probe(small(), batch[0])
    assert PROXIES["jacob_cov"](probe) < 0
    with pytest.raises(NotApplicableError, match="labels"):
        PROXIES["snip"](probe)


@pytest.mark.parametrize("output", [lambda x: (x, x), lambda x: x[:, :, None], lambda x: {"features": x}])
def test_outputs_other_than_logits_are_refused_with_their_shape(output: object, batch: Batch) -> None:
    class Wrapped(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return output(super().forward(x.flatten(1)))  # type: ignore[operator, no-any-return]

    with pytest.raises(NotApplicableError, match="logits"):
        Probe(Wrapped(3 * 16 * 16, 10), *batch).result(DATA)


def test_draws_of_one_seed_are_independent_and_repeat(batch: Batch) -> None:
    one, again, other = (Probe(small(), *batch, seed=seed) for seed in (1, 1, 2))
    draw = lambda probe, name: torch.randn(1000, generator=probe.generator(name))  # noqa: E731
    assert torch.equal(draw(one, "noise"), draw(again, "noise"))
    for probe, name in ((one, "noise2"), (other, "noise")):
        assert torch.corrcoef(torch.stack([draw(one, "noise"), draw(probe, name)]))[0, 1].abs() < 0.1


def recorded(net: nn.Module, shape: tuple[int, ...] = (3, 16, 16)) -> Operations:
    return record(Places(net), torch.zeros(2, *shape), training=True)


def second_convolution(operations: Operations) -> list[Call]:
    return [operations.layers[1]]


def test_operations_are_in_the_order_in_which_they_ran() -> None:
    operations, flat = recorded(small()), recorded(nn.Flatten())
    assert [call.module for call in operations.layers] == ["0", "3", "8"]
    assert [call.module for call in operations.relus] == ["2", "5"]
    assert (operations.feature_map[0].module, operations.feature_map[1]) == ("6", "input")
    assert called_relu(operations) == ("2", "5")
    with pytest.raises(NotApplicableError, match="ReLU"):
        relus(flat)
    with pytest.raises(NotApplicableError, match="feature map"):
        _ = flat.feature_map
    with pytest.raises(NotApplicableError, match="called ReLU"):
        called_relu(flat)


class Cells(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = small()[:2]
        self.cells = nn.ModuleList(nn.Sequential(nn.Conv2d(4, 4, 1), nn.ReLU()) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for cell in self.cells:
            x = cell(x)
        return x.mean((2, 3))


def test_blocks_are_the_members_of_the_longest_sequence() -> None:
    assert blocks(recorded(small())) == tuple("012345678")
    assert first_block(recorded(small())) == ("0",)
    assert blocks(recorded(Cells())) == ("cells.0", "cells.1", "cells.2")  # not the members of a cell
    for net in (nn.Linear(16, 1), nn.Sequential(nn.Linear(16, 1))):
        with pytest.raises(NotApplicableError, match="sequence of blocks"):
            blocks(recorded(net))


def test_a_freed_graph_is_rebuilt(batch: Batch) -> None:
    probe = Probe(small(), *batch, plan=[JACOBIAN])
    first = probe.read(JACOBIAN)
    probe.read(ParameterGradients(LOSS_PASS))
    assert torch.equal(probe.read(JACOBIAN), first)
