"""The product of two ranks, those of jacob_cov and of the number of parameters."""

from __future__ import annotations

from collections.abc import Mapping

from .aggregate import Vector, aggregate, ranks


@aggregate(
    "jacob_cov_params",
    of=["jacob_cov", "params"],
    paper="ours, 2026",
    tuned_on="chosen on NAS-Bench-201, CIFAR-10, CIFAR-100 and ImageNet16-120",
)
def jacob_cov_params(scores: Mapping[str, Vector]) -> Vector:
    r"""Multiply a network's rank in jacob_cov by its rank in params.

    $$r(\text{jacob\_cov}) \cdot r(\text{params})$$

    Here r is the rank among the networks of the pool, 1 for the worst. Scores change with the pool. On NASLib's stored
    scores of 9,445 networks of NAS-Bench-201, Kendall's tau with the accuracy is .765 (CIFAR-10), .750 (CIFAR-100) and
    .706 (ImageNet16-120). The two proxies were chosen on these networks.
    """
    product: Vector = ranks(scores["jacob_cov"]) * ranks(scores["params"])
    return product
