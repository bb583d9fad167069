"""The environment that scores are computed in: versions of packages, and the machine."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch


def environment() -> dict[str, str]:
    """Return the versions of Python and of packages, and the machine."""
    packages = ("zcbench", "torch", "pytorch-lightning", "numpy", "scipy", "pandas", "pyarrow")
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
        "system": platform.platform(),
    }


def _processor() -> str:
    """Return the model of the processor. It matters because libraries split sums by the size of its caches."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    known = [found[name] for name in ("model name", "cpu family", "model", "stepping", "cache size") if name in found]
    return " ".join(known) or platform.processor()
