from __future__ import annotations

import copy
import functools
import json
import math
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from zcbench.datasets.tasks import TASKS
from zcbench.errors import ArchitectureError, DataFileError
from zcbench.spaces import SPACES, Space
from zcbench.spaces.contract import SpaceContract
from zcbench.spaces.nds.anynet import (
    BLOCKS,
    CIFAR,
    RESIDUAL,
    SIMPLE,
    SWEEPS,
    Block,
    NdsAnyNet,
    Network,
    Stem,
    Unit,
    parse,
)
from zcbench.spaces.nds.space import space_name

CIFAR10, IMAGENET = TASKS["cifar10"], TASKS["imagenet"]
#: Records of three sweeps, as NNI's tutorial "Use NAS Benchmarks as Datasets" prints them: the network, its parameters
#: and flops, and the last and the best accuracy.
OFFICIAL: list[tuple[str, dict[str, Any], int, int, float, float]] = [
    (
        "ResNeXt-A",
        {
            "block_type": "res_bottleneck_block",
            "ds": [1, 16, 1, 4],
            "ws": [16, 64, 128, 16],
            "ss": [1, 1, 2, 2],
            "bot_muls": [0.0, 0.25, 0.25, 0.25],
            "num_gs": [1, 2, 1, 2],
        },
        83_002,
        69_890_986,
        90.39,
        90.48,
    ),
    (
        "ResNet",
        {"block_type": "res_basic_block", "ds": [1, 12, 12, 12], "ws": [16, 24, 24, 40], "ss": [1, 1, 2, 2]},
        594_138,
        184_519_578,
        93.49,
        93.58,
    ),
    (
        "Vanilla",
        {
            "block_type": "double_plain_block",
            "ds": [1, 12, 12, 12],
            "ws": [16, 24, 32, 40],
            "ss": [1, 1, 2, 2],
            "bot_muls": [],
            "num_gs": [],
        },
        689_770,
        208_363_930,
        84.35,
        84.50,
    ),
]
BASIC = "basic(ds=1,2,1,1 ws=8,8,12,16 ss=1,1,2,2)"
BOTTLENECK = "bottleneck(ds=1,1,2,1 ws=8,16,32,16 ss=1,1,2,2 bot_muls=0,0.25,0.5,1 num_gs=1,2,4,16)"
VANILLA = "vanilla(ds=1,1,2,1 ws=8,8,12,16 ss=1,1,2,2)"


def record(net: dict[str, Any], errors: list[float], params: int = 10**6, flops: int = 10**8) -> dict[str, Any]:
    return {
        "job_id": "1",
        "rng_seed": 1,
        "params": params,
        "flops": flops,
        "net": net,
        "optim": {"base_lr": 0.1, "wd": 5e-4, "max_ep": len(errors)},
        "min_test_top1": min(errors),
        "train_ep_top1": errors,
        "test_ep_top1": errors,
        "train_it_loss": [1.0] * 5,
    }


def write(folder: Path, sweep: str, content: object) -> Path:
    path = folder / "nds_data" / f"{sweep}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def drawn(block: str, draw: random.Random) -> dict[str, Any]:
    net: dict[str, Any] = {
        "block_type": BLOCKS[block],
        "ds": [1, *draw.choices([1, 2, 3], k=3)],
        "ws": [draw.choice([8, 16]), *draw.choices([8, 16, 24], k=3)],
        "ss": [1, 1, 2, 2],
    }
    if block == "bottleneck":
        net |= {"bot_muls": [0.0, *draw.choices([0.25, 0.5, 1], k=3)], "num_gs": [1, *draw.choices([1, 2], k=3)]}
    return net


@functools.cache
def sweep_of(sweep: str, folder: Path) -> Space:
    block, draw = NdsAnyNet(sweep).block, random.Random(sweep)
    rows = [record(drawn(block, draw), [50.0, 20.5 + i, 30.5 + i]) for i in range(6)]
    # A hundred runs of one network, whose numbers have up to three digits.
    write(folder, sweep, [*rows, *(rows[:1] * 110)])
    return SPACES[space_name(sweep)](folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nds")


class TestFamilies(SpaceContract):
    @pytest.fixture(
        autouse=True, params=["ResNet", "ResNet-B", "Vanilla", "ResNeXt-B", "ResNeXt-A_in", "Vanilla_lr-wd_in"]
    )
    def sweep(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.space = sweep_of(request.param, folder)

    def make(self) -> Space:
        return self.space


@pytest.mark.parametrize(("sweep", "net", "params", "flops", "final", "best"), OFFICIAL)
def test_official_records(
    tmp_path: Path, sweep: str, net: dict[str, Any], params: int, flops: int, final: float, best: float
) -> None:
    write(tmp_path, sweep, [record(net, [58.24, 100 - best, 100 - final], params, flops)])
    space = SPACES[space_name(sweep)](tmp_path)
    text = space.architecture(0)
    assert space.params(text, CIFAR10) == params
    # Their flops are all macs, and five for every number that a batch norm puts out.
    normed = 0

    def count(_: nn.Module, __: object, output: Tensor) -> None:
        nonlocal normed
        normed += output.numel()

    with torch.device("meta"):
        network = space.network(text, CIFAR10).eval()
        for module in network.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.register_forward_hook(count)
        network(torch.empty(1, 3, 32, 32))
    assert space.macs(text, CIFAR10) + 5 * normed == flops
    assert space.truth("cifar10").values.round(9).tolist() == [final]
    assert space.truth("cifar10", "test-best").values.round(9).tolist() == [best]
    assert space.truth("cifar10").label == space.truths["cifar10"]["test-final"]


def test_texts_of_official_records() -> None:
    texts = [NdsAnyNet(sweep).describe(net) for sweep, net, *_ in OFFICIAL]
    assert texts == [
        "bottleneck(ds=1,16,1,4 ws=16,64,128,16 ss=1,1,2,2 bot_muls=0,0.25,0.25,0.25 num_gs=1,2,1,2)",
        "basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2)",
        "vanilla(ds=1,12,12,12 ws=16,24,32,40 ss=1,1,2,2)",
    ]
    assert [str(parse(text)) for text in texts] == texts
    ratios = texts[0].replace("ws=16,64,128,16", "ws=16,64,128,18").replace("0.25,0.25,0.25", "{}")
    assert str(parse(ratios.format("0.250,1.0,0.3333333333333333"))) == ratios.format("0.25,1,0.3333333333333333")


@pytest.mark.parametrize("stem", [CIFAR, RESIDUAL, SIMPLE])
@pytest.mark.parametrize("block", BLOCKS)
def test_sizes_are_those_of_networks(block: str, stem: Stem) -> None:
    draw = random.Random(block)
    for side in (32, 33, 224):
        space = NdsAnyNet("ResNeXt-A" if block == "bottleneck" else "Vanilla" if block == "vanilla" else "ResNet")
        space.stem = stem
        text = space.describe(drawn(block, draw))
        task = TASKS["cifar10"] if side == 32 else type(CIFAR10)("", 7, side)
        assert space.sizes_of(text, task) == Space.sizes_of(space, text, task), text


@pytest.mark.parametrize("text", [BASIC, BOTTLENECK, VANILLA])
@pytest.mark.parametrize("stem", [CIFAR, RESIDUAL, SIMPLE])
def test_everything_that_is_built_runs_once(text: str, stem: Stem) -> None:
    torch.manual_seed(0)
    network = Network(parse(text), stem, 10)
    runs: Counter[str] = Counter()
    for name, module in network.named_modules():
        if not list(module.children()):
            module.register_forward_hook(lambda *_, name=name: runs.update([name]))
            runs[name] = 0
    logits = network(torch.randn(2, 3, 32, 32))
    assert set(runs.values()) == {1}
    assert logits.shape == (2, 10)
    logits.square().mean().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())


def norm(x: Tensor) -> Tensor:
    return functional.batch_norm(x, None, None, training=True)


def test_blocks_by_hand() -> None:
    conv = functional.conv2d
    x = torch.randn(2, 8, 9, 9, generator=torch.Generator().manual_seed(0))

    def weights(module: nn.Module) -> list[Tensor]:
        return [p.detach() for p in module.parameters() if p.dim() == 4]

    vanilla = Block("vanilla", Unit(8, 6, 2))
    a, b = weights(vanilla)
    expected = norm(conv(norm(conv(x, a, None, 2, 1)).relu(), b, None, 1, 1)).relu()
    torch.testing.assert_close(vanilla(x), expected)
    for unit in (Unit(8, 8, 1), Unit(8, 6, 1), Unit(8, 8, 2)):
        basic = Block("basic", unit)
        a, b, *projection = weights(basic)
        inner = norm(conv(norm(conv(x, a, None, unit.stride, 1)).relu(), b, None, 1, 1))
        outer = norm(conv(x, projection[0], None, unit.stride)) if projection else x
        assert bool(projection) == (unit != Unit(8, 8, 1))
        torch.testing.assert_close(basic(x), (inner + outer).relu())
    bottleneck = Block("bottleneck", Unit(8, 12, 2, 6, 3))
    a, b, c, projected = weights(bottleneck)
    assert b.shape == (6, 2, 3, 3)
    inner = norm(conv(x, a)).relu()
    inner = norm(conv(norm(conv(inner, b, None, 2, 1, 1, 3)).relu(), c))
    torch.testing.assert_close(bottleneck(x), (inner + norm(conv(x, projected, None, 2))).relu())


def test_stems() -> None:
    net = parse(BASIC)
    for stem, side, kernel in ((CIFAR, 32, 3), (RESIDUAL, 8, 7), (SIMPLE, 16, 3)):
        first = Network(net, stem, 10).stem
        assert first(torch.zeros(1, 3, 32, 32)).shape == (1, 8, side, side)
        assert next(first.parameters()).shape == (8, 3, kernel, kernel)
    assert NdsAnyNet("ResNeXt-B").stem == NdsAnyNet("Vanilla_rng1").stem == CIFAR
    assert NdsAnyNet("ResNeXt-B_in").stem == NdsAnyNet("ResNet_lr-wd_in").stem == RESIDUAL
    assert NdsAnyNet("Vanilla_lr-wd_in").stem == SIMPLE


def test_widths_inside_bottlenecks_are_rounded() -> None:
    units = list(parse("bottleneck(ds=1,1,2 ws=8,10,14 ss=1,1,2 bot_muls=0,0.25,0.25 num_gs=1,1,2)").units())
    # 2.5 and 3.5 are rounded to even numbers, as Python and the authors' code do.
    assert units == [Unit(8, 10, 1, 2, 1), Unit(10, 14, 2, 4, 2), Unit(14, 14, 1, 4, 2)]


def test_initialisation() -> None:
    torch.manual_seed(0)
    text = "bottleneck(ds=1,1,2 ws=64,256,256 ss=1,1,2 bot_muls=0,1,1 num_gs=1,4,1)"
    network = Network(parse(text), CIFAR, 1000)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            # By outgoing size, groups or not: the square root of 2 / (kernel size x output channels).
            expected = math.sqrt(2 / (module.kernel_size[0] ** 2 * module.out_channels))
            assert module.weight.std().item() == pytest.approx(expected, rel=0.1)
            assert module.bias is None
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all()
            assert (module.bias == 0).all()
    assert network.classifier.weight.std().item() == pytest.approx(0.01, rel=0.05)
    assert (network.classifier.bias == 0).all()


def test_traits() -> None:
    assert NdsAnyNet("ResNet").traits(f"{BASIC} (run 12)") == {"blocks": 4, "width": 16}


def test_runs(tmp_path: Path) -> None:
    net = OFFICIAL[1][1]
    top, mid = [record(net, [7.0 + i]) for i in range(3)], [record(net, [9.0 + i]) for i in range(3)]
    write(tmp_path, "ResNet_reruns", {"mid": mid, "top": top})
    space = SPACES["nds_resnet_reruns"](tmp_path)
    text = "basic(ds=1,12,12,12 ws=16,24,24,40 ss=1,1,2,2)"
    assert [space.architecture(i) for i in (0, 1, 5)] == [text, f"{text} (run 2)", f"{text} (run 6)"]
    assert space.truth("cifar10").values.tolist() == [93, 92, 91, 91, 90, 89]


def test_copies_of_sweeps_with_alike_names_stay(tmp_path: Path) -> None:
    # One table's copy is removed when another of its name is made; ResNet is the beginning of ResNet-B.
    for sweep in ("ResNet-B", "ResNet", "ResNet_rng1"):
        write(tmp_path, sweep, [record(drawn(NdsAnyNet(sweep).block, random.Random(0)), [9.0])])
        assert SPACES[space_name(sweep)](tmp_path).size == 1
    assert len(list((tmp_path / "nds_data" / ".zcbench").iterdir())) == 3


@pytest.mark.parametrize("sweep", SWEEPS)
def test_every_sweep_has_one_block(sweep: str) -> None:
    space = NdsAnyNet(sweep)
    task = TASKS[space.task]
    for text in (BASIC, BOTTLENECK, VANILLA):
        if text.startswith(space.block):
            assert space.params(text, task) > 0
        else:
            with pytest.raises(ArchitectureError, match=rf"expected {space.block}\(\.\.\.\) in {space.name}"):
                space.params(text, task)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("bottleneck(", "bottleneck (", "expected basic"),
        ("bottleneck(", "residual(", "expected basic"),
        ("bottleneck(", "basic(", "and of no other block"),
        (" bot_muls=0,0.25,0.5,1 num_gs=1,2,4,16", "", "of bottlenecks"),
        (" num_gs=1,2,4,16", "", "expected basic"),
        ("ds=1,1,2,1", "ds=1,1,2", "equal length"),
        ("ws=8,16,32,16", "ws=8,16,32,16,16", "equal length"),
        ("num_gs=1,2,4,16", "num_gs=1,2,4", "equal length"),
        ("ds=1,1,2,1", "ds=2,1,2,1", "a depth of 1 first"),
        ("ss=1,1,2,2", "ss=2,1,2,2", "expected a stride of 1 first"),
        ("num_gs=1,2,4,16", "num_gs=1,3,4,16", "expected num_gs that divide"),
        ("num_gs=1,2,4,16", "num_gs=1,2,4,32", "expected num_gs that divide"),
        ("bot_muls=0,0.25,0.5,1", "bot_muls=0,0,0.5,1", "expected num_gs that divide"),
        ("bot_muls=0,0.25,0.5,1", "bot_muls=0,nan,0.5,1", "expected basic"),
        ("bot_muls=0,0.25,0.5,1", "bot_muls=0,-0.25,0.5,1", "expected basic"),
        ("bot_muls=0,0.25,0.5,1", "bot_muls=0,.25,0.5,1", "expected basic"),
        ("ds=1,1,2,1", "ds=1,0,2,1", "expected basic"),
        ("ds=1,1,2,1", "ds=1,01,2,1", "expected basic"),
        ("ds=1,1,2,1", "ds=1,1,２,1", "expected basic"),
        ("ds=1,1,2,1", "ds=1,1,2,10000", "expected basic"),
        ("ds=1,1,2,1", "ds=1,1, 2,1", "expected basic"),
        ("ds=1,1,2,1", "ds=1,1,2,", "expected basic"),
        ("ds=1,1,2,1", "ds=1", "expected basic"),
        (" ss=", "  ss=", "expected basic"),
    ],
)
def test_texts_that_are_no_network(old: str, new: str, message: str) -> None:
    space = NdsAnyNet("ResNeXt-B")
    assert old in BOTTLENECK
    with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
        space.params(BOTTLENECK.replace(old, new), CIFAR10)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def spoilt(change: Callable[[dict[str, Any]], object], sweep: int = 0) -> list[dict[str, Any]]:
    net = copy.deepcopy(OFFICIAL[sweep][1])
    change(net)
    return [record(OFFICIAL[0][1], [9.0]), record(net, [9.0])]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(spoilt(lambda net: net.pop("block_type")), "block_type is missing", id="no block"),
        pytest.param(spoilt(lambda net: net.update(block_type="se_block")), "got se_block", id="another block"),
        pytest.param(spoilt(lambda net: net.update(block_type=None)), "of another kind", id="no text"),
        pytest.param(spoilt(lambda net: None, 1), r"expected bottleneck\(\.\.\.\) in nds_resnext_a", id="families"),
        pytest.param(spoilt(lambda net: net.update(bot_muls=[])), "expected basic", id="no ratios"),
        pytest.param(spoilt(lambda net: net.update(bot_muls=[], num_gs=None)), "of bottlenecks", id="neither"),
        pytest.param(spoilt(lambda net: net.pop("ds")), "ds is missing", id="no depths"),
        pytest.param(spoilt(lambda net: net.update(ds=4)), "of another kind", id="a number of depths"),
        pytest.param(
            spoilt(lambda net: net.update(ds=[1, "a", 1, 4])),
            "expected a whole number, got 'a'",
            id="a text for a depth",
        ),
        pytest.param(spoilt(lambda net: net.update(ds=[1, 1.5, 1, 4])), "expected basic", id="a broken depth"),
        pytest.param(spoilt(lambda net: net.update(ds=[1, None, 1, 4])), "of another kind", id="nothing for a depth"),
        pytest.param(spoilt(lambda net: net.update(ws=[16, float("nan"), 1, 4])), "got NaN", id="NaN for a width"),
        pytest.param(spoilt(lambda net: net.update(ws=[16, float("inf"), 1, 4])), "got infinity", id="infinite width"),
        pytest.param(spoilt(lambda net: net.update(num_gs=[1, 3, 1, 2])), "expected num_gs that divide", id="groups"),
        pytest.param(spoilt(lambda net: net.clear()), "block_type is missing", id="an empty network"),
        pytest.param([record({"genotype": {}, "width": 4}, [9.0])], "block_type is missing", id="cells"),
        pytest.param("<html>", "torn or not JSON", id="HTML page"),
        pytest.param(json.dumps([record(OFFICIAL[0][1], [9.0])])[:200], "torn or not JSON", id="torn"),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(tmp_path: Path, content: object, message: str) -> None:
    path = write(tmp_path, "ResNeXt-A", content)
    with pytest.raises(DataFileError, match=message) as caught:
        _ = SPACES["nds_resnext_a"](tmp_path).size
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400 + len(str(path))


def test_imagenet_may_state_another_stride_of_its_stem() -> None:
    text = BOTTLENECK.replace("ss=1,1,2,2", "ss=2,1,2,2")
    space = NdsAnyNet("ResNeXt-B_in")
    assert space.macs(text, IMAGENET) == space.macs(BOTTLENECK, IMAGENET)
