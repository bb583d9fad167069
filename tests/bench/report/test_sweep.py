"""The sweep of the documentation asks for studies that `zcbench run` takes."""

from __future__ import annotations

import itertools
from pathlib import Path

import yaml
import zcbench
from zcbench.__main__ import COMMANDS
from zcbench.cli.parser import main_parser, parse
from zcbench.cli.run import study_config

SWEEP = Path(zcbench.__file__).parent / "docs" / "wandb" / "sweep.yaml"


def test_every_run_of_the_sweep_is_a_study() -> None:
    sweep = yaml.safe_load(SWEEP.read_text("utf-8"))
    program, *words, last = sweep["command"]
    assert (program, last) == ("zcbench", "${args}")
    grid = {name: of["values"] for name, of in sweep["parameters"].items()}
    found = set()
    for values in itertools.product(*grid.values()):
        # An agent replaces ${args} by one --NAME=VALUE for each parameter.
        arguments = [f"--{name}={value}" for name, value in zip(grid, values, strict=True)]
        (study,) = parse(main_parser(COMMANDS, "0"), [*words, *arguments])
        config = study_config(study)
        assert config.sample == 200
        found.add((config.batch_sizes, config.seeds))
    assert found == {(size, seed) for size in (4, 16, 64) for seed in (0, 1, 2)}
