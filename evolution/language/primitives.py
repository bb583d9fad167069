"""The operations that programs are made of (Akhauri et al., EZNAS, NeurIPS 2022, table 5).

Values are batched over instances. A tensor or a mask is `(k, *shape)`: k instances of one shape, which has a dimension
at least. A scalar is `(k,)` float64. Statistics and masks (0 or 1) are float32, determinants float64; elementwise
operations keep the type of their argument, of two the wider, and a scalar takes the type of the tensor that it meets.

Operations are pure, and total but for shapes that do not fit (`ShapeError`): zeros, infinities and NaN give a result.
The result for an instance is the same to the last bit whatever other instances are in the batch. That forbids some of
torch's kernels, whose rounding depends on the place of a number in memory; comments say which.

The released code has two more operations, which add noise and draw normal weights. They are random and not here.
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

#: Goes up when an operation gives another value than before, so that scores of programs are told apart.
VERSION = 2

Kind = Literal["tensor", "mask", "scalar"]
KINDS: tuple[Kind, ...] = ("tensor", "mask", "scalar")


class ShapeError(ValueError):
    """Shapes that do not fit each other or the operation. An instance on which this is raised has no value."""


@dataclass(frozen=True)
class Primitive:
    """An operation of programs.

    Attributes:
        name: Its name in the text of a program.
        function: Maps `arity` batched values to one.
        arity: The number of arguments.
        kind: Kinds of the arguments to the kind of the result; `ProgramError` for kinds it does not take. A mask is
            taken wherever a tensor is.
        commutative: Whether the order of the arguments is without effect.
        op: Number in the paper's table 5, None if it is not there.
        code_op: Number in the released code, None if it is not there.
        paper: The paper's text.
        code: What the released code does where it differs from here; empty where it does not.
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
        """Return what it computes, in a line."""
        return inspect.cleandoc(self.function.__doc__ or "").partition("\n")[0]


@dataclass(frozen=True)
class Signature:
    """What a primitive makes of tensors and masks: a tensor, a mask or a scalar.

    Attributes:
        gives: The kind of the result. Of scalars alone it is a scalar.
        of_scalars: Whether scalars are taken too.
    """

    gives: Kind
    of_scalars: bool = False

    def __call__(self, *kinds: Kind) -> Kind:
        """Return the kind of the result.

        Raises:
            ProgramError: An argument is a scalar, and none is taken.
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
    """Register a function under its name without the underscore, which keeps `abs` and its like free."""

    def add(function: F) -> F:
        name = function.__name__.removeprefix("_")
        arity = len(inspect.signature(function).parameters)
        PRIMITIVES.add(name, Primitive(name, function, arity, kind, commutative, op, code_op, paper, code))
        return function

    return add


def _fit(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Return both so that they broadcast only where one is a scalar, which takes the type of the other."""
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
    """Return 1 where the comparison holds, else 0; written as numbers because torch is slow to read truth values."""
    shape = b.shape if isinstance(b, Tensor) and b.numel() > a.numel() else a.shape
    return _as_mask(compare(a, b, out=a.new_empty(shape)))


def _as_mask(values: Tensor) -> Tensor:
    return values.to(torch.float64 if values.ndim == 1 else torch.float32)


#: Sums side by side, whole vectors of any CPU.
_LANES = 128


def _sum(values: Tensor) -> Tensor:
    """Sum `(k, n)` over n in float64, in an order that depends on n alone.

    128 sums side by side come first: torch would divide a long lone row between threads, but not one of many.
    """
    values = values.double()
    whole = values.shape[1] // _LANES * _LANES
    if whole <= _LANES:
        return values.sum(1)
    lanes = values[:, :whole].reshape(len(values), -1, _LANES).sum(1)
    lanes[:, : values.shape[1] - whole] += values[:, whole:]
    return lanes.sum(1)


def _by_instance(function: Callable[..., Tensor], a: Tensor) -> Tensor:
    """Apply a function of LAPACK, whose rounding depends on where in a cache line a matrix begins.

    The batch goes through at once if its instances fill whole lines of 64 bytes; otherwise one by one, in fresh memory,
    which begins with a line.
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
    # One by one, in fresh memory: BLAS rounds by where in a cache line a matrix begins, and a batch of one its own way.
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
    # The place of 0 is taken by 1 before, because the logarithm of 0 is slow.
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
    """Give the determinant of a lone matrix a dimension, because it is a tensor."""
    return determinants[:, None] if determinants.ndim == 1 else determinants


@_primitive(18, 19, TRANSFORM, "C = torch.det(A)", "float32, so that round-off can make a singular matrix regular")
def _det(a: Tensor) -> Tensor:
    """Determinants over the last two dimensions, in float64; of whole numbers exactly 0 where it is."""
    _square_matrices(a)
    return _as_tensor(_by_instance(det, a))


@_primitive(
    19, 20, TRANSFORM, "C = torch.logdet(A); C[C != C] = 0", "float32, so that round-off can hide a singular matrix"
)
def _logdet(a: Tensor) -> Tensor:
    """Log-determinants, in float64: 0 of what is negative, -inf of 0, which is exact for whole numbers."""
    _square_matrices(a)
    sign, logarithm = _by_instance(lambda m: torch.stack(slogdet(m), -1), a).unbind(-1)
    return _as_tensor(logarithm.masked_fill((sign < 0) | logarithm.isnan(), 0))


def _extreme_eigenvalues(a: Tensor) -> tuple[Tensor, Tensor]:
    """Return the smallest and the largest eigenvalue of A A^T, A flattened but for its first dimension.

    The smallest of a singular matrix is 0 and not the round-off that LAPACK leaves; that of a matrix with NaN is NaN.
    """
    rows, columns = a.shape[1], a[0, 0].numel()
    if rows == 1:  # a number
        square = _sum(a.flatten(1).double().square())
        square = square.masked_fill(square.isinf(), torch.nan)
        return square, square
    # One by one, in fresh memory, as matrix products. With A^T A, which has the same eigenvalues but for zeros, if it
    # is the smaller.
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
    """Number of places where one is positive and the other is not."""
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
    # torch's bound on norms, which makes the cosine with nothing 0.
    norms = [torch.linalg.vector_norm(rows, dim=1).clamp_min(1e-8) for rows in (left, right)]
    return _sum((_sum(left * right) / (norms[0] * norms[1])).reshape(a.shape[:2]))


@_primitive(27, 28, TRANSFORM, "C = torch.functional.F.softmax(A)", "a scalar gives 1")
def _softmax(a: Tensor) -> Tensor:
    """Softmax over the dimension that torch takes if none is named: the first of 1 or 3, else the second."""
    dim = 1 if a.ndim in (2, 4) else 2
    # torch's softmax rounds the last few numbers of each thread in another way.
    weights = (a - a.amax(dim, keepdim=True)).contiguous().exp_()
    return weights / weights.double().sum(dim, keepdim=True).to(a.dtype)


@_primitive(28, 29, MAP, "C = torch.functional.F.sigmoid(A)")
def _sigmoid(a: Tensor) -> Tensor:
    """1 / (1 + exp(-A))."""
    # torch's sigmoid rounds the last few numbers of each thread in another way. Parts that one thread takes, of whole
    # vectors, have none such.
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
