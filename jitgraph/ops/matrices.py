"""What ops on matrices have in common: they stand in the last two axes, axes before these are a batch.

NumPy's ``linalg`` evaluates them, in compiled code through a call of Python (``lowering="host"``), so that eager calls
and traces have the same bits. Gradient rules are written over the products and masks of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import LinAlgError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.broadcasting import broadcast, reduce_sum
from jitgraph.ops.comparison import eq, ge, gt, select
from jitgraph.ops.contraction import dot
from jitgraph.ops.creation import full_like, iota, zeros_like
from jitgraph.ops.movement import transpose
from jitgraph.ops.numeric import Array
from jitgraph.ops.sampling import generator

DTYPES: Final = frozenset({dtypes.float32, dtypes.float64})


def matrix_op(
    name: str,
    infer: Callable[..., Type | tuple[Type, ...]],
    evaluate: Callable[..., Any],
    *,
    vjp: Callable[..., tuple[Any, ...]],
    samples: Callable[[Callable[..., Array]], Sequence[Sample]],
    failure: str = "the decomposition does not converge",
    hint: str = "look for NaN or infinity in the operand",
    doc: str,
) -> Op:
    """An op that ``evaluate`` computes with ``numpy.linalg``; LinAlgError of ``failure`` where that gives none.

    ``samples(array)`` makes its samples of ``array(*shape)``: random values between -0.5 and 0.5.
    """

    def run(*arrays: Array, **attrs: Any) -> Any:
        try:
            with np.errstate(all="ignore"):
                found = evaluate(*arrays, **attrs)
        except np.linalg.LinAlgError:
            place = _first_failing(evaluate, arrays, attrs)
            raise LinAlgError(f"{name}: {failure}{place}", hint=hint) from None
        dtype = arrays[0].dtype
        if isinstance(found, tuple):
            return tuple([np.array(x, dtype=dtype, order="C") for x in found])
        return np.array(found, dtype=dtype, order="C")

    def made(dtype: DType) -> Sequence[Sample]:
        if dtype not in DTYPES:
            return ()
        rng = generator(name, dtype)
        return samples(lambda *shape: rng.uniform(-0.5, 0.5, shape).astype(dtype))

    return Op(
        name=name,
        kind="other",
        infer=infer,
        evaluate=run,
        vjp=vjp,
        batch="alike",
        lowering="host",
        samples=made,
        doc=doc,
    )


def _first_failing(evaluate: Callable[..., Any], arrays: Sequence[Array], attrs: Any) -> str:
    """Which matrix of a batch it is that fails, as text."""
    for index in np.ndindex(arrays[0].shape[:-2]) if arrays[0].ndim > 2 else ():
        try:
            evaluate(*[array[index] for array in arrays], **attrs)
        except np.linalg.LinAlgError:
            return f" (matrix {index if len(index) > 1 else index[0]} of the batch)"
    return ""


def require_matrices(name: str, *types: Type) -> list[TensorType]:
    """The types, which must be matrices or batches of them, float32 or float64."""
    rules.require_tensors(name, types, DTYPES)
    found = [rules.require_tensor(name, type) for type in types]
    for type in found:
        if type.ndim < 2:
            raise ShapeError(f"{name} takes matrices in the last two axes, not {type}", hint="x[None] adds an axis")
    return found


def require_square(name: str, type: Type) -> TensorType:
    """The type of square matrices."""
    (found,) = require_matrices(name, type)
    what = f"{name} takes square matrices, not {found}: its last two axes"
    size = require_same(context.constraints(), found.shape[-2], found.shape[-1], what)
    return TensorType(found.dtype, (*found.shape[:-2], size, size))


def lesser(rows: DimLike, columns: DimLike) -> DimLike:
    """The lesser extent of a matrix; of named sizes that leave it open, an order is assumed and recorded.

    What is known decides first, so that no second assumption contradicts one that was made before.
    """
    known = context.constraints()
    settled = Constraints(known, frozen=True)
    for asked in settled, known:
        if asked.at_least(rows, columns):
            return columns
        if asked.at_least(columns, rows):
            return rows
    raise ShapeError(f"which of the sizes {rows} and {columns} of a matrix is the lesser one is open")


def turned(x: Any) -> Any:
    """The transposes of the matrices."""
    ndim = len(x.shape)
    return transpose(x, permutation=(*range(ndim - 2), ndim - 1, ndim - 2))


def product(*factors: Any) -> Any:
    """The products of the matrices, from left to right."""
    found = factors[0]
    batch = tuple(range(len(found.shape) - 2))
    for factor in factors[1:]:
        found = dot(found, factor, batch=(batch, batch), contract=((len(batch) + 1,), (len(batch),)))
    return found


def rows_times(x: Any, v: Any) -> Any:
    """The vectors' elements as a factor of each row, repeated to the shape of x."""
    ndim = len(x.shape)
    return broadcast(v, shape=x.shape, axes=(*range(ndim - 2), ndim - 2))


def columns_times(x: Any, v: Any) -> Any:
    """The vectors' elements as a factor of each column, repeated to the shape of x."""
    ndim = len(x.shape)
    return broadcast(v, shape=x.shape, axes=(*range(ndim - 2), ndim - 1))


def repeated(x: Any, numbers: Any) -> Any:
    """One number for each matrix of x, repeated to its shape."""
    return broadcast(numbers, shape=x.shape, axes=tuple(range(len(x.shape) - 2)))


def sums(x: Any) -> Any:
    """The sum of each matrix."""
    ndim = len(x.shape)
    return reduce_sum(x, axes=(ndim - 2, ndim - 1))


def _places(x: Any) -> tuple[Any, Any]:
    ndim = len(x.shape)
    row, column = (iota(shape=x.shape, axis=axis, dtype=dtypes.int64) for axis in (ndim - 2, ndim - 1))
    return row, column


def lower(x: Any) -> Any:
    """x with zeros above the diagonal."""
    return select(ge(*_places(x)), x, zeros_like(x))


def below(x: Any) -> Any:
    """x with zeros on the diagonal and above."""
    return select(gt(*_places(x)), x, zeros_like(x))


def diagonal_of(x: Any) -> Any:
    """x with zeros off the diagonal."""
    return select(eq(*_places(x)), x, zeros_like(x))


def with_ones(x: Any) -> Any:
    """x with ones on the diagonal."""
    return select(eq(*_places(x)), full_like(1.0, x), x)


def diagonal_matrix(v: Any) -> Any:
    """Square matrices with the vectors on their diagonals."""
    shape = (*v.shape, v.shape[-1])
    return diagonal_of(broadcast(v, shape=shape, axes=tuple(range(len(v.shape)))))
