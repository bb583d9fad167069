"""The parser of all commands: errors on one line, configurations by name, files that list several studies."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn, TypeVar, get_args, get_type_hints

from jsonargparse import ActionConfigFile, ArgumentParser, Namespace  # type: ignore[attr-defined]

from ..bench.study.config import listed, read_configs, refuse_former, searches, studies
from ..bench.study.plain_yaml import read_yaml
from ..errors import ConfigError, one_line
from .refusals import in_plain_words

T = TypeVar("T")

#: Options that may be given several times, once for each name, in place of a list.
_NAMES = ("--method", "--proxy")
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
        manual: The command that prints which arguments there are.
        turn: Which study of a configuration file that lists several the next parse reads.
        count: How many studies the configuration file of the last parse lists.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, allow_abbrev=False, **kwargs)
        self.commands: dict[str, Parser] = {}
        self.manual = "zcbench --help"
        self.turn, self.count = 0, 1

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise the error that `zcbench` prints.

        Raises:
            ConfigError: Always.
        """
        every = (action for parser in (self, *self.commands.values()) for action in parser._actions)
        raise ConfigError(f"{in_plain_words(one_line(message), every)}; see {self.manual}") from None


class ConfigFile(ActionConfigFile):
    """The action of `--config`: reads a file, or a configuration of the package by its name."""

    def __call__(self, parser: Any, cfg: Any, values: Any, option_string: str | None = None) -> None:
        """Put the settings of the study whose turn it is into the namespace, and the name as it was given."""
        configs = read_configs(path := config_file(values))
        _check_kind(parser, values, path)
        parser.count = max(parser.count, len(configs))
        try:
            self.apply_config(parser, cfg, self.dest, configs[parser.turn % len(configs)])
        except ConfigError as error:
            raise ConfigError(f"{values}: {error}") from None
        cfg[self.dest][-1] = values


def _check_kind(parser: Parser, name: str, path: Path) -> None:
    """Refuse a configuration of another command, such as a search where a study is expected."""
    kinds = {"run": "a study for", "evolve": "a search for", "search": "a search for"}
    document = read_yaml(path.read_text("utf-8"))
    known = {action.dest.partition(".")[0] for action in parser._actions}
    command = next((word for word in parser.manual.split() if word in {"evolve", "search"}), "run")
    found = "evolve" if "grounds" in document else "search" if "method" in document else "run"
    if found != command and document.keys() - known - {"studies"}:
        which = "studies" if command == "run" else "searches"
        raise ConfigError(
            f"config: {name} is {kinds[found]} zcbench {found}: expected {kinds[command]} zcbench {command}; see "
            f"`zcbench list {which}`"
        )


class Completion(argparse.Action):
    """Print a script that completes commands in bash, zsh, fish, tcsh or powershell."""

    def __call__(self, parser: Any, namespace: object, values: Any, option_string: str | None = None) -> None:
        """Print the script and exit.

        Raises:
            ConfigError: shtab does not know this shell.
        """
        import shtab

        if values not in shtab.SUPPORTED_SHELLS:
            raise ConfigError(f"completion: expected {', '.join(shtab.SUPPORTED_SHELLS)}, got {values}")
        known = _names()
        for command in parser.commands.values():
            for action in command._actions:
                action.choices = action.choices or known.get(action.dest)
        print(shtab.complete(parser, values))
        parser.exit()


def _names() -> dict[str, list[str]]:
    """Return what is registered, by the arguments that name it."""
    from ..datasets import DATASETS
    from ..proxies import AGGREGATES, PROXIES
    from ..spaces import SPACES

    proxies = sorted((*PROXIES, *AGGREGATES))
    named = {"space": sorted(SPACES), "dataset": sorted(DATASETS), "config": sorted(studies() | searches())}
    return {"proxy": proxies, "proxies": proxies, "with": proxies, **named}


def add_shared(parser: Parser, *names: str) -> None:
    """Declare arguments that several commands have: data, include or program."""
    for name in names:
        parser.add_argument(f"--{name}", **_SHARED[name])


def config_file(name: str) -> Path:
    """Return the path of a configuration: a file, or a name from `zcbench list studies` or `zcbench list searches`.

    Raises:
        ConfigError: It is neither, and much like a name.
    """
    known = studies() | searches()
    bare = name.removeprefix("configs/").removesuffix(".yaml")
    if bare in known and not Path(name).is_file():
        return known[bare]
    if not Path(name).exists() and (close := difflib.get_close_matches(bare, known, n=1, cutoff=0.8)):
        raise ConfigError(f"config: {name} is neither a file nor a known name: did you mean {close[0]}?")
    return Path(name)


def command_parser(command: ModuleType) -> Parser:
    """Return the parser of one command."""
    parser = Parser(description=_summary(command))
    command.arguments(parser)
    return parser


def main_parser(commands: dict[str, ModuleType], version: str, only: str | None = None) -> Parser:
    """Return the parser of `zcbench`, with one subcommand for every command.

    `only` names the command whose arguments are declared. Those of all take 50 ms, a sixth of `zcbench --help`.
    """
    description = "How well do training-free proxies rank neural networks?"
    parser = Parser(prog="zcbench", description=description, version=version)
    hidden = argparse.SUPPRESS
    parser.add_argument(
        "--completion", action=Completion, metavar="SHELL", dest=hidden, default=hidden, help=Completion.__doc__
    )
    only = None if only == "--completion" else only
    subcommands = parser.add_subcommands(required=True, metavar="COMMAND")
    for name, command in commands.items():
        needed = only is None or only == name
        parser.commands[name] = command_parser(command) if needed else Parser(description=_summary(command))
        subcommands.add_subcommand(name, parser.commands[name], help=_summary(command))
    return parser


def parse(parser: Parser, arguments: list[str]) -> list[Namespace]:
    """Return the arguments of a command, once for every study that its configuration file lists.

    The command line stands over the configuration that it names, and this replaces the default one. The attribute
    `given` of the result holds the names of the arguments that the user has set, and `words` all words of the command.

    Raises:
        ConfigError: The arguments are not those of the command.
    """
    refuse_former(word.removeprefix("--").partition("=")[0] for word in arguments if word.startswith("--"))
    arguments, named = _config_first(_joined(arguments), 1 if parser.commands else 0)
    command = parser.commands.get(arguments[0], parser) if arguments else parser
    if command is not parser:
        parser.manual = command.manual = f"zcbench {arguments[0]} --help"
    if named:
        command.default_config_files = []

    def read(turn: int, **options: Any) -> Namespace:
        command.turn = turn
        try:
            parsed = parser.parse_args(arguments, **options)
        except ConfigError as error:
            place = f"study {turn + 1} of {command.count}: " if command.count > 1 else ""
            raise ConfigError(f"{place}{error}") from None
        return parsed if command is parser else parsed[parsed.subcommand]

    try:
        first = read(0)
    except SystemExit:
        if command.count > 1 and any(word.startswith("--print_config") for word in arguments):
            sys.stderr.write(f"zcbench: this is the first of the {command.count} studies that --config names\n")
        raise
    given = set(read(0, defaults=False).keys())
    every = [instantiated(command, each) for each in (first, *(read(turn) for turn in range(1, command.count)))]
    for each in every:
        each.given, each.words = given, arguments
    return every


def instantiated(command: Parser, parsed: Namespace) -> Namespace:
    """Return parsed arguments with dataclasses in place of nested settings.

    Raises:
        ConfigError: A value stands where nested settings belong.
    """
    for name in dict.fromkeys(action.dest.split(".")[0] for action in command._actions if "." in action.dest):
        if not isinstance(parsed[name], (Namespace, list)):
            raise ConfigError(f"{name}: expected settings by name, got {one_line(str(parsed[name]))[:80]}")
    made: Namespace = command.instantiate(parsed)
    return made


def _joined(arguments: list[str]) -> list[str]:
    """Return the words with each option of `_NAMES` once, its values in one list: `--proxy a --proxy b` is a,b."""
    rest: list[str] = []
    places: dict[str, int] = {}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if name not in _NAMES:
            rest.append(word)
            continue
        value = value if equals else next(words, "")
        if name in places:
            rest[places[name]] += f",{value}"
        else:
            places[name] = len(rest)
            rest.append(f"{name}={value}")
    return rest


def _config_first(arguments: list[str], start: int) -> tuple[list[str], bool]:
    """Put `--config` before all other options, which then stand over it in any order; return whether it is there."""
    found, rest = [], list(arguments[:start])
    words = iter(arguments[start:])
    for word in words:
        if word == "--config":
            found.append([word, *([value] if (value := next(words, None)) is not None else [])])
        elif word.startswith("--config="):
            found.append([word])
        else:
            rest.append(word)
    if len(found) > 1:
        raise ConfigError(f"config: expected one configuration, got {len(found)}")
    if (count := sum(word.partition("=")[0] == "--include" for word in rest)) > 1:
        raise ConfigError(f"include: expected one list, got {count}: use --include one.py,two.py")
    return [*rest[:start], *(found[0] if found else []), *rest[start:]], bool(found)


def out_folder(name: str) -> Path:
    """Return the folder of `--out`, before anything is computed for it.

    Raises:
        ConfigError: It is a file.
    """
    if (out := Path(name)).exists() and not out.is_dir():
        raise ConfigError(f"out: expected a folder, got {name}, which is a file")
    return out


def values_of(arguments: Namespace, option: str) -> list[str]:
    """Return the values of an option that takes a list, whose absence and whose empty list would mean the same.

    Raises:
        ConfigError: The user has given the option without a value.
    """
    values: list[str] = listed(arguments[option])
    if not values and option in arguments.given:
        raise ConfigError(f"{option}: expected at least one value, got none: leave --{option} out or name some")
    return values


def settings(kind: type[T], arguments: Namespace, **changes: Any) -> T:
    """Return the dataclass whose fields are among the arguments of a command, with some of them changed.

    Raises:
        ConfigError: A setting is null.
    """
    fields = {field.name: arguments[field.name] for field in dataclasses.fields(kind)} | changes  # type: ignore[arg-type]
    for name, hint in get_type_hints(kind).items():
        value = fields[name]
        if value is None and type(None) not in get_args(hint):
            raise ConfigError(f"{name}: expected a value, got null")
    return kind(**fields)


def _summary(command: ModuleType) -> str:
    return (command.__doc__ or "").splitlines()[0]
