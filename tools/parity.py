"""Comparison of the proxies with values of the authors' code on stored weights and batches.

    python -m zcbench.tools.parity FOLDER [FOLDER ...]
    python -m zcbench.tools.parity --json FOLDER [FOLDER ...] > bench/report/parity.json

A folder has `nets/*.npz` (weights by name, in definition order) and `values.csv` (net, batch, proxy, variant, value).
The command prints a Markdown table with one line per proxy and variant, or JSON with one record per proxy, from which
the leaderboard marks the proxies that agree.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import json
import math
import random
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..proxies import PROXIES
from ..proxies.az_expressivity import NOISE, entropy_taps
from ..proxies.az_trainability import gains
from ..proxies.eznas_a import SIGNS, SIGNS_AS_RELEASED
from ..proxies.eznas_b import outputs
from ..proxies.hnas import condition
from ..proxies.meco import EVERY, meco_opt
from ..proxies.ntk_trace import PRODUCTS, kernel_as_released
from ..proxies.passes import DATA, Backward, Forward, Logits, Need, Tap, Variances, inputs
from ..proxies.passes.inputs import Input
from ..proxies.passes.objectives import SUM
from ..proxies.passes.taps import relus
from ..proxies.probe import Probe
from ..proxies.swap import PATTERNS
from ..proxies.vkdnw import entropy_as_released, jacobians
from ..proxies.zen import PAIR, features
from ..spaces.nb201.network import Network, parse


@dataclass(frozen=True)
class Case:
    """A value of the reference that a proxy has to equal within a tolerance.

    Attributes:
        proxy: Name of the proxy.
        reference: Name of the authors' function, as in `values.csv`.
        variant: Settings of the authors' function, as in `values.csv`.
        tolerance: Largest explained relative difference, for networks of one cell per stage and of five.
        compute: Function from a probe to our value; the proxy by default.
        dtype: Type of network and batch.
        scale: Reference proxy whose size the round-off is proportional to; empty for the value itself.
        batch: Only kind of images that the case is for: `one`, `noise` or `data`; empty for any.
        without: Text in the name or architecture of networks that the case is not for.
    """

    proxy: str
    reference: str
    variant: str
    tolerance: tuple[float, float]
    compute: Callable[[Probe], float] | None = None
    dtype: torch.dtype = torch.float32
    scale: str = ""
    batch: str = ""
    without: str = ""


@dataclass(frozen=True)
class Comparison:
    """One value beside its reference."""

    case: Case
    net: str
    batch: str
    expected: float
    value: float
    difference: float
    tolerance: float


# float64 agrees to round-off. In float32, channels-last batch norm sums in another order than the reference's, and a
# ReLU whose input is near zero may flip; depth amplifies that.
_EXACT = (0.0, 0.0)
_DOUBLE = (2e-9, 2e-9)
_SINGLE = (1e-3, 2e-2)
_COUNTS = (4e-7, 4e-7)  # the reference sums its kernel in float32
# Singular sign matrices get a tiny determinant of random sign in the reference, which changes from one CPU to the next.
_LU_ROUND_OFF = (1e-1, 1e-1)

_DEAD = "n08_unreachable_output"  # both values are a quotient of round-off there
_FLIPS = (2e-3, 2e-3)  # units whose input is near zero for some image
#: Values of the authors' code for NaN, by proxy.
_STANDS_FOR_NAN = {
    "ntk_condition": 1e5,
    "ntk_condition.eval": 1e5,
    "az_expressivity": -math.inf,
    "az_progressivity": -math.inf,
}
#: Tolerances of particular proxies, instead of those for all.
_PARTICULAR = {
    ("epe_nas", torch.float32): (2e-2, 2e-2),  # logarithms of correlations near zero
    ("fisher", torch.float64): (5e-7, 5e-7),  # the reference holds its channel values in float32
    ("naswot_conv.eval", torch.float64): (5e-8, 5e-8),  # the reference sums its kernel in float32
    ("naswot_conv.eval", torch.float32): (1e-5, 1e-4),
    ("naswot", torch.float32): _COUNTS,
    ("naswot.as_released", torch.float32): _COUNTS,
    ("zico", torch.float32): (5e-2, 5e-2),  # divides by differences of nearly equal gradients
    ("zico", torch.float64): (1e-6, 1e-6),
    ("ntk_condition", torch.float32): (1e-2, 1e-2),
    ("ntk_condition.eval", torch.float32): (1e-2, 1e-2),
    ("grasp", torch.float32): (1e-3, 1e-1),  # second derivatives of networks that explode
    ("hnas.as_released", torch.float32): (1e-2, 5e-2),  # the smallest eigenvalue in float32
    ("gradsign", torch.float32): (1e-4, 1e-3),  # signs of gradients near zero
    ("az_progressivity", torch.float32): (1e-3, 1e-2),  # a difference of nearly equal values
}


def _both(
    proxy: str,
    reference: str,
    variant: str = "",
    compute: Callable[[Probe], float] | None = None,
    single: tuple[float, float] = _SINGLE,
    **options: Any,
) -> list[Case]:
    """Return a case in float64 and one in float32, whose tolerance is `single`."""
    return [
        Case(proxy, reference, f"{variant}{name}", tolerance, compute, dtype, **options)
        for name, dtype, tolerance in (("float64", torch.float64, _DOUBLE), ("float32", torch.float32, single))
    ]


def _hnas_condition(probe: Probe) -> float:
    return condition(kernel_as_released(probe.read(PRODUCTS)))


def _reading(name: str, **needs: Need) -> Callable[[Probe], float]:
    """Return the function that computes a proxy from other values than it reads, by the name of the parameter."""

    def compute(probe: Probe) -> float:
        given = {**PROXIES[name].given, **needs}
        return PROXIES[name].function(**{parameter: probe.read(need) for parameter, need in given.items()})

    return compute


def _vkdnw_entropy(probe: Probe) -> float:
    in_eval_mode = Forward(inputs=(inputs.NOISE,), mode="eval")
    return entropy_as_released(probe.read(jacobians(in_eval_mode)), probe.read(Logits(in_eval_mode)))


def _az_nas(name: str, forward: Forward) -> Callable[[Probe], float]:
    if name == "az_trainability":
        return _reading(name, gains=gains(forward))
    stem, blocks = entropy_taps(forward)
    return _reading(name, stem=stem, outputs=blocks)


def _meco_opt_as_drawn(probe: Probe) -> float:
    """Compute meco.opt with channels drawn as in the reference, by Python's generator."""
    draw = random.Random(0)
    return meco_opt(probe.read(EVERY), choose=lambda channels, count: draw.sample(range(channels), count))


def _millions(name: str, probe: Probe) -> float:
    return PROXIES[name](probe) / 1e6


_PATTERNS_AS_GIVEN = Tap(Forward(graph=False), at=relus, reduce=PATTERNS.reduce)
_PAIR_AS_GIVEN = dataclasses.replace(PAIR, init="given")
_ZEN_AS_GIVEN = _reading(
    "zen",
    pooled=features(_PAIR_AS_GIVEN)[0],
    last=features(_PAIR_AS_GIVEN)[1],
    variances=Variances(_PAIR_AS_GIVEN),
)
_EZNAS_AS_GIVEN, _RELEASED_AS_GIVEN = (
    _reading(name, scores=dataclasses.replace(tap, of=Backward(DATA, SUM)))
    for name, tap in (("eznas_a", SIGNS), ("eznas_a.as_released", SIGNS_AS_RELEASED))
)
_EZNAS_B_AS_GIVEN = _reading("eznas_b", maps=outputs("given"))
_AZ_ENTROPIES = ("az_expressivity", "az_progressivity")
_AZ_NAS = (*_AZ_ENTROPIES, "az_trainability")
_AZ_DRAWS: dict[str, Input] = {"data": inputs.DATA, "noise": inputs.NOISE}
_AZ_IMAGES = {"data": DATA, "noise": dataclasses.replace(NOISE, init="given")}

_CASES = (
    *_both("grad_norm", "grad_norm"),
    *_both("snip", "snip"),
    *_both("jacob_cov", "jacob_cov"),
    *_both("jacob_cov", "jacov"),
    *_both("l2_norm", "l2_norm"),
    *_both("epe_nas", "epe_nas"),
    *_both("fisher", "fisher"),
    *_both("gradsign", "gradsign"),
    *_both("synflow", "synflow"),
    Case("synflow", "synflow", "naslib_before_log", _DOUBLE),
    *_both("synflow.bn", "synflow_bn"),
    *_both("zico", "zico", "2_batches_of_8."),
    *_both("zico.b4", "zico", "4_batches_of_4."),
    # These are sums of signed terms that cancel, so their round-off is proportional to another score.
    *_both("plain", "plain", scale="snip"),
    *_both("grasp", "grasp", scale="grad_norm"),
    *_both("naswot", "nwot", "relu_modules_only."),
    *_both("naswot.as_released", "nwot", "reluconvbn_containers_hooked_too."),
    Case("naswot", "naswot_hook_logdet", "relu_modules_only", _COUNTS),
    Case("naswot.as_released", "naswot_hook_logdet", "as_released_containers_hooked_too", _COUNTS),
    *_both("naswot_conv.eval", "nwot_conv", "alethiometer.eval."),
    Case("swap", "swap", "weights_as_given", _FLIPS, _reading("swap", patterns=_PATTERNS_AS_GIVEN)),
    Case("near", "near", "start_row_0", (1e-4, 1e-3)),
    *_both("meco.as_released", "meco"),
    # The reference builds modules for the operation `none` and draws channels for them too.
    Case("meco.opt", "meco_opt", "random_seed0.float32", (1e-3, 1e-3), _meco_opt_as_drawn, without="none"),
    *_both("ntk_condition", "te_nas_ntk_cond", "train."),
    *_both("ntk_condition.eval", "te_nas_ntk_cond", "eval."),
    *_both("ntk_trace.as_released", "hnas_ntk_trace"),
    *_both("hnas.as_released", "hnas_condnum", "", _hnas_condition, without=_DEAD),
    Case(
        "vkdnw.as_released",
        "vkdnw_entropy",
        "weights_as_given.p1.float64",
        (2e-4, 2e-4),  # the constants of the reference are float16, and so is their arithmetic
        _vkdnw_entropy,
        torch.float64,
        batch="noise",
        without=_DEAD,
    ),
    Case("params", "params", "autodl_get_model_infos", _EXACT, partial(_millions, "params")),
    Case("macs", "flops", "autodl_get_model_infos", _EXACT, partial(_millions, "macs")),
    Case("vkdnw_dim", "vkdnw_dim", "weights_as_given.p1", _EXACT),
    Case("zen", "zen", "weights_as_given.after_lastact", (1e-5, 1e-4), _ZEN_AS_GIVEN),
    Case("zen", "zen", "gaussian_init_seed0.after_lastact", (1e-5, 1e-4)),
    Case("zen", "zen", "weights_as_given.after_lastact.float64", _DOUBLE, _ZEN_AS_GIVEN, torch.float64),
    Case("eznas_a", "eznas_a", "weights_as_given", _LU_ROUND_OFF, _EZNAS_AS_GIVEN),
    Case("eznas_a", "eznas_a", "eznas_init_seed0", _LU_ROUND_OFF),
    Case("eznas_a", "eznas_a", "weights_as_given.float64", _LU_ROUND_OFF, _EZNAS_AS_GIVEN, torch.float64),
    Case("eznas_a.as_released", "eznas_a", "weights_as_given", _LU_ROUND_OFF, _RELEASED_AS_GIVEN),
    Case("eznas_a.as_released", "eznas_a", "eznas_init_seed0", _LU_ROUND_OFF),
    # For sixteen images the float32 of the reference underflows to zero.
    Case(
        "eznas_b", "eznas_b", "weights_as_given", (5e-3, 5e-2), _reading("eznas_b", maps=outputs("given")), batch="one"
    ),
    Case("eznas_b", "eznas_b", "eznas_init_seed0", (5e-3, 5e-2), batch="one"),
    *(
        case
        for name in _AZ_NAS
        for kind, images in _AZ_IMAGES.items()
        for case in _both(name, name, "weights_as_given.", _az_nas(name, images), (1e-3, 1e-2), batch=kind)
    ),
    *(
        Case(
            name,
            name,
            "kaiming_fanin_seed0.float32",
            (1e-4, 1e-2),
            _az_nas(name, dataclasses.replace(NOISE, inputs=(made,))),
            batch=kind,
        )
        for name in _AZ_ENTROPIES
        for kind, made in _AZ_DRAWS.items()
    ),
)


def load(path: Path) -> Network:
    """Return a stored network with its weights and buffers."""
    with np.load(path, allow_pickle=False) as stored:
        net = Network(parse(str(stored["arch_str"])), int(stored["num_classes"]), int(stored["C"]), int(stored["N"]))
        keys = [str(key) for key in stored["keys"]]
        state = net.state_dict()
        net.load_state_dict({ours: torch.from_numpy(stored[key]) for ours, key in zip(state, keys, strict=True)})
    return net


def _architecture(path: Path) -> str:
    with np.load(path, allow_pickle=False) as stored:
        return str(stored["arch_str"])


def batches(folder: Path) -> dict[str, tuple[Tensor, Tensor]]:
    """Return images and labels, and the two noise tensors, by their names in `values.csv`."""
    if (folder / "recipe.json").exists():
        drawn = [torch.randn(16, 3, 32, 32, generator=torch.Generator().manual_seed(seed)) for seed in (7, 8, 9)]
        labels = torch.arange(16) % 10
        return {name: (x, labels) for name, x in zip(("synthetic_16", "noise", "noise2"), drawn, strict=True)}
    stored = {}
    for name, file in (
        ("cifar10_16", "batch_cifar10_16"),
        ("cifar10_64", "batch_cifar10_64"),
        ("noise", "noise_16"),
        ("noise2", "noise2_16"),
    ):
        with np.load(folder.parent / f"{file}.npz", allow_pickle=False) as arrays:
            labels = torch.from_numpy(arrays["y"]) if "y" in arrays else torch.zeros(16, dtype=torch.int64)
            stored[name] = (torch.from_numpy(arrays["x"]), labels)
    return stored


def signs(folder: Path, net: str) -> dict[str, Tensor]:
    """Return the random signs that the AZ-NAS reference sends back from feature map i, as `signs[i]`."""
    if (recipe := folder / "recipe.json").exists():
        generator = torch.Generator().manual_seed(0)
        draws = [(d["feature"], d["shape"]) for d in json.loads(recipe.read_text())["az_signs"]["draws"]]
        half = {f: torch.bernoulli(torch.full(shape, 0.5), generator=generator) for f, shape in draws}
        return {f"signs[{feature}]": 2 * drawn - 1 for feature, drawn in half.items()}
    path = folder.parent / f"aznas_signs_16_{'N5' if 'N5' in net else 'N1'}.npz"
    with np.load(path, allow_pickle=False) as arrays:
        return {f"signs[{int(key.rpartition('feature')[2])}]": torch.from_numpy(arrays[key]) for key in arrays}


def compare(
    folder: Path, nets: Collection[str] | None = None, leave_out: Collection[tuple[str, str]] = ()
) -> Iterator[Comparison]:
    """Yield the comparisons with all values of a reference folder, or of some of its networks.

    Args:
        folder: Folder of the reference.
        nets: Names of the networks; all by default.
        leave_out: Names of proxies and images that are not compared.
    """
    cases: dict[tuple[str, str], list[Case]] = {}
    for case in _CASES:
        cases.setdefault((case.reference, case.variant), []).append(case)
    with (folder / "values.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    known = batches(folder)
    known |= {f"{name}[:1]": (x[:1], y[:1]) for name, (x, y) in known.items()}
    sizes = {(r["net"], r["batch"], r["proxy"]): _number(r["value"]) for r in rows if r["variant"] == "float64"}
    wanted = [
        (row, case)
        for row in rows
        for case in cases.get((row["proxy"], row["variant"]), [])
        if case.batch in {"", _kind(row["batch"])} and (nets is None or row["net"] in nets)
        if (case.proxy, row["batch"]) not in leave_out
        if not case.without or case.without not in row["net"] + _architecture(folder / "nets" / f"{row['net']}.npz")
    ]

    def probed(item: tuple[dict[str, str], Case]) -> tuple[str, str, str]:
        """Return the network, images and dtype of the probe that an item needs."""
        first = item[0]["batch"].split("+")[0]
        images = first if first.removesuffix("[:1]") in known else next(iter(known))
        return item[0]["net"], images, str(item[1].dtype)

    for (net, images, _), items in itertools.groupby(sorted(wanted, key=probed), key=probed):
        group = list(items)
        drawn = {name: known[name][0] for name in ("noise", "noise2")} | signs(folder, net)
        probe = _probe(folder / "nets" / f"{net}.npz", known[images], drawn, [case for _, case in group], images)
        for row, case in group:
            expected = _number(row["value"], _STANDS_FOR_NAN.get(case.proxy))
            value = (case.compute or PROXIES[case.proxy])(probe)
            difference = _difference(value, expected, sizes.get((net, row["batch"], case.scale), expected))
            tolerance = _PARTICULAR.get((case.proxy, case.dtype), case.tolerance)["N5" in net]
            yield Comparison(case, net, row["batch"], expected, value, difference, tolerance)


def _kind(batch: str) -> str:
    """Return the kind of images that a name in `values.csv` means: `one` image, `noise`, or `data`."""
    if "[:1]" in batch:
        return "one"
    return "noise" if batch.startswith("noise") else "data"


def _probe(path: Path, batch: tuple[Tensor, Tensor], drawn: dict[str, Tensor], cases: list[Case], name: str) -> Probe:
    dtype = cases[0].dtype
    drawn = {key: tensor.to(dtype) for key, tensor in drawn.items()}
    if "[:1]" in name:
        drawn = {key: tensor[:1] for key, tensor in drawn.items()}
    plan = [need for name in {case.proxy: None for case in cases} for need in PROXIES[name].needs]
    x = batch[0].to(dtype, memory_format=torch.channels_last)
    return Probe(load(path).to(dtype), x, batch[1], plan=plan, inputs=drawn)


def _number(text: str, stands_for_nan: float | None = None) -> float:
    # An empty field means that the reference raised an error.
    value = float(text) if text else math.nan
    return math.nan if value == stands_for_nan else value


def _difference(value: float, expected: float, size: float) -> float:
    if value == expected or (math.isnan(value) and math.isnan(expected)):
        return 0.0
    if not (math.isfinite(value) and math.isfinite(expected)):
        return math.inf
    return abs(value - expected) / max(abs(size), abs(expected), 1e-300)


def table(comparisons: list[Comparison]) -> str:
    """Return the largest differences as a Markdown table."""
    lines = [
        "| proxy | reference | variant | values | largest relative difference | allowed |",
        "|---|---|---|---|---|---|",
    ]
    groups: dict[tuple[Any, ...], list[Comparison]] = {}
    for c in comparisons:
        depth = "five cells per stage" if "N5" in c.net else "one cell per stage"
        groups.setdefault((c.case.proxy, c.case.reference, f"{c.case.variant}, {depth}"), []).append(c)
    for key, group in sorted(groups.items()):
        worst = max(group, key=lambda c: c.difference)
        lines.append(f"| {' | '.join(key)} | {len(group)} | {worst.difference:.1e} | {worst.tolerance:.0e} |")
    return "\n".join(lines) + "\n"


def summary(comparisons: list[Comparison]) -> str:
    """Return the largest difference of every proxy as JSON: in float64 if it was compared in float64."""
    lines = []
    for proxy in sorted({c.case.proxy for c in comparisons}):
        own = [c for c in comparisons if c.case.proxy == proxy]
        double = [c for c in own if c.case.dtype == torch.float64]
        largest = f"{max(c.difference for c in double or own):.1e}"
        record = {"values": len(own), "largest": float(largest), "precision": "float64" if double else "float32"}
        lines.append(f" {json.dumps(proxy)}: {json.dumps(record)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    torch.set_num_threads(1)
    write = summary if "--json" in sys.argv else table
    folders = [name for name in sys.argv[1:] if name != "--json"]
    sys.stdout.write(write([c for folder in folders for c in compare(Path(folder))]))
