"""The play of search methods: their questions are answered, their budget is counted, and all repeats go side by side.

A search is a function of its seed and of the answers, and answers are in the store or in a table. A run that was killed
is therefore played again from its start, and computes only what is not in the store.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...datasets.tasks import Task
from ...errors import ConfigError
from ...progress import Progress
from ...spaces import Space
from .asks import METHODS, Score, Search, Setting, Train
from .benchmark import Benchmark
from .config import SearchConfig
from .scores import Scores


@dataclass(frozen=True)
class Budget:
    """What one run of a method may use: trained networks, scored networks (0 for any), seconds of training (0 for any).

    Attributes:
        trained: Number of trainings; a network that is trained twice counts twice.
        scored: Number of networks that are scored; a network counts once for each proxy.
        seconds: Seconds of training. The training that would exceed them is not done.
    """

    trained: int
    scored: int = 0
    seconds: float = 0.0

    def __post_init__(self) -> None:
        if self.trained < 1:
            raise ConfigError(f"budget: expected 1 trained network or more, got {self.trained}")
        if self.scored < 0:
            raise ConfigError(f"proxy_budget: expected 0 or more, got {self.scored}")
        if not self.seconds >= 0:
            raise ConfigError(f"seconds: expected 0 or more, got {self.seconds}")


@dataclass(frozen=True)
class Trained:
    """One training of a run.

    Attributes:
        network: Text of the network.
        scored: Number of networks that were scored before.
        seconds: Seconds of all trainings so far; NaN if the table does not say them.
        validation: Validation accuracy in percent.
        test: Test accuracy in percent.
    """

    network: str
    scored: int
    seconds: float
    validation: float
    test: float


@dataclass
class Run:
    """One run of a method, and what came of it.

    Attributes:
        method: Name of the method.
        proxy: Name of the proxy; empty if the method needs none.
        repeat: Number of the repeat, which sets the random draws together with the seed.
        trained: The trainings, in the order of the run.
        scored: Every pair of proxy and network that was scored, with its score, in the order of the run.
        found: What the method has returned, if it has ended by itself.
    """

    method: str
    proxy: str
    repeat: int
    trained: list[Trained] = field(default_factory=list)
    scored: dict[tuple[str, str], float] = field(default_factory=dict)
    found: tuple[str, ...] = ()


class _Player:
    """One search on its way from question to question."""

    def __init__(self, run: Run, search: Search, benchmark: Benchmark | None, budget: Budget) -> None:
        self.run, self._search, self._benchmark, self._budget = run, search, benchmark, budget
        self.question: Score | None = None
        self._go(None)

    def answer(self, scores: list[float]) -> None:
        """Answer the question for scores, and go on to the next."""
        assert self.question is not None
        pairs = [(self.question.proxy, network) for network in self.question.networks]
        self.run.scored.update({pair: s for pair, s in zip(pairs, scores, strict=True) if pair not in self.run.scored})
        self._go(scores)

    def _go(self, answer: object) -> None:
        """Go on to the next question for scores, or to the end of the search or of its budget."""
        self.question = None
        try:
            question = self._search.send(answer)
            while isinstance(question, Train):
                training = self._training(question.network)
                if training is None:
                    self._search.close()
                    return
                self.run.trained.append(training)
                question = self._search.send(training.validation)
        except StopIteration as end:
            self.run.found = end.value or ()
            return
        new = {(question.proxy, network) for network in question.networks} - self.run.scored.keys()
        if self._is_over() or (self._budget.scored and len(self.run.scored) + len(new) > self._budget.scored):
            self._search.close()
            return
        self.question = question

    def _is_over(self) -> bool:
        return len(self.run.trained) >= self._budget.trained

    def _training(self, network: str) -> Trained | None:
        """Train a network by the table; None if the budget does not allow it."""
        assert self._benchmark is not None, "a method that trains says so in its card"
        if self._is_over():
            return None
        validation, test, seconds = self._benchmark.trained(network)
        total = seconds + (self.run.trained[-1].seconds if self.run.trained else 0.0)
        if self._budget.seconds and total > self._budget.seconds:
            return None
        return Trained(network, len(self.run.scored), total, validation, test)


def play(
    runs: Sequence[Run],
    space: Space,
    task: Task,
    config: SearchConfig,
    benchmark: Benchmark | None,
    scores: Scores | None,
) -> None:
    """Play runs to their ends, side by side, so that the networks that all of them ask for are scored together.

    Raises:
        ConfigError: A method cannot run with its numbers, or a proxy has no score for any network.
    """
    budget = Budget(config.budget, config.proxy_budget, config.seconds)
    players = []
    with Progress(f"playing {len(runs)} runs", 0) as progress:
        for run in runs:
            # A text as the seed gives the same draws in every process, and all methods of a repeat the same.
            generator = random.Random(f"{config.seed} {run.repeat}")
            setting = Setting(space, task, run.proxy, config, generator)
            players.append(_Player(run, METHODS[run.method].search(setting), benchmark, budget))
        while waiting := [(player, player.question) for player in players if player.question is not None]:
            assert scores is not None, "a method that asks for scores says so in its card"
            progress.extend(len(waiting))
            # What a method will ask for next is scored with the first, so that proxies share the passes of a network.
            pairs = (
                (proxy, network)
                for player, question in waiting
                for proxy in dict.fromkeys((question.proxy, *METHODS[player.run.method].also(player.run.proxy)))
                for network in question.networks
            )
            scores.need(pairs, progress)
            for player, question in waiting:
                player.answer(scores.of(question.proxy, question.networks))
                progress.advance(1)
