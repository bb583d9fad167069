"""The page on proxies, made from their cards and docstrings.

python -m zcbench.tools.cards > docs/proxies.md
"""

from __future__ import annotations

import inspect
import json
import sys

from ..proxies import AGGREGATES, PROXIES, Proxy
from ..proxies.aggregate import Aggregate
from ..proxies.registry import COSTS, passes

HEAD = """# Proxies

Made from the cards and docstrings by `python -m zcbench.tools.cards > docs/proxies.md`; a test compares.

*fwd* and *bwd* are the forward and backward passes that a proxy runs alone. Many proxies share passes: all of them
together run {forwards} forward and {backwards} backward passes, where one by one they would run {forwards_alone} and
{backwards_alone}. Passes vectorised over images count once. *ms* is what a proxy costs alone, shared passes in full:
{recipe}, torch {torch}, {cpu} (`python -m zcbench.tools.cost`).
Proxies without a pass of their own are read off the network.
"""

ANGLE = """## Not zero-cost: AngleNAS

The angle between a path's weights before and after *training a supernet* ranks networks in AngleNAS (Hu et al., ECCV
2020). It needs that training, so it is no zero-cost proxy and has no code here. For reference, Kendall's tau on
NAS-Bench-201 as Akhauri et al. (EZNAS, NeurIPS 2022) print it:

| | CIFAR-10 | CIFAR-100 | ImageNet16-120 |
|---|---|---|---|
| AngleNAS | .57 | .60 | .54 |
"""


def page() -> str:
    """Return the page on the proxies that come with the package as Markdown."""
    home = (__package__ or "").partition(".")[0]  # run by -m, `__name__` is another
    proxies = [p for p in PROXIES.values() if p.function.__module__.startswith(f"{home}.")]
    aggregates = [a for a in AGGREGATES.values() if a.function.__module__.startswith(f"{home}.")]
    cards: list[Proxy | Aggregate] = sorted([*proxies, *aggregates], key=lambda card: card.name)
    alone = [proxy.passes for proxy in proxies]
    forwards, backwards = passes(need for proxy in proxies for need in proxy.needs)
    measured = json.loads(COSTS.read_text("utf-8"))
    head = HEAD.format(
        forwards=forwards,
        backwards=backwards,
        forwards_alone=sum(f for f, _ in alone),
        backwards_alone=sum(b for _, b in alone),
        recipe=measured["recipe"],
        torch=measured["environment"]["torch"],
        cpu=measured["environment"]["cpu"],
    )
    lines = ["| proxy | version | better | reads | fwd | bwd | batch | ms |", "|---|---|---|---|---|---|---|---|"]
    for card in cards:
        c = card.card()
        reads = ", ".join(c["reads"]) or "the network"
        ms = "" if c["ms"] is None else f"{c['ms']:.3g}" if c["ms"] < 100 else f"{c['ms']:.0f}"
        link = f"[{c['name']}](#{c['name'].replace('.', '')})"
        lines.append(
            f"| {link} | {c['version']} | {c['direction']} | {reads} | {c['fwd']} | {c['bwd']} | {c['batch']} | {ms} |"
        )
    sections = [
        f"## {card.name}\n\n{inspect.cleandoc(card.function.__doc__ or '')}\n\n*{card.paper}*\n" for card in cards
    ]
    return "\n".join([head, *lines, "", *sections, ANGLE])


if __name__ == "__main__":
    sys.stdout.write(page())
