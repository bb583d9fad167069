from __future__ import annotations

import copy
import functools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from zcbench.datasets.files.registry import sources
from zcbench.datasets.tasks import TASKS
from zcbench.errors import AbsentFileError, ArchitectureError, DataFileError, UnknownNameError
from zcbench.spaces import SPACES, Space
from zcbench.spaces.cells import Network, Skeleton, sizes
from zcbench.spaces.contract import SpaceContract
from zcbench.spaces.nds import records as reader
from zcbench.spaces.nds import space as nds
from zcbench.spaces.nds.space import SWEEPS, NdsCells, space_name

CIFAR10, IMAGENET = TASKS["cifar10"], TASKS["imagenet"]
#: Operations that every family has, and some of its own.
OPERATIONS = {
    "DARTS": ("dil_conv_3x3", "dil_conv_5x5", "sep_conv_5x5"),
    "ENAS": ("sep_conv_5x5",),
    "PNAS": ("sep_conv_7x7", "conv_7x1_1x7", "dil_conv_3x3"),
    "NASNet": ("conv_3x1_1x3", "max_pool_7x7", "max_pool_5x5", "conv_1x1", "conv_3x3", "dil_conv_3x3"),
    "Amoeba": ("dil_sep_conv_3x3", "conv_7x1_1x7"),
}
COMMON = ("skip_connect", "avg_pool_3x3", "max_pool_3x3", "sep_conv_3x3")


def net(family: str, draw: random.Random, width: int = 4, depth: int = 3, aux: bool = False) -> dict[str, Any]:
    nodes = 4 if family == "DARTS" else 5
    genotype: dict[str, Any] = {}
    for cell in ("normal", "reduce"):
        edges = [[draw.choice(COMMON + OPERATIONS[family]), draw.randrange(2 + i // 2)] for i in range(2 * nodes)]
        read = set() if family in {"DARTS", "PNAS"} else {source for _, source in edges}
        genotype[cell] = edges
        genotype[f"{cell}_concat"] = [node for node in range(2, 2 + nodes) if node not in read]
    return {"width": width, "depth": depth, "aux": aux, "drop_prob": 0.0, "genotype": genotype}


def record(described: dict[str, Any], errors: list[float], task: str = "cifar10", **others: Any) -> dict[str, Any]:
    """A record in the official layout; its parameters are those of the network, built for real."""
    family = "DARTS" if len(described["genotype"]["normal"]) == 8 else "ENAS"
    space = NdsCells(family if task == "cifar10" else f"{family}_in")
    skeleton = space.skeleton(space.describe(described))
    classes = TASKS[task].num_classes
    with torch.device("meta"):
        built = sum(p.numel() for p in Network(skeleton, classes).parameters())
    return {
        "job_id": "1",
        "rng_seed": 1,
        "params": built,
        "flops": 10**8,
        "net": described,
        "optim": {"base_lr": 0.1, "wd": 5e-4, "max_ep": len(errors)},
        "exp_mem": 1.0,
        "act_mem": 1.0,
        "prec_time": {"train_fw_bw": 0.1},
        "iter_time": 0.1,
        "min_test_top1": min(errors),
        "train_ep_loss": [float("nan")] * len(errors),
        "train_ep_top1": errors,
        "test_ep_top1": errors,
        "train_it_loss": [1.0] * 7,
        "train_it_top1": [90.0] * 7,
        **others,
    }


def write(folder: Path, sweep: str, content: object) -> Path:
    path = folder / "nds_data" / f"{sweep}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


@functools.cache
def sweep_of(family: str, folder: Path, task: str = "cifar10") -> Space:
    sweep = family if task == "cifar10" else f"{family}_in"
    draw = random.Random(family)
    rows = []
    for i in range(6):
        # A width of two digits too, so that a text without its last character is never another one's.
        described = net(family, draw, width=draw.choice([2, 4, 12]), depth=draw.choice([3, 5]))
        rows.append(record(described, [50.0, 20.5 + i, 30.5 + i], task))
    write(folder, sweep, [*rows, *(rows[:1] * 11)])
    return SPACES[space_name(sweep)](folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("nds")


class TestFamilies(SpaceContract):
    @pytest.fixture(autouse=True, params=list(OPERATIONS))
    def family(self, request: pytest.FixtureRequest, folder: Path) -> None:
        self.space = sweep_of(request.param, folder)

    def make(self) -> Space:
        return self.space


class TestImageNet(SpaceContract):
    networks = 1

    @pytest.fixture(autouse=True)
    def family(self, folder: Path) -> None:
        self.space = sweep_of("NASNet", folder, "imagenet")

    def make(self) -> Space:
        return self.space


def test_every_sweep_is_a_space() -> None:
    files = {f"nds_data/{space.sweep}.json" for space in map(made, SPACES) if isinstance(space, nds.Nds)}
    assert files == {file.path for file in sources()["nds"].files}
    assert len(files) == 34
    assert SPACES["nds_darts_lr_wd_in"](None).name == "nds_darts_lr_wd_in"
    for sweep in SWEEPS:
        (task,) = SPACES[space_name(sweep)](None).truths
        assert task == ("imagenet" if sweep.endswith("_in") else "cifar10")


def made(name: str) -> Space:
    return SPACES[name](None)


def test_records(tmp_path: Path) -> None:
    draw = random.Random(1)
    first, second = net("DARTS", draw, width=36, depth=20), net("DARTS", draw)
    write(tmp_path, "DARTS", [record(first, [60.0, 9.25, 9.5]), record(second, [80.25, 70.0, 65.5])])
    space = SPACES["nds_darts"](tmp_path)
    assert space.size == 2
    assert space.truth("cifar10").name == "cifar10/test-final"
    assert space.truth("cifar10").values.tolist() == [90.5, 34.5]
    assert space.truth("cifar10", "test-best").values.tolist() == [90.75, 34.5]
    text = space.architecture(0)
    assert text.startswith("width=36,depth=20,Genotype(normal=[('")
    assert text.endswith("reduce_concat=[2, 3, 4, 5])")
    assert space.index(text.replace("[2, 3, 4, 5]", "range(2, 6)")) == 0
    assert space.traits(text)["width"] == 36
    assert space.traits(text)["depth"] == 20
    edges = first["genotype"]["normal"] + first["genotype"]["reduce"]
    assert space.traits(text)["convolutions"] == sum("conv" in operation for operation, _ in edges)
    for wrong in ("test-last", "valid-final"):
        with pytest.raises(UnknownNameError, match="unknown accuracy of nds_darts on cifar10"):
            space.truth("cifar10", wrong)


def test_the_best_error_is_that_of_the_epochs_where_none_is_stated(tmp_path: Path) -> None:
    row = record(net("ENAS", random.Random(0)), [60.0, 9.25, 9.5])
    del row["min_test_top1"]
    write(tmp_path, "ENAS", [row])
    assert SPACES["nds_enas"](tmp_path).truth("cifar10", "test-best").values.tolist() == [90.75]


def test_trainings_of_one_network_are_numbered(tmp_path: Path) -> None:
    draw = random.Random(2)
    one, two = net("DARTS", draw), net("DARTS", draw)
    rows = [record(n, [50.0 - i]) for i, n in enumerate([one, two, one, one])]
    write(tmp_path, "DARTS_lr-wd", rows)
    space = SPACES["nds_darts_lr_wd"](tmp_path)
    texts = [space.architecture(i) for i in range(4)]
    assert texts[2:] == [f"{texts[0]} (run 2)", f"{texts[0]} (run 3)"]
    assert [space.index(text) for text in texts] == [0, 1, 2, 3]
    assert space.truth("cifar10").values.tolist() == [50.0, 51.0, 52.0, 53.0]
    assert len({space.params(text, CIFAR10) for text in (texts[0], *texts[2:])}) == 1
    weights = [next(space.build(text, CIFAR10, 0).parameters()) for text in (texts[0], texts[3])]
    assert torch.equal(*weights)
    for run in ("1", "0", "02", "4", "-1", "２", "1234567", "2) (run 3"):
        with pytest.raises(ArchitectureError, match=r"expected width=36,depth=20,Genotype\(\.\.\.\)|none of the 4 in"):
            space.index(f"{texts[0]} (run {run})")


def test_two_lists_stand_in_the_order_top_and_mid(tmp_path: Path) -> None:
    draw = random.Random(3)
    one, two = net("DARTS", draw), net("DARTS", draw)
    top, mid = [record(one, [5.0]), record(one, [6.0])], [record(two, [7.0]), record(two, [8.0])]
    for content in ({"top": top, "mid": mid}, {"mid": mid, "top": top}):
        write(tmp_path, "DARTS", content)
        space = SPACES["nds_darts"](tmp_path)
        assert space.truth("cifar10").values.tolist() == [95.0, 94.0, 93.0, 92.0]
        assert space.architecture(3).endswith(" (run 2)")


@pytest.mark.parametrize("aux", [False, True])
@pytest.mark.parametrize("task", ["cifar10", "imagenet"])
def test_params_are_compared_with_the_records(tmp_path: Path, task: str, aux: bool) -> None:
    described = net("PNAS", random.Random(4), width=16, depth=8, aux=aux)
    sweep = "PNAS" if task == "cifar10" else "PNAS_in"
    row = record(described, [30.0], task)
    skeleton = NdsCells(sweep).skeleton(NdsCells(sweep).describe(described))
    row["params"] = sizes(skeleton, TASKS[task].num_classes, 32, auxiliary=aux).params
    for params, doubt in ((row["params"], ""), (row["params"] + 1, "; 1 of 2 records state other parameters than the")):
        write(tmp_path, sweep, [row, {**row, "params": params}])
        space = SPACES[space_name(sweep)](tmp_path)
        label = space.truth(task).label
        assert label.startswith(space.truths[task]["test-final"])
        assert doubt in label
        assert ("other parameters" in label) == bool(doubt)
    # The head is not part of the network that is scored.
    with torch.device("meta"):
        built = sum(p.numel() for p in Network(skeleton, TASKS[task].num_classes).parameters())
    assert space.params(space.architecture(0), TASKS[task]) == built


def test_flops_and_params_of_records_are_kept(tmp_path: Path) -> None:
    rows = [record(net("DARTS", random.Random(i)), [30.0], flops=1000 + i) for i in range(3)]
    write(tmp_path, "DARTS", rows)
    columns = NdsCells("DARTS", tmp_path).table.columns
    assert columns["record/flops"].tolist() == [1000, 1001, 1002]
    assert columns["record/params"].tolist() == columns["built/params"].tolist() == [row["params"] for row in rows]


def test_a_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "DARTS", [record(net("DARTS", random.Random(5)), [30.0])])
    first = NdsCells("DARTS", tmp_path).table
    monkeypatch.setattr(nds, "records", lambda _: pytest.fail("read again"))
    again = NdsCells("DARTS", tmp_path).table
    assert (again.path, again.architectures) == (path, first.architectures)
    assert again.columns.keys() == first.columns.keys()


def good() -> dict[str, Any]:
    return record(net("DARTS", random.Random(6)), [30.0, 20.0])


def spoilt(change: Callable[[dict[str, Any]], object]) -> str:
    row = copy.deepcopy(good())
    change(row)
    return json.dumps([good(), row])


def without(key: str) -> Callable[[dict[str, Any]], object]:
    return lambda row: row.pop(key)


def cell(key: str, value: object) -> Callable[[dict[str, Any]], object]:
    return lambda row: row["net"]["genotype"].update({key: value})


EDGES = good()["net"]["genotype"]["normal"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param("", r"torn or not JSON \(expected \[ or \{, got its end\)", id="empty"),
        pytest.param("<!doctype html><html>", r"torn or not JSON \(expected \[ or \{, got <\)", id="HTML page"),
        pytest.param("\0\0\0", "torn or not JSON", id="zeros"),
        pytest.param("[]", "lists no networks", id="no records"),
        pytest.param('{"top": [], "mid": []}', "lists no networks", id="no records in two lists"),
        pytest.param("{}", "torn or not JSON", id="an empty object"),
        pytest.param(json.dumps([good()])[:-1], "torn or not JSON", id="no end"),
        pytest.param(json.dumps([good(), good()])[:1500], "torn or not JSON", id="torn"),
        pytest.param(json.dumps([good()]) * 2, r"torn or not JSON \(expected its end, got \[\)", id="twice"),
        pytest.param(json.dumps([good()]).replace("}]", "}}]"), "torn or not JSON", id="a bracket too many"),
        pytest.param("[" * 100_000, "torn or not JSON", id="nested"),
        pytest.param("[" + '{"net":' * 100_000, "torn or not JSON", id="nested objects"),
        pytest.param('{"top": {}, "mid": []}', "torn or not JSON", id="an object in place of a list"),
        pytest.param('{"top": [], "top": []}', "torn or not JSON", id="one name twice"),
        pytest.param(
            json.dumps({"top": [good()]}), "expected a list of records, or lists top and mid, got top", id="half"
        ),
        pytest.param(json.dumps({"top": [good()], "low": [good()]}), "got low, top", id="another list"),
        pytest.param(
            json.dumps([good(), 1]), "record 1: expected a training .a value is of another kind", id="a number"
        ),
        pytest.param(
            json.dumps([good(), None]), "record 1: expected a training .a value is of another kind", id="nothing"
        ),
        pytest.param(
            json.dumps([good(), [1]]), "record 1: expected a training .a value is of another kind", id="a list"
        ),
        *(
            pytest.param(spoilt(without(key)), f"record 1: expected a training .{key} is missing", id=f"no {key}")
            for key in ("net", "optim", "params", "flops", "test_ep_top1")
        ),
        pytest.param(spoilt(lambda r: r["net"].pop("genotype")), "genotype is missing", id="no genotype"),
        pytest.param(spoilt(lambda r: r["net"].pop("aux")), "aux is missing", id="no aux"),
        pytest.param(spoilt(lambda r: r["net"].update(aux="no")), "expected aux to be true or false, got no", id="aux"),
        pytest.param(spoilt(lambda r: r.update(test_ep_top1=[30.0])), "1 errors in 2 epochs", id="an epoch missing"),
        pytest.param(
            spoilt(lambda r: r.update(test_ep_top1="ab")), "of another kind|expected errors", id="a text of errors"
        ),
        *(
            pytest.param(
                spoilt(lambda r, e=error: r.update(test_ep_top1=[e, 20.0])),
                "of another kind|expected errors",
                id=f"{error}",
            )
            for error in (-0.1, 100.1, float("nan"), float("inf"), None, "3", True, [1])
        ),
        *(
            pytest.param(
                spoilt(lambda r, e=error: r.update(min_test_top1=e)), "expected errors of 0 to 100", id=f"best {error}"
            )
            for error in (-0.1, 100.1, float("nan"), None, "3", False)
        ),
        *(
            pytest.param(
                spoilt(lambda r, s=size: r.update(params=s)),
                "expected params and flops|of another kind|expected a number, got|int too large",
                id=f"params {size}"[:20],
            )
            for size in (0, -1, float("nan"), float("inf"), None, "many", [1], 10**400)
        ),
        pytest.param(spoilt(lambda r: r["net"].update(width=4.0)), "expected width=36,depth=20", id="a broken width"),
        pytest.param(spoilt(lambda r: r["net"].update(width=True)), "expected width=36,depth=20", id="a true width"),
        pytest.param(spoilt(lambda r: r["net"].update(depth=0)), "expected width=36,depth=20", id="no depth"),
        pytest.param(
            spoilt(lambda r: r["net"].update(depth="3,x")), "expected width=36,depth=20", id="a text of depth"
        ),
        pytest.param(
            spoilt(cell("normal", [["conv_9x9", 0], *EDGES[1:]])), "unknown operation 'conv_9x9'", id="operation"
        ),
        pytest.param(spoilt(cell("normal", [[1, 0], *EDGES[1:]])), "unknown operation '1'", id="a number for one"),
        pytest.param(spoilt(cell("normal", [["none"], *EDGES[1:]])), "expected pairs", id="no pair"),
        pytest.param(spoilt(cell("normal", [["none", 2], *EDGES[1:]])), "normal node 2 reads node 2", id="itself"),
        pytest.param(spoilt(cell("reduce", [["none", "0"], *EDGES[1:]])), "reduce node 2 reads node 0", id="a text"),
        pytest.param(spoilt(cell("reduce", EDGES[1:])), "7 edges, not two for every node", id="an odd number"),
        pytest.param(
            spoilt(lambda r: r["net"]["genotype"].update(reduce=EDGES[:6], reduce_concat=[2, 3, 4])),
            "expected 4 nodes a cell",
            id="a node less",
        ),
        pytest.param(spoilt(cell("reduce", None)), "of another kind", id="no cell"),
        pytest.param(spoilt(cell("normal_concat", [2, 6])), "normal_concat is", id="a node that is not there"),
        pytest.param(spoilt(cell("normal_concat", [1, 2])), "normal_concat is", id="an input"),
        pytest.param(spoilt(cell("reduce_concat", [2, 2])), "reduce_concat is", id="a node twice"),
        pytest.param(spoilt(cell("reduce_concat", [2.0])), "whole numbers", id="a broken node"),
        pytest.param(spoilt(cell("reduce_concat", [])), "reduce_concat is", id="nothing concatenated"),
        pytest.param(spoilt(cell("reduce_concat", "[2], reduce=[]")), "expected Genotype", id="more text"),
        pytest.param(
            json.dumps([good(), record(net("ENAS", random.Random(0)), [1.0])]), "expected 4 nodes a cell", id="families"
        ),
        pytest.param(
            spoilt(lambda r: r.update(net={"block_type": "res_basic_block"})), "genotype is missing", id="no cells"
        ),
    ],
)
def test_faults_are_refused_on_one_line_that_names_the_file(tmp_path: Path, content: str, message: str) -> None:
    path = write(tmp_path, "DARTS", content)
    with pytest.raises(DataFileError, match=message) as caught:
        _ = SPACES["nds_darts"](tmp_path).size
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 400 + len(str(path))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = write(tmp_path, "DARTS", "")
    path.write_bytes(b"\xff\xfe[\0")
    with pytest.raises(DataFileError, match=r"torn or not JSON .*utf-8"):
        _ = SPACES["nds_darts"](tmp_path).size


def test_records_beyond_measure_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_PIECE", 1_000)
    monkeypatch.setattr(reader, "_LONGEST", 10_000)
    write(tmp_path, "DARTS", '["' + "a" * 100_000)
    with pytest.raises(DataFileError, match=r"torn or not JSON .Unterminated string"):
        _ = SPACES["nds_darts"](tmp_path).size


def test_an_absent_file_says_how_to_get_it(tmp_path: Path) -> None:
    space = SPACES["nds_pnas_in"](tmp_path)
    with pytest.raises(AbsentFileError, match=r"nds_data/PNAS_in\.json is absent: zcbench data get nds"):
        _ = space.size
    # A network needs no list.
    text = NdsCells("PNAS_in").describe(net("PNAS", random.Random(0)))
    assert space.macs(text, IMAGENET) > 0
    assert space.params(text, IMAGENET) > space.params(text, CIFAR10)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("width=4", "width=0"),
        ("width=4", "width=04"),
        ("width=4", "width=1000"),
        ("width=4", "width=４"),
        ("width=4", "width=-4"),
        ("width=4", "width=4.0"),
        ("width=4", "width=3"),  # odd: an ImageNet stem halves it
        ("width=4,depth=3", "depth=3,width=4"),
        ("depth=3", "depth=100"),
        ("depth=3,", "depth=3, "),
        ("depth=3,", "depth=3\n,"),
        ("Genotype", "genotype"),
        ("normal_concat=", "normal_concat=[2], normal_concat="),
    ],
)
def test_texts_that_are_no_network(old: str, new: str) -> None:
    space = NdsCells("PNAS_in")
    text = space.describe(net("PNAS", random.Random(0)))
    assert space.canonical(text) == text
    assert old in text
    with pytest.raises(ArchitectureError, match=r"^architecture '") as caught:
        space.build(text.replace(old, new), IMAGENET, 0)
    assert len(str(caught.value).splitlines()) == 1


def test_a_skeleton_is_that_of_its_task() -> None:
    text = NdsCells("ENAS").describe(net("ENAS", random.Random(0), width=6, depth=4))
    cifar, imagenet = NdsCells("ENAS").skeleton(text), NdsCells("ENAS_in").skeleton(text)
    assert (cifar.form, imagenet.form) == ("cifar", "imagenet")
    assert cifar == Skeleton(imagenet.genotype, 6, 4)
    with pytest.raises(ArchitectureError, match="expected 4 nodes a cell"):
        NdsCells("DARTS_lr-wd_in").skeleton(text)
