from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from zcbench.bench.stats.coefficients import spearman
from zcbench.datasets.tasks import TASKS
from zcbench.errors import AbsentFileError, ArchitectureError, DataFileError
from zcbench.proxies import PROXIES
from zcbench.proxies.probe import Probe
from zcbench.spaces.cells import DARTS, NASLIB, Skeleton, parse_genotype, sizes
from zcbench.spaces.darts import DartsCells, DartsTrained, NasBench301

CIFAR10 = TASKS["cifar10"]
PAIR = "('sep_conv_3x3', 0), ('skip_connect', 1)"
CELL = f"[{', '.join([PAIR] * 4)}]"
TEXT = f"Genotype(normal={CELL}, normal_concat=[2, 3, 4, 5], reduce={CELL}, reduce_concat=[2, 3, 4, 5])"
FILES = {
    DartsTrained: "tables/darts-trained/DARTS_archs_CIFAR10.csv",
    NasBench301: "tables/nb301/nb301_surrogate_val_and_proxies.csv",
}


def write(folder: Path, space: type[DartsCells], rows: list[tuple[str, object]]) -> Path:
    path = folder / FILES[space]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        if space is NasBench301:
            writer.writerow(["genotype", "val_accuracy"])
        writer.writerows(rows)
    return path


@pytest.fixture
def naslib(real_data: Path) -> list[dict[str, str]]:
    path = real_data / FILES[NasBench301]
    if not path.exists():
        pytest.skip("needs the table of NAS-Bench-301")
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_params_are_those_of_naslib(naslib: list[dict[str, str]]) -> None:
    space = NasBench301()
    stated = [round(1e6 * float(row["params"])) for row in naslib]
    assert [space.params(row["genotype"], CIFAR10) for row in naslib] == stated
    assert len(stated) == 1225


@pytest.mark.slow
def test_synflow_orders_networks_as_naslib_does(naslib: list[dict[str, str]]) -> None:
    # 200 networks, the first of a fixed shuffle: Spearman .9999; NASLib's initialisation has another seed.
    space, ours, theirs = NasBench301(), [], []
    for place in np.random.RandomState(0).permutation(len(naslib))[:8]:
        row = naslib[int(place)]
        probe = Probe(space.build(row["genotype"], CIFAR10, seed=0), torch.zeros(1, *CIFAR10.shape))
        ours.append(PROXIES["synflow"](probe))
        theirs.append(float(row["synflow"]))
    assert spearman(np.asarray(ours), np.asarray(theirs)) > 0.99


def test_the_lists(real_data: Path) -> None:
    trained, surrogate = DartsTrained(real_data), NasBench301(real_data)
    for space in (trained, surrogate):
        if not (real_data / FILES[type(space)]).exists():
            pytest.skip(f"needs {FILES[type(space)]}")
    # As the notes on the files say: 1,000 distinct networks, 10.22 to 86.61; 1,225 rows, 7 of them twice.
    values = trained.truth("cifar10").values
    assert (trained.size, round(values.min(), 2), round(values.max(), 2)) == (1000, 10.22, 86.61)
    assert surrogate.size == 1218
    both = [trained.genotype(text) for text in trained.table.architectures]
    assert all(genotype.normal == genotype.reduce for genotype in both)
    nodes = [[g.normal[i : i + 2] for i in range(0, 8, 2)] for g in both]
    assert sum(any(a[0] == b[0] == "none" for a, b in cell) for cell in nodes) == 58


def test_skeletons() -> None:
    genotype = parse_genotype(TEXT)
    assert DartsTrained().params(TEXT, CIFAR10) == sizes(Skeleton(genotype, 16, 8), 10, 32, DARTS).params
    assert NasBench301().params(TEXT, CIFAR10) == sizes(Skeleton(genotype, 32, 8), 10, 32, NASLIB).params
    network = NasBench301().build(TEXT, CIFAR10, 0)
    assert [name for name, _ in network.named_modules() if "auxiliary" in name] == []
    operations = [m for n, m in network.named_modules() if ".operations." in n and isinstance(m, torch.nn.BatchNorm2d)]
    assert operations
    assert not any(norm.affine for norm in operations)
    assert all(
        norm.affine
        for norm in DartsTrained().build(TEXT, CIFAR10, 0).modules()
        if isinstance(norm, torch.nn.BatchNorm2d)
    )


def test_a_space_lists_what_its_file_has(tmp_path: Path) -> None:
    other = TEXT.replace("sep_conv_3x3", "dil_conv_5x5")
    write(tmp_path, DartsTrained, [(TEXT, 80.5), (other.replace("[2, 3, 4, 5]", "range(2, 6)"), 70)])
    space = DartsTrained(tmp_path)
    assert [space.architecture(0), space.architecture(1)] == [TEXT, other]
    assert space.index(other.replace("[2, 3, 4, 5]", "range(2, 6)")) == 1
    assert space.truth("cifar10", "valid-200").values.tolist() == [80.5, 70.0]
    unlisted = TEXT.replace("skip_connect", "none")
    with pytest.raises(ArchitectureError, match="the network is valid, but none of the 2 in "):
        space.index(unlisted)
    assert space.params(unlisted, CIFAR10) < space.params(TEXT, CIFAR10) + 1


def test_networks_that_stand_twice(tmp_path: Path) -> None:
    write(tmp_path, NasBench301, [(TEXT, 90.0), (TEXT, 91.0)])
    assert NasBench301(tmp_path).truth("cifar10").values.tolist() == [90.0]
    path = write(tmp_path, DartsTrained, [(TEXT, 90.0), (TEXT, 91.0)])
    with pytest.raises(DataFileError, match=r"Genotype.* occurs twice") as caught:
        _ = DartsTrained(tmp_path).size
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("space", [DartsTrained, NasBench301])
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sep_conv_3x3", "sep_conv_7x7"),
        ("sep_conv_3x3", "conv_1x1"),
        ("('skip_connect', 1)", "('skip_connect', 2)"),
        ("('skip_connect', 1)", "('skip_connect', -1)"),
        ("('skip_connect', 1)", "('skip_connect', True)"),
        ("('skip_connect', 1)", "('skip_connect', 1.0)"),
        ("('skip_connect', 1)", "('skip_connect', __import__('os'))"),
        ("('skip_connect', 1)", "('skip_connect',)"),
        ("('skip_connect', 1)", "'ab'"),
        (", ('skip_connect', 1)]", "]"),
        ("[2, 3, 4, 5]", "[2, 3, 4]"),
        ("[2, 3, 4, 5]", "[2, 3, 4, 4]"),
        ("[2, 3, 4, 5]", "[2, 3, 4, 6]"),
        ("[2, 3, 4, 5]", "[5, 4, 3, 2]"),
        ("[2, 3, 4, 5]", "['a']"),
        ("[2, 3, 4, 5]", "[]"),
        ("[2, 3, 4, 5]", "range(2, 99)"),
        ("Genotype", "Genotypes"),
    ],
)
def test_texts_that_are_no_network(space: type[DartsCells], old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    with pytest.raises(ArchitectureError, match="architecture 'Genotype") as caught:
        space().params(text, CIFAR10)
    assert len(str(caught.value).splitlines()) == 1


def test_none_is_of_the_trained_list_alone() -> None:
    text = TEXT.replace("skip_connect", "none")
    with pytest.raises(ArchitectureError, match="operations of max_pool_3x3"):
        NasBench301().params(text, CIFAR10)
    images = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    empty = TEXT.replace("skip_connect", "none").replace("sep_conv_3x3", "none")
    for architecture in (text, empty):
        logits = DartsTrained().build(architecture, CIFAR10, 0)(images)
        assert logits.isfinite().all()
    assert torch.equal(logits[0], logits[1])  # nothing reaches the output


@pytest.mark.parametrize("space", [DartsTrained, NasBench301])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "lists no networks|expected columns"),
        ("<!doctype html><html></html>", "expected columns|line 1"),
        (f'"{TEXT}"', "expected columns|expected 2 fields"),
        (f'genotype,val_accuracy\n"{TEXT}",abc\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT}",0\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT}",100.1\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT}",nan\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT[:-30]}",90\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT}"\n', "line [12]"),
        (f'genotype,val_accuracy\n"{TEXT}",90,1\n', "line [12]"),
        ("genotype,val_accuracy\n", "lists no networks|line 1"),
        (b"\xff\xfe\x00", "not a table of text"),
        ("\0", "not a table of text|expected columns|line 1|expected 2 fields"),
    ],
)
def test_bad_lists_are_named(tmp_path: Path, space: type[DartsCells], content: str | bytes, message: str) -> None:
    path = write(tmp_path, space, [])
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(DataFileError, match=message) as caught:
        _ = space(tmp_path).size
    assert str(path) in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("space", [DartsTrained, NasBench301])
def test_absent_lists_say_how_to_get_them(tmp_path: Path, space: type[DartsCells]) -> None:
    with pytest.raises(AbsentFileError, match=r"is absent: (zcbench data get darts-trained|it has no public address)"):
        _ = space(tmp_path).size
    # A network needs no list.
    assert json.dumps(space(tmp_path).macs(TEXT, CIFAR10)).isdigit()
