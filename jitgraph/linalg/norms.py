"""Lengths of vectors, norms of matrices, and what follows from singular values: the condition and the rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import ShapeError
from jitgraph.linalg.decompositions import eigvalsh, svdvals
from jitgraph.linalg.systems import cutoffs_of, inexact, inv, matrices_of, rank_of, slogdet
from jitgraph.ops.matrices import with_ones
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import isnan, where
from jitgraph.tensor.functions.method import array_function, ordered_axes_of
from jitgraph.tensor.functions.norms import extreme, whole_range_norm
from jitgraph.tensor.functions.reductions import any as any_of
from jitgraph.tensor.functions.reductions import max as greatest
from jitgraph.tensor.functions.reductions import min as least
from jitgraph.tensor.functions.reductions import sum as total
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed
from jitgraph.tensor.tensor import Tensor, wrap

Axis: TypeAlias = "int | Sequence[int] | None"
_MATRIX_ORDERS = (1, -1, 2, -2, math.inf, -math.inf, "fro", "nuc")


@array_function
def vector_norm(x: TensorLike, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """(sum of |x|**ord)**(1 / ord) over ``axis``, over all elements for None; floats and complex numbers.

    The greatest and the least magnitude for inf and -inf, the number of elements that are not 0 for 0. Gradients are 0
    where an element is 0, and where the norm is, as in PyTorch.
    """
    if isinstance(ord, bool) or not isinstance(ord, int | float):
        raise ShapeError(f"vector_norm: ord is {ord!r}", hint="a number, as 2, 1, math.inf")
    return whole_range_norm(wrap(inexact("vector_norm", x)), float(ord), axis, keepdims=keepdims)


@array_function
def matrix_norm(x: TensorLike, *, keepdims: bool = False, ord: float | str = "fro") -> Tensor:
    """Norms of matrices: "fro", "nuc" (the sum of singular values), 2 and -2 (the greatest and the least of them).

    1 and -1 are the greatest and the least sum of magnitudes of a column, inf and -inf those of a row.
    """
    return _matrix_norm(matrices_of("matrix_norm", wrap(inexact("matrix_norm", x))), keepdims, ord)


def _matrix_norm(value: Any, keepdims: bool, ord: float | str) -> Tensor:
    if isinstance(ord, bool) or ord not in _MATRIX_ORDERS:
        raise ShapeError(f"matrix_norm: ord is {ord!r}", hint="one of 1, -1, 2, -2, inf, -inf, 'fro' and 'nuc'")
    if ord == "fro":
        return whole_range_norm(wrap(value), 2.0, (-2, -1), keepdims=keepdims)
    if ord in ("nuc", 2, -2):
        values = svdvals(wrap(value))
        norms = total(values, axis=-1) if ord == "nuc" else extreme(values, (values.ndim - 1,), float(ord))
    else:
        sums = total(wrap(value).abs(), axis=-2 if ord in (1, -1) else -1)
        norms = extreme(sums, (sums.ndim - 1,), float(ord))
    return norms[..., None, None] if keepdims else norms


@array_function
def norm(x: TensorLike, ord: float | str | None = None, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors along one axis, of matrices in two: ``vector_norm`` and ``matrix_norm`` in NumPy's form.

    Without ``ord`` it is the root of the sum of squares over ``axis``, over all elements for None. With it and without
    ``axis``, x is a vector or a matrix.
    """
    value = inexact("norm", x)
    rank = len(value.shape)
    if ord is None:
        return whole_range_norm(wrap(value), 2.0, axis, keepdims=keepdims)
    if axis is None and rank not in (1, 2):
        raise ShapeError(f"norm of {value.type} with ord={ord!r}", hint="axis= says where vectors or matrices stand")
    axes = (*range(rank),) if axis is None else listed(axis)
    if len(axes) == 1:
        return vector_norm(x, axis=axes[0], keepdims=keepdims, ord=ord)  # type: ignore[arg-type]
    if len(axes) != 2:
        raise ShapeError(f"norm: axis is {axis}, and should name one axis, or two")
    rows, columns = ordered_axes_of(axes, rank, "norm")
    others = [i for i in range(rank) if i not in (rows, columns)]
    norms = _matrix_norm(wrap(value).permute_dims((*others, rows, columns)).value, False, ord)
    for position in sorted((rows, columns)) if keepdims else ():
        norms = norms[(*(slice(None),) * position, None)]
    return norms


@array_function
def cond(x: TensorLike, p: float | str | None = None) -> Tensor:
    """The condition numbers of matrices: the norm times that of the inverse, for the order ``p`` of ``matrix_norm``.

    By default the greatest by the least singular value, also of matrices that are not square. inf of singular ones.
    """
    value = matrices_of("cond", wrap(inexact("cond", x)))
    with placement.beside(value):
        matrix = wrap(value)
        if p is None or p in (2, -2):
            values = svdvals(matrix)
            high, low = greatest(values, axis=-1), least(values, axis=-1)
            ratio = low / high if p == -2 else high / low
        else:
            singular = slogdet(matrix).sign == 0
            safe = where(singular[..., None, None], wrap(with_ones(ops.zeros_like(value))), matrix)
            ratio = where(singular, math.inf, _matrix_norm(value, False, p) * matrix_norm(inv(safe), ord=p))
        unknown = any_of(isnan(matrix), axis=(-2, -1))
        return where(isnan(ratio) & ~unknown, math.inf, ratio)


@array_function
def matrix_rank(
    x: TensorLike, *, rtol: TensorLike | None = None, atol: TensorLike | None = None, hermitian: bool = False
) -> Tensor:
    """How many singular values exceed both ``atol`` and ``rtol`` times the greatest, int64.

    ``rtol`` is max(m, n) eps by default, and 0 where ``atol`` is given; each is a number, or one for each matrix. With
    ``hermitian`` x is taken as symmetric, and its eigenvalues serve.
    """
    value = matrices_of("matrix_rank", wrap(inexact("matrix_rank", x)))
    with placement.beside(value):
        tolerance = 0.0 if rtol is None and atol is not None else rtol
        values = eigvalsh(wrap(value)).abs() if hermitian else svdvals(wrap(value))
        limit = 0.0 if atol is None else wrap(lifting.cast(lifting.value_of(atol, values.dtype), values.dtype))
        return rank_of(values, value, wrap(cutoffs_of("matrix_rank", value, tolerance)), limit)
