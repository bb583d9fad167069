"""The pages, the listing and the formulas of the proxies, made from their cards and docstrings by one command.

    python -m zcbench.tools.cards

It writes `docs/proxies`, one page for each family; `proxies/cards.json`, which `zcbench list proxies` reads, so that it
need not import torch; and `bench/report/formulas.json`, which the leaderboard page shows.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from ..atomic import write_atomically
from ..bench.report.families import FAMILIES, Family, family
from ..bench.report.marks import marks
from ..proxies import AGGREGATES, PROXIES, Proxy
from ..proxies.aggregate import Aggregate
from ..proxies.rank import rank
from ..proxies.registry import COSTS, passes
from ..proxies.score import score
from . import zoo
from .pages.site import mathml

ROOT = Path(__file__).parents[1]
#: What the zoo says of a proxy that has a score, and of one that was not tried.
SCORED, UNTRIED = "✓", "·"
#: What the kinds of architectures of the zoo are called in a sentence.
WORDS = {
    "ReLU": "convolutional networks with ReLUs",
    "mobile": "mobile networks",
    "ConvNeXt": "ConvNeXt networks",
    "attention": "networks with attention",
    "mixers": "mixers and pooling networks",
}

HEAD = """# Proxies

There are {count} proxies and aggregates in {families} families. Each name leads to its formula, its paper and an
example. `python -m zcbench.tools.cards` makes these pages from the cards and docstrings, and a test compares.

| family | what its proxies look at |
|---|---|
{index}

## All of them

*Data* is what a proxy needs beside the network: nothing, noise that it draws itself, images, or images with labels.

*ms* is the time in milliseconds that a proxy takes for one network if it shares no pass (`python -m
zcbench.tools.cost`): {recipe}, torch {torch}, {cpu}. Proxies that are computed together share passes. All of them run
{forwards} forward and {backwards} backward passes together, and {unshared_forwards} and {unshared_backwards} one by
one. A pass that is vectorised over images counts once.

The last columns say whether a proxy works on the architectures of [the zoo](../zoo.md), which are {kinds}.
✓ means that all of a kind that were tried have a score, – that none has, and 3/5 that three of five have one. A dot
means that none was tried, since it would take minutes. An aggregate has a score where all its members have one.

"""

EXAMPLE = """## The networks of the examples

Every proxy has an example, which a test runs. All are of these networks and these images:

```python
import torch
import zcbench
from torch import nn


def block(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())


def network(width: int) -> nn.Module:
    blocks = block(3, width), block(width, width), block(width, width)
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 10))


torch.manual_seed(0)
net, wider = network(8), network(16)
nets = {"net": net, "wider": wider}
x, y = torch.randn(8, 3, 16, 16), torch.arange(8) % 4
```

The comment behind an example is what it gives, to three digits; the last digit may differ on another machine.
An aggregate orders both networks, best first.
"""

ANGLE = """## Not zero-cost: AngleNAS

AngleNAS (Hu et al., ECCV 2020) ranks networks by the angle between the weights of a path before and after *training a
supernet*. It needs that training, so it is not a zero-cost proxy and has no code here. For reference, Kendall's tau on
NAS-Bench-201 as printed by Akhauri et al. (EZNAS, NeurIPS 2022):

| | CIFAR-10 | CIFAR-100 | ImageNet16-120 |
|---|---|---|---|
| AngleNAS | .57 | .60 | .54 |
"""

FAMILY = """# {title}

{about}

*fwd* and *bwd* are the numbers of forward and backward passes, and *batch* is the number of images of the protocol.
*ms* is the cost for one network. [Proxies](README.md) says how it was measured, and has the networks of the examples.
*Tuned on* names the networks and accuracies on which a definition was evolved, fitted or chosen, as far as they are
known. On those networks its coefficients are too high.

| proxy | version | better | reads | fwd | bwd | batch | ms |
|---|---|---|---|---|---|---|---|
"""


def cards() -> list[Proxy | Aggregate]:
    """Return the proxies and aggregates of the package without those of users, sorted by name."""
    known: list[Proxy | Aggregate] = [*PROXIES.values(), *AGGREGATES.values()]
    ours = [card for card in known if card.function.__module__.startswith("zcbench.proxies.")]
    return sorted(ours, key=lambda card: card.name)


def listing() -> str:
    """Return the cards as JSON, in the format of `zcbench list proxies --json`."""
    return json.dumps([card.card() for card in cards()], indent=1) + "\n"


def formulas() -> str:
    """Return the displayed formulas of every docstring as MathML, in JSON by name of the proxy.

    Raises:
        ImportError: latex2mathml is not installed.
    """
    found = {
        card.name: [
            mathml(latex) for latex in re.findall(r"\$\$(.+?)\$\$", card.function.__doc__ or "", flags=re.DOTALL)
        ]
        for card in cards()
    }
    return json.dumps({name: made for name, made in found.items() if made}, indent=1) + "\n"


def pages() -> dict[str, str]:
    """Return the pages as Markdown, by the name of their file."""
    found = works_on((ROOT / "docs" / "zoo.md").read_text("utf-8"))
    given = examples()
    own = {name: [card for card in cards() if family(card.name) == name] for name in FAMILIES}
    made = {f"{name}.md": _page(FAMILIES[name], members, found, given) for name, members in own.items()}
    return {"README.md": _index(found)} | made


def works_on(zoo_page: str) -> dict[str, dict[str, str]]:
    """Return for every proxy and architecture of the zoo `✓`, `·` for not tried, or why there is no score."""
    found = zoo.read(zoo_page)
    for card in cards():
        if isinstance(card, Aggregate):
            members = [found[member] for member in card.members]
            found[card.name] = {name: _worst([member[name] for member in members]) for name in members[0]}
    return found


def _worst(cells: Sequence[str]) -> str:
    """Return why one of them has no score, or that one was not tried, or that all have one."""
    return next((cell for cell in cells if cell not in {SCORED, UNTRIED}), UNTRIED if UNTRIED in cells else SCORED)


def examples() -> dict[str, str]:
    """Return what the example of every proxy and aggregate gives."""
    names: dict[str, Any] = {"__name__": __name__}
    exec(compile(code(EXAMPLE), "docs/proxies/README.md", "exec"), names)
    net, x, y = names["net"], names["x"], names["y"]
    proxies = [card.name for card in cards() if isinstance(card, Proxy)]
    aggregates = [card.name for card in cards() if isinstance(card, Aggregate)]
    scores = score(net, x, y, proxies=proxies)
    ranked = rank(names["nets"], x, y, proxies=aggregates)
    return {name: f"{scores[name].value:.3g}" for name in proxies} | {
        name: repr(ranked.order(name)) for name in aggregates
    }


def code(text: str) -> str:
    """Return the Python code of a page."""
    return "".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))


def example(card: Proxy | Aggregate) -> str:
    """Return the expression that is the example of a proxy or an aggregate."""
    if isinstance(card, Proxy):
        return f'zcbench.score(net, x, y, proxies=["{card.name}"])["{card.name}"].value'
    return f'zcbench.rank(nets, x, y, proxies="{card.name}").order("{card.name}")'


def _index(found: Mapping[str, Mapping[str, str]]) -> str:
    proxies = [card for card in cards() if isinstance(card, Proxy)]
    unshared = [proxy.passes for proxy in proxies]
    forwards, backwards = passes(need for proxy in proxies for need in proxy.needs)
    measured = json.loads(COSTS.read_text("utf-8"))
    architectures = list(found["params"])
    kinds = {kind: [name for name in architectures if zoo.kind(name) == kind] for kind in zoo.KINDS}
    head = HEAD.format(
        count=len(cards()),
        families=len(FAMILIES),
        index="\n".join(f"| [{each.title}]({name}.md) | {each.idea} |" for name, each in FAMILIES.items()),
        forwards=forwards,
        backwards=backwards,
        unshared_forwards=sum(f for f, _ in unshared),
        unshared_backwards=sum(b for _, b in unshared),
        recipe=measured["recipe"],
        torch=measured["environment"]["torch"],
        cpu=measured["environment"]["cpu"],
        kinds=", ".join(f"{len(names)} {WORDS[kind]}" for kind, names in kinds.items()),
    )
    lines = [f"| proxy | better | data | ms | {' | '.join(kinds)} |", "|---|---|---|--:|" + ":-:|" * len(kinds)]
    for card in cards():
        cells = [_mark([found[card.name][name] for name in names]) for names in kinds.values()]
        link = f"[{card.name}]({family(card.name)}.md#{anchor(card.name)})"
        data = marks(card.name).data
        lines.append(f"| {link} | {card.direction} | {data} | {_ms(card.card()['ms'])} | {' | '.join(cells)} |")
    return head + "\n".join([*lines, "", EXAMPLE, ANGLE])


def _mark(cells: Sequence[str]) -> str:
    """Return on how many architectures of one kind a proxy has a score, among those on which it was tried."""
    tried = [cell for cell in cells if cell != UNTRIED]
    scored = tried.count(SCORED)
    return "·" if not tried else SCORED if scored == len(tried) else f"{scored}/{len(tried)}" if scored else "–"


def _page(
    of: Family, members: Sequence[Proxy | Aggregate], found: Mapping[str, Mapping[str, str]], given: Mapping[str, str]
) -> str:
    lines = []
    for c in (card.card() for card in members):
        reads = ", ".join(c["reads"]) or "the network"
        link = f"[{c['name']}](#{anchor(c['name'])})"
        lines.append(
            f"| {link} | {c['version']} | {c['direction']} | {reads} "
            f"| {c['fwd']} | {c['bwd']} | {c['batch']} | {_ms(c['ms'])} |"
        )
    sections = [_section(card, found[card.name], given[card.name]) for card in members]
    return FAMILY.format(title=of.title, about=fill(of.about, 120)) + "\n".join([*lines, "", *sections])


def _section(card: Proxy | Aggregate, found: Mapping[str, str], given: str) -> str:
    text, _, raised = inspect.cleandoc(card.function.__doc__ or "").partition("\n\nRaises:\n")
    unless = re.sub(r"\s*NotApplicableError: ", "", raised)
    paragraphs = [
        f"## {card.name}",
        text,
        f"*{card.paper}*",
        f"Tuned on: {card.tuned_on}." if card.tuned_on else "",
        f"There is no score in these cases. {' '.join(unless.split())}" if unless else "",
        _where(found),
        f"```python\n{example(card)}  # {given}\n```",
    ]
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _where(found: Mapping[str, str]) -> str:
    tried = {name: cell for name, cell in found.items() if cell != UNTRIED}
    without: dict[str, list[str]] = {}
    for name, cell in tried.items():
        if cell != SCORED:
            without.setdefault(cell if len(cell) > 3 else f"the score is {cell}", []).append(name)
    line = (
        f"Works on {len(tried) - sum(map(len, without.values()))} of {len(tried)} architectures of [the zoo](../zoo.md)"
    )
    if not without:
        return f"{line}."
    return f"{line}. Not on:\n\n" + "\n".join(f"- {', '.join(names)}: {why}" for why, names in without.items())


def anchor(name: str) -> str:
    """Return the anchor of the section of a proxy."""
    return name.replace(".", "")


def _ms(ms: float | None) -> str:
    return "" if ms is None else f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"


def main() -> None:
    """Write the listing, the formulas and the pages."""
    write_atomically(ROOT / "proxies" / "cards.json", listing().encode())
    write_atomically(ROOT / "bench" / "report" / "formulas.json", formulas().encode())
    for name, text in pages().items():
        write_atomically(ROOT / "docs" / "proxies" / name, text.encode())


if __name__ == "__main__":
    main()
