"""Parts of a results folder that were damaged in many ways: each is named, and only what was lost is computed."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from zcbench.__main__ import main
from zcbench.bench.scoring.parts import KEY, Row
from zcbench.bench.scoring.store import Store
from zcbench.bench.scoring.writer import Writer
from zcbench.bench.study.recipe import Recipe, Work
from zcbench.errors import ResultsError

COUNT, DAMAGED = 600, 500
NETWORKS = [f"net-{number}" for number in range(COUNT)]
RECIPE = Recipe(
    **{"space": "own", "dataset": "made", "truth": "made/t", "label": "t", "protocol": "2", "device": "cpu AVX2"},
    **{"torch": "2.13.0", "accuracies": dict.fromkeys(NETWORKS, 1.0), "work": (Work(0, 2, ("snip", "zen")),)},
    **{"batches": {(2, 0): "abc"}, "versions": {"snip": 1, "zen": 2}, "lower": (), "aggregates": ()},
    **{"batch_sizes": (2,), "resamples": 10},
)


def damage(part: Path, draw: random.Random, parts: list[Path]) -> None:
    whole = part.read_bytes()
    at = draw.randrange(len(whole))
    match draw.randrange(6):
        case 0:
            part.write_bytes(whole[:at])
        case 1:
            part.write_bytes(whole[:at] + bytes([whole[at] ^ (1 << draw.randrange(8))]) + whole[at + 1 :])
        case 2:
            part.write_bytes(bytes(len(whole)))
        case 3:
            part.write_bytes(whole[:at] + draw.randbytes(50) + whole[at + 50 :])
        case 4:
            part.write_bytes(whole + b"more")
        case 5:
            part.write_bytes(draw.choice([other for other in parts if other != part]).read_bytes())


def test_every_damaged_part_is_named_and_only_what_was_lost_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(tmp_path / "results")
    store.create()
    writer = Writer(store.scores, fan_out=10 * COUNT)  # no join: every network has its part
    for number, network in enumerate(NETWORKS):
        keys = [RECIPE.key(network, RECIPE.work[0], name) for name in ("snip", "zen")]
        row = Row(*(*keys[0], float(number), "ok", "", 0.1, 1.0))
        writer.add([row, replace(row, **dict(zip(KEY, keys[1], strict=True)))])
    of = {part: pq.read_table(part, partitioning=None)["architecture"][0].as_py() for part in store.parts()}
    draw = random.Random(0)
    parts = list(of)
    victims = draw.sample(parts, DAMAGED)
    for part in victims:
        damage(part, draw, parts)

    assert main(["results", "verify", "--results", str(store.folder)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == DAMAGED
    assert all(sum(str(part) in line for line in lines) == 1 for part in victims)
    with pytest.raises(ResultsError, match=f"{DAMAGED - 1} more are damaged, and zcbench results verify names them"):
        store.rows(RECIPE)

    for part in victims:
        part.unlink()
    lost = store.missing(RECIPE, tries=1)
    assert set(lost) == {of[part] for part in victims}
    assert set(lost.values()) == {RECIPE.work}
    assert len(store.rows(RECIPE)) == 2 * (COUNT - DAMAGED)
    assert main(["results", "verify", "--results", str(store.folder)]) == 0
