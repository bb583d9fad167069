"""Determinants by LU, and exact ones of integer matrices that LU cannot tell from singular."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

#: Norm from which on only LU is used. Below it, the sum of two products of entries or residues fits int64.
LARGEST_NORM = 2.0**31
#: Doubt from which on only LU is used. An exact determinant would take more than 33 primes and soon overflow float64.
LARGEST_DOUBT = 2.0**1000

# Number of int64 values that are processed at once: a few megabytes, which fit in the cache.
_ELEMENTS = 2**18
_LEAST_PRIME = 2**31 - 2**12


def slogdet(matrices: Tensor) -> tuple[Tensor, Tensor]:
    r"""Return the signs of determinants and the logarithms of their absolute values.

    The result is that of LU, except for integer matrices whose determinant LU cannot tell from zero. Such a determinant
    is an integer in a known interval. It is 0 if the interval holds no other integer. Otherwise it is computed exactly,
    modulo primes.

    LU gives $\hat L \hat U = P A + E$ with $\lVert E \rVert_F \le n u \lVert \hat L \rVert_F \lVert \hat U \rVert_F$,
    where u is half the epsilon of float64 (Higham, Accuracy and Stability of Numerical Algorithms, 2002, theorem 9.3).
    The determinant is linear in every row, and by Hadamard's inequality at most the product of the norms of the rows a
    of A, so

    $$| \det \hat L \hat U - \det P A | \le \prod_i \lVert a_i \rVert \,
    \Big( \exp \sum_i \lVert E \rVert_F / \lVert a_i \rVert - 1 \Big)$$

    The same bound holds for columns. The doubt is twice the bound; the factor covers the round-off of the bound itself.
    A determinant is in doubt if it is at most the doubt, unless
    $100 n \lVert E \rVert_F \lVert A^{-1} \rVert_F < 1$: then no matrix within E is singular, and the determinant is
    right to 2 %. Large matrices need this exception, because Hadamard's bound is exp(n / 2) times the usual determinant
    of signs. Of regular matrices of random signs, one in 1,500 needs it at n = 32, and nine in ten at n = 48.

    Args:
        matrices: Matrices `(..., n, n)`, converted to float64.

    Returns:
        Signs and logarithms `(...)` in float64, as `torch.linalg.slogdet` gives them: 0 and -inf if singular. They do
        not depend on the memory layout. Exact ones do not depend on the batch or the CPU either. Only LU is used for
        matrices with an entry that is not a finite integer, with a norm from 2^31 on, or with a doubt from 2^1000 on.
    """
    factors = _factors(matrices)
    return factors.sgn().prod(-1), factors.abs().log().sum(-1)


def det(matrices: Tensor) -> Tensor:
    """Return the determinants `(...)` of `(..., n, n)` in float64, exact where those of `slogdet` are."""
    return _factors(matrices).prod(-1)


def _factors(matrices: Tensor) -> Tensor:
    """Return factors `(..., n)` of the determinants: the pivots of LU, or the determinant itself and ones."""
    n = matrices.shape[-1]
    flat = matrices.detach().contiguous().double().reshape(math.prod(matrices.shape[:-2]), n, n)
    # This is what torch.linalg.slogdet does, which does not return L and U. LAPACK stores columns, hence the transpose.
    packed, rows, _ = torch.linalg.lu_factor_ex(flat.mT)
    factors: Tensor = packed.diagonal(dim1=-2, dim2=-1).clone()
    swapped = rows != torch.arange(1, n + 1, dtype=rows.dtype, device=rows.device)
    factors *= torch.where(swapped, -1.0, 1.0)

    # Most matrices that are not of integers are found by their first row, which is quick.
    first = flat[:, :1]
    (at,) = (first == first.trunc()).flatten(1).all(1).nonzero(as_tuple=True)
    if not len(at):
        return factors.reshape(matrices.shape[:-1])
    every = len(at) == len(flat)
    some, triangles = (flat, packed) if every else (flat[at], packed[at])
    size = factors[at].prod(-1).abs()
    # With pivoting no element of L is above 1. The norm of U is at most that of the packed matrix.
    unit = torch.finfo(torch.float64).eps / 2
    error = n * unit * math.sqrt(n * (n + 1) / 2) * torch.linalg.vector_norm(triangles, dim=(-2, -1))
    norm = torch.linalg.vector_norm(some, dim=(-2, -1))
    # A quick bound first: of rows with the same total norm, equal ones have the largest product.
    doubt = 2 * torch.expm1(n * error) * (norm / math.sqrt(n)) ** n
    left = (size <= doubt) & (norm < LARGEST_NORM)
    at, size, error, doubt = at[left], size[left], error[left], doubt[left]
    small = doubt < 1 / 2
    _set_zero(factors, flat, at[small])
    at, size, error = at[~small], size[~small], error[~small]
    if len(at):
        # The tighter bound, from the norms of all rows and columns.
        squares = flat[at].square_()
        doubt = torch.minimum(*(_doubt(squares.sum(dim).sqrt(), error) for dim in (-2, -1)))
        left, small = size <= doubt, doubt < 1 / 2
        _set_zero(factors, flat, at[left & small])
        left &= ~small & (doubt < LARGEST_DOUBT)
        at, error, doubt = at[left], error[left], doubt[left]
    if len(at):
        integers = _of_integers(flat[at])
        at, error, doubt = at[integers], error[integers], doubt[integers]
    if len(at):
        identity = torch.eye(n, dtype=flat.dtype, device=flat.device).expand(len(at), n, n)
        inverse = torch.linalg.lu_solve(packed[at], rows[at], identity)
        left = ~(100 * n * error * torch.linalg.vector_norm(inverse, dim=(-2, -1)) < 1)
        at, doubt = at[left], doubt[left]
    if len(at):
        # Most singular matrices of gradients have two rows or columns that are multiples of each other.
        parallel = _parallel_rows(flat[at]) | _parallel_rows(flat[at].mT)
        factors[at[parallel]] = 0
        at, doubt = at[~parallel], doubt[~parallel]
    if len(at):
        exact = _exact(flat[at].cpu().numpy().astype(np.int64), doubt.max().item())
        factors[at] = 1
        factors[at, 0] = torch.tensor(exact, dtype=flat.dtype, device=flat.device)
    return factors.reshape(matrices.shape[:-1])


def _set_zero(factors: Tensor, matrices: Tensor, at: Tensor) -> None:
    """Set the determinants of some matrices to zero, if the matrices are of integers."""
    if len(at):
        at = at[(factors[at] != 0).all(-1)]
        factors[at[_of_integers(matrices[at])]] = 0


def _of_integers(matrices: Tensor) -> Tensor:
    """Return which of `(k, n, n)` are of integers; this overwrites the matrices."""
    found: Tensor = matrices.frac_().abs_().sum((-2, -1)) == 0
    return found


def _doubt(norms: Tensor, error: Tensor) -> Tensor:
    """Return below which size LU cannot tell determinants from zero, by the norms of rows `(k, n)` and of E `(k,)`."""
    # A row of integers has a norm of at least 1, or the determinant is zero.
    return 2 * torch.expm1(error * norms.clamp_min(1).reciprocal().sum(-1)) * norms.prod(-1)


def _parallel_rows(matrices: Tensor) -> Tensor:
    """Return which of `(k, n, n)` surely have two parallel rows: where the Cauchy-Schwarz inequality is an equality.

    Matrices whose products float64 does not hold exactly are not reported.
    """
    gram = matrices @ matrices.mT
    squares = gram.diagonal(dim1=-2, dim2=-1)
    equal = gram.square() == squares[:, :, None] * squares[:, None, :]
    found: Tensor = (equal.flatten(1).sum(1) > matrices.shape[-1]) & (squares.amax(-1) < 2**26)
    return found


def _exact(matrices: NDArray[np.int64], doubt: float) -> list[float]:
    """Return the determinants of `(k, n, n)`, whose absolute values are below twice the doubt.

    The result of LU is at most the doubt, and its error is at most half of that.
    """
    n = matrices.shape[-1]
    # Residues identify an integer whose absolute value is below half of the product of the primes.
    count = int(math.log(4 * doubt) // math.log(_LEAST_PRIME)) + 1
    primes = _primes(count)
    step = max(1, _ELEMENTS // (count * n * n))
    found = []
    for start in range(0, len(matrices), step):
        part = matrices[start : start + step]
        residues = _modulo(part.repeat(count, axis=0), np.tile(primes, len(part))).reshape(-1, count)
        found += [float(_join(row, primes.tolist())) for row in residues.tolist()]
    return found


def _modulo(matrices: NDArray[np.int64], primes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the determinants of `(k, n, n)` modulo `primes` `(k,)`, by elimination."""
    k, n, _ = matrices.shape
    found = np.zeros_like(primes)
    pivots, swaps = np.zeros((k, n), dtype=np.int64), np.zeros(k, dtype=np.int64)
    rest = np.fmod(matrices, primes[:, None, None])
    every = place = np.arange(k)
    for step in range(n):
        row = (rest[:, :, 0] != 0).argmax(1)
        top = rest[every, row]
        regular = top[:, 0] != 0
        if not regular.all():
            place, primes, rest, row, top = (x[regular] for x in (place, primes, rest, row, top))
            every = np.arange(len(place))
        rest[every, row] = rest[:, 0]
        pivots[place, step], swaps[place] = top[:, 0], swaps[place] + (row > 0)
        rest = top[:, :1, None] * rest[:, 1:, 1:] - rest[:, 1:, :1] * top[:, None, 1:]
        np.fmod(rest, primes[:, None, None], out=rest)
    for at, prime in zip(place.tolist(), primes.tolist(), strict=True):
        # The r rows below a pivot are multiplied by it instead of divided, so the pivot counts 1 - r times.
        powers = (pow(pivot, 2 - n + step, prime) for step, pivot in enumerate(pivots[at].tolist()))
        found[at] = functools.reduce(lambda x, y: x * y % prime, powers, (-1) ** int(swaps[at]))
    return found


def _join(residues: Sequence[int], primes: Sequence[int]) -> int:
    """Return the integer of least absolute value with these residues, by the Chinese remainder theorem."""
    found, modulus = 0, 1
    for residue, prime in zip(residues, primes, strict=True):
        found += modulus * ((residue - found) * pow(modulus, -1, prime) % prime)
        modulus *= prime
    return found - modulus if 2 * found > modulus else found


@functools.cache
def _primes(count: int) -> NDArray[np.int64]:
    """Return the largest primes below 2^31."""
    odd = np.arange(3, 46_341, 2)
    primes = (n for n in range(2**31 - 1, _LEAST_PRIME, -2) if (n % odd).all())
    return np.array(list(itertools.islice(primes, count)))
