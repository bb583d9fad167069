"""The operations of programs (Akhauri et al., EZNAS, NeurIPS 2022, table 5).

Values are batched over instances. A tensor or a mask is `(k, *shape)`: k instances of one shape with at least one
dimension. A scalar is `(k,)` float64. Statistics and masks (0 or 1) are float32, and determinants are float64. An
elementwise operation keeps the wider type of its arguments; a scalar takes the type of the tensor beside it.

Operations are pure functions. They give a result for every value, also for zeros, infinities and NaN, and fail only if
shapes do not fit (`ShapeError`). The result for an instance is the same to the last bit for every batch that contains
it. This excludes some of torch's kernels, whose rounding depends on memory addresses; comments name them.

Two operations of the released code, which add noise and draw normal weights, are random and are left out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from ...errors import ProgramError
from ...proxies.determinants import det, slogdet
from ...registry import Registry

#: Version of the operations. It is raised whenever an operation gives another value than before, so that old and new
#: scores of programs are never compared.
VERSION = 2

Kind = Literal["tensor", "mask", "scalar"]


class ShapeError(ValueError):
    """The error for shapes that do not fit each other or the operation. A program has no value on such an instance."""


@dataclass(frozen=True)
class Primitive:
    """An operation of programs.

    Attributes:
        name: Name of the operation in the text of a program.
        function: Function of `arity` batched values that returns one batched value.
        arity: Number of arguments.
        kind: Function from the kinds of the arguments to the kind of the result. It raises `ProgramError` for kinds
            that the operation does not accept. A mask is accepted wherever a tensor is.
        commutative: Whether the order of the arguments has no effect.
        op: Number of the operation in the paper's table 5; None if the table lacks it.
        code_op: Number of the operation in the released code; None if the code lacks it.
        paper: Definition in the paper, as text.
        code: Difference between the released code and this function; empty if there is none.
    """

    name: str
    function: Callable[..., Any]
    arity: int
    kind: Callable[..., Kind]
    commutative: bool = False
    op: int | None = None
    code_op: int | None = None
    paper: str = ""
    code: str = ""

    @property
    def summary(self) -> str:
        """The first line of the function's docstring: what the operation computes."""
        return inspect.cleandoc(self.function.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True)
class Signature:
    """The kinds that an operation accepts and returns.

    Attributes:
        gives: Kind of the result. If all arguments are scalars, the result is a scalar.
        of_scalars: Whether scalars are accepted, in addition to tensors and masks.
    """

    gives: Kind
    of_scalars: bool = False

    def __call__(self, *kinds: Kind) -> Kind:
        """Return the kind of the result.

        Raises:
            ProgramError: An argument is a scalar, and the operation accepts none.
        """
        if "scalar" in kinds and not self.of_scalars:
            raise ProgramError(f"takes tensors and masks, not a scalar: got {' and '.join(kinds)}")
        return "scalar" if set(kinds) == {"scalar"} else self.gives


MAP = Signature("tensor", of_scalars=True)
TEST = Signature("mask", of_scalars=True)
TRANSFORM = Signature("tensor")
REDUCE = Signature("scalar")

PRIMITIVES: Registry[Primitive] = Registry("operation")
F = TypeVar("F", bound=Callable[..., Tensor])


def _primitive(
    op: int, code_op: int, kind: Signature, paper: str, code: str = "", *, commutative: bool = False
) -> Callable[[F], F]:
    """Return a decorator that registers a function under its name without the underscore: `_abs` becomes `abs`."""

    def add(function: F) -> F:
        name = function.__name__.removeprefix("_")
        arity = len(inspect.signature(function).parameters)
        PRIMITIVES.add(name, Primitive(name, function, arity, kind, commutative, op, code_op, paper, code))
        return function

    return add


def _fit(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return both values ready to broadcast: a scalar gets the type and dimensions of the other value."""
    if a.ndim == 1 < b.ndim and len(a) == len(b):
        return a.to(b.dtype).reshape(-1, *[1] * (b.ndim - 1)), b
    if b.ndim == 1 < a.ndim and len(a) == len(b):
        return a, b.to(a.dtype).reshape(-1, *[1] * (a.ndim - 1))
    _same_shape(a, b)
    return a, b


def _same_shape(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape:
        raise ShapeError(f"shapes differ: {tuple(a.shape[1:])} and {tuple(b.shape[1:])}")


def _test(compare: Callable[..., Tensor], a: Tensor, b: Tensor | float) -> Tensor:
    """Return 1 where the comparison holds, else 0, computed as numbers because torch is slow with truth values."""
    shape = b.shape if isinstance(b, Tensor) and b.numel() > a.numel() else a.shape
    return _as_mask(compare(a, b, out=a.new_empty(shape)))


def _as_mask(values: Tensor) -> Tensor:
    return values.to(torch.float64 if values.ndim == 1 else torch.float32)


#: Number of partial sums: a multiple of the vector length of every CPU.
_LANES = 128


def _sum(values: Tensor) -> Tensor:
    """Sum `(k, n)` over n in float64, in an order that depends only on n.

    128 partial sums come first, because torch would divide the sum of one long row between threads, but not the sums of
    many rows.
    """
    values = values.double()
    whole = values.shape[1] // _LANES * _LANES
    if whole <= _LANES:
        return values.sum(1)
    lanes = values[:, :whole].reshape(len(values), -1, _LANES).sum(1)
    lanes[:, : values.shape[1] - whole] += values[:, whole:]
    return lanes.sum(1)


def _by_instance(function: Callable[..., Tensor], a: Tensor) -> Tensor:
    """Apply a function of LAPACK, whose rounding depends on the position in a cache line at which a matrix begins.

    The whole batch is passed if its instances fill whole cache lines of 64 bytes. Otherwise the instances are passed
    one by one in fresh memory, which begins at a cache line.
    """
    if a[0].numel() % 8 == 0:
        return function(a)
    return torch.cat([function(part.clone()) for part in a.chunk(len(a))])


@_primitive(0, 0, MAP, "C = A + B", commutative=True)
def _add(a: Tensor, b: Tensor) -> Tensor:
    """A + B."""
    a, b = _fit(a, b)
    return a + b


@_primitive(1, 35, MAP, "C = A - B", "defined but not among the primitives")
def _sub(a: Tensor, b: Tensor) -> Tensor:
    """A - B."""
    a, b = _fit(a, b)
    return a - b


@_primitive(2, 1, MAP, "C = A * B", commutative=True)
def _mul(a: Tensor, b: Tensor) -> Tensor:
    """A * B, element by element."""
    a, b = _fit(a, b)
    return a * b


@_primitive(3, 2, TRANSFORM, "C = A @ B", "float32; scalars are multiplied; leading dimensions broadcast")
def _matmul(a: Tensor, b: Tensor) -> Tensor:
    """Products of the matrices in the last two dimensions, added up in float64; leading dimensions are equal."""
    fits = a.ndim == b.ndim > 2 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-2]
    if not fits:
        raise ShapeError(f"no matrix product of {tuple(a.shape[1:])} and {tuple(b.shape[1:])}")
    # One by one, in fresh memory: the rounding of BLAS depends on the position in a cache line, and on the batch size.
    pairs = zip(a.chunk(len(a)), b.chunk(len(b)), strict=True)
    products = [torch.matmul(x.to(torch.float64, copy=True), y.to(torch.float64, copy=True)) for x, y in pairs]
    return torch.cat(products).to(torch.promote_types(a.dtype, b.dtype))


@_primitive(4, 3, TEST, "C = (A < B).bool()", "as float")
def _lt(a: Tensor, b: Tensor) -> Tensor:
    """1 where A < B, else 0."""
    return _test(torch.lt, *_fit(a, b))


@_primitive(5, 4, TEST, "C = (A > B).bool()", "as float")
def _gt(a: Tensor, b: Tensor) -> Tensor:
    """1 where A > B, else 0."""
    return _test(torch.gt, *_fit(a, b))


@_primitive(6, 5, TEST, "C = (A == B).bool()", "as float", commutative=True)
def _eq(a: Tensor, b: Tensor) -> Tensor:
    """1 where A = B, else 0."""
    return _test(torch.eq, *_fit(a, b))


@_primitive(7, 7, MAP, "A[A <= 0] = 1; C = torch.log(A)", "changes A, for later programs too")
def _log(a: Tensor) -> Tensor:
    """Logarithm of A; 0 where A <= 0."""
    # 0 is replaced by 1 first, because the logarithm of 0 is slow.
    a = a.contiguous()
    return a.relu().add_(torch.le(a, 0, out=torch.empty_like(a))).log_()


@_primitive(
    8,
    8,
    MAP,
    "A[A == 0] = 1; C = torch.log(torch.abs(A))",
    "the absolute value of log A, so NaN where A < 0; changes A",
)
def _abslog(a: Tensor) -> Tensor:
    """Logarithm of the absolute value; 0 where A = 0."""
    a = a.contiguous()
    return a.abs().add_(torch.eq(a, 0, out=torch.empty_like(a))).log_()


@_primitive(9, 9, MAP, "C = torch.abs(A)")
def _abs(a: Tensor) -> Tensor:
    """Absolute value of A."""
    return a.abs()


@_primitive(10, 10, MAP, "C = torch.pow(A, 2)")
def _square(a: Tensor) -> Tensor:
    """A * A."""
    return a * a


@_primitive(11, 11, MAP, "C = torch.exp(A)")
def _exp(a: Tensor) -> Tensor:
    """Exponential of A."""
    return a.contiguous().exp()


@_primitive(12, 12, TRANSFORM, "C = (A - A_mean) / A_std; C[C != C] = 0", "float32; a scalar gives 0")
def _normalize(a: Tensor) -> Tensor:
    """(A - mean) / standard deviation (n - 1) over all elements, in float64; NaN becomes 0."""
    values = a.double().flatten(1)
    n = values.shape[1]
    deviation = values - (_sum(values) / n)[:, None]
    variance = _sum(deviation.square()) / (n - 1) if n > 1 else torch.full((len(a),), torch.nan, dtype=torch.float64)
    scaled = deviation.div_(variance.sqrt()[:, None]).to(a.dtype)
    return scaled.nan_to_num_(nan=0.0, posinf=torch.inf, neginf=-torch.inf).reshape(a.shape)


@_primitive(13, 13, MAP, "C = torch.functional.F.relu(A)")
def _relu(a: Tensor) -> Tensor:
    """A where A > 0, else 0; NaN stays."""
    # torch's relu leaves -0, whose inverse is -inf.
    return a.relu().add_(0)


@_primitive(14, 14, MAP, "C = torch.sign(A)")
def _sign(a: Tensor) -> Tensor:
    """Sign of A: -1, 0 or 1; 0 for NaN."""
    return a.sign()


@_primitive(15, 15, TEST, "C = torch.heaviside(A, values=[0])", "needs a GPU")
def _heaviside(a: Tensor) -> Tensor:
    """1 where A > 0, else 0; the same as gt0."""
    return _test(torch.gt, a, 0)


@_primitive(16, 16, MAP, "C = 1 / A")
def _inv(a: Tensor) -> Tensor:
    """1 / A, element by element."""
    return a.reciprocal()


@_primitive(17, 18, REDUCE, "C = torch.norm(A, p='fro')", "float32; takes scalars")
def _frobenius(a: Tensor) -> Tensor:
    """Square root of the sum of squares, in float64."""
    norm: Tensor = torch.linalg.vector_norm(a.double().flatten(1), dim=1)
    return norm


def _square_matrices(a: Tensor) -> None:
    if a.ndim < 3 or a.shape[-1] != a.shape[-2]:
        raise ShapeError(f"determinants need square matrices, got {tuple(a.shape[1:])}")


def _as_tensor(determinants: Tensor) -> Tensor:
    """Add a dimension to the determinants of single matrices, because the result of `det` is a tensor, not a scalar."""
    return determinants[:, None] if determinants.ndim == 1 else determinants


@_primitive(18, 19, TRANSFORM, "C = torch.det(A)", "float32, so that round-off can make a singular matrix regular")
def _det(a: Tensor) -> Tensor:
    """Determinants over the last two dimensions, in float64; exactly 0 for a singular matrix of whole numbers."""
    _square_matrices(a)
    return _as_tensor(_by_instance(det, a))


@_primitive(
    19, 20, TRANSFORM, "C = torch.logdet(A); C[C != C] = 0", "float32, so that round-off can hide a singular matrix"
)
def _logdet(a: Tensor) -> Tensor:
    """Log-determinants, in float64; 0 if the determinant is negative, -inf if it is 0 (exact for whole numbers)."""
    _square_matrices(a)
    sign, logarithm = _by_instance(lambda m: torch.stack(slogdet(m), -1), a).unbind(-1)
    return _as_tensor(logarithm.masked_fill((sign < 0) | logarithm.isnan(), 0))


def _extreme_eigenvalues(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest eigenvalue of A A^T, where A is flattened to a matrix of shape[0] rows.

    The smallest eigenvalue of a singular matrix is exactly 0, without the round-off that LAPACK leaves. Both are NaN
    for a matrix with NaN.
    """
    rows, columns = a.shape[1], a[0, 0].numel()
    if rows == 1:
        square = _sum(a.flatten(1).double().square())
        square = square.masked_fill(square.isinf(), torch.nan)
        return square, square
    # One by one, in fresh memory, for the reason given in `_matmul`. A^T A is used if it is smaller than A A^T: apart
    # from zeros it has the same eigenvalues.
    matrices = [instance.to(torch.float64, copy=True).reshape(rows, columns) for instance in a]
    gram = torch.stack([m.mT @ m if columns < rows else m @ m.mT for m in matrices])
    gram = gram + gram.mT
    finite = gram.isfinite().flatten(1).all(1)
    values = _by_instance(torch.linalg.eigvalsh, gram.masked_fill(~finite[:, None, None], 0))
    values = values.masked_fill(~finite[:, None], torch.nan)
    smallest, largest = values[:, 0], values[:, -1]
    round_off = rows * torch.finfo(torch.float64).eps * largest
    singular = smallest <= round_off if rows <= columns else finite
    return smallest.masked_fill(singular, 0), largest


@_primitive(
    20,
    21,
    REDUCE,
    "A = A.reshape(A.shape[0], -1); A = A @ A.T; A = A + A.T; e = torch.symeig(A); C = e[-1] / e[0]",
    "float32; a scalar gives 0",
)
def _symeig_ratio(a: Tensor) -> Tensor:
    """Largest over smallest eigenvalue of A A^T in float64, A flattened to a matrix; inf if singular."""
    smallest, largest = _extreme_eigenvalues(a)
    return largest / smallest


@_primitive(
    21,
    22,
    REDUCE,
    "A = A.reshape(A.shape[0], -1); A = torch.einsum('nc,mc->nm', [A, A]); e = torch.eig(A); C = (e[-1] / e[0])[0]",
    "float32; last over first in the order in which LAPACK finds them, often smallest over largest; a scalar gives 0",
)
def _eig_ratio(a: Tensor) -> Tensor:
    """Smallest over largest eigenvalue of A A^T in float64, A flattened to a matrix; 0 if singular."""
    smallest, largest = _extreme_eigenvalues(a)
    return smallest / largest


@_primitive(22, 23, REDUCE, "C = torch.sum(A) / A.numel()", "float32; takes scalars")
def _mean(a: Tensor) -> Tensor:
    """Mean over all elements, in float64."""
    return _sum(a.flatten(1)) / a[0].numel()


def share(mask: Tensor) -> Tensor:
    """Return the share of ones of masks `(k, *shape)` as `(k,)` float64: their mean, to the last bit.

    Float32 counts up to 2^24 exactly; larger masks are averaged in float64.
    """
    ones = mask.flatten(1)
    return ones.sum(1).double() / ones.shape[1] if ones.shape[1] <= 1 << 24 else _mean(mask)


@_primitive(23, 24, REDUCE, "C = torch.sum(abs(A)) / A.numel()", "float32; takes scalars")
def _l1(a: Tensor) -> Tensor:
    """Mean of abs A, in float64."""
    return _sum(a.abs().flatten(1)) / a[0].numel()


@_primitive(
    24,
    25,
    REDUCE,
    "A = Heaviside(A); B = Heaviside(B); C = sum(A != B)",
    "takes scalars and different shapes of equal size",
    commutative=True,
)
def _hamming(a: Tensor, b: Tensor) -> Tensor:
    """Number of positions where one is positive and the other is not."""
    _same_shape(a, b)
    return ((a > 0) != (b > 0)).flatten(1).sum(1).double()


@_primitive(25, 26, REDUCE, "C = torch.nn.KLDivLoss('batchmean')(A, B)", "float32; takes scalars")
def _kl_div(a: Tensor, b: Tensor) -> Tensor:
    """Sum of B (log B - A) over the length of the first dimension, in float64, 0 log 0 = 0; NaN if some B < 0."""
    _same_shape(a, b)
    target = b.double().flatten(1)
    logarithm = _abslog(target).masked_fill_(target < 0, torch.nan)
    return _sum(target * (logarithm - a.double().flatten(1))) / a.shape[1]


@_primitive(
    26,
    27,
    REDUCE,
    "A = A.reshape(A.shape[0], -1); B = B.reshape(B.shape[0], -1); C = torch.nn.CosineSimilarity()(A, B); "
    "C = torch.sum(C)",
    "flattens wrongly and raises, but for scalars, which give 0",
    commutative=True,
)
def _cosine(a: Tensor, b: Tensor) -> Tensor:
    """Sum over the first dimension of the cosines of A and B, flattened to matrices, in float64."""
    _same_shape(a, b)
    left, right = (x.double().reshape(a.shape[0] * a.shape[1], -1) for x in (a, b))
    # The lower bound of norms is torch's. It makes the cosine with a row of zeros 0.
    norms = [torch.linalg.vector_norm(rows, dim=1).clamp_min(1e-8) for rows in (left, right)]
    return _sum((_sum(left * right) / (norms[0] * norms[1])).reshape(a.shape[:2]))


@_primitive(27, 28, TRANSFORM, "C = torch.functional.F.softmax(A)", "a scalar gives 1")
def _softmax(a: Tensor) -> Tensor:
    """Softmax over torch's default dimension: the first if A has 1 or 3 dimensions, else the second."""
    dim = 1 if a.ndim in (2, 4) else 2
    # torch's softmax rounds the last few numbers of each thread differently.
    weights = (a - a.amax(dim, keepdim=True)).contiguous().exp_()
    return weights / weights.double().sum(dim, keepdim=True).to(a.dtype)


@_primitive(28, 29, MAP, "C = torch.functional.F.sigmoid(A)")
def _sigmoid(a: Tensor) -> Tensor:
    """1 / (1 + exp(-A))."""
    # torch's sigmoid rounds the last few numbers of each thread differently. Parts that fill whole vectors and that one
    # thread computes have no such numbers.
    flat = a.flatten()
    if excess := a.numel() % 32:
        flat = pad(flat, (0, 32 - excess))
    result = torch.empty_like(flat)
    for start in range(0, len(flat), 1 << 14):
        part = slice(start, start + (1 << 14))
        torch.sigmoid(flat[part], out=result[part])
    return result[: a.numel()].reshape(a.shape)


@_primitive(29, 30, TEST, "C = torch.ones_like(A)")
def _ones_like(a: Tensor) -> Tensor:
    """Ones in the shape of A."""
    return _as_mask(torch.ones_like(a))


@_primitive(30, 31, TEST, "C = torch.zeros_like(A)")
def _zeros_like(a: Tensor) -> Tensor:
    """Zeros in the shape of A."""
    return _as_mask(torch.zeros_like(a))


@_primitive(31, 32, TEST, "C = A > 0", "as float")
def _gt0(a: Tensor) -> Tensor:
    """1 where A > 0, else 0."""
    return _test(torch.gt, a, 0)


@_primitive(32, 33, TEST, "C = A < 0", "as float")
def _lt0(a: Tensor) -> Tensor:
    """1 where A < 0, else 0."""
    return _test(torch.lt, a, 0)


@_primitive(33, 34, REDUCE, "C = torch.Tensor([A.numel()])", "float32; takes scalars")
def _numel(a: Tensor) -> Tensor:
    """Number of elements."""
    return torch.full((len(a),), a[0].numel(), dtype=torch.float64)
