"""The command line. Torch is imported inside the commands, so that `--help` is quick."""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from .bench.study.config import StudyConfig, describe, read_configs, searches, studies
from .errors import AbsentFileError, ArchitectureError, ConfigError, DataFileError, ZcbenchError, one_line
from .evolution.engine.config import EngineConfig
from .evolution.study.config import EvolveConfig, Ground

if TYPE_CHECKING:
    from rich.table import Table
    from torch import nn

    from .bench.results.ranking import Ranking
    from .bench.study.resolve import Study
    from .datasets import ImageDataModule
    from .spaces import Space

DEFAULT_STUDY = "quickstart"
#: Fields of a listing that only `--json` shows.
HIDDEN = {"summary", "truths", "file"}
INCLUDE = "Python files that register spaces, data sets or proxies of your own, or programs that evolve has found"
PROGRAM = "a program file that evolve has found, as one more proxy"
HEADINGS = {"version": "v", "direction": "better"}


class Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise what `main` prints."""
        raise ConfigError(f"{one_line(message)}; see zcbench --help") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return 0 done, 1 a check failed, 2 a user error, 3 not comparable, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parser = _parser()
        parsed = [parser.parse_args(arguments) for arguments in _with_studies(given)]
        name = parsed[0].subcommand
        commands = [each[name] for each in parsed]
        return SEVERAL[name](commands) if name in SEVERAL else COMMANDS[name](commands[0])
    except ZcbenchError as error:
        print(f"zcbench: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("zcbench: interrupted; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(commands: Sequence[Namespace]) -> int:
    """Score networks of a space and print how well every proxy ranks them."""
    configs = [_study_config(arguments) for arguments in commands]
    from .bench.report.table import as_json, as_markdown, as_svg, terminal
    from .bench.results.ranking import select, summarise
    from .bench.scoring.runner import run as run_study
    from .bench.scoring.store import Store
    from .bench.study.resolve import resolve

    form = commands[0].format
    rankings = []
    # Every fault in a list of studies comes to light before the first of them starts.
    for study in _at_hand([partial(resolve, config) for config in configs]):
        if not run_study(study):
            continue
        rows = select(Store(study.out), study.recipe)
        found = summarise(study.recipe, rows)
        rankings += found
        if form in {"table", "svg"}:
            table = terminal(found, study.truth.label)
            _print(table) if form == "table" else print(as_svg(table))
        if study.config.tracker == "wandb":
            from .bench.report.tracking import track

            print(track(study, rows, found), file=sys.stderr)
    if rankings and form in (texts := {"csv": _csv, "json": as_json, "markdown": as_markdown}):
        print(texts[form](rankings), end="")
    for folder in dict.fromkeys(config.out for config in configs):
        print(f"scores: {folder}", file=sys.stderr)
    return 0


def _csv(rankings: Sequence[Ranking]) -> str:
    from .bench.report.table import as_csv

    return as_csv([ranking.flat() for ranking in rankings])


def _at_hand(studies: Sequence[Callable[[], Study]]) -> list[Study]:
    """Resolve studies; of several, those whose files are absent are named and left out."""
    found: list[Study] = []
    for place, resolve in enumerate(studies, start=1):
        try:
            found.append(resolve())
        except AbsentFileError as error:
            if len(studies) == 1 or (place == len(studies) and not found):
                raise
            print(f"zcbench: study {place} of {len(studies)} is left out: {error}", file=sys.stderr)
    return found


def check(arguments: Namespace) -> int:
    """Compare scores and correlations with a baseline; what the results folder lacks is computed first."""
    from .bench.report.junit import as_json, as_junit, as_table
    from .bench.results.ranking import select
    from .bench.results.regress import (
        compare,
        exit_status,
        make_baseline,
        read_baseline,
        study_config,
        write_baseline,
    )
    from .bench.scoring.runner import run as run_study
    from .bench.scoring.store import Store
    from .bench.study.config import TrainerConfig
    from .bench.study.resolve import resolve

    path = Path(arguments.baseline)
    if arguments.config and not arguments["update"]:
        raise ConfigError("config: a baseline knows its own study; expected --config with --update alone")
    free = {
        "out": arguments.results,
        "data": arguments.data,
        "include": arguments.include,
        "tracker": "none",
        "trainer": TrainerConfig(devices=arguments.devices),
    }
    if arguments.config:
        expanded, *more = _with_studies(["run", "--config", arguments.config])
        if more:
            raise ConfigError(f"config: expected one study, got the {1 + len(more)} of {arguments.config}")
        chosen = _parser().parse_args(expanded)["run"]
        config = dataclasses.replace(_study_config(chosen), **free)
    else:
        document = read_baseline(path)
        config = study_config(document, **free)
    study = resolve(config)
    if not run_study(study):
        return 0
    rows = select(Store(study.out), study.recipe)
    if arguments["update"]:
        write_baseline(path, make_baseline(study.config, study.recipe, rows))
        print(f"{path}: {len(study.indices)} networks, {rows['proxy'].nunique()} proxies", file=sys.stderr)
        return 0
    findings = compare(document, study.recipe, rows, rtol=arguments.rtol)
    title = f"{path.name}: {len(study.indices)} networks of {study.space.name} on {study.images.name}"
    if arguments.junit:
        Path(arguments.junit).write_text(as_junit(findings, path.stem), "utf-8")
    if arguments.json:
        print(as_json(findings), end="")
    else:
        _print(as_table(findings, title))
    return exit_status(findings)


def leaderboard(arguments: Namespace) -> int:
    """Turn a results folder into tables and one HTML page, or verify such a leaderboard."""
    from .bench.report.leaderboard import verify, write

    out = Path(arguments.out)
    if arguments.verify:
        faults = verify(out)
        for fault in faults:
            print(fault)
        print(
            f"{out}: {f'{len(faults)} faults' if faults else 'every number follows from the scores'}", file=sys.stderr
        )
        return 1 if faults else 0
    standings = write(Path(arguments.results), out)
    for standing in standings:
        best = standing.rankings[0]
        print(
            f"{standing.board.name}: {len(standing.rankings)} proxies, first {best.proxy} ({best.correlation.rho:.3f})"
        )
    print(f"page: {out / 'index.html'}", file=sys.stderr)
    return 0


def score(arguments: Namespace) -> int:
    """Score one network with every proxy."""
    import torch

    from .datasets import DATASETS, data_folder
    from .proxies import PROXIES
    from .proxies.aggregate import alone
    from .proxies.registry import score_all

    torch.set_num_threads(1)  # as in a study: sums keep their order, so the digits are the same
    if not 0 <= arguments.seed < 2**32:
        raise ConfigError(f"seed: expected 0 to {2**32 - 1}, got {arguments.seed}")
    _include(arguments)
    programs = _programs(arguments)
    proxies = alone([*arguments.proxies, *programs] if arguments.proxies else PROXIES)
    images = DATASETS[arguments.dataset](data_folder(arguments.data))
    if (arguments.network is None) == (arguments.arch is None):
        raise ConfigError("score: expected either MODULE:FACTORY or --arch, e.g. zcbench score my_nets:build")
    if arguments.network:
        net = _from_factory(arguments.network, arguments.seed)
    else:
        net = _from_space(arguments.space, arguments.arch, images, arguments.seed)
    batch = images.probe_batch(arguments.batch_size, arguments.seed)
    scores = score_all(net, batch.x, batch.y, proxies, seed=arguments.seed)
    if arguments.json:
        values = [vars(s) | {"value": s.value if s.status == "ok" else None} for s in scores]
        print(json.dumps({"batch_hash": batch.hash, "seed": arguments.seed, "scores": values}, indent=1))
        return 0
    table = _table("proxy", "score", "status", "ms alone", title=f"batch {arguments.batch_size} of {images.name}")
    for s in scores:
        table.add_row(s.proxy, f"{s.value:.6g}", f"{s.status} {s.message}".strip(), f"{1000 * s.wall_s:.1f}")
    _print(table)
    return 0


def list_(arguments: Namespace) -> int:
    """Show what there is: proxies, spaces, datasets, studies or searches."""
    _include(arguments)
    records = _listings()[arguments.kind]()
    if arguments.json:
        print(json.dumps(records, indent=1))
        return 0
    shown = [column for column in records[0] if column not in HIDDEN]
    table = _table(*shown)
    for record in records:
        table.add_row(*[_cell(record[column]) for column in shown])
    _print(table)
    return 0


def data(arguments: Namespace) -> int:
    """List data files, say where they are looked for, download them, or compare them with their checksums."""
    from rich.markup import escape

    from .datasets.files.registry import VARIABLE, data_folder

    folder = data_folder(arguments.data)
    if (arguments.action == "get") != (arguments.name is not None):
        raise ConfigError(f"data {arguments.action}: expected a name after `get`, and only there; see `data list`")
    if arguments.action == "get":
        if arguments.json:
            raise ConfigError("data get: expected no --json, which goes with list, where and verify")
        return _download(arguments.name, folder)
    records = _checked(folder, hashed=arguments.action == "verify")
    files = [file for record in records for file in record["files"]]
    wrong = any(file["state"] == "differs" for file in files)
    if arguments.json:
        print(json.dumps({"folder": str(folder), "sources": records}, indent=1))
        return 1 if wrong else 0
    print(f"{folder}  ({VARIABLE} {'is set' if os.environ.get(VARIABLE) else 'is not set'})")
    table = _table("source", "state", "what, its licence, and how to get it")
    for record in records:
        # One wide column, so that an address is not broken and can be copied.
        lines = [record["what"], f"licence: {record['licence']}", record["note"]]
        lines += [record["get"]] if record["state"] not in {"present", "unverified"} else []
        table.add_row(record["name"], record["state"], escape("\n".join(filter(None, lines))))
    _print(table)
    for file in files:
        if file["fault"]:
            print(f"{file['path']} {'differs' if file['state'] == 'differs' else 'is unverified'}: {file['fault']}")
    if arguments.action == "verify":
        for record in records:
            if record["unlisted"]:
                print(f"{record['name']}: {record['unlisted']:,} records are unverified: no checksum is published")
    if wrong:
        print("move away what differs and get it anew: `zcbench data list` then says how")
    return 1 if wrong else 0


def _checked(folder: Path, *, hashed: bool) -> list[dict[str, Any]]:
    """Return what there is of every source, as `--json` shows it."""
    from .datasets.files.checks import check, status, unlisted
    from .datasets.files.registry import sources
    from .progress import Progress

    found = {name: check(source, folder, hashed=False) for name, source in sources().items()}
    if hashed:
        sizes = [each.path.stat().st_size for every in found.values() for each in every if each.state == "present"]
        progress = Progress("bytes checked", sum(sizes))
        try:
            for name, source in sources().items():
                found[name] = check(source, folder, hashed=True, progress=progress.advance)
        finally:
            progress.close()
    return [
        {
            "name": name,
            **dataclasses.asdict(status(source, folder, found[name])),
            "licence": source.licence,
            "what": source.what,
            "get": source.get,
            "files": [dataclasses.asdict(each) | {"path": str(each.path)} for each in found[name]],
            "unlisted": unlisted(source, folder),
        }
        for name, source in sources().items()
    ]


def _download(name: str, folder: Path) -> int:
    from .datasets.files.checks import check, status
    from .datasets.files.download import get
    from .datasets.files.registry import sources
    from .progress import Progress

    source = sources()[name]
    started: list[Progress] = []

    def advance(more: int, total: int) -> None:  # a source that cannot be downloaded, or need not be, shows no bar
        if not started:
            started.append(Progress(f"bytes of {name}", total))
        started[0].advance(more)

    notes: list[str] = []
    try:
        new = get(source, folder, progress=advance, tell=notes.append)
    finally:
        for progress in started:
            progress.close()
    for line in [*new, *notes]:
        print(line)
    if not new:
        print(f"{name} is there already")
    now = status(source, folder, check(source, folder, hashed=False))
    if now.state == "partial":
        print(f"{name} is partial: {now.note}; {source.get}")
    return 0


def evolve(commands: Sequence[Namespace]) -> int:
    """Discover proxies, or aggregates of proxies, by genetic programming; or say what a program means."""
    if commands[0].explain is not None:
        return _explain(commands[0])
    if commands[0].figure is not None:
        raise ConfigError("figure: expected --explain PROGRAM beside it; a search draws its best programs by itself")
    from .evolution.study.search import search
    from .plugins import load

    for config in [_evolve_config(arguments) for arguments in commands]:
        load(_listed(config.include))
        tables, notes = search(config)
        for table in tables:
            _print(table)
        for note in notes:
            print(note, file=sys.stderr)
    return 0


def _explain(arguments: Namespace) -> int:
    """Print a program as a tree and how it answers to the sizes of a layer; draw both if a file is named."""
    from .evolution.study.explain import as_tree, responses
    from .evolution.study.found import Found, read
    from .evolution.study.report import answers

    text, figure = arguments.explain, arguments.figure and Path(arguments.figure)
    found = read(Path(text)) if text.endswith(".json") else Found(name="program", program=text)
    program = found.tree()
    if figure is not None and figure.suffix != ".svg":
        raise ConfigError(f"figure: expected a name that ends in .svg, got {figure}")
    # An aggregate has no layers to answer to.
    given = responses(program, arguments.draws, to_scalar=found.to_scalar) if found.over == "statistics" else []
    print(as_tree(program))
    if given:
        _print(answers(given, arguments.draws))
    if figure is not None:
        from .evolution.study.draw import explained

        try:
            explained(figure, program, given)
        except OSError as error:
            raise ConfigError(f"figure: cannot write to {figure} ({error.strerror})") from None
        print(f"figure: {figure}", file=sys.stderr)
    return 0


def _evolve_config(arguments: Namespace) -> EvolveConfig:
    from dataclasses import fields

    values = arguments.as_dict()
    chosen: dict[str, Any] = {field.name: values[field.name] for field in fields(EvolveConfig)}
    for name in ("grounds", "tests"):
        chosen[name] = [each if isinstance(each, Ground) else Ground(**each) for each in chosen[name]]
    if isinstance(chosen["engine"], dict):
        chosen["engine"] = EngineConfig(**chosen["engine"])
    return EvolveConfig(**chosen)


def _include(arguments: Namespace) -> None:
    from .plugins import load

    load(_listed(arguments.include))


COMMANDS = {"leaderboard": leaderboard, "check": check, "score": score, "list": list_, "data": data}
#: Commands whose configuration file may list several.
SEVERAL = {"run": run, "evolve": evolve}


def _parser() -> Parser:
    from . import __version__

    parser = Parser(
        prog="zcbench", description="How well do training-free proxies rank neural networks?", version=__version__
    )
    commands = parser.add_subcommands(required=True, metavar="COMMAND")
    for command, add_arguments in (
        (run, _run_arguments),
        (leaderboard, _leaderboard_arguments),
        (check, _check_arguments),
        (score, _score_arguments),
        (list_, _list_arguments),
        (evolve, _evolve_arguments),
        (data, _data_arguments),
    ):
        of = Parser(description=command.__doc__)
        add_arguments(of)
        commands.add_subcommand(command.__name__.rstrip("_"), of, help=command.__doc__)
    return parser


def _run_arguments(parser: Parser) -> None:
    parser.add_argument("--config", action="config", help="a YAML file, or a name from `zcbench list studies`")
    parser.add_class_arguments(StudyConfig, as_group=False)
    parser.add_argument("--program", action="append", default=[], help=PROGRAM)
    parser.add_argument(
        "--format",
        choices=["table", "csv", "json", "markdown", "svg"],
        default="table",
        help="what goes to standard output",
    )


def _leaderboard_arguments(parser: Parser) -> None:
    parser.add_argument("--results", default="results", help="the results folder")
    parser.add_argument("--out", default="leaderboard", help="where tables and page go, or what to verify")
    parser.add_argument("--verify", action="store_true", help="make every number anew from the scores, and compare")


def _check_arguments(parser: Parser) -> None:
    parser.add_argument("--baseline", required=True, help="a JSON file, made with --update")
    parser.add_argument("--results", default="results", help="the results folder")
    parser.add_argument("--update", action="store_true", help="write the baseline instead of comparing with it")
    parser.add_argument("--config", help="with --update: the study of a new baseline, a file or a name")
    parser.add_argument("--rtol", type=float, help="relative tolerance of scores; by default 1e-5, in float64 1e-10")
    parser.add_argument("--devices", type=int, default=1, help="worker processes")
    parser.add_argument("--data", type=str, help="the data folder")
    parser.add_argument("--include", type=list[str] | str, default=[], help=INCLUDE)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--junit", help="also write a JUnit file there")


def _score_arguments(parser: Parser) -> None:
    parser.add_argument(
        "network", nargs="?", help="MODULE:FACTORY, a function without arguments that returns a network"
    )
    parser.add_argument("--space", default="nb201", help="a benchmark space")
    parser.add_argument("--arch", help="the text or the index of one of its networks")
    parser.add_argument("--dataset", default="cifar10-samples", help="where the probe batch comes from")
    parser.add_argument("--batch_size", type=int, default=16, help="images in it")
    parser.add_argument("--seed", type=int, default=0, help="of initialisation, images and noise")
    parser.add_argument("--proxies", type=list[str], default=[], help="names; empty for all")
    parser.add_argument("--program", action="append", default=[], help=PROGRAM)
    parser.add_argument("--data", type=str, help="the data folder")
    parser.add_argument("--include", type=list[str] | str, default=[], help=INCLUDE)
    parser.add_argument("--json", action="store_true", help="for machines")


def _list_arguments(parser: Parser) -> None:
    parser.add_argument("kind", choices=["proxies", "spaces", "datasets", "studies", "searches"])
    parser.add_argument("--json", action="store_true", help="for machines, with every field")
    parser.add_argument("--include", type=list[str] | str, default=[], help=INCLUDE)


def _evolve_arguments(parser: Parser) -> None:
    parser.add_argument("--config", action="config", help="a YAML file, or a name from `zcbench list searches`")
    parser.add_class_arguments(EvolveConfig, as_group=False)
    parser.add_argument("--explain", metavar="PROGRAM", help="say what this program means, its text or its file")
    parser.add_argument("--draws", type=int, default=5000, help="with --explain: random tensors of every shape")
    parser.add_argument("--figure", help="with --explain: an SVG file to draw")


def _data_arguments(parser: Parser) -> None:
    parser.add_argument("action", choices=["list", "where", "get", "verify"])
    parser.add_argument("name", nargs="?", help="what to get, a source of the list")
    parser.add_argument("--data", type=str, help="the data folder")
    parser.add_argument("--json", action="store_true", help="for machines, with every file")


def _with_studies(arguments: list[str]) -> list[list[str]]:
    """Give `run` its default study, let studies be named, and return the arguments of every study that a file lists."""
    if not arguments or arguments[0] not in {"run", "evolve"} or {"-h", "--help"} & set(arguments):
        return [arguments]
    expanded = [part for a in arguments for part in (a.split("=", 1) if a.startswith("--config=") else [a])]
    if arguments[0] == "run" and "--config" not in expanded:
        values = dict(pairwise(part for a in expanded for part in (a.split("=", 1) if a.startswith("--") else [a])))
        # The accuracies that the default study names are NAS-Bench-201's on CIFAR-10.
        here = values.get("--space", "nb201") == "nb201" and "cifar10" in values.get("--dataset", "cifar10").split("-")
        accuracy = ["--accuracy", "default"] if not here and "--accuracy" not in values else []
        expanded[1:1] = ["--config", DEFAULT_STUDY, *accuracy]
    every = [expanded]
    for place, argument in enumerate(expanded[:-1]):
        if argument == "--config":
            configs = read_configs(_config_file(expanded[place + 1]))
            every = [[*each[: place + 1], config, *each[place + 2 :]] for each in every for config in configs]
    return every


def _config_file(name: str) -> Path:
    known = studies() | searches()
    bare = name.removeprefix("configs/").removesuffix(".yaml")
    return known[bare] if bare in known and not Path(name).exists() else Path(name)


def _study_config(arguments: Namespace) -> StudyConfig:
    from dataclasses import fields

    from .bench.study.config import TrainerConfig

    values = arguments.as_dict()
    chosen: dict[str, Any] = {field.name: values[field.name] for field in fields(StudyConfig)}
    if isinstance(chosen["trainer"], dict):
        chosen["trainer"] = TrainerConfig(**chosen["trainer"])
    if programs := _programs(arguments):
        # Workers that are spawned read these files themselves.
        chosen["include"] = [*_listed(chosen["include"]), *arguments.program]
        chosen["proxies"] = chosen["proxies"] and list(dict.fromkeys([*chosen["proxies"], *programs]))
    return StudyConfig(**chosen)


def _programs(arguments: Namespace) -> list[str]:
    """Register the programs that are named and return their names."""
    if not arguments.program:
        return []
    from .evolution.study.found import register

    return [register(Path(file)) for file in arguments.program]


def _listed(names: list[str] | str) -> list[str]:
    return [names] if isinstance(names, str) else names


def _from_factory(text: str, seed: int) -> nn.Module:
    """Call `FACTORY` of `MODULE`, which may lie in the current folder, with the seed of the study."""
    import importlib

    import torch

    module, _, name = text.partition(":")
    if not module or not name:
        raise ConfigError(f"score: expected MODULE:FACTORY, got '{text}'")
    sys.path.insert(0, str(Path.cwd()))
    try:
        factory = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"score: cannot find {text} ({error}): expected MODULE:FACTORY, MODULE importable") from None
    finally:
        sys.path.pop(0)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        net = factory()
    if not isinstance(net, torch.nn.Module):
        raise ConfigError(f"score: expected {text} to return a torch.nn.Module, got {type(net).__name__}")
    return net


def _from_space(space: str, architecture: str, images: ImageDataModule, seed: int) -> nn.Module:
    from .spaces import SPACES

    chosen = SPACES[space](images.folder)
    try:
        return chosen.build(architecture, images.task, seed)
    except ArchitectureError:
        if not architecture.isdecimal():
            raise
    return chosen.build(chosen.architecture(int(architecture)), images.task, seed)


def _size(space: Space) -> int | None:
    """Return how many networks, None where the file that lists them is absent or faulty."""
    try:
        return space.size
    except DataFileError:
        return None


def _listings() -> dict[str, Any]:
    def proxies() -> list[dict[str, Any]]:
        from .proxies import AGGREGATES, PROXIES

        cards = [p.card() for p in PROXIES.values()] + [a.card() for a in AGGREGATES.values()]
        return sorted(cards, key=lambda card: str(card["name"]))

    def spaces() -> list[dict[str, Any]]:
        from .spaces import SPACES

        return [
            {
                "name": space.name,
                "networks": _size(space),
                # The default of every task, and how many others there are; --json has all of them in words.
                "accuracies": [
                    f"{task}/{next(iter(known))}" + (f" (+{len(known) - 1})" if len(known) > 1 else "")
                    for task, known in space.truths.items()
                ],
                "paper": space.paper,
                "truths": {
                    f"{task}/{which}": text for task, known in space.truths.items() for which, text in known.items()
                },
            }
            for space in (make(None) for make in SPACES.values())
        ]

    def datasets() -> list[dict[str, Any]]:
        from .datasets import DATASETS

        return [
            {
                "name": images.name,
                "task": images.task.name,
                "classes": images.task.num_classes,
                "size": images.task.image_size,
                "what": (images.__doc__ or "").strip().splitlines()[0],
            }
            for images in (make(None) for make in DATASETS.values())
        ]

    def configs(known: dict[str, Path]) -> list[dict[str, Any]]:
        return [{"name": name, "what": describe(path), "file": path.name} for name, path in known.items()]

    return {
        "proxies": proxies,
        "spaces": spaces,
        "datasets": datasets,
        "studies": lambda: configs(studies()),
        "searches": lambda: configs(searches()),
    }


def _table(*columns: str, title: str | None = None) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(HEADINGS.get(column, column), overflow="fold", no_wrap=column == "name")
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    # Without a terminal there is no width to ask for; the tables are made for 100 columns.
    console = Console(width=None if sys.stdout.isatty() else 100, highlight=False)
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


if __name__ == "__main__":
    sys.exit(main())
