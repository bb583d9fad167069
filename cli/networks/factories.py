"""The networks that people name on the command line: those of a file, or what MODULE:NAME gives."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError
from ...plugins import current_folder, module_of, named

if TYPE_CHECKING:
    from torch import nn

Make = Callable[[], "nn.Module"]
#: The name of the dictionary in a file that lists its networks.
LISTED = "networks"


def networks(texts: Sequence[str], seed: int) -> dict[str, Make]:
    """Return functions that build networks, by name, in the order in which they are named.

    A text is a Python file, or MODULE:NAME. A file lists its networks in a dictionary `networks`, from names to modules
    or to functions that return them. In a file without it, the networks are the public functions that the file itself
    defines and that need no argument. NAME is such a function, or such a dictionary.

    Args:
        texts: The texts.
        seed: Seed of what a file draws while it is imported.

    Raises:
        ConfigError: There is no such file, module or name, it holds no networks, or two networks have one name.
    """
    from ...random_state import given_random_state

    found: dict[str, Make] = {}
    for text in texts:
        with given_random_state(seed, _cpu()):
            if Path(text).is_dir() and ":" not in text:
                raise ConfigError(f"networks: expected a Python file such as my_nets.py, got {text}, which is a folder")
            own = _of_file(text) if text.endswith(".py") else _of_name(text)
        if twice := next((name for name in own if name in found), None):
            raise ConfigError(f"networks: expected distinct names, got {twice} twice, the second time from {text}")
        found |= own
    return found


def build(make: Make, text: str, seed: int) -> nn.Module:
    """Build a network whose weights are drawn by a seed.

    Raises:
        ConfigError: The function raises, or returns no module.
    """
    import torch

    from ...random_state import given_random_state

    try:
        with current_folder(), given_random_state(seed, _cpu()):
            net = make()
    except (Exception, SystemExit) as error:  # code of the user may raise anything
        raise ConfigError(
            f"{text} raises {type(error).__name__} ({error}): expected a function without arguments that "
            "returns a torch.nn.Module"
        ) from None
    if not isinstance(net, torch.nn.Module):
        raise ConfigError(f"expected {text} to return a torch.nn.Module, got {type(net).__name__}")
    return net


def _of_file(text: str) -> dict[str, Make]:
    with current_folder():
        names = vars(module_of(text, "networks"))
    if LISTED in names:
        return _of_mapping(names[LISTED], text, LISTED)
    own = {
        name: value
        for name, value in names.items()
        if inspect.isfunction(value) and value.__module__ == names["__name__"] and not name.startswith("_")
    }
    found: dict[str, Make] = {name: value for name, value in own.items() if not _wants(value)}
    if not found:
        raise ConfigError(
            f"networks: expected {text} to define a dictionary `{LISTED}`, or functions without arguments that return "
            f"a torch.nn.Module, got neither (a class does not count)"
        )
    return found


def _of_name(text: str) -> dict[str, Make]:
    made = named(text, "networks", "FACTORY")
    name = text.partition(":")[2]
    return _of_mapping(made, text, name) if isinstance(made, Mapping) else {name: _make(made, text)}


def _of_mapping(made: object, text: str, name: str) -> dict[str, Make]:
    if not isinstance(made, Mapping) or not made:
        got = "an empty one" if isinstance(made, Mapping) else type(made).__name__
        raise ConfigError(f"networks: expected {name} of {text} to be a dictionary of networks by name, got {got}")
    return {str(key): _make(value, f"{key} of {text}") for key, value in made.items()}


def _make(value: Any, text: str) -> Make:
    import torch

    if isinstance(value, torch.nn.Module):
        return lambda: value
    if not callable(value):
        raise ConfigError(
            f"networks: expected {text} to be a torch.nn.Module or a function that returns one, got "
            f"{type(value).__name__}"
        )
    return value  # type: ignore[no-any-return]


def _wants(function: Callable[..., Any]) -> bool:
    """Tell whether a function cannot be called without arguments."""
    needed = {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    }
    parameters = inspect.signature(function).parameters.values()
    return any(p.default is p.empty and p.kind in needed for p in parameters)


def _cpu() -> Any:
    import torch

    return torch.device("cpu")
