"""The regression check: scores and coefficients are compared with a baseline, a file that says how it was made."""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import pandas as pd

from ...atomic import write_atomically
from ...environment import device_class, environment
from ...errors import BaselineError, in_words, kind_of
from ...proxies import AGGREGATES
from ..stats.bootstrap import interval, resamples
from ..stats.coefficients import spearman
from ..stats.correlation import correlate_seeds
from ..stats.ranks import Matrix
from ..study.config import StudyConfig
from ..study.recipe import Recipe

#: Version of the format; it goes up when older versions of zcbench cannot read new files.
FORMAT = 1
#: Scores in the same environment differ by no more than this, relative to the larger score. The tolerance in float64 is
#: small enough to see a change of the constants that keep a logarithm or a division from zero.
RTOL = {"float32": 1e-5, "float64": 1e-10}
#: Spearman between the scores of two environments below which a proxy has regressed.
AGREEMENT = 0.99
#: Number of networks that a finding names.
MOVED = 10

#: Parts of the environment that decide the last digits of a score.
_PINNED = ("torch", "numpy", "scipy", "machine", "cpu", "processor")
#: Parts of a recipe without which scores are not comparable.
_FIXED = ("protocol", "device", "truth", "batches", "accuracies")
#: Settings that change no score.
_FREE = (
    *("name", "out", "data", "include", "tracker", "resamples"),
    *("workers", "engine", "device", "gpus", "limit_s", "memory_mib", "tries"),
)

Outcome = Literal["same", "not comparable", "regressed"]


@dataclass(frozen=True)
class Moved:
    """A network whose rank changed.

    Attributes:
        before: Rank before, 1 for the highest score.
        after: Rank now, 1 for the highest score.
    """

    architecture: str
    before: float
    after: float


@dataclass(frozen=True)
class Finding:
    """The result of the check for one proxy at one batch size.

    Attributes:
        outcome: Same, not comparable (another version), or regressed.
        reason: Reason of the outcome, in words.
        rho: Spearman before and now, mean over seeds.
        tau: Kendall's tau-b before and now, mean over seeds.
        rho_change: 95 % interval of the change of rho, paired over networks.
        tau_change: 95 % interval of the change of tau, paired over networks.
        scores: Number of scores that were compared, over all seeds.
        differing: Number of scores that differ by more than the tolerance, or have another status.
        statuses: Number of scores with another status.
        largest: The largest difference, relative to the larger score; infinite where one is NaN.
        moved: Networks whose rank changed most, if scores differ.
    """

    proxy: str
    batch_size: int
    outcome: Outcome
    reason: str
    rho: tuple[float, float] = (math.nan, math.nan)
    tau: tuple[float, float] = (math.nan, math.nan)
    rho_change: tuple[float, float] = (math.nan, math.nan)
    tau_change: tuple[float, float] = (math.nan, math.nan)
    scores: int = 0
    differing: int = 0
    statuses: int = 0
    largest: float = math.nan
    moved: tuple[Moved, ...] = field(default=())


def make_baseline(config: StudyConfig, recipe: Recipe, rows: pd.DataFrame) -> dict[str, Any]:
    """Return the baseline of a study: how it was made, its accuracies, and every score."""
    return {
        "format": FORMAT,
        "recipe": {"command": f"zcbench {' '.join(sys.argv[1:])}", "environment": environment()},
        "config": {k: v for k, v in dataclasses.asdict(config).items() if k not in _FREE},
        **{name: recipe.document()[name] for name in _FIXED},
        "scores": [
            {
                "proxy": proxy,
                "batch_size": size,
                "seed": seed,
                "version": int(group["version"].iloc[0]),
                "values": [_number(value) for value in group["value"]],
                "status": [str(status) for status in group["status"]],
            }
            for (proxy, size, seed), group in _groups(rows, recipe.architectures)
        ],
    }


def write_baseline(path: Path, document: Mapping[str, Any]) -> None:
    """Write a baseline as JSON: the whole file, or nothing.

    Raises:
        BaselineError: The file cannot be written.
    """
    text = json.dumps(document, allow_nan=False, indent=None, separators=(",", ":"))
    # One line per proxy and seed, so that a diff of two baselines shows which scores changed.
    text = text.replace('{"proxy":', '\n{"proxy":').replace('"accuracies":', '\n"accuracies":')
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, (text + "\n").encode())
    except OSError as error:
        raise BaselineError(f"baseline: cannot write {path} ({error.strerror}): choose another place") from None


def read_baseline(path: Path) -> dict[str, Any]:
    """Read a baseline and check that it is one.

    Raises:
        BaselineError: The file is absent, torn, of a newer format, or no baseline.
    """
    if path.suffix in {".yaml", ".yml"}:
        raise BaselineError(
            f"baseline: expected a JSON file that zcbench check wrote, got {path}: a study goes with "
            f"--update --config {path}"
        )
    try:
        document: Any = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise BaselineError(
            f"baseline: cannot read {path} ({error.strerror}): make it with zcbench check --baseline {path} --update "
            "--config STUDY"
        ) from None
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"baseline: {path} is torn or not JSON ({in_words(error)}): restore it") from None
    try:
        if type(document["format"]) is not int or document["format"] < 1:
            raise ValueError(f"expected 1 to {FORMAT} as format, got {json.dumps(document['format'])[:20]}")
        if document["format"] > FORMAT:
            raise BaselineError(
                f"baseline: {path} has format {document['format']}, this zcbench reads up to {FORMAT}: upgrade zcbench"
            )
        _check(document)
    except (LookupError, TypeError, ValueError) as error:
        raise BaselineError(
            f"baseline: {path} is no baseline ({in_words(error)}): move it away, and make one with "
            "--update --config STUDY"
        ) from None
    return cast("dict[str, Any]", document)


def _check(document: dict[str, Any]) -> None:
    """Raise an error if a document lacks what a comparison reads, or has something else there."""
    count = len(document["accuracies"])
    for key in ("recipe", *_FIXED):
        _ = document[key]
    if not isinstance(document["recipe"]["environment"], dict):
        raise ValueError("expected the environment by name")
    if not isinstance(document["scores"], list) or not document["scores"]:
        raise ValueError("it holds no scores")
    if not isinstance(document["config"], dict) or not document["config"]:
        got = "none" if document["config"] == {} else kind_of(document["config"])
        raise ValueError(f"expected settings by name as config, got {got}")
    few = document["config"].get("sample_of", {})
    if not isinstance(few, dict) or any(type(value) is not int for value in few.values()):
        raise ValueError("expected numbers of networks by name as sample_of")
    for score in document["scores"]:
        for key, kind in (("proxy", str), ("batch_size", int), ("seed", int), ("version", int)):
            if type(score[key]) is not kind:
                raise ValueError(f"expected {kind_of(kind())} as {key}, got {kind_of(score[key])}")
        wanted = _networks_of(score["proxy"], few, count)
        if len(score["values"]) != wanted or len(score["status"]) != wanted:
            raise ValueError(f"expected {wanted} scores of {score['proxy']}")
        if any(isinstance(value, list | dict | bool) for value in score["values"]):
            raise ValueError(f"expected numbers as scores of {score['proxy']}")
        np.asarray(score["values"], dtype=np.float64)
    if unknown := set(document["config"]) - {f.name for f in dataclasses.fields(StudyConfig)}:
        raise ValueError(f"unknown settings {', '.join(sorted(unknown))}")


def _networks_of(proxy: str, few: Mapping[str, int], count: int) -> int:
    """Return the number of networks that a proxy scores, where `few` has the numbers of single proxies."""
    members = AGGREGATES[proxy].members if proxy in AGGREGATES else (proxy,)
    return min(few.get(member, count) for member in members)


def compare(
    document: Mapping[str, Any], recipe: Recipe, rows: pd.DataFrame, *, rtol: float | None = None
) -> list[Finding]:
    """Compare the scores of a study with a baseline, proxy by proxy, the worst outcome first.

    In the environment of the baseline, a score that differs by more than `rtol` or has another status is a regression.
    In another environment round-off differs, so the order of the networks decides. There it is a regression if old and
    new scores agree by less than .99, if a status differs, or if the interval of the change of a coefficient excludes
    zero.

    Args:
        document: Baseline.
        recipe: Recipe that the study of the baseline has now.
        rows: Scores of the study.
        rtol: Relative tolerance of scores; by default that of their precision.
    """
    if reasons := _incomparable(document, recipe):
        every = dict.fromkeys((s["proxy"], s["batch_size"]) for s in document["scores"])
        return [Finding(proxy, size, "not comparable", "; ".join(reasons)) for proxy, size in every]
    now = dict(_groups(rows, recipe.architectures))
    rtol = RTOL["float64" if "float64" in recipe.device else "float32"] if rtol is None else rtol
    here = environment()
    foreign = [name for name in _PINNED if document["recipe"]["environment"].get(name) != here[name]]
    weights = resamples(len(recipe.accuracies), 1000, classes=recipe.classes or None)
    kept: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for score in document["scores"]:
        kept.setdefault((score["proxy"], score["batch_size"]), []).append(score)
    findings = []
    for (proxy, size), scores in kept.items():
        groups = [now[key] for score in scores if (key := (proxy, size, score["seed"])) in now]
        versions = {int(group["version"].iloc[0]) for group in groups}
        if versions != {score["version"] for score in scores}:
            reason = f"version {scores[0]['version']} is now {', '.join(map(str, versions)) or 'gone'}: use --update"
            findings.append(Finding(proxy, size, "not comparable", reason))
        elif {len(score["values"]) for score in scores} != (counts := {len(group) for group in groups}):
            reason = (
                f"it scored {len(scores[0]['values'])} networks, and {', '.join(map(str, counts))} now: use --update"
            )
            findings.append(Finding(proxy, size, "not comparable", reason))
        else:
            findings.append(_compared(proxy, size, scores, groups, recipe, weights, foreign, rtol))
    for proxy, size in dict.fromkeys((proxy, size) for proxy, size, _ in now):
        if (proxy, size) not in kept:
            findings.append(Finding(proxy, size, "not comparable", "the baseline has no scores of it: use --update"))
    order: dict[Outcome, int] = {"regressed": 0, "not comparable": 1, "same": 2}
    return sorted(findings, key=lambda finding: order[finding.outcome])


def exit_status(findings: Sequence[Finding]) -> int:
    """Return 1 if any proxy regressed, else 3 if any is not comparable, else 0."""
    outcomes = {finding.outcome for finding in findings}
    return 1 if "regressed" in outcomes else 3 if "not comparable" in outcomes else 0


def _compared(
    proxy: str,
    size: int,
    scores: Sequence[Mapping[str, Any]],
    groups: Sequence[pd.DataFrame],
    recipe: Recipe,
    weights: Matrix,
    foreign: Sequence[str],
    rtol: float,
) -> Finding:
    """Compare the scores of one proxy at one batch size, in the baseline and now, one element per seed."""
    old = np.asarray([score["values"] for score in scores], dtype=np.float64).T
    new = np.asarray([group["value"].to_numpy() for group in groups]).T
    before, now = ([list(of["status"]) for of in found] for found in (scores, groups))
    architectures, truth = recipe.architectures[: len(old)], recipe.values[: len(old)]
    statuses = np.asarray(before).T != np.asarray(now).T
    with np.errstate(invalid="ignore"):
        change = np.abs(new - old) / np.maximum(np.abs(new), np.abs(old))
    # Two zeros, two infinities of one sign or two NaN are no change. One NaN is a change.
    change[(new == old) | (np.isnan(new) & np.isnan(old))] = 0
    change[np.isnan(change)] = np.inf
    differs = statuses | (change > rtol)
    both = np.isfinite(old).all(1) & np.isfinite(new).all(1) & np.isfinite(truth)
    drawn = weights[: len(weights) if differs.any() else 0, : len(old)][:, both]
    first, second = (correlate_seeds(values[both], truth[both], drawn) for values in (old, new))
    rhos = float(np.mean(first.rho)), float(np.mean(second.rho))
    taus = float(np.mean(first.tau)), float(np.mean(second.tau))
    if not differs.any():
        return Finding(proxy, size, "same", f"{differs.size} scores within {rtol:g}", rhos, taus, scores=differs.size)
    rho_change = interval(np.mean(second.drawn_rho - first.drawn_rho, axis=0))
    tau_change = interval(np.mean(second.drawn_tau - first.drawn_tau, axis=0))
    count = (differs.size, int(differs.sum()), int(statuses.sum()), float(change.max()))
    reason = f"{count[1]} of {count[0]} scores differ, by up to {percent_of(count[3])}"
    if count[2]:
        reason += f"; {count[2]} have another status"
    outcome: Outcome = "regressed"
    # Another environment changes digits. It changes no status, hardly any order, and no coefficient.
    agreement = min((spearman(*pair) for pair in zip(old[both].T, new[both].T, strict=True)), default=math.nan)
    spans_zero = all(low <= 0 <= high for low, high in (rho_change, tau_change))
    if foreign and not statuses.any() and agreement >= AGREEMENT and spans_zero:
        outcome = "same"
        reason += (
            f"; {', '.join(foreign)} differ from the baseline's; the order of the networks agrees by {agreement:.4f}"
        )
    moved = _moved(old, new, architectures)
    return Finding(proxy, size, outcome, reason, rhos, taus, rho_change, tau_change, *count, moved)


def percent_of(change: float) -> str:
    """Write a relative difference in percent; a score that is gone, or new, is all of it."""
    percent = min(100 * change, 100.0) if math.isfinite(change) else 100.0
    return f"{percent:.2g}%" if percent < 99.5 else "100%"


def _moved(old: Matrix, new: Matrix, architectures: Sequence[str]) -> tuple[Moved, ...]:
    """Return the networks whose mean rank over seeds changed most; a network without a score has the last rank."""
    before, after = (
        pd.DataFrame(values).rank(ascending=False, na_option="bottom").mean(axis=1).to_numpy() for values in (old, new)
    )
    order = np.argsort(-np.abs(after - before), kind="stable")[:MOVED]
    return tuple(
        Moved(architectures[i], float(before[i]), float(after[i])) for i in order.tolist() if before[i] != after[i]
    )


def _incomparable(document: Mapping[str, Any], recipe: Recipe) -> list[str]:
    """Return the reasons why no score of a baseline can be compared."""
    now = recipe.document()
    before = {name: document[name] for name in ("protocol", "truth")}
    # Sets of instructions and releases of torch change digits; the tolerance for another environment is for these.
    before["device"], now["device"] = (device_class(str(of["device"])) for of in (document, now))
    reasons = [f"{name} {before[name]} is now {now[name]}" for name in before if before[name] != now[name]]
    if document["batches"] != now["batches"]:
        reasons.append("the images of the batches differ")
    if list(document["accuracies"]) != list(now["accuracies"]):
        reasons.append("the networks differ")
    elif document["accuracies"] != now["accuracies"]:
        reasons.append("the accuracies differ")
    return reasons


def _groups(rows: pd.DataFrame, architectures: Sequence[str]) -> Iterator[tuple[tuple[str, int, int], pd.DataFrame]]:
    for key, group in rows.groupby(["proxy", "batch_size", "seed"], sort=False):
        proxy, size, seed = cast("tuple[str, int, int]", key)
        known = group.set_index("architecture")
        yield (proxy, int(size), int(seed)), known.loc[[each for each in architectures if each in known.index]]


def _number(value: float) -> float | str | None:
    """Return a score as JSON holds it: null for NaN, and a text that float() reads for an infinity."""
    if math.isnan(value):
        return None
    return float(value) if math.isfinite(value) else str(value)
