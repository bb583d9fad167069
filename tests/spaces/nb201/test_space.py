from __future__ import annotations

import csv
import hashlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError, ConfigError
from zcbench.spaces import SPACES
from zcbench.spaces.nb201.network import (
    EDGES,
    OPERATIONS,
    Cell,
    classes_by_function,
    has_unreachable,
    isomorphism_classes,
    parse,
    reaches_output,
    text,
    unique_text,
)

SPACE = SPACES["nb201"](None)
TABLES = Path(__file__).parents[3].parent / "shared" / "data" / "tables" / "nb201"
TEXTS = [SPACE.architecture(index) for index in range(15_625)]
VALID = "|none~0|+|none~0|none~1|+|none~0|none~1|none~2|"
CELLS = st.tuples(*[st.sampled_from(OPERATIONS)] * 6)


def rows(name: str) -> list[dict[str, str]]:
    path = TABLES / name
    if not path.is_file():
        pytest.skip(f"the real table {path} is not there")
    with path.open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def uniform(operation: str) -> str:
    return VALID.replace("none", operation)


def test_texts_round_trip_and_indices_are_a_permutation() -> None:
    assert SPACE.size == len(set(TEXTS)) == 15_625
    assert [SPACE.index(architecture) for architecture in TEXTS] == list(range(15_625))
    assert [text(parse(architecture)) for architecture in TEXTS] == TEXTS


@pytest.mark.parametrize(
    ("index", "architecture"),
    [
        (0, "|avg_pool_3x3~0|+|nor_conv_1x1~0|skip_connect~1|+|nor_conv_1x1~0|skip_connect~1|skip_connect~2|"),
        (6111, "|nor_conv_3x3~0|+|nor_conv_3x3~0|nor_conv_3x3~1|+|skip_connect~0|nor_conv_3x3~1|nor_conv_1x1~2|"),
        (1462, uniform("nor_conv_3x3")),
        (1835, uniform("skip_connect")),
    ],
)
def test_official_indices(index: int, architecture: str) -> None:
    assert SPACE.architecture(index) == architecture
    assert SPACE.index(architecture) == index


def test_official_order_stays_for_good() -> None:
    # Every stored row names its network by index. Computed from the official table, not from this code:
    # cut -d, -f4 nats_bench.csv | tail -n +2 | head -c -1 | sha256sum
    expected = "83abc799e45cf34e9d2163654668ab998b9a54d01c39e72ca1f71f2cdf356d84"
    assert hashlib.sha256("\n".join(TEXTS).encode()).hexdigest() == expected


def test_every_row_of_the_official_table_agrees() -> None:
    table = rows("nats_bench.csv")
    assert [row["ArchitectureString"] for row in table] == TEXTS
    assert [row["UniqueString"] for row in table] == [unique_text(parse(architecture)) for architecture in TEXTS]


def test_unique_texts_equal_the_reference() -> None:
    first: dict[str, int] = {}
    found = [first.setdefault(unique_text(parse(text)), index) for index, text in enumerate(TEXTS)]
    assert len(first) == 6466
    assert [int(row["isomorph_of"]) for row in rows("nb201_core.csv")] == found


def test_isomorphism_classes() -> None:
    classes = isomorphism_classes()
    assert classes == classes_by_function()  # the file is what `python -m zcbench.tools.nb201.classes` writes
    assert len(set(classes)) == 5044
    assert all(classes[first] == first for first in classes)
    assert classes[69] == classes[9722]  # they differ in the order of nodes, and the official texts differ too
    assert [SPACE.representative(index) for index in (69, 9722, 15_624)] == [classes[69], classes[69], classes[15_624]]


def test_networks_of_a_class_have_one_size_but_for_unreachable_operations() -> None:
    sizes: dict[int, set[tuple[int, int]]] = {}
    for index, label in enumerate(isomorphism_classes()):
        if not has_unreachable(parse(TEXTS[index])):
            sizes.setdefault(label, set()).add(tuple(SPACE.sizes_of(TEXTS[index], TASKS["cifar10"])))
    assert {len(of) for of in sizes.values()} == {1}
    assert len(sizes) == 5044  # every representative is without one


def value(cell: Cell, weights: Sequence[float], x: float) -> float:
    """Return a cell as a function of numbers: a convolution is a sine with a weight, a pooling is linear."""
    nodes = [x]
    for node in (1, 2, 3):
        total = 0.0
        for (source, target), kind, weight in zip(EDGES, cell, weights, strict=True):
            if target == node and kind != "none":
                given = nodes[source]
                of = {
                    "skip_connect": given,
                    "avg_pool_3x3": 0.7 * given,
                    "nor_conv_3x3": math.sin(weight * given),
                    "nor_conv_1x1": math.sin((2 + weight) * given),
                }
                total += of[kind]
        nodes.append(total)
    return nodes[-1]


def are_one_function(a: Cell, b: Cell) -> bool:
    """Tell whether some order of the weights makes two cells equal."""
    draw = random.Random(0)
    weights = [draw.uniform(0.5, 1.5) for _ in EDGES]
    expected = [value(a, weights, x) for x in (0.3, -1.1, 2.0)]
    return any(
        [value(b, order, x) for x in (0.3, -1.1, 2.0)] == pytest.approx(expected, abs=1e-12)
        for order in itertools.permutations(weights)
    )


def test_a_class_is_one_function_and_two_classes_are_two() -> None:
    draw = random.Random(1)
    classes = isomorphism_classes()
    members: dict[int, list[int]] = {}
    texts: dict[str, set[int]] = {}
    for index, label in enumerate(classes):
        members.setdefault(label, []).append(index)
        texts.setdefault(unique_text(parse(TEXTS[index])), set()).add(label)
    for label in draw.sample([label for label, of in members.items() if len(of) > 1], 25):
        a, b = draw.sample(members[label], 2)
        assert are_one_function(parse(TEXTS[a]), parse(TEXTS[b])), (TEXTS[a], TEXTS[b])
    sizes: dict[tuple[int, int], list[int]] = {}
    for label in members:
        sizes.setdefault(tuple(SPACE.sizes_of(TEXTS[label], TASKS["cifar10"])), []).append(label)
    for labels in draw.choices([of for of in sizes.values() if len(of) > 1], k=25):
        a, b = draw.sample(labels, 2)
        assert not are_one_function(parse(TEXTS[a]), parse(TEXTS[b])), (TEXTS[a], TEXTS[b])
    # The official texts take these for one function.
    for labels in draw.sample([sorted(of) for of in texts.values() if len(of) > 1], 25):
        a, b = labels[:2]
        assert not are_one_function(parse(TEXTS[a]), parse(TEXTS[b])), (TEXTS[a], TEXTS[b])


def test_sizes_equal_the_reference() -> None:
    table = rows("nb201_core.csv")
    assert [row["arch_str"] for row in table] == TEXTS
    # The columns are in millions, with every digit.
    expected = [[round(float(row[c]) * 1e6) for c in ("params_M_exact", "mmacs_cifar10_exact")] for row in table]
    assert [[SPACE.params(a, TASKS["cifar10"]), SPACE.macs(a, TASKS["cifar10"])] for a in TEXTS] == expected


def test_some_cells_do_not_reach_the_output() -> None:
    assert sum(not reaches_output(parse(architecture)) for architecture in TEXTS) == 341


@pytest.mark.parametrize(
    "malformed",
    [
        pytest.param("", id="empty"),
        pytest.param("|none~0|", id="one node"),
        pytest.param("|none~0|+|none~0|none~1|", id="two nodes"),
        pytest.param(VALID + "+|none~0|none~1|none~2|none~3|", id="four nodes"),
        pytest.param(VALID + "+", id="trailing plus"),
        pytest.param(VALID.replace("~2", "~3"), id="source too high"),
        pytest.param(VALID.replace("|none~0|none~1|none~2|", "|none~1|none~0|none~2|"), id="sources out of order"),
        pytest.param(VALID.replace("|none~2|", "|"), id="too few edges"),
        pytest.param(VALID.replace("none~2", "dil_conv_3x3~2"), id="unknown operation"),
        pytest.param(VALID.replace("none~2", "~2"), id="no operation"),
        pytest.param("|" + VALID, id="extra pipe before"),
        pytest.param(VALID.replace("|none~1|none~2", "||none~1|none~2"), id="extra pipe inside"),
        pytest.param(VALID.replace("|none~2", "| none~2"), id="space inside"),
        pytest.param(" " + VALID, id="space before"),
        pytest.param(VALID + " ", id="space after"),
        pytest.param(VALID + "\n", id="trailing newline"),
        pytest.param(VALID.replace("none~2", "none\n~2"), id="newline inside"),
        pytest.param(VALID.replace("none~2", "none\u2028~2"), id="unicode line separator"),
        pytest.param(VALID + "\r\n" + VALID, id="two texts"),
        pytest.param(VALID.upper(), id="upper case"),
        pytest.param(VALID.replace("none~2", "none2"), id="missing tilde"),
        pytest.param(VALID.replace("~2", "~\uff12"), id="unicode digit"),
        pytest.param(VALID.replace("none~2", "n\u043ene~2"), id="Cyrillic o"),
        pytest.param(uniform("none" * 20_000), id="very long operation"),
        pytest.param("+" * 100_000, id="very many nodes"),
        pytest.param(uniform(".*"), id="regex any"),
        pytest.param(uniform("(none)?"), id="regex group"),
        pytest.param(uniform("[\\"), id="regex unbalanced"),
        pytest.param(VALID + "\0", id="NUL"),
        pytest.param("(0, 0, 0, 0, 0, 0)", id="NASLib tuple"),
    ],
)
@pytest.mark.parametrize("read", [parse, SPACE.index], ids=["parse", "index"])
def test_malformed_texts_are_refused_on_one_line(malformed: str, read: Callable[[str], object]) -> None:
    with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
        read(malformed)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("index", [-1, 15_625])
def test_index_out_of_range(index: int) -> None:
    with pytest.raises(ArchitectureError, match=f"expected 0 to 15624, got {index}"):
        SPACE.architecture(index)


@given(CELLS)
def test_parse_inverts_text(cell: Cell) -> None:
    assert parse(text(cell)) == cell


@pytest.mark.parametrize("task", ["cifar10", "cifar100", "imagenet16-120"])
def test_params_equal_the_network(task: str) -> None:
    for architecture in TEXTS[::500]:
        network = SPACE.build(architecture, TASKS[task], seed=0)
        assert sum(p.numel() for p in network.parameters()) == SPACE.params(architecture, TASKS[task]), architecture


def counted_macs(network: nn.Module, image_size: int) -> int:
    counts: list[int] = []

    def count(module: nn.Module, _: object, output: torch.Tensor) -> None:
        # One operation per weight and output position; the classifier's bias counts, convolutions have none.
        weights = sum(p.numel() for p in module.parameters())
        counts.append(weights * output[0, 0].numel())

    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Linear):
            module.register_forward_hook(count)
    with torch.no_grad():
        network.eval()(torch.zeros(1, 3, image_size, image_size))
    return sum(counts)


@pytest.mark.parametrize("index", range(0, 15_625, 2000))
@pytest.mark.parametrize("task", ["cifar10", "cifar100", "imagenet16-120"])
def test_macs_equal_the_network(index: int, task: str) -> None:
    network = SPACE.build(TEXTS[index], TASKS[task], seed=0)
    assert counted_macs(network, TASKS[task].image_size) == SPACE.macs(TEXTS[index], TASKS[task])


@pytest.mark.parametrize(
    ("task", "params", "macs"),
    [
        # 64 more weights and a bias per class; a quarter of the pixels, so of the convolutions' operations.
        ("cifar10", 1_073_466, 153_272_970),
        ("cifar100", 1_079_316, 153_278_820),
        ("imagenet16-120", 1_080_616, 38_325_880),
    ],
)
def test_sizes_of_the_best_network(task: str, params: int, macs: int) -> None:
    network = SPACE.build(TEXTS[6111], TASKS[task], seed=0)
    assert network(torch.zeros(2, *TASKS[task].shape)).shape == (2, TASKS[task].num_classes)
    assert SPACE.params(TEXTS[6111], TASKS[task]) == params
    assert SPACE.macs(TEXTS[6111], TASKS[task]) == macs


def weights(index: int, seed: int) -> torch.Tensor:
    return torch.cat([p.detach().flatten() for p in SPACE.build(TEXTS[index], TASKS["cifar10"], seed).parameters()])


def test_building_leaves_the_global_random_state_alone() -> None:
    before = torch.get_rng_state()
    SPACE.build(TEXTS[6111], TASKS["cifar10"], seed=3)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("index", [0, 6111, 1835])
def test_weights_are_a_function_of_the_seed(index: int) -> None:
    first = weights(index, seed=1)
    # A draw in between shows that the global state is not what decides.
    torch.rand(3)
    assert torch.equal(weights(index, seed=1), first)
    assert not torch.equal(weights(index, seed=2), first)


def test_cell_of_zeros_gives_every_image_the_same_logits_and_has_gradients() -> None:
    network = SPACE.build(VALID, TASKS["cifar10"], seed=0)
    images = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    logits = network(images)
    assert logits.shape == (4, 10)
    assert torch.equal(logits, logits[:1].expand(4, 10))
    nn.functional.cross_entropy(logits, torch.arange(4)).backward()
    bias = network.get_parameter("classifier.bias").grad
    assert bias is not None
    assert bias.abs().sum() > 0
    assert all(p.grad is None or p.grad.isfinite().all() for p in network.parameters())


@pytest.mark.parametrize("seed", [0, 7])
@pytest.mark.parametrize("count", [1, 2, 200, 15_625])
def test_smaller_samples_begin_larger_ones(count: int, seed: int) -> None:
    sample = SPACE.sample(count, seed)
    assert len(sample) == len(set(sample)) == count
    assert sample == SPACE.sample(15_625, seed)[:count]
    assert 0 <= min(sample) <= max(sample) < 15_625


def test_samples_differ_by_seed() -> None:
    assert SPACE.sample(10, 0) != SPACE.sample(10, 1)


def test_sample_stays_for_good() -> None:
    # Studies are compared across versions by their sample.
    # python -c "import numpy; print(numpy.random.RandomState(0).permutation(15625)[:4])"
    assert SPACE.sample(4) == [4414, 14183, 11931, 2813]


@pytest.mark.parametrize("count", [-1, 0, 15_626])
def test_sample_bounds(count: int) -> None:
    with pytest.raises(ConfigError, match=f"expected 1 to 15625 networks of nb201, got {count}"):
        SPACE.sample(count)
