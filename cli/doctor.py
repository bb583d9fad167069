"""Say what this machine has for zcbench, and what to do about what it lacks."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version

from jsonargparse import Namespace

from ..errors import in_words
from .parser import Parser, add_shared
from .terminal import show, table, waiting


@dataclass(frozen=True)
class Finding:
    """One thing that was looked for.

    Attributes:
        name: What was looked for.
        state: `ok`, or what is wrong, such as `absent`: something does not work then.
        what: What was found, in words.
        do: What to do; empty where nothing is to be done.
    """

    name: str
    state: str
    what: str
    do: str = ""


def arguments(parser: Parser) -> None:
    """Declare the arguments."""
    add_shared(parser, "data")
    parser.add_argument("--json", action="store_true", help="Print every field as JSON.")


def main(parsed: Sequence[Namespace]) -> int:
    """Print a line for everything that was looked for; nothing is changed, and nothing is asked of the network."""
    (given,) = parsed
    with waiting("loading torch and wandb"):
        found = [*_machine(), *_data(given.data), *_extras()]
    if given.json:
        print(json.dumps([asdict(each) for each in found], indent=1))
        return 0

    shown = table("what", "state", "found, and what to do")
    for each in found:
        shown.add_row(each.name, each.state, "\n".join(filter(None, (each.what, each.do))))
    show(shown)
    return 0


def _machine() -> Iterator[Finding]:
    import torch

    from .. import __version__

    yield Finding("zcbench", "ok", __version__)
    yield Finding("Python", "ok", sys.version.split()[0])
    yield Finding("torch", "ok", torch.__version__)
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    yield Finding("CPU cores", "ok", str(count), f"use --workers {count}; each worker has one thread" * (count > 1))
    capability = torch.backends.cpu.get_cpu_capability()
    yield Finding("CPU instructions", "ok", f"{capability}, part of the identity of a score")
    if torch.cuda.is_available():
        names = [torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count())]
        yield Finding("GPU", "ok", ", ".join(names), "use --device cuda")
    else:
        why = "torch is built without CUDA" if torch.version.cuda is None else "torch finds none"
        yield Finding("GPU", "absent", why, "nothing needs one; --device cuda wants a GPU and a torch with CUDA")


def _data(given: str | None) -> Iterator[Finding]:
    from ..datasets.files.checks import check, status
    from ..datasets.files.registry import VARIABLE, data_folder, sources

    folder = data_folder(given)
    if folder.is_dir():
        yield Finding("data folder", "ok", str(folder))
    else:
        yield Finding("data folder", "absent", str(folder), f"set {VARIABLE} or --data; `zcbench data get` makes it")
    for name, source in sources().items():
        found = status(source, folder, check(source, folder, hashed=False))
        if found.state in {"present", "unverified"}:
            yield Finding(f"data {name}", "ok", found.note or found.state)
        else:
            said = found.note or source.what
            yield Finding(
                f"data {name}", found.state, said, f"{source.get.partition(' (')[0]}; see `zcbench data list`"
            )


def _extras() -> Iterator[Finding]:
    for package, purpose, extra in (
        ("matplotlib", "figures", "report"),
        ("codecarbon", "the energy of a search", "carbon"),
        ("ray", "workers on several machines", "cluster"),
        ("submitit", "jobs of SLURM", "cluster"),
    ):
        known = _version(package)
        do = "" if known else f'pip install "zcbench[{extra}]"'
        yield Finding(package, "ok" if known else "absent", f"{known}: {purpose}".removeprefix(": "), do)
    if sbatch := shutil.which("sbatch"):
        yield Finding("SLURM", "ok", sbatch, "use --cluster slurm")
    else:
        yield Finding("SLURM", "absent", "there is no sbatch", "--cluster slurm runs where sbatch is")
    yield _wandb()


def _wandb() -> Finding:
    from ..bench.report.tracking import mode

    name, known = "W&B", _version("wandb")
    if not known:
        return Finding(name, "absent", "wandb is not installed", "pip install wandb, or use --tracker none")
    try:
        now = mode()
    except Exception as error:  # whatever it raises, no mirror is made
        return Finding(name, "absent", f"{known} gives no settings: {in_words(error)}", "use --tracker none")
    if now == "online":
        return Finding(name, "ok", f"{known}, logged in", "runs are mirrored there; --tracker none turns it off")
    if now == "offline":
        return Finding(
            name, "ok", f"{known}, not logged in: mirrors stay on this machine", "`wandb login` or WANDB_API_KEY"
        )
    return Finding(name, "absent", f"{known}, turned off: WANDB_MODE is {now}", "unset WANDB_MODE to have mirrors")


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""
