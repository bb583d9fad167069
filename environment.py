"""The environment that scores are computed in: versions of packages, and the machine."""

from __future__ import annotations

import platform
from importlib.metadata import version
from pathlib import Path

import torch


def environment() -> dict[str, str]:
    """Return the versions of Python and of packages, and the machine."""
    packages = ("zcbench", "torch", "pytorch-lightning", "numpy", "scipy", "pandas", "pyarrow", "duckdb")
    return {
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
        "machine": platform.machine(),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "processor": _processor(),
        "system": platform.platform(),
    }


def device_text(kind: str, precision: str = "float32") -> str:
    """Return what the digits of a score depend on: the class of device, what tells its machines apart, the precision.

    Two sets of instructions, as AVX2 and AVX-512, sum in different orders, and so do two models of GPU.

    Args:
        kind: Class of device, `cpu` or `cuda`.
        precision: Precision of networks and images; float32 is not written.
    """
    if kind == "cuda":
        own = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    else:
        own = torch.backends.cpu.get_cpu_capability()
    return " ".join(filter(None, (kind, own, "" if precision == "float32" else precision)))


def matching(device: str) -> str:
    """Return the pattern of SQL's LIKE that the device of a row has; a class of device stands for all its machines.

    >>> matching("cpu AVX2"), matching("cpu"), matching("cpu float64")
    ('cpu AVX2', 'cpu%', 'cpu% float64')
    """
    if device != device_class(device):
        return device
    kind, *precision = device.split()
    return " ".join([f"{kind}%", *precision])


def device_class(device: str) -> str:
    """Return the class of a device and the precision, from the text of `device_text`.

    >>> device_class("cuda NVIDIA H200 float64"), device_class("cpu AVX2"), device_class("cpu")
    ('cuda float64', 'cpu', 'cpu')
    """
    kind, *others = device.split()
    return " ".join([kind, *(word for word in others[-1:] if word.startswith("float"))])


def torch_release(version_text: str = torch.__version__) -> str:
    """Return the release of torch without its local part: the digits of convolutions move between releases.

    >>> torch_release("2.13.0+cpu")
    '2.13.0'
    """
    return str(version_text).partition("+")[0]


def _processor() -> str:
    """Return the model of the processor. It matters because libraries split sums by the size of its caches."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").partition("\n\n")[0].splitlines()
    except OSError:
        return platform.processor()
    found = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    known = [found[name] for name in ("model name", "cpu family", "model", "stepping", "cache size") if name in found]
    return " ".join(known) or platform.processor()
