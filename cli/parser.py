"""The parser of all commands: errors on one line, configurations by name, files that list several studies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar

from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # type: ignore[attr-defined]

from ..bench.study.config import read_configs, searches, studies
from ..errors import ConfigError, one_line

T = TypeVar("T")

#: Arguments that several commands have.
_SHARED: dict[str, dict[str, Any]] = {
    "data": {"type": str, "help": "The data folder; by default ZCBENCH_DATA or the data folder of the user."},
    "include": {
        "type": list[str] | str,
        "default": [],
        "help": "Python files that register spaces, data sets or proxies of your own, or programs that evolve has "
        "found.",
    },
    "program": {
        "action": "append",
        "default": [],
        "help": "A program file that `zcbench evolve` has written. It is scored as one more proxy.",
    },
}


class Parser(ArgumentParser):
    """A parser that raises its errors as `ConfigError`, on one line.

    Attributes:
        commands: The parsers of the subcommands, by name.
        turn: Which study of a configuration file that lists several the next parse reads.
        count: How many studies the configuration file of the last parse lists.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self.commands: dict[str, Parser] = {}
        self.turn, self.count = 0, 1

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the error that `zcbench` prints.

        Raises:
            ConfigError: Always.
        """
        raise ConfigError(f"{one_line(message)}; see zcbench --help") from None


class ConfigFile(ActionConfigFile):
    """The action of `--config`: reads a file, or a configuration of the package by its name."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        """Put the settings of the study whose turn it is into the namespace, and the name as it was given."""
        configs = read_configs(config_file(values))
        parser.count = max(parser.count, len(configs))
        self.apply_config(parser, cfg, self.dest, configs[parser.turn % len(configs)])
        cfg[self.dest][-1] = values


def add_shared(parser: Parser, *names: str) -> None:
    """Declare arguments that several commands have: data, include or program."""
    for name in names:
        parser.add_argument(f"--{name}", **_SHARED[name])


def config_file(name: str) -> Path:
    """Return the path of a configuration: a file, or a name from `zcbench list studies` or `zcbench list searches`."""
    known = studies() | searches()
    bare = name.removeprefix("configs/").removesuffix(".yaml")
    return known[bare] if bare in known and not Path(name).exists() else Path(name)


def command_parser(command: ModuleType) -> Parser:
    """Return the parser of one command."""
    parser = Parser(description=_summary(command))
    command.arguments(parser)
    return parser


def main_parser(commands: dict[str, ModuleType], version: str) -> Parser:
    """Return the parser of `zcbench`, with one subcommand for every command."""
    description = "How well do training-free proxies rank neural networks?"
    parser = Parser(prog="zcbench", description=description, version=version)
    subcommands = parser.add_subcommands(required=True, metavar="COMMAND")
    for name, command in commands.items():
        parser.commands[name] = command_parser(command)
        subcommands.add_subcommand(name, parser.commands[name], help=_summary(command))
    return parser


def parse(parser: Parser, arguments: list[str]) -> list[Namespace]:
    """Return the arguments of a command, once for every study that its configuration file lists.

    A configuration that is named replaces the default one. The attribute `given` of the result holds the names of the
    arguments that are set on the command line or in a named configuration.

    Raises:
        ConfigError: The arguments are not those of the command.
    """
    given = parser.parse_args(arguments, defaults=False)
    command = parser.commands.get(given.get("subcommand"), parser)

    def own(parsed: Namespace) -> Namespace:
        return parsed if command is parser else parsed[parsed.subcommand]

    if own(given).get("config"):
        command.default_config_files = []
    every = []
    for turn in range(command.count):
        command.turn = turn
        every.append(command.instantiate(own(parser.parse_args(arguments))))
        every[-1].given = set(own(given).keys())
    return every


def settings(kind: type[T], arguments: Namespace, **changes: Any) -> T:
    """Return the dataclass whose fields are among the arguments of a command, with some of them changed."""
    fields = {field.name: arguments[field.name] for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**(fields | changes))


def _summary(command: ModuleType) -> str:
    return (command.__doc__ or "").splitlines()[0]
