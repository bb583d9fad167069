from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from zcbench.datasets import DATASETS, TASKS
from zcbench.proxies import determinants
from zcbench.proxies.determinants import det, slogdet
from zcbench.proxies.eznas_a import ONES, first_of_triples
from zcbench.proxies.passes import Tap
from zcbench.proxies.probe import Probe
from zcbench.spaces import SPACES


def random(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def signs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 2, shape, generator=random(seed)).double() * 2 - 1


def singular(k: int, n: int, deficiency: int = 1, seed: int = 0) -> Tensor:
    """Return matrices of -1, 0 and 1 in which some rows are half the sum of two others, or minus another row."""
    matrices = signs(k, n, n, seed=seed)
    for i in range(deficiency):
        other = i + 1 if n > 2 * deficiency else i
        matrices[:, -1 - i] = -(matrices[:, i] + matrices[:, other]) / 2
    return matrices[:, torch.randperm(n, generator=random(n))]


def bareiss(matrix: Tensor) -> int:
    """Return the determinant by fraction-free elimination, which is exact for integers."""
    rest, sign, previous = np.array([[int(x) for x in row] for row in matrix.tolist()], dtype=object), 1, 1
    while len(rest) > 1:
        rows = np.flatnonzero(rest[:, 0])
        if not len(rows):
            return 0
        if rows[0]:
            rest[[0, rows[0]]], sign = rest[[rows[0], 0]], -sign
        pivot = rest[0, 0]
        rest, previous = (pivot * rest[1:, 1:] - np.outer(rest[1:, 0], rest[0, 1:])) // previous, pivot
    return sign * int(rest[0, 0])


def check(matrices: Tensor) -> list[int]:
    """Compare determinants with exact elimination in integers, and return them."""
    sign, logarithm = slogdet(matrices)
    expected = [bareiss(m) for m in matrices.flatten(0, -3)]
    assert sign.flatten().tolist() == [(d > 0) - (d < 0) for d in expected]
    logarithms = torch.tensor([math.log(abs(d)) if d else -math.inf for d in expected], dtype=torch.float64)
    torch.testing.assert_close(logarithm.flatten(), logarithms, rtol=1e-12, atol=1e-9)
    products = torch.tensor([float(d) for d in expected], dtype=torch.float64)
    torch.testing.assert_close(det(matrices).flatten(), products, rtol=1e-8, atol=0)
    return expected


@pytest.fixture
def eliminated(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the number of matrices that each call computes modulo primes."""
    counts = []
    exact = determinants._exact

    def counting(matrices: np.ndarray, doubt: float) -> list[float]:
        counts.append(len(matrices))
        return exact(matrices, doubt)

    monkeypatch.setattr(determinants, "_exact", counting)
    return counts


SIZES = [*range(2, 13), 16, 20, 24, 28, 32, 36, 40]


@pytest.mark.parametrize(("n", "deficiency"), [(n, d) for n in SIZES for d in range(4) if n >= 2 * d])
def test_determinants_of_signs_are_exact(n: int, deficiency: int) -> None:
    expected = check(singular(4 if n > 20 else 20, n, deficiency, seed=n))
    assert any(expected) == (deficiency == 0)


@pytest.mark.parametrize("n", [3, 8, 16, 25, 32, 40])
def test_determinants_of_masks_are_exact(n: int) -> None:
    masks = (torch.rand(2, 3, n, n, generator=random(n)) < torch.tensor([0.15, 0.5])[:, None, None, None]).float()
    check(masks)


@pytest.mark.parametrize("bound", [2, 9, 1000, 10**6, 2**24])
@pytest.mark.parametrize("n", [2, 7, 20, 32])
def test_determinants_of_larger_integers_are_exact(n: int, bound: int) -> None:
    matrices = torch.randint(-bound, bound + 1, (4, n, n), generator=random(n))
    matrices[2, -1] = matrices[2, 0] + matrices[2, 1] if n > 2 else matrices[2, 0]
    matrices[3, :, -1] = -matrices[3, :, 0]
    assert check(matrices)[2:] == [0, 0]


@pytest.mark.parametrize("n", [16, 20, 30])
def test_small_determinants_of_large_integers_are_exact(n: int, eliminated: list[int]) -> None:
    # Products of triangular matrices with ones on the diagonal, except for one entry that is the determinant.
    last = [1, -1, 2, -3, 12345, 0]
    lower, upper = (torch.randint(-9, 10, (len(last), n, n), generator=random(s)).double() for s in (1, 2))
    lower, upper = lower.tril(-1) + torch.eye(n), upper.triu(1) + torch.eye(n)
    upper[:, -1, -1] = torch.tensor(last)
    matrices = lower @ upper
    wrong = torch.linalg.det(matrices) - torch.tensor(last)
    assert (wrong.abs() > 0.5).any(), "LU suffices, so this shows nothing"
    assert check(matrices) == last
    assert sum(eliminated) >= 4


@pytest.mark.parametrize(
    ("n", "k"), [(2, 5000), (5, 5000), (8, 5000), (16, 5000), (24, 500), (32, 200), (40, 80), (64, 6)]
)
def test_no_singular_matrix_passes(n: int, k: int) -> None:
    for matrices in (
        singular(k, n, seed=1),
        singular(k, n, seed=2).mT,
        singular(k, n, min(3, n // 2), seed=3),
        (signs(k, n, n - 1) + 1) @ torch.ones(n - 1, n).double().tril(),
        torch.randint(-99, 100, (k, n, n - 1), generator=random(5)).double() @ signs(k, n - 1, n),
    ):
        sign, logarithm = slogdet(matrices)
        assert not sign.any()
        assert (logarithm == -math.inf).all()
        assert not det(matrices).any()


def test_round_off_of_lu_is_no_determinant() -> None:
    matrices = singular(50, 32)
    found = [torch.linalg.det(m) for m in (matrices, matrices.mT.contiguous())]
    # A threshold of 1/2 would keep these, and their sign depends on the layout.
    assert all((d.abs() > 1).sum() > 10 for d in found)
    assert (found[0].sign() != found[1].sign()).any()
    assert not slogdet(matrices)[0].any()
    assert not slogdet(matrices.mT)[0].any()


@pytest.mark.parametrize("n", [16, 24, 32, 48, 64])
def test_regular_signs_have_the_result_of_lu(n: int, eliminated: list[int]) -> None:
    matrices = signs(2000 if n <= 32 else 100, n, n)
    sign, logarithm = slogdet(matrices)
    regular = sign != 0
    assert regular.float().mean() > 0.9
    assert sum(eliminated) <= (~regular).sum()
    theirs = torch.linalg.slogdet(matrices[regular])
    torch.testing.assert_close(logarithm[regular], theirs.logabsdet, rtol=1e-9, atol=1e-9)
    assert torch.equal(sign[regular], theirs.sign)
    check(matrices[:3])


@pytest.mark.parametrize("n", [1, 2, 3, 8, 17, 32, 64, 200])
def test_matrices_that_are_not_of_integers_have_the_result_of_lu(n: int, eliminated: list[int]) -> None:
    matrices = torch.randn(6, n, n, generator=random(n), dtype=torch.float64)
    matrices[1] = singular(1, n, n // 2)[0] * 0.1
    matrices[2] = singular(1, n, n // 2)[0] * 2.0**32
    matrices[3] = torch.eye(n) * 1e-3
    matrices[4] = 0.3
    matrices[5] *= 1e30
    sign, logarithm = slogdet(matrices)
    theirs = torch.linalg.slogdet(matrices)
    assert torch.equal(sign, theirs.sign)
    assert torch.equal(logarithm, theirs.logabsdet)
    if n < 20:  # beyond, products overflow
        torch.testing.assert_close(det(matrices), torch.linalg.det(matrices), rtol=1e-12, atol=0)
    assert not eliminated


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_matrices_that_are_not_finite_have_the_result_of_lu(number: float) -> None:
    matrices = torch.stack([torch.full((5, 5), number), torch.eye(5), signs(5, 5), singular(1, 5)[0]])
    matrices[1:3, 2, 3] = number
    sign, logarithm = slogdet(matrices)
    theirs = torch.linalg.slogdet(matrices[:3])
    torch.testing.assert_close(logarithm[:3], theirs.logabsdet.double(), equal_nan=True)
    assert torch.equal(sign[:3], theirs.sign.double())
    assert not logarithm[0].isfinite()
    assert (sign[3].item(), logarithm[3].item()) == (0, -math.inf)  # whatever else is in the batch


def test_doubts_that_are_too_large_have_the_result_of_lu(eliminated: list[int]) -> None:
    matrices = singular(2, 300)
    assert torch.equal(slogdet(matrices)[1], torch.linalg.slogdet(matrices).logabsdet)
    assert not eliminated
    assert not slogdet(singular(1, 200))[0].any()
    assert sum(eliminated) == 1


@pytest.mark.parametrize("shape", [(3, 3), (0, 4, 4), (2, 0, 5, 5), (2, 0, 0), (2, 3, 1, 1), (2, 1, 3, 4, 4)])
def test_leading_dimensions_stay(shape: tuple[int, ...]) -> None:
    matrices = torch.ones(shape, dtype=torch.int64)
    theirs = torch.linalg.slogdet(matrices.double())
    for found, expected in zip((*slogdet(matrices), det(matrices)), (*theirs, theirs.sign), strict=True):
        assert found.dtype == torch.float64
        assert torch.equal(found, expected)


@pytest.mark.parametrize("n", [8, 16, 32, 40])
def test_neither_layout_nor_batch_matters(n: int) -> None:
    matrices = torch.cat([signs(40, n, n), singular(80, n, 2)])[torch.randperm(120, generator=random(0))]
    matrices = matrices.reshape(10, 12, n, n)
    before = matrices.clone()
    whole = torch.stack(slogdet(matrices))
    assert torch.equal(matrices, before)
    wide = torch.zeros(10, 12, n, n + 3, dtype=torch.float64)
    wide[..., 3:] = matrices
    for other in (
        matrices.contiguous(memory_format=torch.channels_last),
        matrices.mT.contiguous().mT,
        wide[..., 3:],
        matrices.float(),
        matrices.to(torch.int8),
    ):
        assert torch.equal(torch.stack(slogdet(other)), whole)
    one_by_one = torch.stack([torch.stack(slogdet(m)) for m in matrices.flatten(0, 1)], dim=1)
    assert torch.equal(one_by_one.reshape(whole.shape), whole)


def _gradient(place: object, activation: Tensor, gradient: Tensor) -> Tensor:
    return gradient.clone()


def test_gradients_of_a_benchmark_network(real_data: Path, eliminated: list[int]) -> None:
    space = SPACES["nb201"](None)
    tap = Tap(ONES, at=first_of_triples, reduce=_gradient, side="input")
    net = space.build(space.architecture(9000), TASKS["cifar10"], 0)
    x = DATASETS["cifar10"](real_data).probe_batch(16, 0).x
    probe = Probe(net, x.contiguous(memory_format=torch.channels_last), plan=[tap])
    # In the largest maps, the round-off of LU for a singular matrix is as large as determinants.
    gradients = [g.sign() for _, g in probe.read(tap) if g.shape[-1] == 32]
    assert not gradients[0].is_contiguous()
    for gradient in gradients[:4]:
        found = slogdet(gradient)
        assert torch.equal(torch.stack(found), torch.stack(slogdet(gradient.contiguous())))
        lu = torch.linalg.slogdet(gradient.double())
        doubtful = gradient[(lu.sign != 0) & (lu.logabsdet < 25)]
        assert len(doubtful) > 4
        check(doubtful[:12])
    assert sum(eliminated) > 1


def test_primes_are_primes() -> None:
    primes = determinants._primes(40).tolist()
    assert primes[:3] == [2147483647, 2147483629, 2147483587]  # https://oeis.org/A013603: 2^31 - 1, - 19, - 61
    assert len(set(primes)) == 40
    for prime in primes:
        assert all(pow(base, prime - 1, prime) == 1 for base in (2, 3, 5, 7))
        assert all(prime % d for d in range(2, 2000))
    # The largest doubt needs this many primes, all above the bound that their count is computed with.
    count = int(math.log(4 * determinants.LARGEST_DOUBT) // math.log(determinants._LEAST_PRIME)) + 1
    assert math.prod(determinants._primes(count).tolist()) > 4 * int(determinants.LARGEST_DOUBT)
    assert min(determinants._primes(count)) > determinants._LEAST_PRIME
    assert len(determinants._primes(count)) == count
