"""List what there is: proxies, spaces, data sets, studies or searches."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ..bench.study.config import describe, listed, searches, studies
from ..errors import ConfigError, DataFileError
from ..plugins import MODULES, load
from .parser import Parser, add_shared
from .terminal import records, show, show_lines

if TYPE_CHECKING:
    from ..spaces import Space

Records = list[dict[str, Any]]


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("kind", choices=list(KINDS), help="What to list.")
    parser.add_argument("--json", action="store_true", help="Print every field as JSON.")
    parser.add_argument(
        "--long", action="store_true", help="With proxies: passes, batch size and paper in place of the summary."
    )
    add_shared(parser, "include")


def main(parsed: Sequence[Namespace]) -> int:
    """Print the list."""
    (given,) = parsed
    load(listed(given.include))
    columns, read = KINDS[given.kind]
    if given.long and given.kind != "proxies":
        raise ConfigError(f"long: expected proxies, which have more columns, got {given.kind}: use --json")
    columns = LONG if given.long else columns
    found = read(given)
    if given.json:
        print(json.dumps(found, indent=1))
    elif given.kind == "proxies":
        show_lines(records([_in_short(card) for card in found], columns, lines=True))
    else:
        show(records(found, columns))
    return 0


def _proxies(given: Namespace) -> Records:
    """Return the cards of all proxies; those of the package alone are read from a file, since torch takes a second."""
    if not given.include and not entry_points(group=MODULES):
        cards: Records = json.loads((files("zcbench") / "proxies" / "cards.json").read_text("utf-8"))
        return cards
    from ..proxies import AGGREGATES, PROXIES

    return sorted(
        [*(p.card() for p in PROXIES.values()), *(a.card() for a in AGGREGATES.values())], key=lambda c: c["name"]
    )


def _in_short(card: dict[str, Any]) -> dict[str, Any]:
    """Return the card of a proxy as its line shows it: passes are forward + backward, the cost is per network."""
    ms = card["ms"]
    cost = "" if ms is None else f"{ms / 1000:,.0f} s" if ms >= 10_000 else f"{ms:,.0f} ms" if ms >= 1 else "<1 ms"
    return card | {"better": card["direction"], "passes": f"{card['fwd']}+{card['bwd']}", "cost": cost}


def _spaces(_: Namespace) -> Records:
    from ..spaces import SPACES

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


def _size(space: Space) -> int | None:
    """Return the number of networks, None where the file that lists them is absent or faulty."""
    try:
        return space.size
    except DataFileError:
        return None


def _datasets(_: Namespace) -> Records:
    from ..datasets import DATASETS

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


def _configs(known: Callable[[], dict[str, Path]]) -> Callable[[Namespace], Records]:
    return lambda _: [{"name": name, "what": describe(path), "file": path.name} for name, path in known().items()]


#: The columns of the long table of proxies.
LONG = ("name", "better", "passes", "batch", "cost", "paper")
#: What can be listed: the columns of the table, and the function that reads the records.
KINDS: dict[str, tuple[tuple[str, ...], Callable[[Namespace], Records]]] = {
    "proxies": (("name", "better", "cost", "summary"), _proxies),
    "spaces": (("name", "networks", "accuracies", "paper"), _spaces),
    "datasets": (("name", "task", "classes", "size", "what"), _datasets),
    "studies": (("name", "what"), _configs(studies)),
    "searches": (("name", "what"), _configs(searches)),
}
