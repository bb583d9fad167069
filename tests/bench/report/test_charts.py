from __future__ import annotations

import json

import numpy as np
from zcbench.bench.report import charts
from zcbench.bench.report.charts import chart
from zcbench.bench.results.overview import Leaderboard


def labelled(leaderboard: Leaderboard, number: int) -> tuple[dict, list[str]]:  # type: ignore[type-arg]
    standing = leaderboard.standings[number]
    labels = [r.proxy for r in standing.rankings]
    return chart(standing, labels), labels


def test_the_claimed_best_is_first(leaderboard: Leaderboard) -> None:
    made, labels = labelled(leaderboard, 0)
    standing = leaderboard.standings[0]
    for name, best in (("zen", np.argmax), ("ntk_condition", np.argmin)):
        (panel,) = (p for p in standing.sample.panels if p.proxy == name)
        drawn = made["proxies"][labels.index(name)]
        assert made["networks"][drawn["ranks"].index(1)] == standing.sample.networks[best(panel.scores[:, 0])]
    assert made["accuracy"] == sorted(made["accuracy"], reverse=True)


def test_a_missing_score_has_no_rank_and_json_can_hold_it(leaderboard: Leaderboard) -> None:
    made, labels = labelled(leaderboard, 0)
    grasp = made["proxies"][labels.index("grasp")]
    assert grasp["ranks"].count(None) == 3
    assert made["proxies"][labels.index("flat")]["tau"] is None
    json.dumps(made, allow_nan=False)


def test_differences_are_of_the_row_less_the_column(leaderboard: Leaderboard) -> None:
    made, labels = labelled(leaderboard, 2)
    ((maps),) = made["maps"]
    at = {(row[0], row[1]): row for row in maps["differences"]}
    a, b = sorted((labels.index("synflow"), labels.index("zen")))
    assert a < b
    taus = [made["proxies"][i]["tau"] for i in (a, b)]
    assert at[a, b][2] > 0
    assert abs(at[a, b][2] - (taus[0] - taus[1])) < 2e-3
    assert at[a, b][3] < at[a, b][2] < at[a, b][4]
    # Every two of ten proxies.
    assert len(maps["differences"]) == len(maps["agreement"]) == 45


def test_many_networks_are_thinned_evenly(leaderboard: Leaderboard, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(charts, "DRAWN", 30)
    made, _ = labelled(leaderboard, 0)
    truth = leaderboard.standings[0].sample.truth
    assert len(made["networks"]) == len(set(made["networks"])) == 30
    assert made["of"] == 60
    assert abs(made["accuracy"][0] - truth.max()) < 0.01
    assert abs(made["accuracy"][-1] - truth.min()) < 0.01
