"""Sums of jacob_cov and the root of zen, as values: a formula from symbolic regression and its first terms."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from .aggregate import Vector, aggregate

NAMED = "found by symbolic regression over the scores of NAS-Bench-Suite-Zero, published as a program without a paper"
CHOSEN = "chosen on NAS-Bench-201, CIFAR-10, CIFAR-100 and ImageNet16-120"


def _millions(scores: Mapping[str, Vector]) -> Vector:
    return scores["macs"] / 1e6


@aggregate(
    "jacob_cov_zen",
    of=["jacob_cov", "zen"],
    over="values",
    paper="ours, 2026: the first two terms of jacob_cov_zen.symbolic",
    tuned_on=CHOSEN,
)
def jacob_cov_zen(scores: Mapping[str, Vector]) -> Vector:
    r"""Add the root of zen to jacob_cov.

    $$J + \sqrt{Z}$$

    Here J is jacob_cov, which is negative, and Z is zen. A network whose zen is negative or `-inf` has no score. Both
    are values and not ranks, so the score of a network does not depend on the pool. It depends on the batch size: J of
    N images is -N at best, so the two terms have the sizes of the formula for 64 images only.

    The values are those of NASLib: its `jacov` is jacob_cov to the last digits, and its `zen` has a Spearman's rho of
    1.00 with zen and a slope of 1.01 (24 networks). On NASLib's stored scores of 9,445 networks of NAS-Bench-201,
    Kendall's tau with the accuracy is .713 (CIFAR-10), .722 (CIFAR-100) and .671 (ImageNet16-120). The terms were
    chosen on these networks.
    """
    with np.errstate(invalid="ignore"):
        total: Vector = scores["jacob_cov"] + np.sqrt(scores["zen"])
    return total


@aggregate(
    "jacob_cov_zen.macs",
    of=["jacob_cov", "zen", "macs"],
    over="values",
    paper="ours, 2026: three terms of jacob_cov_zen.symbolic",
    tuned_on=CHOSEN,
)
def jacob_cov_zen_macs(scores: Mapping[str, Vector]) -> Vector:
    r"""Add the root of zen and jacob_cov over MACs to jacob_cov.

    $$J + \sqrt{Z} + \frac{J}{F}$$

    Here F are the multiply-accumulates in millions; J and Z are as in jacob_cov_zen. NASLib's `flops` are those of
    macs in millions plus 3 (its slope is 0.998), since they count poolings and norms too. On NASLib's stored scores
    Kendall's tau is .742, .743 and .688 with NASLib's `flops`, and .744, .745 and .690 with macs.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        total: Vector = jacob_cov_zen(scores) + scores["jacob_cov"] / _millions(scores)
    return total


@aggregate(
    "jacob_cov_zen.symbolic",
    of=["jacob_cov", "zen", "plain", "macs"],
    over="values",
    paper=NAMED,
    tuned_on="fitted on NASLib's scores of networks of NAS-Bench-201",
)
def jacob_cov_zen_symbolic(scores: Mapping[str, Vector]) -> Vector:
    r"""Combine jacob_cov, zen, plain and MACs by a formula from symbolic regression.

    $$J + \sqrt{Z} - 4 p + \frac{2 J}{Z} + \frac{4 J}{F} + \frac{J}{Z F}$$

    Here p is plain; the others are as in jacob_cov_zen.macs. On NASLib's stored scores of 9,445 networks of
    NAS-Bench-201, Kendall's tau with the accuracy is .769 (CIFAR-10), .756 (CIFAR-100) and .699 (ImageNet16-120).
    plain is a sum that all but cancels: two batches of images order networks differently by it.

    Deviation: the program has one more term, the logarithm of jacob_cov over grad_norm. That ratio is never positive,
    and a logarithm of symbolic regression gives 0 there: without the term, the coefficients are those published to the
    last digit. So the term and grad_norm are left out.
    """
    jacob_cov, zen, flops = scores["jacob_cov"], scores["zen"], _millions(scores)
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = 2 * jacob_cov / zen + 4 * jacob_cov / flops + jacob_cov / (zen * flops)
        total: Vector = jacob_cov_zen(scores) - 4 * scores["plain"] + quotients
    return total
