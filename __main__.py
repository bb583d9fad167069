"""The command line. Torch is imported inside the commands, so that `--help` is quick."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jsonargparse import ArgumentParser, Namespace

from .bench.protocol import StudyConfig, check_version, describe, studies
from .errors import ArchitectureError, ConfigError, ZcbenchError, one_line

if TYPE_CHECKING:
    from rich.table import Table
    from torch import nn

DEFAULT_STUDY = "quickstart"
#: Fields of a listing that only `--json` shows.
HIDDEN = {"summary", "truths", "file"}
HEADINGS = {"version": "v", "direction": "better"}


class Parser(ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise what `main` prints."""
        raise ConfigError(f"{one_line(message)}; see zcbench --help") from None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status: 0 done, 1 a check failed, 2 a user error, 130 interrupted."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        parsed = _parser().parse_args(_with_study(given))
        command = parsed[parsed.subcommand]
        return COMMANDS[parsed.subcommand](command)
    except ZcbenchError as error:
        print(f"zcbench: {one_line(str(error))}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("zcbench: interrupted; what is finished is kept, the same command goes on from there", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe went away
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def run(arguments: Namespace) -> int:
    """Score networks of a space and print how well every proxy ranks them."""
    config = _study_config(arguments)
    from .bench.report.table import as_csv, as_json, as_svg, terminal
    from .bench.runner import run as run_study
    from .bench.study import resolve
    from .bench.summary import select, summarise

    study = resolve(config)
    if not run_study(study):
        return 0
    rows = select(study)
    rankings = summarise(study, rows)
    match arguments.format:
        case "table":
            _print(terminal(rankings, study.truth.label))
        case "csv":
            print(as_csv(rankings), end="")
        case "json":
            print(as_json(rankings), end="")
        case "svg":
            print(as_svg(terminal(rankings, study.truth.label)))
    print(f"scores: {study.store.folder}", file=sys.stderr)
    if config.tracker == "wandb":
        from .bench.tracking import track

        print(track(study, rows, rankings), file=sys.stderr)
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
    proxies = alone(arguments.proxies or PROXIES)
    images = DATASETS[arguments.dataset](data_folder(arguments.data))
    if (arguments.network is None) == (arguments.arch is None):
        raise ConfigError("score: expected either MODULE:FACTORY or --arch, e.g. zcbench score my_nets:build")
    if arguments.network:
        net = _from_factory(arguments.network, arguments.seed)
    else:
        net = _from_space(arguments.space, arguments.arch, images.num_classes, arguments.seed)
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
    """Show what there is: proxies, spaces, datasets or studies."""
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
    from .bench.progress import Progress
    from .datasets.files import VARIABLE, check, data_folder, sources

    folder = data_folder(arguments.data)
    if (arguments.action == "get") != (arguments.name is not None):
        raise ConfigError(f"data {arguments.action}: expected a name after `get`, and only there; see `data list`")
    if arguments.action == "get":
        return _download(arguments.name, folder)
    print(f"{folder}  ({VARIABLE} {'is set' if os.environ.get(VARIABLE) else 'is not set'})")
    hashed = arguments.action == "verify"
    progress = (
        Progress("bytes checked", sum(f.bytes or 0 for s in sources().values() for f in s.files)) if hashed else None
    )
    table = _table("source", "state", "licence", "what, or how to get it")
    wrong: list[Path] = []
    for source in sources().values():
        found = check(source, folder, hashed=hashed, progress=progress.advance if progress else None)
        wrong += [path for path, state in found if state == "differs"]
        states = {state for _, state in found}
        state = next(s for s in ("absent", "differs", "present") if s in states)
        table.add_row(source.name, state, source.licence, source.what if state == "present" else source.get)
    if progress:
        progress.close()
    _print(table)
    for path in wrong:
        print(f"{path} differs from the official file: get it anew")
    return 1 if wrong else 0


def _download(name: str, folder: Path) -> int:
    from .bench.progress import Progress
    from .datasets.download import get
    from .datasets.files import sources

    source = sources()[name]
    total = source.archive.bytes if source.archive else sum(file.bytes or 0 for file in source.files)
    started: list[Progress] = []

    def advance(more: int) -> None:  # a source that cannot be downloaded, or need not be, shows no bar
        if not started:
            started.append(Progress(f"bytes of {name}", total))
        started[0].advance(more)

    try:
        new = get(source, folder, progress=advance)
    finally:
        for progress in started:
            progress.close()
    for path in new:
        print(path)
    if not new:
        print(f"{name} is there already, whole and official")
    return 0


COMMANDS = {"run": run, "score": score, "list": list_, "data": data}


def _parser() -> Parser:
    from . import __version__

    parser = Parser(
        prog="zcbench", description="How well do training-free proxies rank neural networks?", version=__version__
    )
    commands = parser.add_subcommands(required=True, metavar="COMMAND")

    study = Parser(description=run.__doc__)
    study.add_argument("--config", action="config", help="a YAML file, or a name from `zcbench list studies`")
    study.add_class_arguments(StudyConfig, as_group=False)
    study.add_argument(
        "--format", choices=["table", "csv", "json", "svg"], default="table", help="what goes to standard output"
    )
    commands.add_subcommand("run", study, help=run.__doc__)

    one = Parser(description=score.__doc__)
    one.add_argument("network", nargs="?", help="MODULE:FACTORY, a function without arguments that returns a network")
    one.add_argument("--space", default="nb201", help="a benchmark space")
    one.add_argument("--arch", help="the text or the index of one of its networks")
    one.add_argument("--dataset", default="cifar10-samples", help="where the probe batch comes from")
    one.add_argument("--batch_size", type=int, default=16, help="images in it")
    one.add_argument("--seed", type=int, default=0, help="of initialisation, images and noise")
    one.add_argument("--proxies", type=list[str], default=[], help="names; empty for all")
    one.add_argument("--data", type=str, help="the data folder")
    one.add_argument("--json", action="store_true", help="for machines")
    commands.add_subcommand("score", one, help=score.__doc__)

    what = Parser(description=list_.__doc__)
    what.add_argument("kind", choices=["proxies", "spaces", "datasets", "studies"])
    what.add_argument("--json", action="store_true", help="for machines, with every field")
    commands.add_subcommand("list", what, help=list_.__doc__)

    files = Parser(description=data.__doc__)
    files.add_argument("action", choices=["list", "where", "get", "verify"])
    files.add_argument("name", nargs="?", help="what to get, a source of the list")
    files.add_argument("--data", type=str, help="the data folder")
    commands.add_subcommand("data", files, help=data.__doc__)
    return parser


def _with_study(arguments: list[str]) -> list[str]:
    """Give `run` its default study, let studies be named, and check a file's version before anything else of it."""
    if not arguments or arguments[0] != "run" or {"-h", "--help"} & set(arguments):
        return arguments
    expanded = [part for a in arguments for part in (a.split("=", 1) if a.startswith("--config=") else [a])]
    if "--config" not in expanded:
        values = dict(pairwise(part for a in expanded for part in (a.split("=", 1) if a.startswith("--") else [a])))
        # The accuracies that the default study names are NAS-Bench-201's on CIFAR-10.
        elsewhere = values.get("--space", "nb201") != "nb201" or values.get("--dataset", "").startswith(
            ("cifar100", "imagenet")
        )
        accuracy = ["--accuracy", "default"] if elsewhere and "--accuracy" not in values else []
        expanded[1:1] = ["--config", DEFAULT_STUDY, *accuracy]
    for place, argument in enumerate(expanded[:-1]):
        if argument == "--config":
            path = _study_file(expanded[place + 1])
            check_version(path)
            expanded[place + 1] = str(path)
    return expanded


def _study_file(name: str) -> Path:
    known = studies()
    bare = name.removeprefix("configs/").removesuffix(".yaml")
    return known[bare] if bare in known and not Path(name).exists() else Path(name)


def _study_config(arguments: Namespace) -> StudyConfig:
    from dataclasses import fields

    from .bench.protocol import TrainerConfig

    values = arguments.as_dict()
    chosen: dict[str, Any] = {field.name: values[field.name] for field in fields(StudyConfig)}
    if isinstance(chosen["trainer"], dict):
        chosen["trainer"] = TrainerConfig(**chosen["trainer"])
    return StudyConfig(**chosen)


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


def _from_space(space: str, architecture: str, num_classes: int, seed: int) -> nn.Module:
    from .bench.spaces import SPACES

    chosen = SPACES[space]
    try:
        index = chosen.index(architecture)
    except ArchitectureError:
        if not architecture.isdigit():
            raise
        index = int(architecture)
    return chosen.build(chosen.architecture(index), num_classes, seed)


def _listings() -> dict[str, Any]:
    def proxies() -> list[dict[str, Any]]:
        from .proxies import AGGREGATES, PROXIES

        cards = [p.card() for p in PROXIES.values()] + [a.card() for a in AGGREGATES.values()]
        return sorted(cards, key=lambda card: str(card["name"]))

    def spaces() -> list[dict[str, Any]]:
        from .bench.spaces import SPACES

        return [
            {
                "name": space.name,
                "networks": space.size,
                "accuracies": [f"{task}/{which}" for task, known in space.truths.items() for which in known],
                "paper": space.paper,
                "truths": {
                    f"{task}/{which}": text for task, known in space.truths.items() for which, text in known.items()
                },
            }
            for space in SPACES.values()
        ]

    def datasets() -> list[dict[str, Any]]:
        from .datasets import DATASETS

        return [
            {
                "name": images.name,
                "task": images.task,
                "classes": images.num_classes,
                "size": images.image_size,
                "what": (images.__doc__ or "").strip().splitlines()[0],
            }
            for images in DATASETS.values()
        ]

    def configs() -> list[dict[str, Any]]:
        return [{"name": name, "what": describe(path), "file": path.name} for name, path in studies().items()]

    return {"proxies": proxies, "spaces": spaces, "datasets": datasets, "studies": configs}


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
