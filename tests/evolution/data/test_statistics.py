from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from zcbench.datasets import DATASETS
from zcbench.errors import NotApplicableError, UnknownNameError
from zcbench.evolution.data.statistics import TERMINALS, Collection, Statistics, collect, needs
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.proxies.registry import passes
from zcbench.spaces import SPACES
from zcbench.tools.parity import batches, load

#: Sums and norms of the statistics that the authors' code collected on the networks of tests/proxies/synthetic; see the
#: README there. `layer_list` says which of the code's two rules found the triples.
SYNTHETIC = Path(__file__).parent / "synthetic"
NETS = Path(__file__).parents[2] / "proxies" / "synthetic"
COLLECTIONS: tuple[Collection, ...] = ("rcb", "cbr", "flow")


def collected(
    net: nn.Module, x: Tensor, collection: Collection = "rcb", terminals: tuple[str, ...] = TERMINALS
) -> Statistics:
    plan = needs(terminals, collection, init="given")
    return collect(Probe(net, x, plan=plan), terminals, collection, init="given")


def instances(statistics: Statistics) -> list[dict[str, Tensor]]:
    """Return the tensors of every instance, in order, and check that every instance is in one group."""
    found: dict[int, dict[str, Tensor]] = {}
    for group in statistics.groups:
        for tensor in group.tensors.values():
            assert tensor.is_contiguous()
            assert len(tensor) == len(group.places)
            assert not tensor.requires_grad
        for row, place in enumerate(group.places):
            assert place not in found
            found[place] = {terminal: tensor[row] for terminal, tensor in group.tensors.items()}
    assert sorted(found) == list(range(statistics.instances))
    return [found[place] for place in range(statistics.instances)]


def equal(first: list[dict[str, Tensor]], second: list[dict[str, Tensor]]) -> bool:
    return len(first) == len(second) and all(
        a.keys() == b.keys() and all(torch.equal(a[t], b[t]) for t in a) for a, b in zip(first, second, strict=True)
    )


def compare(folder: Path, stats: Path, images: str, net: str, dtype: torch.dtype) -> None:
    with stats.open(newline="") as stream:
        wanted = [r for r in csv.DictReader(stream) if (r["net"], f"torch.{r['dtype']}") == (net, str(dtype))]
    known = batches(folder)
    probe = Probe(
        load(folder / "nets" / f"{net}.npz").to(dtype),
        known[images][0].to(dtype),
        plan=needs(init="given"),
        inputs={name: known[name][0].to(dtype) for name in ("noise", "noise2")},
    )
    found = instances(collect(probe, init="given"))
    assert len(wanted) == 22 * len(found)
    # In float32 the output of a ReLU may change between zero and positive if its input is near zero.
    sizes, sums = (1e-12, 1e-13) if dtype == torch.float64 else (1e-3, 2e-3)
    for row in wanted:
        tensor = found[int(row["rcb"])][row["tensor"].replace(".", "_")]
        assert "x".join(map(str, tensor.shape)) == row["shape"]
        assert tensor.dtype == dtype
        tensor = tensor.double()
        assert tensor.norm().item() == pytest.approx(float(row["l2"]), rel=sizes, abs=1e-12), row
        assert tensor.sum().item() == pytest.approx(float(row["sum"]), abs=1e-15 + sums * tensor.abs().sum().item()), (
            row
        )


@pytest.mark.parametrize(
    ("net", "dtype"),
    [("n05_iso_a", torch.float32), ("n05_iso_a", torch.float64), ("n09_convfree_mixed", torch.float64)],
)
def test_statistics_are_those_of_the_authors_code(net: str, dtype: torch.dtype) -> None:
    compare(NETS, SYNTHETIC / "eznas_rcb_stats.csv", "synthetic_16", net, dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("net", ["n04_best_cifar10", "n09_convfree_mixed"])
def test_statistics_on_cifar10_are_those_of_the_authors_code(
    net: str, dtype: torch.dtype, public_reference: Path
) -> None:
    compare(public_reference, public_reference / "eznas_rcb_stats.csv", "cifar10_16", net, dtype)


def eznas_a(gradient: Tensor) -> float:
    """Compute the program by its definition, one matrix at a time."""
    determinants = np.rint([np.linalg.det(m) for m in np.sign(gradient.double().flatten(0, 1).numpy())])
    values = [0.5 if d < 0 else d / (1 + d) for d in determinants.tolist()]
    return float(np.sqrt(np.sum(np.square(values))))


@pytest.mark.parametrize("net", ["n05_iso_a", "n09_convfree_mixed"])
def test_eznas_a_by_hand_on_every_instance(net: str) -> None:
    with (SYNTHETIC / "eznas_per_rcb.csv").open(newline="") as stream:
        expected = [
            float(r["value_float32"])
            for r in csv.DictReader(stream)
            if (r["net"], r["program"], r["variant"]) == (net, "eznas_a", "weights_as_given")
        ]
    x = batches(NETS)["synthetic_16"][0]
    found = [
        eznas_a(i["T1G_D"]) for i in instances(collected(load(NETS / "nets" / f"{net}.npz"), x, "rcb", ("T1G_D",)))
    ]
    # The released float32 gives 1/2 to some singular matrices.
    np.testing.assert_allclose(found, expected, rtol=0.1)
    assert len(found) == len(expected)


def test_the_mean_over_instances_is_the_proxy() -> None:
    x = batches(NETS)["synthetic_16"][0][:2]
    proxy = PROXIES["eznas_a"]
    probe = Probe(load(NETS / "nets" / "n05_iso_a.npz"), x, plan=[*proxy.needs, *needs(["T1G_D"])])
    found = [eznas_a(i["T1G_D"]) for i in instances(collect(probe, ["T1G_D"]))]
    assert proxy(probe) == pytest.approx(np.mean(found), rel=1e-12)


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize(
    ("terminals", "forwards", "backwards"),
    [
        (["T1G_D"], 1, 1),
        (["T1G_N"], 1, 1),
        (["T3"], 1, 0),
        (["T1_D", "T3", "T4_D"], 1, 0),
        (["T4_P"], 2, 0),
        (["T2G_P"], 2, 2),
        (["T3G_D", "T3"], 1, 1),
        (["T1_D", "T2G_N"], 2, 1),
        (["T1_D", "T1_N", "T1_P"], 3, 0),
        (TERMINALS, 3, 3),
    ],
)
def test_no_more_passes_run_than_the_terminals_read(
    terminals: list[str], forwards: int, backwards: int, collection: Collection
) -> None:
    wanted = needs(terminals, collection)
    assert passes(wanted) == (forwards, backwards)
    probe = Probe(Stack(), torch.randn(2, 3, 8, 8, generator=seeded()), plan=wanted)
    found = instances(collect(probe, terminals, collection))
    assert (probe.forwards, probe.backwards) == (forwards, backwards)
    assert found
    assert set(found[0]) == set(terminals)


@pytest.mark.parametrize(("terminal", "proxy", "forwards"), [("T1G_D", "eznas_a", 1), ("T4_P", "eznas_b", 2)])
def test_passes_are_shared_with_the_proxies_that_read_them(terminal: str, proxy: str, forwards: int) -> None:
    x = torch.randn(1, 3, 8, 8, generator=seeded())
    probe = Probe(Stack(), x, plan=[*needs([terminal]), *PROXIES[proxy].needs])
    collect(probe, [terminal])
    PROXIES[proxy](probe)
    assert probe.forwards == forwards


@pytest.mark.parametrize("terminal", ["T1G_D", "T3G_P", "T4G_D", "T4_P"])
def test_a_terminal_of_one_image_is_the_same_whatever_else_is_read(terminal: str) -> None:
    """An alias of another stride at the inputs of convolutions would change their algorithm."""
    space, task = SPACES["nb201"](None), DATASETS["noise-cifar10"](None).task
    cell = "|avg_pool_3x3~0|+|avg_pool_3x3~0|skip_connect~1|+|avg_pool_3x3~0|nor_conv_3x3~1|skip_connect~2|"
    net, x = space.build(cell, task, 0), torch.randn(1, 3, 32, 32, generator=seeded())
    (alone, together) = (instances(collected(net, x, "rcb", read)) for read in ((terminal,), (terminal, "T2G_P")))
    assert equal(alone, [{terminal: tensors[terminal]} for tensors in together])


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_a_terminal_alone_is_the_same_as_among_all(collection: Collection) -> None:
    x = torch.randn(2, 3, 8, 8, generator=seeded())
    everything = instances(collected(Stack(), x, collection))
    for terminal in TERMINALS:
        alone = instances(collected(Stack(), x, collection, (terminal,)))
        assert equal(alone, [{terminal: tensors[terminal]} for tensors in everything]), terminal


def test_instances_of_equal_shapes_are_one_group() -> None:
    net = load(NETS / "nets" / "n01_all_conv3x3.npz")
    found = collected(net, batches(NETS)["synthetic_16"][0][:1])
    shapes = [tuple(t.shape[1:] for t in group.tensors.values()) for group in found.groups]
    assert len(set(shapes)) == len(shapes) < found.instances
    assert [group.places[0] for group in found.groups] == sorted(group.places[0] for group in found.groups)
    assert all(list(group.places) == sorted(group.places) for group in found.groups)
    # Only the terminals that are read decide the groups: feature maps do not depend on the kernel size.
    fewer = collected(net, batches(NETS)["synthetic_16"][0][:1], "rcb", ("T4_D",))
    assert len(fewer.groups) == 3


@pytest.mark.parametrize("net", ["n01_all_conv3x3", "n04_best_cifar10", "n05_iso_a", "n08_unreachable_output"])
def test_data_flow_finds_what_the_released_code_finds_on_cells_with_convolutions(net: str) -> None:
    x = batches(NETS)["synthetic_16"][0][:2]
    rcb, flow = (instances(collected(load(NETS / "nets" / f"{net}.npz"), x, c)) for c in ("rcb", "flow"))
    assert len(flow) >= 10
    assert equal(rcb, flow)


def test_data_flow_pairs_by_block_where_the_released_code_does_not() -> None:
    net = load(NETS / "nets" / "n09_convfree_mixed.npz")
    x = batches(NETS)["synthetic_16"][0][:2]
    rcb, cbr, flow = (instances(collected(net, x, c)) for c in COLLECTIONS)
    assert equal(rcb, cbr)
    assert len(rcb) == 4
    # Two convolutions in each of the two reductions.
    assert [i["T3"].shape for i in flow] == [(16, 8, 3, 3), (16, 16, 3, 3), (32, 16, 3, 3), (32, 32, 3, 3)]


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_the_network_is_the_same_before_and_after(collection: Collection) -> None:
    net = Stack().eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = torch.get_rng_state()
    collect(
        Probe(net, torch.randn(2, 3, 8, 8, generator=seeded()), plan=needs(TERMINALS, collection)),
        TERMINALS,
        collection,
    )
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())
    assert not any(m.training or m._forward_hooks or m._forward_pre_hooks for m in net.modules())


def test_statistics_outlive_changes_of_the_weights() -> None:
    net = Stack()
    found = collected(net, torch.randn(2, 3, 8, 8, generator=seeded()))
    before = found.groups[0].tensors["T3"].clone()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.zero_()
    assert torch.equal(found.groups[0].tensors["T3"], before)


# Networks whose statistics are computed by hand.


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


class Stack(nn.Module):
    """A stem, two ReLU-Conv-BatchNorm triples and a head; every collection finds an instance."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
            self.first = nn.Sequential(nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1), nn.BatchNorm2d(6))
            self.second = nn.Sequential(nn.ReLU(inplace=True), nn.Conv2d(6, 6, 1, bias=False), nn.BatchNorm2d(6))
            self.head = nn.Sequential(nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 5))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.head(self.second(self.first(self.stem(x))))
        return y


def by_hand(net: Stack, x: Tensor) -> list[dict[str, Tensor]]:
    """Return activations and gradients of a stack, computed with plain autograd."""
    net = net.train()
    found, t1 = [], net.stem(x)
    steps = []
    for block in (net.first, net.second):
        relu = nn.functional.relu(t1)
        t4 = block[2](block[1](relu))
        steps.append((t1, relu, block[1].weight, t4))
        t1 = t4
    total = net.head[1:](nn.functional.relu(t1)).sum()
    for tensors in steps:
        gradients = torch.autograd.grad(total, tensors, retain_graph=True)
        names = ("T1", "T2", "T3", "T4")
        found.append(
            dict(zip(names, tensors, strict=True)) | {f"{n}G": g for n, g in zip(names, gradients, strict=True)}
        )
    return [{name: tensor.detach() for name, tensor in tensors.items()} for tensors in found]


@pytest.mark.parametrize("collection", ["rcb", "flow"])
def test_tensors_by_hand(collection: Collection) -> None:
    net = Stack().double()
    x = torch.randn(3, 3, 8, 8, generator=seeded(1), dtype=torch.float64)
    noise, noise2 = (torch.randn(x.shape, generator=seeded(s), dtype=torch.float64) for s in (2, 3))
    probe = Probe(net, x, plan=needs(TERMINALS, collection, "given"), inputs={"noise": noise, "noise2": noise2})
    found = instances(collect(probe, TERMINALS, collection, "given"))
    data, drawn, moved = (by_hand(net, images) for images in (x, noise, x + 0.1 * noise2))
    assert len(found) == len(data) == 2
    for ours, d, n, p in zip(found, data, drawn, moved, strict=True):
        for name in d:
            if name == "T3":
                assert torch.equal(ours["T3"], d["T3"])
                continue
            torch.testing.assert_close(ours[f"{name}_D"], d[name], rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(ours[f"{name}_N"], n[name], rtol=1e-10, atol=1e-12)
            torch.testing.assert_close(ours[f"{name}_P"], p[name] - d[name], rtol=1e-10, atol=1e-12)
            assert ours[f"{name}_P"].any()


def test_weights_are_drawn_by_default() -> None:
    net, x = Stack(), torch.randn(1, 3, 8, 8, generator=seeded())
    first, again, other = (
        instances(collect(Probe(net, x, seed=seed, plan=needs(["T3"])), ["T3"]))[0]["T3"] for seed in (0, 0, 1)
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert not torch.equal(first, net.first[1].weight)


@pytest.mark.parametrize("collection", COLLECTIONS)
def test_feature_maps_need_not_be_square(collection: Collection) -> None:
    found = instances(collected(Stack(), torch.randn(2, 3, 8, 12, generator=seeded()), collection))
    assert found[0]["T1G_D"].shape[2:] == (8, 12)
    assert found[0]["T4_P"].shape[2:] == (8, 12)


class Net(nn.Module):
    """A network of a stem, some modules, and a function that runs them."""

    def __init__(self, between: Callable[[nn.Module, Tensor], Tensor], **modules: nn.Module) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4))
        self.between = between
        for name, module in modules.items():
            self.add_module(name, module)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.pool(self.between(self, self.stem(x)))
        return y


def separable() -> Net:
    modules = {"relu": nn.ReLU(), "depthwise": nn.Conv2d(4, 4, 3, padding=1, groups=4), "pointwise": nn.Conv2d(4, 6, 1)}
    return Net(lambda n, x: n.norm(n.pointwise(n.depthwise(n.relu(x)))), **modules, norm=nn.BatchNorm2d(6))


def test_of_two_convolutions_the_code_keeps_the_second_and_the_paper_the_first() -> None:
    net, x = separable(), torch.randn(2, 3, 8, 8, generator=seeded())
    (rcb,), (flow,) = (instances(collected(net, x, c)) for c in ("rcb", "flow"))
    assert torch.equal(rcb["T3"], net.pointwise.weight)
    assert torch.equal(flow["T3"], net.depthwise.weight)
    assert torch.equal(flow["T2_D"], flow["T1_D"].relu())
    assert not torch.equal(rcb["T2_D"], rcb["T1_D"].relu())
    for terminal in ("T1_N", "T1G_D", "T4_P", "T4G_N"):
        assert torch.equal(rcb[terminal], flow[terminal])


def triple(inputs: int = 4, relu: nn.Module | None = None) -> dict[str, nn.Module]:
    return {"relu": relu or nn.ReLU(), "conv": nn.Conv2d(inputs, 4, 3, padding=1), "norm": nn.BatchNorm2d(4)}


@pytest.mark.parametrize("relu", [nn.ReLU(inplace=True), nn.ReLU6(), nn.ReLU6(inplace=True)])
def test_data_flow_takes_every_relu(relu: nn.Module) -> None:
    net = Net(lambda n, x: n.norm(n.conv(n.relu(x))), **triple(relu=relu))
    (found,) = instances(collected(net, torch.randn(2, 3, 8, 8, generator=seeded()), "flow"))
    assert torch.equal(found["T2_D"], found["T1_D"].clamp(0, 6 if isinstance(relu, nn.ReLU6) else None))
    assert (found["T1_D"] < 0).any()
    assert relu.inplace == ("inplace=True" in repr(relu))


@pytest.mark.parametrize(
    "between",
    [
        lambda n, x: n.norm(n.conv(n.relu(x) * 1)),
        lambda n, x: n.norm(n.conv(n.relu(x)).add_(1)),
        lambda n, x: n.norm(n.conv(n.relu(x)) + 0),
        lambda n, x: n.norm(torch.cat([n.conv(n.relu(x))[:, :2], x[:, 2:]], 1)),
        lambda n, x: n.norm(n.conv(n.relu(torch.cat([x, x], 1))[:, :4])),
        lambda n, x: n.norm(n.relu(n.conv(x))),
    ],
)
def test_whatever_lies_between_breaks_a_triple(between: Callable[[nn.Module, Tensor], Tensor]) -> None:
    net, x = Net(between, **triple()), torch.randn(2, 3, 8, 8, generator=seeded())
    net.pool[0](net.between(net, net.stem(x)))  # the network runs
    with pytest.raises(NotApplicableError, match="no ReLU-Conv-BatchNorm triple"):
        collected(net, x, "flow")


def test_a_functional_relu_is_one() -> None:
    net, x = Net(lambda n, x: n.norm(n.conv(x.relu())), **triple()), torch.randn(2, 3, 8, 8, generator=seeded())
    assert collected(net, x, "flow").instances == 1


def test_one_relu_serves_several_convolutions_and_one_module_several_times() -> None:
    def between(n: nn.Module, x: Tensor) -> Tensor:
        y = n.relu(x)
        a, b = n.norm(n.conv(y)), n.norm2(n.conv2(y))
        c: Tensor = n.norm(n.conv(n.relu(a)))
        return b + c

    more = {"conv2": nn.Conv2d(4, 4, 1), "norm2": nn.BatchNorm2d(4)}
    net = Net(between, **triple(), **more)
    first, second, third = instances(collected(net, torch.randn(2, 3, 8, 8, generator=seeded()), "flow", TS))
    assert torch.equal(first["T2_D"], second["T2_D"])
    assert torch.equal(third["T1_D"], first["T4_D"])
    assert torch.equal(third["T2_D"], first["T4_D"].relu())
    assert not torch.equal(first["T2G_D"], second["T2G_D"])
    # The gradient at the ReLU is the sum of those of both convolutions.
    kept = first["T1_D"] > 0
    torch.testing.assert_close(first["T1G_D"], (first["T2G_D"] + second["T2G_D"]) * kept)


TS = ("T1_D", "T2_D", "T4_D", "T1G_D", "T2G_D")


def test_what_is_overwritten_later_is_kept_as_it_was() -> None:
    def between(n: nn.Module, x: Tensor) -> Tensor:
        y: Tensor = n.norm(n.conv(n.relu(x)))
        y += 7
        return y.relu()

    for collection in ("rcb", "flow"):
        (found,) = instances(
            collected(Net(between, **triple()), torch.randn(2, 3, 8, 8, generator=seeded()), collection)
        )
        torch.testing.assert_close(found["T4_D"].mean(), torch.tensor(0.0), atol=1e-5, rtol=0)


def test_gradients_of_a_relu_are_those_through_it_alone() -> None:
    def between(n: nn.Module, x: Tensor) -> Tensor:
        y: Tensor = n.norm(n.conv(n.relu(x))) + 100 * x
        return y

    net, x = Net(between, **triple()), torch.randn(2, 3, 8, 8, generator=seeded())
    for collection in ("rcb", "flow"):
        (found,) = instances(collected(net, x, collection))
        torch.testing.assert_close(found["T1G_D"], found["T2G_D"] * (found["T1_D"] > 0))


def test_modules_that_do_not_run_leave_no_instance() -> None:
    more = {"relu2": nn.ReLU(), "conv2": nn.Conv2d(4, 4, 1), "norm2": nn.BatchNorm2d(4)}
    net = Net(lambda n, x: n.norm2(n.conv2(n.relu2(x))), **triple(), **more)
    (found,) = instances(collected(net, torch.randn(2, 3, 8, 8, generator=seeded())))
    assert torch.equal(found["T3"], net.conv2.weight)


def test_tensors_of_conv_norm_relu_go_by_position() -> None:
    net = Net(lambda n, x: n.act(x), act=nn.ReLU())
    x = torch.randn(2, 3, 8, 8, generator=seeded())
    (found,) = instances(collected(net, x, "cbr"))
    assert torch.equal(found["T1_D"], x)
    torch.testing.assert_close(found["T2_D"], net.stem[0](x))
    assert torch.equal(found["T3"], net.stem[1].weight)
    torch.testing.assert_close(found["T4_D"], net.stem[1].train()(net.stem[0](x)).relu())
    net.stem[1] = nn.BatchNorm2d(4, affine=False)
    assert len(instances(collected(net, x, "cbr", ("T1G_D",)))) == 1
    with pytest.raises(NotApplicableError, match=r"stem\.1 is a batch norm without scale"):
        collected(net, x, "cbr")


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize(
    "net",
    [nn.Sequential(nn.Flatten(), nn.Linear(192, 5)), nn.Sequential(nn.Conv2d(3, 5, 8), nn.ReLU(), nn.Flatten())],
)
def test_a_network_without_an_instance_is_not_applicable(net: nn.Module, collection: Collection) -> None:
    with pytest.raises(NotApplicableError, match="no ReLU-Conv-BatchNorm triple"):
        collected(net, torch.randn(2, 3, 8, 8, generator=seeded()), collection)


def test_names_are_checked() -> None:
    assert len(TERMINALS) == len(set(TERMINALS)) == 22
    with pytest.raises(UnknownNameError, match=r"unknown terminal 'T1G': did you mean .*T1G_D"):
        needs(["T1_D", "T1G"])
    with pytest.raises(UnknownNameError, match=r"unknown collection 'RCB'"):
        needs(["T1_D"], "RCB")  # type: ignore[arg-type]


def test_no_tap_is_asked_for_twice() -> None:
    counts: dict[str, int] = defaultdict(int)
    for collection in COLLECTIONS:
        wanted = needs([*TERMINALS, "T1_D"], collection)
        assert len(wanted) == len(set(wanted))
        counts[collection] = len(wanted)
    # Eighteen taps, three gradients of all parameters, and the pass with the weights.
    assert counts == {"rcb": 22, "cbr": 22, "flow": 22}
