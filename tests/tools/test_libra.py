from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import zcbench
from zcbench.bench.results.published.sources import read_leaderboard
from zcbench.tools.libra import BINS, Choice, choose, gain, split

BOARD = Path(zcbench.__file__).parent / "docs" / "board"


def test_a_proxy_that_says_nothing_new_gains_nothing() -> None:
    random = np.random.RandomState(0)
    truth, known = random.randn(400), random.randn(400)
    assert gain(truth, known, known) == 0
    assert gain(truth, known, np.exp(known)) == 0  # only the order counts


def test_the_accuracies_themselves_gain_all_that_is_left() -> None:
    truth = np.arange(400.0)
    known = np.tile(np.arange(20.0), 20)  # knows nearly nothing of the bins of the truth
    assert gain(truth, known, truth) == pytest.approx(math.log(BINS), abs=0.01)


def test_the_three_steps() -> None:
    random = np.random.RandomState(1)
    truth = random.randn(2000)
    params = truth + random.randn(2000)
    scores = {
        "best": truth + 0.3 * random.randn(2000),
        "weak": random.randn(2000),
        "other": truth + 0.45 * random.randn(2000),
    }
    scores["copy"] = scores["best"] + 0.05 * random.randn(2000)  # says the same as the best, and little more
    # Of `best`, `copy` and `other` the last has a bias beside that of the truth, `params` is only correlated.
    found = choose(scores, truth, params)
    assert found == Choice("best", "copy", "other")


def test_proxies_far_below_the_best_are_taken_only_if_there_are_no_others() -> None:
    random = np.random.RandomState(2)
    truth = random.randn(500)
    scores = {"a": truth, "b": random.randn(500), "c": truth + 2 * random.randn(500)}
    assert choose(scores, truth, truth).best == "a"
    assert set(choose(scores, truth, truth)) == {"a", "b", "c"}
    with pytest.raises(ValueError, match="three proxies or more, got 2"):
        choose({"a": truth, "b": truth}, truth, truth)


def test_the_choice_reads_no_accuracy_of_the_other_half(monkeypatch: pytest.MonkeyPatch) -> None:
    board, rows = next(s for s in read_leaderboard(BOARD) if s[0].recipe.space == "nb_macro")
    read: list[set[float]] = []

    def watched(scores, truth, params):
        read.append(set(truth))
        return choose(scores, truth, params)

    monkeypatch.setattr("zcbench.tools.libra.choose", watched)
    # Two networks of one accuracy may lie in both halves, so that accuracies are made to differ.
    apart = {n: a + 1e-7 * place for place, (n, a) in enumerate(board.recipe.accuracies.items())}
    board = dataclasses.replace(board, recipe=dataclasses.replace(board.recipe, accuracies=apart))
    first = split((board, rows), 0)
    # All other accuracies become others, in the opposite order.
    others = {n: a if a in read[0] else 200 - a for n, a in board.recipe.accuracies.items()}
    assert 1 / 3 < np.mean([a > 100 for a in others.values()]) < 2 / 3
    changed = dataclasses.replace(board, recipe=dataclasses.replace(board.recipe, accuracies=others))
    second = split((changed, rows), 0)
    assert second.choice == first.choice
    assert second.libra == pytest.approx(-first.libra)
