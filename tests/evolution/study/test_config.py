import dataclasses
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import zcbench
from zcbench.__main__ import COMMANDS
from zcbench.bench.study.config import describe, searches, studies
from zcbench.cli.parser import main_parser, settings
from zcbench.cli.parser import parse as parse_command
from zcbench.datasets import DATASETS
from zcbench.evolution.engine.config import EngineConfig
from zcbench.evolution.language.parse import parse
from zcbench.evolution.study.config import EvolveConfig, Ground, as_document, check
from zcbench.evolution.study.found import STATISTICS
from zcbench.spaces import SPACES

EVERY = sorted(name for name in searches() if name.startswith("evolution/"))


def loaded(name):
    parser = main_parser(COMMANDS, "0")
    return [settings(EvolveConfig, given) for given in parse_command(parser, ["evolve", "--config", name])]


def test_the_searches_are_there():
    assert {"evolution/quickstart", "evolution/eznas", "evolution/large", "evolution/aggregates"} <= set(EVERY)
    assert not set(EVERY) & set(studies())


@pytest.mark.parametrize("name", EVERY)
def test_every_configuration_loads_and_names_what_there_is(name):
    assert len(describe(searches()[name])) > 20
    for config in loaded(name):
        check(config)
        for ground in (*config.grounds, *config.tests):
            space, images = SPACES[ground.space](None), DATASETS[ground.dataset](None)
            assert ground.accuracy in {"default", *space.truths[images.task.name]}
        if config.over == "statistics":
            for text in config.engine.start:
                parse(STATISTICS, text)
        assert config.tracker == "none"


def test_a_document_names_no_number_of_images_that_a_ground_lacks():
    document = as_document(EvolveConfig(grounds=[Ground(), Ground(batch_size=4)], tests=[Ground()]))
    known = {"space": "nb201", "dataset": "cifar10", "accuracy": "default"}
    assert document["grounds"] == [known, known | {"batch_size": 4}]
    assert document["tests"] == [known]
    assert set(document) == {field.name for field in dataclasses.fields(EvolveConfig)}


def test_no_two_searches_share_a_folder():
    folders = [config.out for name in EVERY for config in loaded(name)]
    assert len(set(folders)) == len(folders)


def test_names_are_found_with_and_without_their_folder():
    assert loaded("configs/evolution/quickstart.yaml") == loaded("evolution/quickstart")
    assert loaded(str(searches()["evolution/quickstart"])) == loaded("evolution/quickstart")


def test_the_defaults_are_the_papers():
    """EZNAS: 15 generations of 50 programs, tournaments of 4, 25 selected, heights of 2 to 10, 20 of 80 networks."""
    assert dataclasses.asdict(EngineConfig()) == {
        "generations": 15,
        "population": 50,
        "elite": 0,
        "alike": 1.0,
        "immigrants": 0.5,
        "parents": 25,
        "tournament": 4,
        "crossover": 0.4,
        "mutation": 0.4,
        "min_height": 2,
        "max_height": 10,
        "height_limit": 10,
        "parsimony": 0.0,
        "pareto": False,
        "start": [],
        "hall": 20,
        "seed": 0,
    }
    config = EvolveConfig()
    assert (config.pool, config.draw, config.grounds_drawn, config.batch_sizes) == (80, 20, 4, [1])
    assert (config.collection, config.to_scalar, config.aggregation, config.sign) == ("rcb", "mean", "mean", "any")


def test_the_search_of_the_paper_has_its_settings():
    (config,) = loaded("evolution/eznas")
    assert config.engine == EngineConfig()
    own = EvolveConfig()
    for name in ("pool", "draw", "grounds_drawn", "batch_sizes", "seeds", "collection", "dtype", "sign", "objective"):
        assert getattr(config, name) == getattr(own, name)


@pytest.mark.parametrize("kind", [Ground, EngineConfig, EvolveConfig])
def test_every_field_is_explained_once_and_in_order(kind):
    explained = re.findall(r"^ {4}(\w+): ", inspect.cleandoc(kind.__doc__).partition("Attributes:")[2], re.MULTILINE)
    assert explained == [field.name for field in dataclasses.fields(kind)]


def test_reading_a_configuration_loads_no_torch():
    script = "import sys, zcbench.evolution.study.config; assert not {'torch', 'numpy', 'deap'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


@pytest.mark.parametrize("name", ["evolution/quickstart", "evolution/aggregates"])
def test_configurations_are_data_files_of_the_package(name):
    root = Path(zcbench.__file__).parent
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packed = {path for pattern in settings["zcbench.configs"] for path in (root / "configs").glob(pattern)}
    assert searches()[name] in packed
    room = root / "evolution" / "study"
    packed = {path for pattern in settings["zcbench.evolution.study"] for path in room.glob(pattern)}
    assert set((room / "known").glob("*.json")) <= packed
