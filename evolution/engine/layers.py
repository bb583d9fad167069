"""The problem of a search for formulas over layer tables: all networks of all grounds are evaluated at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...engine import Workers
from ...proxies.aggregate import ranks
from ..data.bank import Handle
from ..data.layers import COLUMNS
from ..language.layers import Networks, Value, Vector, scores, vocabulary
from ..language.parse import parse
from ..language.programs import Program
from .fitness import Beside, beside
from .networks import Measure, NetworkProblem, Pool, Scoring

#: The number of parameters, which `partial` is given.
SIZE = "sum(params)"

#: Number of values of subtrees that are kept; those of one generation are mostly fewer.
KEPT = 200


class LayerProblem(NetworkProblem):
    """The problem of ranking networks by formulas over their layer tables, which fit into memory together."""

    def __init__(self, pools: Sequence[Pool], scoring: Scoring, measure: Measure, workers: Workers) -> None:
        super().__init__(pools, scoring, measure, workers)
        self.columns, self.networks = joined(self.handles)
        self.found: dict[Program, Vector] = {}
        self.memo: dict[Program, Value] = {}

    def scores(self, programs: Sequence[Program], networks: Sequence[int]) -> NDArray[np.float64]:
        """Return scores `(programs, networks)`; only unknown ones are computed."""
        for program in programs:
            if program not in self.found:
                self.found[program] = scores(program, self.columns, self.networks, self.memo)
                if len(self.memo) > KEPT:
                    self.memo.clear()
        found = [self.found[program][list(networks)] for program in programs]
        return np.array(found).reshape(len(programs), len(networks))

    def behaviour(self, program: Program) -> bytes:
        """Return the ranks of the networks of every pool, as bytes; programs that rank alike count as one."""
        found = self.scores([program], range(len(self.handles)))[0]
        return b"".join(ranks(part).tobytes() for part in np.split(found, self.starts[1:-1]))

    @functools.cache  # noqa: B019  one problem lives as long as a search
    def beside(self, ground: int, chosen: tuple[int, ...]) -> Beside:
        """Return what programs are compared with on some networks of a ground."""
        texts = [parse(vocabulary(list(COLUMNS)), text) for text in (SIZE, *self.measure.rivals)]
        size, *rivals = self.scores(texts, [int(self.starts[ground]) + index for index in chosen])
        return beside(rivals, size, self.pools[ground].accuracies[list(chosen)])


def joined(handles: Sequence[Handle]) -> tuple[dict[str, Vector], Networks]:
    """Return the columns of layer tables behind each other, and where each network begins."""
    tables = [handle.load().groups[0].tensors for handle in handles]
    columns = {name: np.concatenate([table[name][0].numpy() for table in tables]) for name in COLUMNS}
    return columns, Networks(np.array([table["depth"].shape[1] for table in tables]))
