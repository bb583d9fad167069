"""Score the networks of a space and print how well every proxy ranks them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ..bench.study.config import StudyConfig, is_all, listed, studies
from ..errors import AbsentFileError
from .parser import ConfigFile, Parser, add_shared, settings
from .terminal import show, waiting

if TYPE_CHECKING:
    import pandas as pd

    from ..bench.results.ranking import Ranking
    from ..bench.study.resolve import Study

DEFAULT = "quickstart"


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.default_config_files = [str(studies()[DEFAULT])]
    parser.add_argument(
        "--config", action=ConfigFile, help=f"A YAML file or a name from `zcbench list studies`; without it, {DEFAULT}."
    )
    parser.add_class_arguments(StudyConfig, as_group=False)
    add_shared(parser, "program")
    parser.add_argument(
        "--format",
        choices=["table", "csv", "json", "markdown", "svg"],
        default="table",
        help="The form of the result on standard output.",
    )
    parser.add_argument("--json", action="store_true", help="Print the result as JSON, as --format json does.")
    parser.add_argument(
        "--cluster",
        choices=["none", "slurm"],
        default="none",
        help="Where the run is: none for here, slurm for jobs of SLURM, which this command only submits.",
    )
    parser.add_argument(
        "--cluster_args",
        type=dict[str, Any],
        default={},
        help="What the jobs are, by name: jobs, their number; time, the minutes of each; and any option of sbatch, as "
        "in {jobs: 4, time: 60, partition: cpu}. A job has as many CPUs as workers.",
    )


def main(parsed: Sequence[Namespace]) -> int:
    """Run the studies and print their rankings; return 4 if scores failed, which another run tries again."""
    form = "json" if parsed[0].json else parsed[0].format
    lacking = 0
    rankings: list[Ranking] = []
    if parsed[0].cluster != "none":
        return _submit(parsed)
    with waiting("loading torch, accuracies and images"):
        from ..bench.report.table import as_csv, as_json, as_markdown, as_svg, terminal
        from ..bench.report.tracking import track, trackio
        from ..bench.results.ranking import select, summarise
        from ..bench.scoring.runner import run
        from ..bench.scoring.store import Store

        # Every fault in a list of studies comes to light before the first of them starts.
        studies_at_hand = _at_hand(parsed)
    for name, study in studies_at_hand:
        print(f"study {name}: {_facts(study)}", file=sys.stderr)
        run(study)
        rows = select(Store(study.out), study.recipe)
        found = summarise(study.recipe, rows)
        rankings += found
        if form == "table":
            show(terminal(found, study.truth.label))
        elif form == "svg":
            print(as_svg(terminal(found, study.truth.label)))
        lacking += report_failures(rows, study.config.tries)
        if study.config.tracker == "wandb":
            print(track(study, rows, found), file=sys.stderr)
        elif study.config.tracker == "trackio":
            print(trackio.track(study, found), file=sys.stderr)
    if rankings and form == "csv":
        print(as_csv([ranking.flat() for ranking in rankings]), end="")
    elif rankings and form in {"json", "markdown"}:
        print((as_json if form == "json" else as_markdown)(rankings), end="")
    for folder in dict.fromkeys(each.out for each in parsed):
        print(f"scores: {folder}", file=sys.stderr)
    return 4 if lacking else 0


def _submit(parsed: Sequence[Namespace]) -> int:
    """Submit the run, print the ids of its jobs, and say on standard error how to go on."""
    from .submit import submit

    checked = [each.clone() for each in parsed]
    for each in checked:
        each.device = "cpu"  # the GPUs are those of other machines
    _at_hand(checked)
    first = parsed[0]
    folder = Path(first.out) / "jobs"
    # The command that prints the table of all jobs mirrors the run, once.
    words = [*first.words, "--cluster", "none", "--tracker", "none"]
    ids = submit(words, first.cluster_args, max(each.workers for each in parsed), folder)
    print(*ids, sep="\n")
    print(f"zcbench: submitted {len(ids)} job(s) of {first.cluster}, which write to {first.out}", file=sys.stderr)
    print(f"zcbench: what they print: {folder}", file=sys.stderr)
    print("zcbench: when they are done, the same command without --cluster prints the table", file=sys.stderr)
    return 0


def report_failures(rows: pd.DataFrame, tries: int) -> int:
    """Print what got no score in a run, a line per proxy; return how many scores failed."""
    from ..bench.results.failures import failures
    from ..bench.scoring.parts import ATTEMPTS

    for line in failures(rows):
        print(f"zcbench: {line}", file=sys.stderr)
    failed = rows[rows["status"].isin(ATTEMPTS)]
    if len(failed):
        again = int((failed["attempts"] < tries).sum())
        what = (
            f"the same command tries {'them' if again == len(failed) else again} again"
            if again
            else (f"they have failed {tries} times and are left alone; --tries {tries + 3} tries them again")
        )
        print(f"zcbench: {len(failed)} of {len(rows)} scores failed; {what}", file=sys.stderr)
    return len(failed)


def study_config(parsed: Namespace) -> StudyConfig:
    """Return the configuration of a study. Programs that are named are registered and become proxies of the study."""
    config = settings(StudyConfig, parsed)
    changes: dict[str, object] = {}
    # The accuracy that the default study names is that of NAS-Bench-201 on CIFAR-10.
    elsewhere = config.space != "nb201" or "cifar10" not in config.dataset.split("-")
    if parsed.config is None and elsewhere and "accuracy" not in parsed.given:
        changes["accuracy"] = "default"
    if names := register_programs(listed(parsed.program)):
        # Workers that are spawned read these files themselves.
        changes["include"] = [*listed(config.include), *listed(parsed.program)]
        if not is_all(config.proxies):
            changes["proxies"] = list(dict.fromkeys([*listed(config.proxies), *names]))
    return settings(StudyConfig, parsed, **changes)


def register_programs(files: Sequence[str]) -> list[str]:
    """Register the programs of `--program` as proxies and return their names."""
    if not files:
        return []
    from ..evolution.study.found import register

    return [register(Path(file)) for file in files]


def _at_hand(parsed: Sequence[Namespace]) -> list[tuple[str, Study]]:
    """Return studies and what to call them; of several, those whose data files are absent are named and left out."""
    from ..bench.scoring.store import Store
    from ..bench.study.resolve import resolve
    from ..datasets.files.registry import how_to_get

    found: list[tuple[str, Study]] = []
    absent: dict[int, AbsentFileError] = {}
    for place, each in enumerate(parsed, start=1):
        named = DEFAULT if each.config is None else ", ".join(each.config)
        try:
            study = resolve(study_config(each))
        except AbsentFileError as error:
            absent[place] = error
            continue
        found.append((f"{named} ({place} of {len(parsed)})" if len(parsed) > 1 else named, study))
    if absent and not found:
        raise next(iter(absent.values()))
    if absent:
        lacking = dict.fromkeys(source for error in absent.values() for source in error.sources)
        which = f"stud{'y' if len(absent) == 1 else 'ies'} {', '.join(map(str, absent))} of {len(parsed)}"
        are = "is left out and lacks" if len(absent) == 1 else "are left out and lack"
        print(f"zcbench: {which} {are} {', '.join(lacking)}: {how_to_get(lacking)}", file=sys.stderr)
    for store in map(Store, {study.out for _, study in found}):
        if store.is_writable() or not store.folder.exists():
            store.create()
    return found


def _facts(study: Study) -> str:
    """Return in words what a study ranks: the configuration and the command line have both been read."""
    sizes = sorted({work.batch_size for work in study.work})
    proxies = "1 proxy" if len(study.cards) == 1 else f"{len(study.cards)} proxies"
    networks = "1 network" if len(study.indices) == 1 else f"{len(study.indices):,} networks"
    return (
        f"{networks} of {study.space.name} on {study.images.name}, accuracy {study.truth.name}, "
        f"{proxies}, batch size {' '.join(map(str, sizes))}, "
        f"seed {' '.join(map(str, study.recipe.seeds))}"
    )
