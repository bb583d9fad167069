r"""The search of HNAS (Shu et al., NeurIPS 2022): a bound of the generalisation error whose constants are fitted.

A network of a pool is chosen by the least of

$$\mu \, |M^2 - \nu^2| + \frac{\kappa}{M + 10^{-6}}$$

where M is a measure of gradients, one of four, and $\kappa$ the condition number of the neural tangent kernel of the
label logits. As in the released code, $\mu = 10^c$ with c in [-4, 0], $\nu$ in [0, 5000], and 20 pairs are tried, a
quarter of them drawn at random and the others by Bayesian optimisation with the expected improvement of the validation
accuracy. The margin of the expected improvement is 0 here. Deviation: the code chooses a network whose smallest
eigenvalue is a negative round-off, so that its condition number is far below zero; here that number is infinite.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...bench.stats.coefficients import spearman
from ...errors import ConfigError
from ...proxies.hnas import MU, NU
from ...spaces import Space
from .asks import METHODS, Method, Score, Search, Setting, Train
from .config import SearchConfig
from .outcome import Mean, grouped, mean
from .play import Run
from .sampling import check_pool, pool

Vector = NDArray[np.float64]

#: The measures that can be M. The paper's are the trace and the three that begin with `hnas`; with the same names, the
#: released code has sums over layers or over absolute values, which are `grad_norm`, `snip` and `grasp`.
METRICS = (
    *("ntk_trace", "ntk_trace.as_released", "hnas.grad", "hnas.snip", "hnas.grasp"),
    *("grad_norm", "snip", "grasp"),
)
#: Ends of the exponent of mu.
EXPONENTS = (-4.0, 0.0)
#: Share of the pairs that are drawn at random.
RANDOM = 0.25


def kernel(metric: str) -> tuple[str, str]:
    """Return the proxies that the condition number is worked out from: the criterion and the trace of one kernel.

    It is the kernel of the released code, but for the metric `ntk_trace`.

    Raises:
        ConfigError: The proxy is none of the metrics.
    """
    if metric not in METRICS:
        raise ConfigError(f"proxy: expected a metric of hnas, one of {', '.join(METRICS)}, got {metric}")
    suffix = "" if metric == "ntk_trace" else ".as_released"
    return f"hnas{suffix}", f"ntk_trace{suffix}"


def condition(criterion: Vector, trace: Vector) -> Vector:
    """Return the condition number of the kernel from its criterion with the default constants, and its trace.

    Below one, as where no image reaches the logits, it is the round-off of a singular kernel, and is infinite here.
    """
    value = (criterion - MU * np.abs(trace**2 - NU**2)) * (trace + 1e-6)
    return np.where(value >= 1, value, np.inf)


def hnas(given: Setting) -> Search:
    """Score a pool, and again and again train the network that a new pair of constants chooses from it."""
    from bayes_opt import BayesianOptimization, acquisition  # takes a second, and is an optional dependency

    networks = tuple(pool(given))
    ranges = {"c": EXPONENTS, "nu": (0.0, given.config.largest_nu)}
    m = np.array((yield Score(networks, given.proxy)))
    criterion, trace = kernel(given.proxy)
    # Of the criterion lower is better, so that its scores have the other sign.
    kappa = condition(-np.array((yield Score(networks, criterion))), np.array((yield Score(networks, trace))))
    optimizer = BayesianOptimization(
        f=None,
        pbounds=ranges,
        acquisition_function=acquisition.ExpectedImprovement(xi=0.0),
        random_state=given.generator.randrange(2**32),
        verbose=0,
        allow_duplicate_points=True,
    )
    trained: dict[str, float] = {}
    for iteration in range(given.config.iterations):
        if iteration < RANDOM * given.config.iterations:
            pair = {name: given.generator.uniform(*ends) for name, ends in ranges.items()}
        else:
            with warnings.catch_warnings():  # the fit of its Gaussian process may say that it has not converged
                warnings.simplefilter("ignore")
                pair = {name: float(value) for name, value in optimizer.suggest().items()}
        network = networks[_chosen(m, kappa, **pair)]
        if network not in trained:
            trained[network] = yield Train(network)
        optimizer.register(pair, trained[network])
    return tuple(trained)


def _chosen(m: Vector, kappa: Vector, c: float, nu: float) -> int:
    """Return the place of the least criterion; a network without a score is not chosen if there is another."""
    values = 10.0**c * np.abs(m**2 - nu**2) + kappa / (m + 1e-6)
    return int(np.argmin(np.where(np.isfinite(values), values, np.inf)))


def agreement(runs: Sequence[Run]) -> list[tuple[str, str, Mean]]:
    """Return for every metric the trace and Spearman's rho of both within a pool: mean and interval over repeats."""
    found = []
    for _, own in grouped([run for run in runs if run.method == "hnas"]):
        metric, trace = own[0].proxy, kernel(own[0].proxy)[1]
        found.append((metric, trace, mean(np.array([_rho(run, metric, trace) for run in own]))))
    return found


def _rho(run: Run, metric: str, trace: str) -> float:
    networks = [network for proxy, network in run.scored if proxy == metric]
    both = np.array([[run.scored[name, network] for network in networks] for name in (metric, trace)])
    finite = np.isfinite(both).all(axis=0)
    return spearman(both[0][finite], both[1][finite])


def _check(config: SearchConfig, space: Space) -> None:
    check_pool(config, space)
    if config.iterations < 1:
        raise ConfigError(f"iterations: expected 1 or more, got {config.iterations}")
    if not config.largest_nu > 0:
        raise ConfigError(f"largest_nu: expected more than 0, got {config.largest_nu}")
    try:
        import bayes_opt  # noqa: F401
    except ImportError:
        raise ConfigError(
            'method: expected bayesian-optimization for hnas, which is not installed: pip install "zcbench[search]"'
        ) from None


METHODS.add("hnas", Method(hnas, scores=True, also=kernel, check=_check))
