"""trackio as the mirror of a study: a data base on this machine, without an account."""

from __future__ import annotations

import contextlib
import dataclasses
import io
from collections.abc import Sequence

from ....environment import environment
from ....errors import one_line
from ...results.ranking import Ranking
from ...study.resolve import Study
from .wandb import named, numbers

PROJECT = "zcbench"


def track(study: Study, rankings: Sequence[Ranking]) -> str:
    """Log the rankings of a study that was run, and return one line for the user. The same study updates its run."""
    name, group, identity = named(study)
    try:
        import trackio
    except ImportError:
        return 'not tracked: trackio is not installed: pip install "zcbench[trackio]"; scores are kept'
    try:
        # It prints where the results of a command belong.
        with contextlib.redirect_stdout(io.StringIO()):
            trackio.init(
                project=PROJECT,
                name=f"{name} {identity}",
                group=group,
                config={**dataclasses.asdict(study.config), "environment": environment()},
                resume="allow",
                embed=False,
                auto_log_cpu=False,
                auto_log_gpu=False,
            )
            records = [ranking.flat() for ranking in rankings]
            table = trackio.Table(columns=list(records[0]), data=[list(record.values()) for record in records])
            trackio.log({"correlations": table} | {k: v for ranking in rankings for k, v in numbers(ranking).items()})
            trackio.finish()
    except Exception as error:
        return f"not tracked: {one_line(f'{type(error).__name__}: {error}')[:200]}; scores are kept"
    return f"tracked; to look at it: trackio show --project {PROJECT}"
