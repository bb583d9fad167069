"""The page and the listing of the proxies, made from their cards and docstrings.

    python -m zcbench.tools.cards > docs/proxies.md
    python -m zcbench.tools.cards --json > proxies/cards.json
    python -m zcbench.tools.cards --formulas > bench/report/formulas.json

`zcbench list proxies` reads the listing, so that it need not import torch. The leaderboard page shows the formulas, as
MathML.
"""

from __future__ import annotations

import inspect
import json
import re
import sys

from ..proxies import AGGREGATES, PROXIES, Proxy
from ..proxies.aggregate import Aggregate
from ..proxies.registry import COSTS, Card, passes
from .site import mathml

HEAD = """# Proxies

This page is made from the cards and docstrings by `python -m zcbench.tools.cards > docs/proxies.md`; a test compares.

*fwd* and *bwd* are the numbers of forward and backward passes of a proxy. Many proxies share passes: all of them
together run {forwards} forward and {backwards} backward passes, where one by one they would run {unshared_forwards} and
{unshared_backwards}. A pass that is vectorised over images counts once. *ms* is the cost of a proxy without sharing:
{recipe}, torch {torch}, {cpu} (`python -m zcbench.tools.cost`).
Proxies without a pass read only the network itself. *Tuned on* names the networks and accuracies on which a definition
was evolved, fitted or chosen, as far as they are known. On those networks its coefficients are too high.
"""

ANGLE = """## Not zero-cost: AngleNAS

AngleNAS (Hu et al., ECCV 2020) ranks networks by the angle between the weights of a path before and after *training a
supernet*. It needs that training, so it is not a zero-cost proxy and has no code here. For reference, Kendall's tau on
NAS-Bench-201 as printed by Akhauri et al. (EZNAS, NeurIPS 2022):

| | CIFAR-10 | CIFAR-100 | ImageNet16-120 |
|---|---|---|---|
| AngleNAS | .57 | .60 | .54 |
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


def page() -> str:
    """Return the page on the proxies of the package as Markdown."""
    proxies = [card for card in cards() if isinstance(card, Proxy)]
    unshared = [proxy.passes for proxy in proxies]
    forwards, backwards = passes(need for proxy in proxies for need in proxy.needs)
    measured = json.loads(COSTS.read_text("utf-8"))
    head = HEAD.format(
        forwards=forwards,
        backwards=backwards,
        unshared_forwards=sum(f for f, _ in unshared),
        unshared_backwards=sum(b for _, b in unshared),
        recipe=measured["recipe"],
        torch=measured["environment"]["torch"],
        cpu=measured["environment"]["cpu"],
    )
    lines = ["| proxy | version | better | reads | fwd | bwd | batch | ms |", "|---|---|---|---|---|---|---|---|"]
    for c in (card.card() for card in cards()):
        reads = ", ".join(c["reads"]) or "the network"
        ms = "" if c["ms"] is None else f"{c['ms']:.3g}" if c["ms"] < 100 else f"{c['ms']:.0f}"
        link = f"[{c['name']}](#{c['name'].replace('.', '')})"
        lines.append(
            f"| {link} | {c['version']} | {c['direction']} | {reads} | {c['fwd']} | {c['bwd']} | {c['batch']} | {ms} |"
        )
    sections = [
        f"## {card.name}\n\n{inspect.cleandoc(card.function.__doc__ or '')}\n\n*{card.paper}*\n{_tuned(card)}"
        for card in cards()
    ]
    return "\n".join([head, *lines, "", *sections, ANGLE])


def _tuned(card: Card) -> str:
    return f"\nTuned on: {card.tuned_on}.\n" if card.tuned_on else ""


if __name__ == "__main__":
    writers = {"--json": listing, "--formulas": formulas}
    sys.stdout.write(writers.get("".join(sys.argv[1:]), page)())
