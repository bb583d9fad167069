"""Compute the scores of a baseline again, and compare them and their correlations with it."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from jsonargparse import Namespace

from ..bench.study.config import StudyConfig, listed
from ..content import of_package
from ..errors import ConfigError
from . import run
from .parser import Parser, add_shared, command_parser, instantiated, parse, settings
from .terminal import show, waiting

if TYPE_CHECKING:
    from ..bench.results.regress import Finding


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    parser.add_argument("--baseline", required=True, help="A JSON file that `zcbench check --update` has written.")
    parser.add_argument(
        "--results",
        help="A results folder that keeps the scores, so that a check that was ended goes on; scores of other code are "
        "computed again. By default nothing is kept.",
    )
    parser.add_argument("--update", action="store_true", help="Write the baseline instead of comparing with it.")
    parser.add_argument(
        "--config",
        help="With --update: the study of a new baseline, a YAML file or a name of `zcbench list studies`.",
    )
    parser.add_argument(
        "--rtol", type=float, help="The relative tolerance of scores; by default 1e-5, and 1e-10 for float64."
    )
    parser.add_argument("--workers", type=int, default=1, help="The number of worker processes.")
    add_shared(parser, "data", "include")
    parser.add_argument("--json", action="store_true", help="Print the findings as JSON.")
    parser.add_argument("--junit", help="The path of a JUnit file to write as well.")
    parser.add_argument(
        "--markdown", help="The path of a Markdown file to add a table to, such as the one in GITHUB_STEP_SUMMARY."
    )


def main(parsed: Sequence[Namespace]) -> int:
    """Score the networks of a baseline, and compare with it or write it."""
    with waiting("loading torch"):
        from ..bench.results.ranking import select
        from ..bench.results.regress import compare, exit_status, make_baseline, read_baseline, write_baseline
        from ..bench.scoring import runner
        from ..bench.scoring.store import Store
        from ..bench.study.resolve import resolve

    (given,) = parsed
    path = Path(given.baseline)
    _check_files(given)
    if given.rtol is not None and not given.rtol >= 0:
        raise ConfigError(f"rtol: expected 0 or more, got {given.rtol}")
    if given.config and not given["update"]:
        raise ConfigError("config: a baseline knows its own study; expected --config with --update alone")
    document = {} if given.config and not path.exists() else read_baseline(path)
    study = dataclasses.replace(resolve(_study_config(given, document)), code=of_package())
    if given.config:
        document = {}
    with _folder(given.results) as folder:
        study = dataclasses.replace(study, config=dataclasses.replace(study.config, out=folder))
        runner.run(study)
        rows = select(Store(study.out), study.recipe)
    failed = run.report_failures(rows, study.config.tries)
    if given["update"]:
        if failed:
            print(f"{path}: not written, because a baseline needs every score", file=sys.stderr)
            return 4
        before = compare(document, study.recipe, rows, rtol=given.rtol) if document else []
        changed = list(dict.fromkeys(finding.proxy for finding in before if finding.outcome != "same"))
        write_baseline(path, make_baseline(study.config, study.recipe, rows))
        what = f"{len(study.indices)} networks, {rows['proxy'].nunique()} proxies"
        what += f"; changed: {', '.join(changed) or 'none'}" * bool(document)
        print(f"{path}: {what}", file=sys.stderr)
        return 0
    findings = compare(document, study.recipe, rows, rtol=given.rtol)
    title = f"{path.name}: {len(study.indices)} networks of {study.space.name} on {study.images.name}"
    _report(given, findings, title, path.stem)
    status = exit_status(findings)
    return 4 if failed and status == 0 else status


def _check_files(given: Namespace) -> None:
    """Refuse files that cannot be written, or whose content would be lost, before anything is scored for them.

    Raises:
        ConfigError: A path is a folder or lies in none, cannot be written, is given twice, or is no JSON file for the
            baseline.
    """
    written = {name: Path(given[name]) for name in ("baseline", "junit", "markdown") if given[name]}
    read = {"config": given.config, **{f"include {file}": file for file in listed(given.include)}}
    for name, path in written.items():
        if path.is_dir() or (not path.absolute().parent.is_dir() and name != "baseline"):
            what = "which is a folder" if path.is_dir() else "whose folder does not exist"
            raise ConfigError(f"{name}: expected a file in a folder that exists, got {path}, {what}")
        if (name != "baseline" or given["update"]) and not _is_writable(path, replaced=name == "baseline"):
            raise ConfigError(f"{name}: expected a file that can be written, got {path}, which cannot: choose another")
        others = {**{k: v for k, v in written.items() if k != name}, **{k: Path(v) for k, v in read.items() if v}}
        for other, its in others.items():
            if path.resolve() == its.resolve():
                raise ConfigError(f"{name}: expected a file of its own, got {path}, which is that of {other}")
        if name != "baseline" and given["update"]:
            raise ConfigError(f"{name}: expected a comparison, got --update, which makes none: leave --{name} out")
    if given["update"] and written["baseline"].suffix != ".json":
        raise ConfigError(f"baseline: expected a name that ends in .json, got {given.baseline}")


def _is_writable(path: Path, *, replaced: bool) -> bool:
    """Return whether a file can be written: replaced, which its folder has to allow, or else opened."""
    if path.exists() and not replaced:
        return os.access(path, os.W_OK)
    above = next(folder for folder in path.absolute().parents if folder.exists())
    return above.is_dir() and os.access(above, os.W_OK)


def _folder(named: str | None) -> AbstractContextManager[str]:
    return nullcontext(named) if named else TemporaryDirectory(prefix="zcbench-check-")


def _study_config(given: Namespace, document: Mapping[str, Any]) -> StudyConfig:
    """Return the study of a baseline: the one that `--config` names, or else the one that the baseline was made by."""
    changes: dict[str, Any] = {
        "data": given.data,
        "include": given.include,
        "tracker": "none",
        "workers": given.workers,
    }
    if not given.config:
        parser = command_parser(run)
        parser.default_config_files = []
        return settings(StudyConfig, instantiated(parser, parser.parse_object(document["config"])), **changes)
    studies = parse(command_parser(run), ["--config", given.config])
    if len(studies) > 1:
        raise ConfigError(f"config: expected one study, got the {len(studies)} of {given.config}")
    config = run.study_config(studies[0])
    changes["include"] = [*listed(config.include), *listed(given.include)]
    changes["data"] = given.data or config.data
    return dataclasses.replace(config, **changes)


def _report(given: Namespace, findings: Sequence[Finding], title: str, suite: str) -> None:
    from ..bench.report.check import advice, as_json, as_junit, as_markdown, as_table

    words = ["zcbench", "check", "--baseline", given.baseline]
    words += ["--include", ",".join(listed(given.include))] if given.include else []
    command = shlex.join([*words, "--update"])
    if given.junit:
        Path(given.junit).write_text(as_junit(findings, suite, command), "utf-8", errors="replace")
    if given.markdown:
        with Path(given.markdown).open("a", encoding="utf-8", errors="replace") as stream:
            stream.write(as_markdown(findings, title, command))
    if given.json:
        print(as_json(findings), end="")
    else:
        show(as_table(findings, title))
    if todo := advice(findings, command):
        print(f"zcbench: {todo}", file=sys.stderr)
