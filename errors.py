"""The errors that a user can cause: each is one line that says what was expected, what came and what to do."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Sequence

#: Most names that an error lists.
SHOWN = 24


class ZcbenchError(Exception):
    """A user error, whose message is always one line. The command line prints it and exits with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(ZcbenchError):
    """An argument or a configuration file asks for something that cannot be done."""


class UnknownNameError(ZcbenchError, KeyError):
    """A name that is not registered."""

    # KeyError would print the repr of its argument.
    __str__ = Exception.__str__


class ArchitectureError(ZcbenchError, ValueError):
    """A text that does not describe a network of the space."""


class ProgramError(ZcbenchError, ValueError):
    """A text, tree or list of instructions that is not a program of the vocabulary."""


class DataFileError(ZcbenchError):
    """A data file that is absent, torn, of another format, or unsafe to read."""


class AbsentFileError(DataFileError):
    """A data file that does not exist. The message says how to get it.

    Attributes:
        sources: Names of the data sources that have such files, as `zcbench data list` has them.
    """

    def __init__(self, message: str, *sources: str) -> None:
        super().__init__(message)
        self.sources = sources


class ResultsError(ZcbenchError):
    """A results folder that cannot be read or written."""


class IncompleteError(ZcbenchError):
    """Scores that are asked for are missing. The command line exits with status 4."""


class BaselineError(ZcbenchError):
    """A baseline that cannot be read or written."""


class BatchError(ZcbenchError, ValueError):
    """Images or labels that no network can be scored with."""


class ProxyError(ZcbenchError, TypeError):
    """A proxy that is not written as proxies are, or that does what they may not."""


class NotFiniteError(Exception):
    """A pass that meets a NaN. It is not a user error: it becomes the status of a row."""


class NotApplicableError(Exception):
    """A network on which a proxy is not defined. It is not a user error: it becomes the status of a row."""


def bad_architecture(text: str, reason: object) -> ArchitectureError:
    """Return the error for a text that does not describe a network; it quotes the first 100 characters."""
    return ArchitectureError(f"architecture '{text[:100]}': {reason}")


def few(names: Sequence[str], most: int = SHOWN) -> str:
    """Return the first `most` names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Return the error for an unknown name; it suggests the nearest known names."""
    names = sorted(known)
    parts = re.split(r"[\s;]+", str(name).strip())
    if len(parts) > 1 and set(parts) <= set(names):
        return UnknownNameError(f"unknown {kind} '{name}': names are separated by commas: {','.join(parts)}")
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {few(names)}"
    if kind == "proxy" and not close:
        hint = "if it is yours, name its file with --include; otherwise see `zcbench list proxies`"
    return UnknownNameError(f"unknown {kind} '{name}': {hint}")


def one_line(text: str) -> str:
    """Return a text as one line: white space becomes single spaces, a control character becomes a question mark."""
    return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())


def in_words(error: Exception, most: int = 120) -> str:
    """Return what is wrong with the content of a file, without the names of Python, in at most `most` characters.

    Example:
        >>> in_words(KeyError("recipe"))
        'recipe is missing'
    """
    mark = getattr(error, "problem_mark", None)  # of YAML
    if isinstance(error, OSError) and error.strerror:
        text = error.strerror
    elif mark is not None:
        text = f"line {mark.line + 1}, column {mark.column + 1}: {getattr(error, 'problem', 'a fault')}"
        text = text.replace("'<stream end>'", "the end of the file")
    elif isinstance(error, json.JSONDecodeError):
        text = f"line {error.lineno}, column {error.colno} is no JSON"
    elif isinstance(error, UnicodeDecodeError):
        text = "no text in UTF-8"
    elif isinstance(error, RecursionError):
        text = "nested too deep"
    elif isinstance(error, KeyError) and not isinstance(error, ZcbenchError) and error.args:
        key = str(error.args[0])
        text = key if " " in key else f"{key} is missing"  # pandas writes a sentence
    elif isinstance(error, (TypeError, AttributeError, IndexError)) and not isinstance(error, ZcbenchError):
        text = _of_another_kind(str(error))
    else:
        text = _of_another_number(str(error)) or str(error) or "another form"
    return one_line(text)[:most]


#: Kinds of values of which no attribute is read, so that one without it is of another kind.
_PLAIN = {"NoneType", "bool", "bytes", "dict", "float", "int", "list", "str", "tuple"}


def _of_another_kind(text: str) -> str:
    """Return in words why values do not fit a function or a type, from the text of Python's error."""
    if unknown := re.search(r"unexpected keyword argument '(\w+)'", text):
        return f"{unknown[1]} is unknown"
    if lacking := re.search(r"missing \d+ required .*?arguments?: (.*)", text):
        return f"{lacking[1].replace(chr(39), '')} is missing"
    if (lacking := re.search(r"'(\w+)' object has no attribute '(\w+)'", text)) and lacking[1] not in _PLAIN:
        return f"{lacking[2]} is missing"
    return "a value is of another kind than expected"


def _of_another_number(text: str) -> str:
    """Return in words why a value is not the number that it should be; nothing if that is not what a text says."""
    for pattern, kind in (
        (r"invalid literal for int\(\) with base 10: (.*)", "a whole number"),
        (r"cannot convert float (\w+) to integer", "a whole number"),
        (r"could not convert string to float: (.*)", "a number"),
    ):
        if found := re.match(pattern, text, re.DOTALL):
            return f"expected {kind}, got {found[1]}"
    return ""


def kind_of(value: object) -> str:
    """Return the kind of a value of a file in words."""
    names = {dict: "names with values", list: "a list", str: "a text", bool: "true or false", type(None): "nothing"}
    return names.get(type(value)) or ("a number" if isinstance(value, int | float) else type(value).__name__)
