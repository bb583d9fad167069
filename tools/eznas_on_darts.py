"""How the parts of eznas_a rank DARTS networks of one size, and networks whose width and depth vary.

    python -m zcbench.tools.eznas_on_darts > docs/eznas_on_darts.csv      # 4 minutes of one core
    python -m zcbench.tools.eznas_on_darts docs/eznas_on_darts.csv        # the tables of docs/eznas_on_darts.md

The networks are of `darts_trained`. A row of the file is a network with the sums over its ReLU-Conv-BatchNorm triples.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from ..bench.stats.bootstrap import bootstrap, by_network, interval, resamples
from ..bench.stats.coefficients import kendall
from ..datasets import DATASETS, TASKS, data_folder
from ..errors import DataFileError
from ..progress import Progress
from ..proxies.eznas_a import SIGNS, channels, fits_a_cell
from ..proxies.probe import Probe
from ..spaces.cells import Network, Skeleton, sizes
from ..spaces.darts import DartsTrained

TASK = TASKS["cifar10"]
#: Networks of one width and depth on one image, of these some on 16 images, and of these some of other sizes.
FIXED, ON_16, VARIED = 150, 60, 150
WIDTHS, DEPTHS = (16, 48), (4, 20)

Row = dict[str, float]


def settings() -> Iterator[tuple[str, int, int, int, int]]:
    """Yield the part, the place in the sample, the number of images, the width and the depth of all networks."""
    space, random = DartsTrained, np.random.RandomState(0)
    yield from (("fixed", place, 1, space.width, space.depth) for place in range(FIXED))
    yield from (("16 images", place, 16, space.width, space.depth) for place in range(ON_16))
    for place in range(VARIED):
        width, depth = (int(random.randint(low, high + 1)) for low, high in (WIDTHS, DEPTHS))
        yield "varied", place, 1, width, depth


def measured() -> pd.DataFrame:
    """Return a row for every network.

    Raises:
        DataFileError: The list of networks or CIFAR-10 is absent.
    """
    space = DartsTrained(data_folder(None))
    sample = space.sample(FIXED)
    truth = space.truth("cifar10").values
    images = DATASETS["cifar10"](data_folder(None))
    batches = {count: images.probe_batch(count, 0).x for count in (1, 16)}
    wanted = list(settings())
    progress = Progress("scoring networks", len(wanted))
    rows = []
    for part, place, count, width, depth in wanted:
        index = sample[place]
        skeleton = Skeleton(space.genotype(space.architecture(index)), width, depth)
        found = {"part": part, "index": index, "width": width, "depth": depth, "accuracy": float(truth[index])}
        found |= sizes(skeleton, TASK.num_classes, TASK.image_size, space.style)._asdict()
        rows.append(found | sums(skeleton, batches[count]))
        progress.advance(1)
    progress.close()
    return pd.DataFrame(rows)


def sums(skeleton: Skeleton, x: torch.Tensor) -> Row:
    """Return the sums over all triples of a network, and over those that fit the inputs of cells."""
    torch.manual_seed(0)
    net = Network(skeleton, TASK.num_classes, DartsTrained.style)
    net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    triples = Probe(net, x, None, plan=[SIGNS]).read(SIGNS)
    inputs = fits_a_cell([place for place, _ in triples])
    scores = np.array([score for _, score in triples])
    roots = np.sqrt([channels(place) for place, _ in triples])
    fit = np.array([place in inputs for place, _ in triples])
    return {
        "triples": len(scores),
        "inputs": int(fit.sum()),
        "sum": scores.sum(),
        "sum_inputs": scores[fit].sum(),
        "sum_per_channel": (scores / roots).sum(),
    }


def combinations(rows: pd.DataFrame) -> dict[str, pd.Series]:
    """Return scores of the networks by name."""
    operations, count = rows["sum"] - rows["sum_inputs"], rows["triples"] - rows["inputs"]
    return {
        "`eznas_a`": rows["sum"] / rows["triples"],
        "`eznas_a.operations`": operations / count,
        "`eznas_a.per_channel`": rows["sum_per_channel"] / rows["triples"],
        "`eznas_a.sum`": rows["sum"],
        "mean over the input triples": rows["sum_inputs"] / rows["inputs"],
        "share of input triples": rows["inputs"] / rows["triples"],
        "number of triples": rows["triples"],
        "`params`": rows["params"],
        "`macs`": rows["macs"],
    }


def taus(scores: pd.Series, truth: pd.Series) -> tuple[float, NDArray[np.float64]]:
    """Return Kendall's tau, and that of every resample of the networks."""
    x, y = scores.to_numpy(float), truth.to_numpy(float)
    return kendall(x, y), bootstrap(x, y, by_network(resamples(len(x)), len(x)))[1]


def shown(value: float, drawn: NDArray[np.float64]) -> str:
    """Return a number with its 95 % interval."""
    return "{} [{} {}]".format(*(f"{number:.3f}".replace("0.", ".") for number in (value, *interval(drawn))))


def tau(scores: pd.Series, truth: pd.Series) -> str:
    """Return Kendall's tau with its 95 % interval over networks."""
    return shown(*taus(scores, truth))


def tables(rows: pd.DataFrame) -> str:
    """Return the tables of the page as Markdown."""
    fixed, on_16, varied = (rows[rows["part"] == part] for part in ("fixed", "16 images", "varied"))
    scores, wider = combinations(fixed), combinations(varied)["`eznas_a`"]
    lines = [f"| {len(fixed)} networks | tau with the accuracy | tau with params |", "| --- | --: | --: |"]
    lines += [f"| {n} | {tau(s, fixed['accuracy'])} | {tau(s, fixed['params'])} |" for n, s in scores.items()]
    lines += ["", f"| {len(on_16)} networks, tau with the accuracy | one image | 16 images |", "| --- | --: | --: |"]
    lines += _compared([fixed[fixed["index"].isin(on_16["index"])], on_16], "accuracy")
    lines += [
        "",
        f"| {len(varied)} networks, tau with params | 16 channels, 8 cells | both vary |",
        "| --- | --: | --: |",
    ]
    lines += _compared([fixed[fixed["index"].isin(varied["index"])], varied], "params")
    count, total = (fixed[name].sum() for name in ("triples", "sum"))
    inputs, of_inputs = (fixed[name].sum() for name in ("inputs", "sum_inputs"))
    rest = (total - of_inputs) / (count - inputs)
    (value, drawn), (other, others) = (taus(scores[n], fixed["accuracy"]) for n in ("`eznas_a.sum`", "`params`"))
    lines += [
        "",
        f"- Input triples: {inputs / count:.0%} of all triples and {of_inputs / total:.0%} of the sum.",
        f"- Mean of an input triple: {of_inputs / inputs:.2f}; of another one: {rest:.2f}.",
        f"- `eznas_a.sum` minus `params`, tau with the accuracy: {shown(value - other, drawn - others)}.",
        f"- `eznas_a` where both vary: tau with the width {tau(wider, varied['width'])}, "
        f"with the depth {tau(wider, varied['depth'])}.",
    ]
    return "\n".join(lines) + "\n"


def _compared(parts: list[pd.DataFrame], truth: str) -> list[str]:
    names = ("`eznas_a`", "`eznas_a.operations`", "`eznas_a.per_channel`", "`eznas_a.sum`")
    cells = [[tau(combinations(part)[name], part[truth]) for part in parts] for name in names]
    return [f"| {name} | {' | '.join(row)} |" for name, row in zip(names, cells, strict=True)]


def main() -> None:
    """Print the file of networks, or the tables of one."""
    if len(sys.argv) > 1:
        sys.stdout.write(tables(pd.read_csv(Path(sys.argv[1]))))
        return
    torch.set_num_threads(1)
    try:
        sys.stdout.write(measured().to_csv(index=False, float_format="%.9g"))
    except DataFileError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
