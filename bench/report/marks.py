"""What the page says of a proxy beside its numbers: its family, the data that it needs, and its two marks."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from ..results.standing import BASELINES
from .families import FAMILIES, family

#: Names that authors give to our spaces. A definition that names one of them was tuned on its networks.
SPACES = {
    "nb101": ("NAS-Bench-101",),
    "nb201": ("NAS-Bench-201",),
    "nb301": ("NAS-Bench-301",),
    "nb_macro": ("NAS-Bench-Macro",),
    "nats_sss": ("NATS-SSS", "NATS-Bench"),
    "nds_darts": ("NDS DARTS",),
    "darts_trained": ("darts_trained",),
    "tnb101_micro": ("TransNAS-Bench-101",),
    "tnb101_macro": ("TransNAS-Bench-101",),
}
#: The family of a proxy that is not part of zcbench.
OWN = "own"
#: Largest relative difference from the authors' code of a proxy that agrees with it.
AGREES = 1e-4


class Parity(NamedTuple):
    """Values that the authors' code gave for a proxy, beside ours.

    Attributes:
        values: Number of values.
        largest: Largest relative difference, in `precision`.
        precision: `float64` if any value is in float64, or `float32`.
    """

    values: int
    largest: float
    precision: str

    @property
    def agrees(self) -> bool:
        """Whether no value differs by more than `AGREES`."""
        return self.largest <= AGREES


class Marks(NamedTuple):
    """What is known of a proxy before it scores a network.

    Attributes:
        family: Title of its family, as the pages on proxies have it; `own` for a proxy of the user.
        data: `none`, `noise`, `images` or `labels`; empty for a proxy of the user.
        card: The card as plain values; empty for a proxy of the user.
        parity: Comparison with the authors' code, None if their code gave no values.
        formulas: Formulas of the definition as MathML.
    """

    family: str
    data: str
    card: Mapping[str, Any]
    parity: Parity | None
    formulas: Sequence[str]

    def tuned_here(self, space: str) -> bool:
        """Return whether the definition was evolved, fitted or chosen on networks of a space."""
        return any(name in self.card.get("tuned_on", "") for name in SPACES.get(space, ()))


def marks(proxy: str) -> Marks:
    """Return what the cards of the package say of a proxy; plugins do not change it, so equal boards look the same."""
    card = _cards().get(proxy, {})
    if proxy in BASELINES:
        title, data = FAMILIES["sizes"].title, "none"
    elif not card:
        title, data = OWN, ""
    else:
        title, data = FAMILIES[family(proxy)].title, _data(_reads(card))
    return Marks(title, data, card, _parity().get(proxy), _read("formulas.json").get(proxy, ()))


def _data(reads: Iterable[str]) -> str:
    known = set(reads)
    return "labels" if "labels" in known else "images" if "data" in known else "noise" if "noise" in known else "none"


def _reads(card: Mapping[str, Any]) -> set[str]:
    """Return what a proxy reads; an aggregate reads what its members read."""
    members = [_cards()[name] for name in card["reads"] if name in _cards()]
    return set(card["reads"]).union(*(_reads(member) for member in members))


@functools.cache
def _cards() -> dict[str, dict[str, Any]]:
    cards = json.loads((files("zcbench") / "proxies" / "cards.json").read_text("utf-8"))
    return {card["name"]: card for card in cards}


@functools.cache
def _parity() -> dict[str, Parity]:
    return {name: Parity(**record) for name, record in _read("parity.json").items()}


@functools.cache
def _read(name: str) -> dict[str, Any]:
    """Return a file of this folder that `tools/` has made."""
    found: dict[str, Any] = json.loads(files(__package__).joinpath(name).read_text("utf-8"))
    return found
