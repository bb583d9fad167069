"""The errors a user can cause: each is one line that says what was expected, what came and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class ZcbenchError(Exception):
    """A user error, on one line whatever it quotes. The command line prints it and exits with status 2."""

    def __init__(self, message: str) -> None:
        super().__init__(one_line(message))


class ConfigError(ZcbenchError):
    """An argument or a configuration file asks for something that cannot be done."""


class UnknownNameError(ZcbenchError, KeyError):
    """A name that is in no registry."""

    # KeyError would print the repr of its argument.
    __str__ = Exception.__str__


class ArchitectureError(ZcbenchError, ValueError):
    """A text that does not describe a network of the space."""


class ProgramError(ZcbenchError, ValueError):
    """A text, tree or list of instructions that is not a program of the vocabulary."""


class DataFileError(ZcbenchError):
    """A data file that is absent, torn, of another format, or unsafe to read."""


class AbsentFileError(DataFileError):
    """A data file that is not there; the message says how to get it."""


class ResultsError(ZcbenchError):
    """A results folder that cannot be read or written."""


class BaselineError(ZcbenchError):
    """A baseline that cannot be read or written."""


class BatchError(ZcbenchError, ValueError):
    """Images or labels that no network can be scored with."""


class NotFiniteError(Exception):
    """A pass that meets NaN. Not a user error: it becomes the status of a row."""


class NotApplicableError(Exception):
    """A proxy is not defined on this network. Not a user error: it becomes the status of a row."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Return the error for `name`, with the nearest known names as a suggestion."""
    names = sorted(known)
    close = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"known: {', '.join(names)}"
    return UnknownNameError(f"unknown {kind} '{name}': {hint}")


def one_line(text: str) -> str:
    """Fold white space and mask control characters, so that whatever a message quotes fits the one line of an error."""
    return " ".join("".join(c if c.isprintable() or c.isspace() else "?" for c in text).split())
