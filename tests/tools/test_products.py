from __future__ import annotations

import io
from pathlib import Path

import pandas as pd
import pytest
from scipy.stats import kendalltau
from zcbench.datasets import DATASETS
from zcbench.evolution.data.split import draw
from zcbench.evolution.study.found import Found, read
from zcbench.proxies import PROXIES
from zcbench.proxies.registry import score_all
from zcbench.spaces import SPACES
from zcbench.tools.products import main, products

CONFIG = """
version: 1
over: layers
split: classes
grounds: [{space: nb201, dataset: cifar10-samples, accuracy: analog-baseline}]
pool: 5
test: 4
draw: 0
grounds_drawn: 0
batch_sizes: [2]
objective: gain
rivals: [sum(macs), sum(snip)]
sign: higher
tracker: none
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    Path("config.yaml").write_text(CONFIG)
    Path("tables").mkdir()
    texts = {"first": "sum(effective_rank)", "second": "sum(min_eigenvalue)", "third": "sum(snip)"}
    for name, text in texts.items():
        recipe = {"grounds": [{"space": "nb201"}], "pool": 5, "split": "classes", "engine": {"seed": 3}}
        Found(name=name, program=text, over="layers", recipe=recipe).write(Path(f"{name}.json"))
    return [f"{name}.json" for name in texts]


def test_every_two_programs_have_three_products(files: list[str]) -> None:
    first, second, third = (read(Path(file)) for file in files)
    made = products([first, second, third])
    assert len({program.name for program in made}) == 3 + 6
    assert made[0].program == "mul(sum(effective_rank), sum(min_eigenvalue))"
    shared = {"grounds": [{"space": "nb201"}], "pool": 5, "split": "classes"}
    assert made[0].recipe == {**shared, "product": ["first", "second"]}
    assert "mul(sum(snip), sqrt(sum(min_eigenvalue)))" in {program.program for program in made}


def test_products_are_measured_on_pool_and_validation_and_the_best_is_written(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config.yaml", "tables", *files, "--out", "out"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("of")
    assert len(table) == 3 + 9
    assert table["gain"].is_monotonic_decreasing
    # The third is a rival itself, so its gain over the best rival is nothing or less.
    assert table.loc["third", "gain"] <= 0
    taus = table["nb201"]
    assert table.loc["first", "gain"] <= taus["first"] - taus["third"] + 1e-3
    (written,) = Path("out").glob("*.json")
    products_alone = table[table.index.str.contains(" times ")]
    assert read(written).name == products_alone["name"].iloc[0] == written.stem
    assert read(written).openings == []
    last = products_alone["name"].iloc[-1]
    assert main(["config.yaml", "tables", *files, "--out", "others", "--write", last]) == 0
    assert [path.stem for path in Path("others").glob("*.json")] == [last]
    assert main(["config.yaml", "tables", *files, "--out", "others", "--write", "nothing"]) == 2
    assert "unknown product 'nothing'" in capsys.readouterr().err


def test_tau_is_that_of_the_networks_which_a_search_may_read(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config.yaml", "tables", *files, "--out", "out"]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("of")
    space = SPACES["nb201"](None)
    truth = space.truth("cifar10", "analog-baseline").values
    indices = [*draw(space, "pool", 5), *draw(space, "validation", 4)]
    images = DATASETS["cifar10-samples"](None)
    batch = images.probe_batch(2, 0)
    scores = []
    for index in indices:
        net = space.build(space.architecture(index), images.task, 0)
        x = batch.x.contiguous(memory_format=space.memory_format)
        scores.append(score_all(net, x, batch.y, [PROXIES["snip"]], seed=0)[0].value)
    assert table.loc["third", "nb201"] == pytest.approx(kendalltau(scores, truth[indices]).statistic, abs=1e-4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            ("objective: gain", "objective: tau"),
            "expected a search over layers with split: classes and",
        ),
        (("pool: 5", "pool: 1"), "pool: expected 3 or more networks"),
    ],
)
def test_other_searches_are_refused(
    files: list[str], change: tuple[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("config.yaml").write_text(CONFIG.replace(*change))
    assert main(["config.yaml", "tables", *files, "--out", "out"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"grounds": [{"space": "nb201"}], "pool": 5, "split": "networks"}, "evolved with split: classes, got other"),
        ({}, "evolved with split: classes, got other"),
        (
            {"grounds": [{"space": "nb201"}], "pool": 6, "split": "classes"},
            "of one pool, got other, whose pool differs",
        ),
    ],
)
def test_a_product_hides_no_networks_that_a_factor_was_evolved_on(
    files: list[str], recipe: dict[str, object], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before, only the recipe of the first factor counted, so sealed classes could be opened for the second."""
    Found(name="other", program="sum(depth)", over="layers", recipe=recipe).write(Path("other.json"))
    assert main(["config.yaml", "tables", files[0], "other.json", "--out", "out"]) == 2
    assert said in capsys.readouterr().err
    assert not Path("out").exists()


def test_programs_of_other_kinds_are_refused(files: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Found(name="ranks", program="snip", over="ranks").write(Path("ranks.json"))
    assert main(["config.yaml", "tables", files[0], "ranks.json", "--out", "out"]) == 2
    assert "expected programs over layers whose higher scores are better, got ranks" in capsys.readouterr().err
    assert main(["config.yaml", "tables", files[0], "--out", "out"]) == 2
    assert "expected two program files or more, got one" in capsys.readouterr().err
