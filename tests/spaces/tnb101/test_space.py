from __future__ import annotations

import csv
import itertools
import math
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn
from zcbench import score
from zcbench.datasets.tasks import TASKS, Task
from zcbench.errors import ArchitectureError, DataFileError
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES, Space
from zcbench.spaces.tnb101.network import (
    BasicBlock,
    FactorizedReduce,
    MicroCell,
    parse_micro,
)

MICRO, MACRO = SPACES["tnb101_micro"](None), SPACES["tnb101_macro"](None)
BOTH = pytest.mark.parametrize("space", [MICRO, MACRO], ids=["micro", "macro"])
SCENE = TASKS["class_scene"]
#: The official order of tasks.
SEVEN = ("class_scene", "class_object", "room_layout", "jigsaw", "segmentsemantic", "normal", "autoencoder")


def texts(space: Space) -> list[str]:
    return [space.architecture(index) for index in range(space.size)]


def space_of(architecture: str) -> Space:
    return MACRO if architecture.endswith("basic") else MICRO


def images(task: Task, count: int = 2) -> torch.Tensor:
    return torch.randn(count, *task.shape, generator=torch.Generator().manual_seed(0))


@BOTH
def test_texts_round_trip(space: Space) -> None:
    assert len(set(texts(space))) == space.size
    assert [space.index(text) for text in texts(space)] == list(range(space.size))


def test_micro_index_is_a_number_of_base_four() -> None:
    digits = ["".join(digits) for digits in itertools.product("0123", repeat=6)]
    assert texts(MICRO) == [f"64-41414-{d[0]}_{d[1:3]}_{d[3:]}" for d in digits]


def test_macro_index_is_by_length_then_by_digits() -> None:
    macros = [text.split("-")[1] for text in texts(MACRO)]
    assert sorted(macros, key=lambda macro: (len(macro), macro)) == macros
    # The paper's counts of networks of four, five and six modules.
    assert [sum(len(macro) == modules for macro in macros) for modules in (4, 5, 6)] == [210, 750, 2296]
    assert macros[:3] == ["1114", "1123", "1124"]
    assert macros[-1] == "444311"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("64-1111-basic", id="nothing widens or strides"),
        pytest.param("64-1112-basic", id="nothing strides"),
        pytest.param("64-1113-basic", id="nothing widens"),
        pytest.param("64-33334-basic", id="five strides"),
        pytest.param("64-22224-basic", id="five widenings"),
        pytest.param("64-4222-basic", id="four widenings"),
        pytest.param("64-114-basic", id="three modules"),
        pytest.param("64-1111114-basic", id="seven modules"),
        pytest.param("64-1154-basic", id="unknown module"),
        pytest.param("64-1104-basic", id="module 0"),
        pytest.param("32-1114-basic", id="other width"),
        pytest.param("64-1114-Basic", id="case"),
        pytest.param("64-41414-3_33_333", id="a micro network"),
        pytest.param("64-1114", id="no block"),
    ],
)
def test_no_macro_networks(text: str) -> None:
    refused(MACRO, text, "expected 64-<4 to 6 digits>-basic")


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("64-41414-4_00_000", id="unknown operation"),
        pytest.param("64-41413-1_00_000", id="other modules"),
        pytest.param("64-41414-1_000_00", id="other groups"),
        pytest.param("64-41414-1_00_00", id="five edges"),
        pytest.param("64-41414-1-00-000", id="other separator"),
        pytest.param("64-41414-100000", id="no separator"),
        pytest.param("64-41414-basic", id="a macro network"),
        pytest.param("(1, 0, 0, 0, 0, 0)", id="a tuple"),
    ],
)
def test_no_micro_networks(text: str) -> None:
    refused(MICRO, text, "expected 64-41414-a_bc_def")


def mangled(text: str) -> list[str]:
    return [
        "",
        f" {text}",
        f"{text} ",
        f"{text}\n",
        f"{text}\0",
        text + text,
        text * 10_000,
        text[1:],
        text[:-1],
        *(f"{front}{text}" for front in "-0[9"),
        text.replace("1", "\uff11"),
        text.replace("1", "\u0661"),
        "[" * 100_000 + text,
    ]


@BOTH
@pytest.mark.parametrize("fault", range(16))
def test_texts_that_are_not_exactly_a_network(space: Space, fault: int) -> None:
    refused(space, mangled(space.architecture(space.size // 3))[fault], "expected 64-")


def refused(space: Space, text: str, message: str) -> None:
    calls: list[Callable[[str], object]] = [
        space.index,
        lambda text: space.params(text, SCENE),
        lambda text: space.macs(text, SCENE),
        lambda text: space.params(text, TASKS["normal"]),
        lambda text: space.macs(text, TASKS["normal"]),
        lambda text: space.network(text, SCENE),
    ]
    for call in calls:
        with pytest.raises(ArchitectureError, match=rf"^architecture '.*{message}") as caught:
            call(text)
        assert len(str(caught.value).splitlines()) == 1
        assert len(str(caught.value)) < 400


@BOTH
def test_sizes_are_those_of_the_networks(space: Space) -> None:
    # test_every_hundredth.py counts more networks on smaller images.
    for index in range(0, space.size, 400):
        architecture = space.architecture(index)
        for task in (SCENE, TASKS["jigsaw"]):
            assert space.sizes_of(architecture, task) == Space.sizes_of(space, architecture, task), architecture


@pytest.mark.parametrize("task", ["cifar10", "imagenet16-120", "imagenet", "room_layout", "class_object"])
@pytest.mark.parametrize("architecture", ["64-41414-1_21_310", "64-41414-0_03_030", "64-4343-basic", "64-1123-basic"])
def test_sizes_for_other_images(architecture: str, task: str) -> None:
    space = space_of(architecture)
    assert space.sizes_of(architecture, TASKS[task]) == Space.sizes_of(space, architecture, TASKS[task])


# The released encoder and decoders, built apart from this package: sum(p.numel() for p in model.parameters()).
@pytest.mark.parametrize(
    ("architecture", "task", "params"),
    [
        ("64-41414-3_33_333", "class_scene", 41_443_935),
        ("64-41414-1_02_333", "jigsaw", 27_129_608),
        ("64-1234-basic", "room_layout", 3_402_537),
        ("64-444311-basic", "class_object", 39_676_804),
        ("64-41414-1_02_333", "autoencoder", 45_392_467),
        ("64-4333-basic", "normal", 21_700_435),
        ("64-41414-1_02_333", "segmentsemantic", 33_544_785),
        ("64-1114-basic", "segmentsemantic", 8_474_193),
    ],
)
def test_params_of_the_released_networks(architecture: str, task: str, params: int) -> None:
    assert space_of(architecture).params(architecture, TASKS[task]) == params


def test_sizes_by_hand() -> None:
    # 3 to 32 and 32 to 64 channels, 3 x 3, two norms.
    stem = 27 * 32 + 2 * 32 + 9 * 32 * 64 + 2 * 64
    # The only edge is a skip, a layer where the width doubles: half of the outputs by each of two convolutions.
    skips = sum(inputs * 2 * inputs + 2 * 2 * inputs for inputs in (64, 128, 256))
    assert MICRO.params("64-41414-0_00_100", SCENE) == stem + skips + 512 * 63 + 63
    operations = 27 * 32 * 128**2 + 9 * 32 * 64 * 64**2
    operations += 64 * 128 * 32**2 + 128 * 256 * 16**2 + 256 * 512 * 8**2
    assert MICRO.macs("64-41414-0_00_100", SCENE) == operations + 513 * 63
    # Without any operation the features have the same shape.
    assert MICRO.params("64-41414-0_00_000", SCENE) == stem + 513 * 63
    # Nine tiles, each a sixteenth of an image.
    assert MICRO.macs("64-41414-0_00_100", TASKS["jigsaw"]) == 9 * operations // 16 + (9 * 512 + 1) * 1000
    # Eight residual blocks; the last module strides and widens, its first block has a shortcut of 1 x 1.
    blocks = 6 * 2 * (9 * 64**2 + 128) + 9 * 64 * 128 + 3 * 9 * 128**2 + 64 * 128 + 5 * 256
    assert MACRO.params("64-1114-basic", SCENE) == stem + blocks + 129 * 63


@BOTH
def test_weights_are_a_function_of_the_seed(space: Space) -> None:
    architecture = space.architecture(space.size // 2)
    first, again, other = (next(space.build(architecture, SCENE, seed).parameters()) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_features_of_the_micro_skeleton() -> None:
    with torch.device("meta"):
        encoder = MICRO.network("64-41414-1_21_310", SCENE).get_submodule("encoder")
        x = encoder.get_submodule("stem")(torch.empty(1, 3, 256, 256))
        found = [tuple(x.shape[1:])]
        for index, cell in enumerate(encoder.get_submodule("cells").children()):
            x = cell(x)
            found += [tuple(x.shape[1:])] if index % 2 else []
    assert found == [(64, 64, 64), (128, 32, 32), (128, 32, 32), (256, 16, 16), (256, 16, 16), (512, 8, 8)]


@pytest.mark.parametrize("task", ["autoencoder", "normal", "segmentsemantic"])
@pytest.mark.parametrize("macro", ["1114", "4141", "4143", "434312"])
def test_maps_are_as_large_as_the_image(macro: str, task: str) -> None:
    with torch.device("meta"):
        network = MACRO.network(f"64-{macro}-basic", TASKS[task])
        assert network(torch.empty(2, 3, 256, 256)).shape == (2, TASKS[task].num_classes, 256, 256)
    upsampling = [m for m in network.modules() if isinstance(m, nn.ConvTranspose2d)]
    assert len(upsampling) == 2 + macro.count("3") + macro.count("4")


def test_all_of_a_decoder_is_used() -> None:
    # The discriminator's 5,168,705 parameters would not be.
    network = MACRO.build("64-4333-basic", TASKS["normal"], 0)
    used: set[nn.Module] = set()
    for module in network.modules():
        module.register_forward_hook(lambda module, *_: used.add(module))
    with torch.no_grad():
        maps = network(images(Task("normal", 3, 64)))
    assert used == set(network.modules())
    assert maps.abs().max() < 1  # tanh


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "task"),
    # Maps from the macro network alone: its features are small, so the decoder is quick.
    [*(("64-4333-basic", task) for task in SEVEN), *(("64-41414-1_20_013", task) for task in SEVEN[:4])],
)
def test_networks_run_both_ways(architecture: str, task: str) -> None:
    network = space_of(architecture).build(architecture, TASKS[task], 0)
    passes: dict[str, int] = {}
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d | nn.Linear | nn.ReLU | nn.BatchNorm2d):
            module.register_forward_hook(lambda *_, name=name: passes.update({name: passes.get(name, 0) + 1}))
    outputs = network(images(TASKS[task]))
    maps = (256, 256) if TASKS[task].outputs == "maps" else ()
    assert outputs.shape == (2, TASKS[task].num_classes, *maps)
    assert set(passes.values()) == {1}
    outputs.square().mean().backward()
    for name, parameter in network.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name


def test_networks_can_be_scored_on_other_images() -> None:
    for task in (
        TASKS["cifar10"],
        TASKS["imagenet16-120"],
        Task("another", 5, 40),
        Task("age", 1, 48, outputs="numbers"),
    ):
        for architecture in ("64-41414-1_02_111", "64-4334-basic"):
            outputs = space_of(architecture).build(architecture, task, 0)(images(task))
            assert outputs.shape == (2, task.num_classes)
            assert outputs.isfinite().all()


@pytest.mark.parametrize("cell", ["0_00_000", "0_03_030", "3_00_003"])
def test_networks_without_a_path_give_their_bias(cell: str) -> None:
    network = MICRO.build(f"64-41414-{cell}", TASKS["cifar10"], 0)
    outputs = network(images(TASKS["cifar10"]))
    bias = network.get_parameter("classifier.bias")
    assert torch.equal(outputs, bias.expand(2, -1))
    # The zeros are made of the input, so that whoever asks for its gradient gets one.
    gradient, *_ = torch.autograd.grad(outputs.sum(), [network.get_parameter("encoder.stem.0.weight")])
    assert not gradient.any()


def test_nodes_without_edges_fit_a_thin_copy() -> None:
    network = MICRO.build("64-41414-0_00_210", TASKS["cifar10"], 0)
    assert score(network, images(TASKS["cifar10"], 4), proxies=["linear_regions"])["linear_regions"].status == "ok"


# Edges are skips, identities at equal shapes: a cell multiplies its input by the number of paths from node 0 to 3.
@pytest.mark.parametrize(
    ("digits", "paths"),
    [
        ("1_11_111", 4),
        ("0_00_100", 1),
        ("1_00_010", 1),
        ("0_10_001", 1),
        ("1_01_001", 1),
        ("1_01_011", 2),
        ("0_01_011", 0),
        ("1_10_000", 0),
        ("1_00_001", 0),
    ],
)
def test_edges_of_a_cell(digits: str, paths: int) -> None:
    cell = parse_micro(f"64-41414-{digits}").cell
    assert cell is not None
    x = torch.randn(2, 4, 3, 3)
    assert torch.equal(MicroCell(cell, 4, 4, 1)(x), paths * x)


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("outputs", [4, 8])
@pytest.mark.parametrize("side", [1, 5, 6])
def test_nodes_without_edges_have_the_shape_of_the_others(stride: int, outputs: int, side: int) -> None:
    cells = (parse_micro(f"64-41414-{digits}").cell for digits in ("0_00_000", "0_03_001", "0_20_111", "0_01_103"))
    for cell in cells:
        assert cell is not None
        smaller = math.ceil(side / stride)
        x = torch.randn(2, 4, side, side)
        assert MicroCell(cell, 4, outputs, stride)(x).shape == (2, outputs, smaller, smaller)


def test_unused_operations_are_not_built() -> None:
    assert not list(MICRO.build("64-41414-0_00_000", SCENE, 0).get_submodule("encoder.cells").parameters())
    kinds = [type(m) for m in MICRO.build("64-41414-3_00_012", SCENE, 0).modules() if isinstance(m, nn.Conv2d)]
    # The stem's two; in each of ten cells a 3 x 3 and a 1 x 1, the skip coming from node 1.
    assert len(kinds) == 2 + 10 * 2


def test_factorized_reduce_sees_every_other_value_twice() -> None:
    reduce = FactorizedReduce(1, 2, 2).eval()
    for parameter in reduce.convs.parameters():
        nn.init.ones_(parameter)
    for side in (4, 5):
        x = torch.arange(1.0, side**2 + 1).reshape(1, 1, side, side)
        shifted = torch.zeros(1, 1, side + side % 2, side + side % 2)
        shifted[..., :side, :side] = x  # what lies outside is zero
        expected = torch.cat([x[..., ::2, ::2], shifted[..., 1::2, 1::2]], 1)
        torch.testing.assert_close(reduce(x), expected / math.sqrt(1 + 1e-5))
    assert not reduce(-x).any()


def test_basic_block_adds_its_shortcut() -> None:
    x = torch.randn(2, 4, 6, 6)
    for outputs, stride in ((4, 1), (8, 1), (4, 2), (8, 2)):
        block = BasicBlock(4, outputs, stride)
        nn.init.zeros_(block.conv_b.get_parameter("op.2.weight"))
        assert torch.equal(block(x), block.downsample(x))
        assert isinstance(block.downsample, nn.Identity) == (outputs == 4 and stride == 1)


def test_norm_of_a_shortcut_has_an_eps_of_one() -> None:
    norms = [m for m in MACRO.build("64-1234-basic", SCENE, 0).modules() if isinstance(m, nn.BatchNorm2d)]
    odd = [(norm.eps, norm.momentum) for norm in norms if norm.eps != 1e-5]
    assert odd == [(1.0, 1.0)] * 3  # modules 2, 3 and 4 have a shortcut
    assert all(norm.momentum == 0.1 for norm in norms if norm.eps == 1e-5)


def test_initialisation() -> None:
    network = MACRO.build("64-4333-basic", TASKS["autoencoder"], 0)
    for name, module in network.named_modules():
        if isinstance(module, nn.Conv2d) and name.startswith("encoder"):
            deviation = math.sqrt(2 / (module.out_channels * module.kernel_size[0] ** 2))
            assert float(module.weight.detach().std()) == pytest.approx(deviation, rel=0.1), name
        elif isinstance(module, nn.Conv2d):
            bound = 1 / math.sqrt(module.in_channels * 9)
            assert 0.9 * bound < float(module.weight.detach().abs().max()) <= bound, name
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert not module.bias.any()


def test_tiles_pass_the_encoder_one_by_one() -> None:
    task = TASKS["jigsaw"]
    network = MICRO.build("64-41414-1_02_111", task, 0).eval().double()
    x = images(task).double()
    with torch.no_grad():
        alone = [network.get_submodule("encoder")(x[:, 3 * tile : 3 * tile + 3]).mean((2, 3)) for tile in range(9)]
        expected = network.get_submodule("classifier")(torch.cat(alone, 1))
        torch.testing.assert_close(network(x), expected)


@pytest.mark.parametrize("proxy", ["ntk_trace.as_released", "hnas.as_released", "naswot_conv"])
def test_a_proxy_that_needs_each_image_does_not_score_tiles(proxy: str) -> None:
    network = MICRO.build("64-41414-0_02_111", TASKS["jigsaw"], 0)
    found = score(network, images(TASKS["jigsaw"]), torch.arange(2), proxies=[proxy])[proxy]
    assert found.status == "not_applicable"
    assert "images consist of tiles" in found.message


@pytest.mark.slow
@pytest.mark.parametrize(
    ("space", "task", "count"),
    [(MICRO, "class_scene", 5), (MACRO, "class_scene", 4), (MICRO, "jigsaw", 4), (MACRO, "jigsaw", 4)],
    ids=["micro-class_scene", "macro-class_scene", "micro-jigsaw", "macro-jigsaw"],
)
def test_synflow_ranks_as_that_of_naslib(space: Space, task: str, count: int, real_data: Path) -> None:
    stored = column(table_of(space, real_data), f"{task}_synflow")
    x = torch.zeros(1, *TASKS[task].shape)
    sample = [space.architecture(index) for index in space.sample(count)]
    scores = [PROXIES["synflow"](Probe(space.build(architecture, TASKS[task], 0), x)) for architecture in sample]
    theirs = [stored[architecture] for architecture in sample]
    # They keep the logarithm, and zero where no path leads to the output.
    assert [score == 0 for score in scores] == [score == 0 for score in theirs]
    gaps = [abs(math.log(score) - log) for score, log in zip(scores, theirs, strict=True) if score]
    assert max(gaps) < 0.25
    assert stats.spearmanr(scores, theirs).statistic >= 0.99


def table_of(space: Space, folder: Path) -> Path:
    path = folder / "tables" / "tnb101" / f"{space.name}.csv"
    if not path.is_file():
        pytest.skip(f"needs {path}")
    return path


def column(path: Path, name: str) -> dict[str, float]:
    with path.open(newline="") as stream:
        return {row["arch_str"]: float(row[name]) for row in csv.DictReader(stream)}


@BOTH
def test_official_table_lists_the_networks(space: Space, real_data: Path) -> None:
    assert set(column(table_of(space, real_data), "jigsaw_val")) == set(texts(space))


def test_digits_are_those_of_naslib(real_data: Path) -> None:
    for space in (MICRO, MACRO):
        with table_of(space, real_data).open(newline="") as stream:
            for row in csv.DictReader(stream):
                digits = re.sub(r"\D", "", row["arch_str"].split("-")[2 if space is MICRO else 1])
                assert digits.ljust(6, "0") == re.sub(r"\D", "", row["arch"]).ljust(6, "0")


# Highest of the column in tnb101_*.csv, and its network.
@pytest.mark.parametrize(
    ("space", "task", "best", "architecture"),
    [
        (MICRO, "class_scene", 54.94, "64-41414-3_32_132"),
        (MACRO, "class_scene", 57.41, "64-224131-basic"),
        (MICRO, "room_layout", -0.60, "64-41414-3_11_133"),
        (MACRO, "autoencoder", 0.75, "64-221113-basic"),
    ],
)
def test_accuracies(space: Space, task: str, best: float, architecture: str, real_data: Path) -> None:
    table_of(space, real_data)
    values = SPACES[space.name](real_data).truth(task).values
    assert space.architecture(int(values.argmax())) == architecture
    assert round(float(values.max()), 2) == best


@BOTH
@pytest.mark.parametrize("task", SEVEN)
def test_accuracies_are_by_index(space: Space, task: str, real_data: Path) -> None:
    stored = column(table_of(space, real_data), f"{task}_val")
    truth = SPACES[space.name](real_data).truth(task)
    assert truth.name == f"{task}/valid-final"
    assert f"({space.name}.csv)" in truth.label
    assert truth.values.tolist() == [stored[text] for text in texts(space)]


def test_labels_say_what_is_no_accuracy_in_percent() -> None:
    for space in (MICRO, MACRO):
        assert tuple(space.truths) == SEVEN
        for task, known in space.truths.items():
            assert ("no percentage" in known["valid-final"]) == (task in {"room_layout", "normal", "autoencoder"})
    assert "negative loss" in MICRO.truths["room_layout"]["valid-final"]
    assert "SSIM" in MACRO.truths["normal"]["valid-final"]


def made_up(space: Space, **changed: str) -> str:
    """A table in reverse order, with a column more; `changed` is the value of the second network, by task."""
    rows = []
    for index, text in reversed(list(enumerate(texts(space)))):
        values = {
            task: f"{(index + 1) / 5000:.4f}" if "SSIM" in known["valid-final"] else f"{10 + index / 100:.2f}"
            for task, known in space.truths.items()
        } | {"room_layout": f"{-index / 100:.2f}"}
        rows.append(",".join([text, "x", *(values | (changed if index == 1 else {})).values()]))
    header = ",".join(["arch_str", "arch", *(f"{task}_val" for task in SEVEN)])
    return "\n".join([header, *rows]) + "\n"


def write(space: Space, folder: Path, content: str | bytes) -> Path:
    path = folder / "tables" / "tnb101" / f"{space.name}.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@BOTH
def test_rows_come_in_any_order(space: Space, tmp_path: Path) -> None:
    write(space, tmp_path, made_up(space))
    read = SPACES[space.name](tmp_path)
    assert read.truth("jigsaw").values.tolist() == [round(10 + i / 100, 2) for i in range(space.size)]
    assert read.truth("room_layout").values.tolist() == [round(-i / 100, 2) for i in range(space.size)]
    assert read.truth("normal").values.tolist() == [round((i + 1) / 5000, 4) for i in range(space.size)]
    assert np.isfinite(read.truth("autoencoder").values).all()


@BOTH
def test_absent_table(space: Space, tmp_path: Path) -> None:
    with pytest.raises(DataFileError, match=rf"{space.name}\.csv is absent: "):
        SPACES[space.name](tmp_path).truth("jigsaw")


def lines(text: str, edit: Callable[[list[str]], object]) -> str:
    rows = text.splitlines(keepends=True)
    edit(rows)
    return "".join(rows)


@BOTH
@pytest.mark.parametrize(
    ("fault", "message"),
    [
        pytest.param(lambda text: "", "expected columns arch_str, jigsaw_val, got nothing", id="empty"),
        pytest.param(lambda text: "<!DOCTYPE html>\n<html>\n", "expected columns", id="HTML page"),
        pytest.param(lambda text: bytes(range(256)) * 9, "no table of text|not a table of text", id="binary"),
        pytest.param(
            lambda text: text.replace("jigsaw_val", "jigsaw"), "expected columns jigsaw_val, got", id="column"
        ),
        pytest.param(lambda text: text.replace("arch_str", "text"), "expected columns arch_str, got", id="no texts"),
        pytest.param(lambda text: text[: len(text) // 2 - 3], "torn", id="torn"),
        pytest.param(
            lambda text: lines(text, lambda rows: rows.pop(7)), "1 of [34][0-9]+ networks are missing", id="row"
        ),
        pytest.param(lambda text: lines(text, lambda rows: rows.append(rows[5])), "occurs twice", id="duplicate"),
        pytest.param(lambda text: text.splitlines()[0], "networks are missing", id="header alone"),
        pytest.param(lambda text: text.replace("64-4", "32-4"), "architecture '32-4.*expected 64-", id="no network"),
        pytest.param(lambda text: text + '"', "torn|not a table of text", id="open quote"),
        pytest.param(lambda text: text + "64-\0,1\n", "torn|not a table of text", id="NUL"),
    ],
)
def test_faulty_tables(space: Space, tmp_path: Path, fault: Callable[[str], str | bytes], message: str) -> None:
    bad_table(space, tmp_path, fault(made_up(space)), "jigsaw", message)


@BOTH
@pytest.mark.parametrize(
    ("task", "value"),
    [
        *(("class_scene", value) for value in ("0", "-1", "100.1", "nan", "inf", "", "x")),
        *(("segmentsemantic", value) for value in ("0", "101")),
        *(("room_layout", value) for value in ("0.1", "nan", "-inf", "")),
        *(("autoencoder", value) for value in ("1.1", "-1", "nan", "50")),
        ("normal", "-100000000.0"),
    ],
)
def test_values_out_of_range(space: Space, tmp_path: Path, task: str, value: str) -> None:
    bad_table(space, tmp_path, made_up(space, **{task: value}), task, f"line {space.size}: .*torn")


def bad_table(space: Space, folder: Path, content: str | bytes, task: str, message: str) -> None:
    path = write(space, folder, content)
    with pytest.raises(DataFileError, match=message) as caught:
        SPACES[space.name](folder).truth(task)
    assert str(caught.value).startswith(f"data file {path}")
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400 + len(str(path))
