"""Compares proxies with values that the authors' own code gave on stored weights and batches.

    python -m zcbench.tools.parity FOLDER [FOLDER ...]

A folder holds `nets/*.npz` (weights by name, in definition order) and `values.csv` (net, batch, proxy, variant,
value). The command prints one line per proxy and variant, as Markdown.
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
from ..proxies.az_expressivity import NOISE, az_expressivity
from ..proxies.az_progressivity import az_progressivity
from ..proxies.az_trainability import az_trainability
from ..proxies.eznas_a import SIGNS, SIGNS_AS_RELEASED, eznas_a
from ..proxies.eznas_b import eznas_b, outputs
from ..proxies.hnas import condition
from ..proxies.meco import EVERY, meco_opt
from ..proxies.ntk_trace import kernel_as_released
from ..proxies.passes.needs import DATA, Backward, Forward, Tap, relus
from ..proxies.probe import Probe
from ..proxies.swap import PATTERNS, swap
from ..proxies.vkdnw import entropy_as_released
from ..proxies.zen import PAIR, zen
from ..spaces.nb201.network import Network, parse


@dataclass(frozen=True)
class Case:
    """Which of the reference's values a proxy has to equal, and how nearly.

    Attributes:
        proxy: Ours.
        reference: The name of the authors' function.
        variant: How it was run.
        dtype: Of network and batch.
        tolerance: Largest relative difference that has a reason, for one cell per stage and for five.
        compute: From a probe to our value.
        scale: The reference whose size round-off is proportional to, where that is not the value itself.
        stands_for_nan: What the authors' code writes for NaN.
        batch: The only kind of images it is for: `noise`, `data`, or either.
        without: It is not for networks whose name or architecture holds this.
    """

    proxy: str
    reference: str
    variant: str
    dtype: torch.dtype
    tolerance: tuple[float, float]
    compute: Callable[[Probe], float]
    scale: str | None = None
    stands_for_nan: float | None = None
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
_CHANNELS_IN_FLOAT32 = (5e-7, 5e-7)  # the reference holds its channel values in float32
_COUNTS = (4e-7, 4e-7)  # the reference sums its kernel in float32
# Singular sign matrices get a tiny determinant of random sign in the reference, which changes from one CPU to the next.
_LU_ROUND_OFF = (1e-1, 1e-1)

_DEAD = "n08_unreachable_output"  # round-off over round-off there
_FLIPS = (2e-3, 2e-3)  # units whose input is near zero for some image
_STANDS_FOR_NAN = {"te_nas_ntk_cond": 1e5, "az_expressivity": -math.inf, "az_progressivity": -math.inf}
_PARTICULAR = {
    ("epe_nas", "float32"): (2e-2, 2e-2),  # logarithms of correlations near zero
    ("nwot_conv", "float64"): (5e-8, 5e-8),  # the reference sums its kernel in float32
    ("nwot_conv", "float32"): (1e-5, 1e-4),
    ("nwot", "float32"): _COUNTS,
    ("zico", "float32"): (5e-2, 5e-2),  # nearly equal gradients divide by nearly nothing
    ("zico", "float64"): (1e-6, 1e-6),
    ("te_nas_ntk_cond", "float32"): (1e-2, 1e-2),
    ("grasp", "float32"): (1e-3, 1e-1),  # second derivatives of networks that explode
    ("hnas_condnum", "float32"): (1e-2, 5e-2),  # the smallest eigenvalue in float32
    ("gradsign", "float32"): (1e-4, 1e-3),  # signs of gradients near zero
    ("az_progressivity", "float32"): (1e-3, 1e-2),  # a difference of nearly equal numbers
}


def _cases() -> Iterator[Case]:
    for name in ("grad_norm", "snip", "jacob_cov", "l2_norm", "synflow", "epe_nas"):
        for dtype, tolerance in ((torch.float64, _DOUBLE), (torch.float32, _SINGLE)):
            variant = str(dtype).removeprefix("torch.")
            allowed = _PARTICULAR.get((name, variant), tolerance)
            yield Case(name, name, variant, dtype, allowed, PROXIES[name].function)
    for dtype, tolerance in ((torch.float64, _DOUBLE), (torch.float32, _SINGLE)):
        variant = str(dtype).removeprefix("torch.")
        yield Case("jacob_cov", "jacov", variant, dtype, tolerance, PROXIES["jacob_cov"].function)
        # A signed sum that cancels: its round-off goes with the sum of absolute values.
        yield Case("plain", "plain", variant, dtype, tolerance, PROXIES["plain"].function, scale="snip")
        yield Case(
            "naswot", "nwot", f"relu_modules_only.{variant}", dtype, (_DOUBLE, _COUNTS)[dtype == torch.float32], _naswot
        )
    yield Case("fisher", "fisher", "float64", torch.float64, _CHANNELS_IN_FLOAT32, PROXIES["fisher"].function)
    yield Case("fisher", "fisher", "float32", torch.float32, _SINGLE, PROXIES["fisher"].function)
    yield Case("naswot", "naswot_hook_logdet", "relu_modules_only", torch.float32, _COUNTS, _naswot)
    yield Case(
        "naswot.as_released",
        "naswot_hook_logdet",
        "as_released_containers_hooked_too",
        torch.float32,
        _COUNTS,
        PROXIES["naswot.as_released"].function,
    )
    yield Case("synflow", "synflow", "naslib_before_log", torch.float32, _DOUBLE, PROXIES["synflow"].function)
    yield Case("params", "params", "autodl_get_model_infos", torch.float32, _EXACT, partial(_millions, "params"))
    yield Case("macs", "flops", "autodl_get_model_infos", torch.float32, _EXACT, partial(_millions, "macs"))
    yield Case("vkdnw_dim", "vkdnw_dim", "weights_as_given.p1", torch.float32, _EXACT, PROXIES["vkdnw_dim"].function)
    given_patterns = Tap(Forward(graph=False), at=relus, reduce=PATTERNS.reduce)
    yield Case("swap", "swap", "weights_as_given", torch.float32, _FLIPS, partial(swap, patterns=given_patterns))
    for dtype, tolerance in ((torch.float64, _DOUBLE), (torch.float32, _SINGLE)):
        variant = str(dtype).removeprefix("torch.")
        for ours, theirs, how in (
            ("synflow.bn", "synflow_bn", variant),
            ("naswot_conv.eval", "nwot_conv", f"alethiometer.eval.{variant}"),
            ("naswot.as_released", "nwot", f"reluconvbn_containers_hooked_too.{variant}"),
            ("zico", "zico", f"2_batches_of_8.{variant}"),
            ("zico.b4", "zico", f"4_batches_of_4.{variant}"),
            ("ntk_condition", "te_nas_ntk_cond", f"train.{variant}"),
            ("ntk_condition.eval", "te_nas_ntk_cond", f"eval.{variant}"),
            ("gradsign", "gradsign", variant),
            ("ntk_trace.as_released", "hnas_ntk_trace", variant),
            ("meco.as_released", "meco", variant),
        ):
            yield Case(
                ours,
                theirs,
                how,
                dtype,
                tolerance if ours == "zico.b4" else _PARTICULAR.get((theirs, variant), tolerance),
                PROXIES[ours].function,
                None,
                _STANDS_FOR_NAN.get(theirs),
            )
        # A signed sum: its round-off goes with the gradient norm.
        yield Case(
            "grasp",
            "grasp",
            variant,
            dtype,
            _PARTICULAR.get(("grasp", variant), tolerance),
            PROXIES["grasp"].function,
            scale="grad_norm",
        )
    given = Forward(init="given", inputs=PAIR.inputs, graph=False)
    for variant, pair in (("weights_as_given", given), ("gaussian_init_seed0", PAIR)):
        yield Case("zen", "zen", f"{variant}.after_lastact", torch.float32, (1e-5, 1e-4), partial(zen, pair=pair))
    yield Case("zen", "zen", "weights_as_given.after_lastact.float64", torch.float64, _DOUBLE, partial(zen, pair=given))
    given_ones = Backward(DATA, "ones")
    for ours, tap in (("eznas_a", SIGNS), ("eznas_a.as_released", SIGNS_AS_RELEASED)):
        given_tap = dataclasses.replace(tap, source=given_ones)
        for variant, signs, dtype in (
            ("weights_as_given.float64", given_tap, torch.float64),
            ("weights_as_given", given_tap, torch.float32),
            ("eznas_init_seed0", tap, torch.float32),
        ):
            if ours == "eznas_a" or dtype == torch.float32:
                yield Case(ours, "eznas_a", variant, dtype, _LU_ROUND_OFF, partial(eznas_a, signs=signs))
    for variant, init in (("weights_as_given", "given"), ("eznas_init_seed0", "kaiming_fan_out")):
        # At sixteen images the reference's float32 underflows to zero.
        compute = partial(eznas_b, maps=outputs(init))
        yield Case("eznas_b", "eznas_b", variant, torch.float32, (5e-3, 5e-2), compute, batch="one")
    yield from _recent_cases()


def _recent_cases() -> Iterator[Case]:
    near = PROXIES["near"].function
    yield Case("near", "near", "start_row_0", torch.float32, (1e-4, 1e-3), near)
    replayed = partial(_meco_opt_as_drawn)
    # The reference builds modules for `none` and draws channels for them too.
    how = "random_seed0.float32"
    yield Case("meco.opt", "meco_opt", how, torch.float32, (1e-3, 1e-3), replayed, without="none")
    for dtype, tolerance in ((torch.float64, _DOUBLE), (torch.float32, (1e-3, 1e-2))):
        variant = str(dtype).removeprefix("torch.")
        allowed = _PARTICULAR.get(("hnas_condnum", variant), tolerance)
        yield Case("hnas.as_released", "hnas_condnum", variant, dtype, allowed, _released_condition, without=_DEAD)
        for kind, images in (("data", DATA), ("noise", dataclasses.replace(NOISE, init="given"))):
            for name, function in (
                ("az_expressivity", az_expressivity),
                ("az_progressivity", az_progressivity),
                ("az_trainability", az_trainability),
            ):
                allowed = _PARTICULAR.get((name, variant), tolerance)
                how = f"weights_as_given.{variant}"
                nan = _STANDS_FOR_NAN.get(name)
                yield Case(name, name, how, dtype, allowed, partial(function, forward=images), None, nan, kind)
    for kind, images in (("data", dataclasses.replace(NOISE, inputs=("data",))), ("noise", NOISE)):
        for name, entropies in (("az_expressivity", az_expressivity), ("az_progressivity", az_progressivity)):
            allowed = _PARTICULAR.get((name, "float32"), (1e-4, 1e-2))
            compute = partial(entropies, forward=images)
            how = "kaiming_fanin_seed0.float32"
            yield Case(name, name, how, torch.float32, allowed, compute, None, _STANDS_FOR_NAN[name], kind)
    eval_on_noise = Forward(inputs=("noise",), mode="eval")
    released = partial(entropy_as_released, forward=eval_on_noise)
    yield Case(
        "vkdnw.as_released",
        "vkdnw_entropy",
        "weights_as_given.p1.float64",
        torch.float64,
        (2e-4, 2e-4),  # the constants of the reference are float16, and so is their arithmetic
        released,
        batch="noise",
        without=_DEAD,
    )


def _released_condition(probe: Probe) -> float:
    return condition(kernel_as_released(probe))


def _meco_opt_as_drawn(probe: Probe) -> float:
    """Draw channels as the reference did, from Python's generator."""
    draw = random.Random(0)
    return meco_opt(probe, choose=lambda channels, count: draw.sample(range(channels), count), maps=EVERY)


def _naswot(probe: Probe) -> float:
    return PROXIES["naswot"].function(probe)


def _millions(name: str, probe: Probe) -> float:
    return PROXIES[name].function(probe) / 1e6


def load(path: Path) -> Network:
    """Build a stored network and fill in its weights and buffers."""
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
    """Return images and labels by the name that `values.csv` gives them, and the two noise tensors."""
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
    """Return the random signs that the AZ-NAS reference sent back from feature map i, as `signs[i]`."""
    if (recipe := folder / "recipe.json").exists():
        generator = torch.Generator().manual_seed(0)
        draws = [(d["feature"], d["shape"]) for d in json.loads(recipe.read_text())["az_signs"]["draws"]]
        half = {f: torch.bernoulli(torch.full(shape, 0.5), generator=generator) for f, shape in draws}
        return {f"signs[{feature}]": 2 * drawn - 1 for feature, drawn in half.items()}
    path = folder.parent / f"aznas_signs_16_{'N5' if 'N5' in net else 'N1'}.npz"
    with np.load(path, allow_pickle=False) as arrays:
        return {f"signs[{int(key.rpartition('feature')[2])}]": torch.from_numpy(arrays[key]) for key in arrays}


def compare(folder: Path, nets: Collection[str] | None = None) -> Iterator[Comparison]:
    """Yield every value of a reference folder, or of some of its networks, that one of our proxies has to equal."""
    cases: dict[tuple[str, str], list[Case]] = {}
    for case in _cases():
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
        if not case.without or case.without not in row["net"] + _architecture(folder / "nets" / f"{row['net']}.npz")
    ]

    def probed(item: tuple[dict[str, str], Case]) -> tuple[str, str, str]:
        """Return what one probe serves: a network, its images, a dtype."""
        first = item[0]["batch"].split("+")[0]
        images = first if first.removesuffix("[:1]") in known else next(iter(known))
        return item[0]["net"], images, str(item[1].dtype)

    for (net, images, _), items in itertools.groupby(sorted(wanted, key=probed), key=probed):
        group = list(items)
        drawn = {name: known[name][0] for name in ("noise", "noise2")} | signs(folder, net)
        probe = _probe(folder / "nets" / f"{net}.npz", known[images], drawn, [case for _, case in group], images)
        for row, case in group:
            expected = _number(row["value"], case.stands_for_nan)
            value = case.compute(probe)
            size = sizes.get((net, row["batch"], case.scale or ""), expected)
            difference = _difference(value, expected, size)
            yield Comparison(case, net, row["batch"], expected, value, difference, case.tolerance["N5" in net])


def _kind(batch: str) -> str:
    """Return which images a name in `values.csv` means: `one` image, `noise`, or `data`."""
    if "[:1]" in batch:
        return "one"
    return "noise" if batch.startswith("noise") else "data"


def _probe(path: Path, batch: tuple[Tensor, Tensor], drawn: dict[str, Tensor], cases: list[Case], name: str) -> Probe:
    dtype = cases[0].dtype
    inputs = {key: tensor.to(dtype) for key, tensor in drawn.items()}
    if "[:1]" in name:
        inputs = {key: tensor[:1] for key, tensor in inputs.items()}
    plan = [need for name in {case.proxy: None for case in cases} for need in PROXIES[name].needs]
    return Probe(load(path).to(dtype), batch[0].to(dtype), batch[1], plan=plan, inputs=inputs)


def _number(text: str, stands_for_nan: float | None = None) -> float:
    # An empty field: the reference raised an error there.
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


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.stdout.write(table([c for folder in sys.argv[1:] for c in compare(Path(folder))]))
