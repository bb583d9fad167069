"""Products of two programs over layer tables, on the networks that a choice may read: pool and validation classes.

    python -m zcbench.tools.products CONFIG STATISTICS PROGRAM.json ... --out FOLDER > products.csv

CONFIG is a search by class over layers whose objective is `gain`, and STATISTICS the folder of its layer tables. Every
program is a row, and so is every product of two, `mul(A, B)` and `mul(A, sqrt(B))`. `gain` is the least gain over the
grounds, over the rivals of the configuration, on all these networks, and `validation` on those of the validation
classes alone. The product with the highest gain, or those that `--write` names, are written to FOLDER as program files,
so that `zcbench evolve --open` can test them on sealed classes, which nothing here reads.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ..bench.study.config import distinct
from ..cli import evolve
from ..cli.parser import command_parser, out_folder, parse, settings
from ..engine import Workers
from ..errors import ConfigError, ZcbenchError, unknown_name
from ..evolution.engine.layers import LayerProblem
from ..evolution.study.config import EvolveConfig
from ..evolution.study.discover import pools_of
from ..evolution.study.found import Found, digest, read
from ..evolution.study.resolve import AggregateSearch, ProgramSearch, resolve_search

#: What a product has of the recipe of its first program: the networks that it may have been chosen on.
SHARED = (
    "version",
    "grounds",
    "pool",
    "split",
    "sample_seed",
    "batch_sizes",
    "seeds",
    "over",
    "versions",
    "protocol",
    "environment",
)


def products(programs: Sequence[Found]) -> list[Found]:
    """Return the product of any two programs, and that of each with the square root of each other one.

    Raises:
        ConfigError: A program is there twice, is not over layers, or was evolved on other networks than the first one.
    """
    for program in programs:
        _check(program, programs[0])
    distinct("programs", [program.program for program in programs])
    equal = [_product(a, b, b.program, b.name) for a, b in itertools.combinations(programs, 2)]
    unequal = [
        _product(a, b, f"sqrt({b.program})", f"sqrt of {b.name}") for a, b in itertools.permutations(programs, 2)
    ]
    return equal + unequal


def _check(program: Found, first: Found) -> None:
    """Refuse a program that is not over layers, or was evolved on other networks than the first one.

    Raises:
        ConfigError: It is so.
    """
    if program.over != "layers" or program.direction != "higher":
        raise ConfigError(f"programs: expected programs over layers whose higher scores are better, got {program.name}")
    if program.recipe.get("split") != "classes" or not program.recipe.get("grounds"):
        raise ConfigError(f"programs: expected programs that were evolved with split: classes, got {program.name}")
    if differing := [name for name in SHARED if program.recipe.get(name) != first.recipe.get(name)]:
        raise ConfigError(f"programs: expected programs of one pool, got {program.name}, whose {differing[0]} differs")


def _product(a: Found, b: Found, second: str, said: str) -> Found:
    recipe = {name: a.recipe[name] for name in SHARED if name in a.recipe} | {"product": [a.name, said]}
    made = dataclasses.replace(
        a,
        name="",
        program=f"mul({a.program}, {second})",
        paper="product of two programs found by genetic programming",
        recipe=recipe,
        openings=[],
    )
    return dataclasses.replace(made, name=f"evolved-{digest(made)[:6]}")


def measured(search: ProgramSearch | AggregateSearch, programs: Sequence[Found]) -> pd.DataFrame:
    """Return a row for every program, the best first: tau on every ground, and both least gains.

    Raises:
        ConfigError: The search is none by class over layers.
    """
    if (
        not isinstance(search, ProgramSearch)
        or search.over != "layers"
        or not search.by_class
        or search.measure.objective != "gain"
    ):
        raise ConfigError("config: expected a search over layers with split: classes and objective: gain")
    trees = [program.tree() for program in programs]
    with Workers(1) as workers:
        parts = []
        for part in (slice(None), slice(search.pool, None)):
            pools = [pool for study in search.grounds for pool in pools_of(search, study, part)]
            parts.append(LayerProblem(pools, search.scoring, search.measure, workers))
        whole, chosen = parts
        taus = whole.coefficients(trees, whole.everything(), "tau")
        gains = [part.coefficients(trees, part.everything(), "gain").min(1) for part in (whole, chosen)]
    rows = {
        "name": [program.name for program in programs],
        "of": [" times ".join(program.recipe.get("product", [program.name])) for program in programs],
        **{study.space.name: column for study, column in zip(search.grounds, taus.T, strict=True)},
        "gain": gains[0],
        "validation": gains[1],
        "size": [tree.size for tree in trees],
    }
    return pd.DataFrame(rows).sort_values("gain", ascending=False, kind="stable")


def main(arguments: Sequence[str]) -> int:
    """Write the table to standard output and products to their files; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m zcbench.tools.products", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("config", help="a configuration of zcbench evolve")
    parser.add_argument("statistics", help="folder of layer tables")
    parser.add_argument("programs", type=Path, nargs="+", help="program files, two or more")
    parser.add_argument("--out", type=Path, required=True, help="folder of the program files that are written")
    parser.add_argument("--write", action="append", default=[], help="a product to write, by its name")
    given = parser.parse_args(arguments)
    try:
        studies = parse(command_parser(evolve), ["--config", given.config, "--statistics", given.statistics])
        if len(studies) > 1:
            raise ConfigError(f"config: expected one search, got the {len(studies)} of {given.config}")
        if not Path(given.statistics).is_dir():
            raise ConfigError(
                f"statistics: expected the folder of layer tables that a search filled, got {given.statistics}"
            )
        out_folder(str(given.out))
        programs = [read(path) for path in given.programs]
        made = {program.name: program for program in products(programs)}
        if not made:
            raise ConfigError("programs: expected two program files or more, got one")
        for name in given.write:
            if name not in made:
                raise unknown_name("product", name, made)
        table = measured(resolve_search(settings(EvolveConfig, studies[0])), [*programs, *made.values()])
        wanted = given.write or [next(name for name in table["name"] if name in made)]
        for name in wanted:
            made[name].write(given.out / f"{name}.json")
    except ZcbenchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(table.to_csv(index=False, float_format="%.4f"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
