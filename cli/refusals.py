"""What the parser says of wrong arguments, in the words of this house: the option, what was expected, and what came."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

#: The kinds of values in words, for one and for several.
_KINDS = {int: "whole number", float: "number", bool: "true or false", str: "text", dict: "names with values"}
#: How the messages of jsonargparse say which value came.
_GOT = (r"Given value: ?(.*)$", r"Got value: ?(.*)$", r"Unable to load config ['\"](.*?)['\"]")
#: Most characters of a value that are shown.
_LONGEST = 80


def in_plain_words(message: str, actions: Iterator[Any]) -> str:
    """Return a message of jsonargparse or argparse, of one line, without the names of Python.

    Args:
        message: The message.
        actions: The arguments of the command.
    """
    if key := re.match(r'Parser key "([^"]+)": ', message):
        name, got = key[1], next(filter(None, (re.search(pattern, message) for pattern in _GOT)), None)
        kinds = [getattr(action, "_typehint", None) for action in actions if action.dest == name]
        value = got[1][:_LONGEST] if got else ""
        value = {"None": "null", "": "nothing"}.get(value, "settings by name" if "NestedArg(" in value else value)
        if got and (expected := _kind(kinds[0]) if kinds and kinds[0] else _told(message)):
            return f"{name}: expected {expected}, got {value}"
    if choice := re.match(r"argument (?:--)?(\S+): invalid choice: '?(.*?)'? \(choose from (.*)\)$", message):
        known = choice[3].replace(chr(39), "")
        close = difflib.get_close_matches(choice[2], known.split(", "), n=1)
        meant = f": did you mean {close[0]}?" if close else ""
        return f"{choice[1].lower()}: expected {known}, got {choice[2]}{meant}"
    if lacking := re.match(r"argument --([^\s/:]+)\S*: expected (?:one|at least one) argument$", message):
        return f"{lacking[1]}: expected a value, got none"
    if needed := re.match(r"the following arguments are required: (.*)$", message):
        names = [name.rpartition(".")[2] for name in needed[1].split(", ")]
        known_actions = {action.dest: action for action in actions}
        return f"expected {' and '.join(_named(name, known_actions.get(name)) for name in names)}, got none"
    if unknown := re.match(r"(?:unrecognized arguments: |Subcommand '\S+' does not accept option )(.*)$", message):
        given = unknown[1].strip(chr(39))
        known = {option for action in actions for option in action.option_strings if option.startswith("--")}
        return f"unknown arguments: {given}{_meant(given.split(), known)}"
    return message


def _meant(words: list[str], known: set[str]) -> str:
    """Return which options a user may have meant by words that are none; nothing if none is like them."""
    for word in words:
        name = word.partition("=")[0]
        close = difflib.get_close_matches(f"--{name.lstrip('-')}", known, n=1, cutoff=0.7)
        if name == "--results" and "--out" in known:  # one folder, which `run` writes and others read
            close = ["--out"]
        if close:
            return f": did you mean {close[0] if word.startswith('--') else close[0].lstrip('-')}?"
    return ""


def _named(name: str, action: Any) -> str:
    """Return how an argument that is needed is named: its option, or its name and what it can be."""
    if action is not None and action.option_strings:
        return str(action.option_strings[0])
    return f"{name.upper()} ({', '.join(action.choices)})" if action is not None and action.choices else name.upper()


def _kind(hint: Any) -> str:
    """Return a type in words; nothing if there are none for it."""
    if hint in _KINDS:
        word = _KINDS[hint]
        return word if hint in {bool, dict} else f"a {word}"
    if get_origin(hint) is Literal:
        *others, last = map(str, get_args(hint))
        return f"{', '.join(others)} or {last}" if others else last
    if get_origin(hint) is dict:
        inner = _KINDS.get(get_args(hint)[1])
        return f"names with {inner}s" if inner else _KINDS[dict]
    if get_origin(hint) is list:
        inner = _KINDS.get(get_args(hint)[0])
        return f"a list of {inner}s" if inner else "a list of settings by name"
    if get_origin(hint) in {Union, UnionType}:
        return " or ".join(filter(None, map(_kind, (kind for kind in get_args(hint) if kind is not NoneType))))
    return "settings by name"


def _told(message: str) -> str:
    """Return what a message says that it expected, in words; nothing if there are none for it."""
    if "Unable to load config" in message:
        return "settings by name"
    found = re.search(r"Expected an? <class '(\w+)'>", message)
    return next((_kind(kind) for kind in _KINDS if found and kind.__name__ == found[1]), "")
