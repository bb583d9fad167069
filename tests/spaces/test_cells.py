from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from zcbench.datasets.tasks import TASKS, Task
from zcbench.errors import ArchitectureError
from zcbench.proxies.operations.isolation import Places
from zcbench.proxies.operations.record import record
from zcbench.spaces.cells import (
    DARTS,
    NASLIB,
    OPERATIONS,
    CellNode,
    FactorizedReduce,
    Genotype,
    Network,
    Place,
    Skeleton,
    Style,
    parse_genotype,
    sizes,
)
from zcbench.spaces.space import Sizes

#: By design space: nodes of a cell, whether all of them are concatenated or the loose ends, and operations.
FAMILIES: dict[str, tuple[int, bool, tuple[str, ...]]] = {
    "DARTS": (
        4,
        True,
        ("avg_pool_3x3", "max_pool_3x3", "sep_conv_3x3", "sep_conv_5x5", "dil_conv_3x3", "dil_conv_5x5"),
    ),
    "ENAS": (5, False, ("sep_conv_3x3", "sep_conv_5x5", "avg_pool_3x3", "max_pool_3x3")),
    "PNAS": (
        5,
        True,
        tuple(
            [
                "sep_conv_3x3",
                "sep_conv_5x5",
                "sep_conv_7x7",
                "conv_7x1_1x7",
                "avg_pool_3x3",
                "max_pool_3x3",
                "dil_conv_3x3",
            ]
        ),
    ),
    "NASNet": (5, False, tuple(o for o in OPERATIONS if o not in {"none", "dil_conv_5x5", "dil_sep_conv_3x3"})),
    "Amoeba": (
        5,
        False,
        tuple(
            [
                "sep_conv_3x3",
                "sep_conv_5x5",
                "sep_conv_7x7",
                "avg_pool_3x3",
                "max_pool_3x3",
                "dil_sep_conv_3x3",
                "conv_7x1_1x7",
            ]
        ),
    ),
    "with none": (4, True, OPERATIONS),
}
# The second-order result of DARTS, as its paper and its code print it.
V2 = parse_genotype(
    "Genotype(normal=[('sep_conv_3x3', 0), ('sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 1), "
    "('sep_conv_3x3', 1), ('skip_connect', 0), ('skip_connect', 0), ('dil_conv_3x3', 2)], normal_concat=[2, 3, 4, 5], "
    "reduce=[('max_pool_3x3', 0), ('max_pool_3x3', 1), ('skip_connect', 2), ('max_pool_3x3', 1), ('max_pool_3x3', 0), "
    "('skip_connect', 2), ('skip_connect', 2), ('max_pool_3x3', 1)], reduce_concat=[2, 3, 4, 5])"
)
# A record of NDS's Amoeba sweep, as NNI's tutorial "Use NAS Benchmarks as Datasets" prints it: width 32, depth 12,
# 4.190314 million parameters.
AMOEBA = parse_genotype(
    "Genotype(normal=[('avg_pool_3x3', 0), ('conv_7x1_1x7', 1), ('sep_conv_3x3', 2), ('sep_conv_5x5', 0), "
    "('dil_sep_conv_3x3', 2), ('dil_sep_conv_3x3', 2), ('skip_connect', 4), ('dil_sep_conv_3x3', 4), "
    "('conv_7x1_1x7', 2), ('sep_conv_3x3', 4)], normal_concat=[3, 5, 6], "
    "reduce=[('avg_pool_3x3', 0), ('dil_sep_conv_3x3', 1), ('sep_conv_3x3', 0), ('sep_conv_3x3', 0), "
    "('skip_connect', 2), ('sep_conv_7x7', 0), ('conv_7x1_1x7', 4), ('skip_connect', 4), ('conv_7x1_1x7', 0), "
    "('conv_7x1_1x7', 5)], reduce_concat=[3, 6])"
)


def drawn(family: str, draw: random.Random) -> Genotype:
    nodes, every, operations = FAMILIES[family]

    def cell() -> tuple[tuple[tuple[str, int], ...], tuple[int, ...]]:
        choices = ("skip_connect", *operations)
        edges = tuple((draw.choice(choices), draw.randrange(2 + place // 2)) for place in range(2 * nodes))
        read = set() if every else {source for _, source in edges}
        return edges, tuple(node for node in range(2, 2 + nodes) if node not in read)

    return Genotype(*cell(), *cell())


def counted(skeleton: Skeleton, num_classes: int, image_size: int, style: Style) -> Sizes:
    """Count a network that is built."""
    network = Network(skeleton, num_classes, style)
    operations = record(Places(network), torch.zeros(1, 3, image_size, image_size), training=False)
    macs = sum(call.products + call.additions for call in operations.running)
    return Sizes(sum(parameter.numel() for parameter in network.parameters()), macs)


def test_params_of_the_published_darts() -> None:
    # Known of DARTS_V2 at C = 36 and 20 cells: 3.35 million, the usual figure, to the last one.
    skeleton = Skeleton(V2, 36, 20)
    assert sizes(skeleton, 10, 32).params == 3_349_342
    assert sizes(skeleton, 10, 32, auxiliary=True).params == 3_825_768
    assert counted(skeleton, 10, 32, DARTS) == sizes(skeleton, 10, 32)


def test_params_of_an_official_record() -> None:
    assert sizes(Skeleton(AMOEBA, 32, 12), 10, 32).params == 4_190_314


@pytest.mark.parametrize("style", [DARTS, NASLIB])
@pytest.mark.parametrize(("form", "task"), [("cifar", TASKS["cifar10"]), ("imagenet", TASKS["imagenet"])])
@pytest.mark.parametrize("family", FAMILIES)
def test_sizes_are_those_of_networks(family: str, form: str, task: Task, style: Style) -> None:
    draw = random.Random(f"{family} {form}")
    classes, side = task.num_classes, task.image_size
    for depth in (1, 2, 3, 5, 8):
        genotype, width = drawn(family, draw), 2 * draw.randint(1, 9)
        skeleton = Skeleton(genotype, width, depth, "cifar" if form == "cifar" else "imagenet")
        assert counted(skeleton, classes, side, style) == sizes(skeleton, classes, side, style), skeleton


def test_sizes_at_odd_sides() -> None:
    # 30 is halved to 15 and 8: the shifted map of a factorized reduction is padded.
    for family in FAMILIES:
        skeleton = Skeleton(drawn(family, random.Random(0)), 3, 6)
        assert counted(skeleton, 7, 30, DARTS) == sizes(skeleton, 7, 30)


@pytest.mark.parametrize("form", ["cifar", "imagenet"])
def test_params_of_auxiliary_heads(form: str) -> None:
    for depth in (3, 8, 14):
        skeleton = Skeleton(drawn("Amoeba", random.Random(depth)), 6, depth, "cifar" if form == "cifar" else "imagenet")
        seen: list[Tensor] = []
        with torch.device("meta"):
            network = Network(skeleton, 10)
            network.cells[2 * depth // 3].register_forward_hook(lambda _, __, output, seen=seen: seen.append(output))
            network(torch.empty(2, 3, 64, 64))
        second: list[nn.Module] = [nn.BatchNorm2d(768)] if form == "cifar" else []
        head = nn.Sequential(
            nn.Conv2d(seen[0].shape[1], 128, 1, bias=False),
            nn.BatchNorm2d(128),
            nn.Conv2d(128, 768, 2, bias=False),
            *second,
            nn.Linear(768, 10),
        )
        both = [sizes(skeleton, 10, 32, auxiliary=auxiliary).params for auxiliary in (False, True)]
        assert both[1] - both[0] == sum(p.numel() for p in head.parameters())


@pytest.mark.parametrize("style", [DARTS, NASLIB])
@pytest.mark.parametrize("form", ["cifar", "imagenet"])
@pytest.mark.parametrize("family", FAMILIES)
def test_everything_that_is_built_runs_once(family: str, form: str, style: Style) -> None:
    skeleton = Skeleton(drawn(family, random.Random(family)), 4, 3, "cifar" if form == "cifar" else "imagenet")
    network = Network(skeleton, 10, style)
    runs: Counter[str] = Counter()
    for name, module in network.named_modules():
        if not list(module.children()) and not isinstance(module, nn.ModuleList):
            module.register_forward_hook(lambda *_, name=name: runs.update([name]))
            runs[name] = 0
    x = torch.randn(2, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    logits = network(x)
    assert set(runs.values()) == {1}
    assert logits.shape == (2, 10)
    assert logits.isfinite().all()
    logits.square().mean().backward()
    assert all(p.grad.isfinite().all() for p in network.parameters() if p.grad is not None)
    if family != "with none":  # every node is concatenated or read
        assert all(p.grad is not None for p in network.parameters())


def by_hand(name: str, x: Tensor, stride: int, weights: list[Tensor]) -> Tensor:
    """Compute an operation as the table of the design spaces has it; batch norms have their first parameters."""
    channels = x.shape[1]
    queue = iter(weights)

    def conv(
        x: Tensor, padding: int | tuple[int, int], stride: int | tuple[int, int] = 1, dilation: int = 1, groups: int = 1
    ) -> Tensor:
        return functional.conv2d(x, next(queue), None, stride, padding, dilation, groups)

    def norm(x: Tensor) -> Tensor:
        return functional.batch_norm(x, None, None, training=True)

    def depthwise(x: Tensor, padding: int, stride: int, dilation: int = 1) -> Tensor:
        return norm(conv(conv(x.relu(), padding, stride, dilation, channels), 0))

    table: dict[str, Callable[[], Tensor]] = {
        "avg_pool_3x3": lambda: functional.avg_pool2d(x, 3, stride, 1, count_include_pad=False),
        "max_pool_3x3": lambda: functional.max_pool2d(x, 3, stride, 1),
        "max_pool_5x5": lambda: functional.max_pool2d(x, 5, stride, 2),
        "max_pool_7x7": lambda: functional.max_pool2d(x, 7, stride, 3),
        "conv_1x1": lambda: norm(conv(x.relu(), 0, stride)),
        "conv_3x3": lambda: norm(conv(x.relu(), 1, stride)),
        "conv_3x1_1x3": lambda: norm(conv(conv(x.relu(), (0, 1), (1, stride)), (1, 0), (stride, 1))),
        "conv_7x1_1x7": lambda: norm(conv(conv(x.relu(), (0, 3), (1, stride)), (3, 0), (stride, 1))),
        "sep_conv_3x3": lambda: depthwise(depthwise(x, 1, stride), 1, 1),
        "sep_conv_5x5": lambda: depthwise(depthwise(x, 2, stride), 2, 1),
        "sep_conv_7x7": lambda: depthwise(depthwise(x, 3, stride), 3, 1),
        "dil_conv_3x3": lambda: depthwise(x, 2, stride, 2),
        "dil_conv_5x5": lambda: depthwise(x, 4, stride, 2),
        "dil_sep_conv_3x3": lambda: depthwise(depthwise(x, 2, stride, 2), 2, 1, 2),
    }
    output = table[name]()
    assert next(queue, None) is None
    return output


@pytest.mark.parametrize("side", [8, 9])
@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in {"none", "skip_connect"}])
def test_operations_are_those_of_the_table(name: str, stride: int, side: int) -> None:
    x = torch.randn(2, 4, side, side, generator=torch.Generator().manual_seed(0))
    node = CellNode([(name, 0), ("none", 1)], Place(4, 4, 4, stride == 2, False), DARTS)
    weights = [p.detach() for p in node.parameters() if p.dim() == 4]
    torch.testing.assert_close(node([x, x]), by_hand(name, x, stride, weights))


def test_pools_of_naslib_are_normed() -> None:
    x = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    for stride in (1, 2):
        node = CellNode([("avg_pool_3x3", 0), ("none", 1)], Place(4, 4, 4, stride == 2, False), NASLIB)
        assert list(node.parameters()) == []
        pooled = by_hand("avg_pool_3x3", x, stride, [])
        torch.testing.assert_close(node([x, x]), functional.batch_norm(pooled, None, None, training=True))


@pytest.mark.parametrize(("style", "side"), [(DARTS, 8), (DARTS, 9), (NASLIB, 8)])
def test_factorized_reduction(style: Style, side: int) -> None:
    x = torch.randn(2, 4, side, side, generator=torch.Generator().manual_seed(0))
    reduce = FactorizedReduce(4, 6, style)
    even = functional.conv2d(x.relu()[:, :, ::2, ::2], reduce.conv_1.weight)
    odd = torch.zeros_like(even)  # where the map ends, a pixel of padding
    moved = functional.conv2d(x.relu()[:, :, 1::2, 1::2], reduce.conv_2.weight)
    odd[:, :, : moved.shape[2], : moved.shape[3]] = moved
    expected = functional.batch_norm(torch.cat([even, odd], 1), None, None, training=True)
    torch.testing.assert_close(reduce(x), expected)


def test_nodes_without_operations_are_zero() -> None:
    x = torch.randn(2, 4, 8, 8, requires_grad=True)
    for reduction, shape in ((False, (2, 4, 8, 8)), (True, (2, 4, 4, 4))):
        node = CellNode([("none", 0), ("none", 1)], Place(4, 4, 4, reduction, False), DARTS)
        assert torch.equal(node([x, x]), torch.zeros(shape))
    # A later node is read at the size it has.
    small = torch.randn(2, 4, 4, 4)
    node = CellNode([("none", 2), ("none", 2)], Place(4, 4, 4, True, False), DARTS)
    assert torch.equal(node([x, x, small]), torch.zeros(2, 4, 4, 4))


def test_a_pair_may_read_one_node() -> None:
    x = torch.randn(2, 4, 8, 8)
    node = CellNode([("skip_connect", 1), ("skip_connect", 1)], Place(4, 4, 4, False, False), DARTS)
    assert torch.equal(node([x, 3 * x]), 6 * x)


def test_where_sizes_are_halved_and_widths_doubled() -> None:
    places = list(Skeleton(V2, 36, 20).places())
    assert [i for i, place in enumerate(places) if place.reduction] == [6, 13]
    assert [places[i].width for i in (0, 6, 13, 19)] == [36, 72, 144, 144]
    assert [i for i, place in enumerate(places) if place.after_reduction] == [7, 14]
    assert (places[0].before, places[0].last, places[1].last) == (108, 108, 144)
    places = list(Skeleton(V2, 48, 14, "imagenet").places())
    assert [i for i, place in enumerate(places) if place.after_reduction] == [0, 5, 10]
    assert (places[0].before, places[0].last, places[1].before) == (48, 48, 48)


def test_initialisation_is_that_of_torch() -> None:
    torch.manual_seed(0)
    network = Network(Skeleton(V2, 4, 3), 10)
    torch.manual_seed(0)
    first = nn.Conv2d(3, 12, 3, padding=1, bias=False)
    assert torch.equal(network.stems[0][0].weight, first.weight)


def test_texts_are_the_inverse() -> None:
    draw = random.Random(0)
    for family in FAMILIES:
        for _ in range(20):
            genotype = drawn(family, draw)
            assert parse_genotype(str(genotype)) == genotype
    assert parse_genotype(str(V2).replace("[2, 3, 4, 5]", "range(2, 6)")) == V2


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Genotype()",
        str(V2) + " ",
        "\n" + str(V2),
        str(V2) + "\0",
        str(V2) * 10_000,
        str(V2).replace("normal=[", "normal=" + "[" * 100_000),
        str(V2).replace("[2, 3, 4, 5]", "range(２, 6)"),
        str(V2).replace("[2, 3, 4, 5]", "range(2, ６)"),
        str(V2).replace("[2, 3, 4, 5]", "[２, 3, 4, 5]"),
        str(V2).replace("[2, 3, 4, 5]", "range(5, 2)"),
        str(V2).replace("[2, 3, 4, 5]", "range(0, 4)"),
        str(V2).replace("[2, 3, 4, 5]", "[2.0, 3, 4, 5]"),
        str(V2).replace("[2, 3, 4, 5]", "[2, 3, 4, __import__('os')]"),
        str(V2).replace("('sep_conv_3x3', 0)", "{'sep_conv_3x3': 1, 0: 2}"),
        str(V2).replace("('sep_conv_3x3', 0)", "{'sep_conv_3x3', 0}"),
        str(V2).replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', 0, 0)"),
        str(V2).replace("('sep_conv_3x3', 0)", "('sep_conv_3x3', 0 + 0j)"),
        str(V2).replace("('sep_conv_3x3', 0)", "(b'sep_conv_3x3', 0)"),
        str(V2).replace("('sep_conv_3x3', 0)", "((((" * 100),
        str(V2).replace("sep_conv_3x3", "sep_conv_3x3\n"),
    ],
)
def test_texts_that_are_no_genotype(text: str) -> None:
    with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
        parse_genotype(text)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400
