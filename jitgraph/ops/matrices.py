"""What ops on matrices have in common: they stand in the last two axes, axes before these are a batch.

NumPy's ``linalg`` evaluates them, in compiled code through a call of Python (``lowering="host"``), so that eager calls
and traces have the same bits. Gradient rules are written over the products and masks of this file.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import LinAlgError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import Constraints, require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import MatrixNest, Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import div, eq, ge, gt, le, lt, mul, select
from jitgraph.ops.complex_parts import complex_, imag, real, zeros_of
from jitgraph.ops.contraction import dot
from jitgraph.ops.creation import full_like, iota, zeros_like
from jitgraph.ops.movement import broadcast, reduce_sum, transpose
from jitgraph.ops.numeric import Array, joined
from jitgraph.ops.sampling import generator
from jitgraph.ops.windows import slice

FLOATS: Final = frozenset({dtypes.float32, dtypes.float64})
DTYPES: Final = FLOATS | dtypes.COMPLEX
BY_FACTORS: Final = "jitgraph.ops.by_factors"  # imported by the first code that needs it


def matrix_op(
    name: str,
    infer: Callable[..., Type | tuple[Type, ...]],
    evaluate: Callable[..., Any],
    *,
    vjp: Callable[..., tuple[Any, ...]],
    samples: Callable[[Callable[..., Array]], Sequence[Sample]],
    failure: str = "the decomposition does not converge",
    hint: str = "look for NaN or infinity in the operand",
    count: int = 1,
    plain: int = 0,
    generated: Callable[..., Any] | None = None,
    is_generated: Callable[..., bool] | None = None,
    composed: Callable[..., Any] | None = None,
    alone: MatrixNest | None = None,
    complex_samples: Literal["differentiated", "plain", "none"] = "differentiated",
    doc: str,
) -> Op:
    """An op that ``evaluate`` computes with ``numpy.linalg``; LinAlgError of ``failure`` where that gives none.

    It takes ``count`` matrices of one dtype, real or complex, and ``plain`` operands more. For compiled code, which
    knows no complex numbers, it takes the two parts of each matrix instead, and gives the parts of what is complex.
    ``samples(array)`` makes its samples of ``array(*shape)``: random values whose parts lie between -0.5 and 0.5. The
    ``complex_samples`` are plain, which is not differentiated, where results have a free phase.
    """

    def in_parts(operands: Sequence[Any]) -> bool:
        return len(operands) == 2 * count + plain

    def typed(*types: Type, **attrs: Any) -> Type | tuple[Type, ...]:
        if not in_parts(types):
            return infer(*types, **attrs)
        halves = [rules.require_tensor(name, type) for type in types[: 2 * count : 2]]
        complex_types = [TensorType(dtypes.complex_of(type.dtype), type.shape) for type in halves]
        outs = infer(*complex_types, *types[2 * count :], **attrs)
        return tuple(part for type in (outs if isinstance(outs, tuple) else (outs,)) for part in _part_types(type))

    def run(*arrays: Array, **attrs: Any) -> Any:
        if not in_parts(arrays):
            return computed(arrays, attrs)
        operands = [joined(*arrays[2 * i : 2 * i + 2]) for i in range(count)]
        output = computed([*operands, *arrays[2 * count :]], attrs)
        results = output if isinstance(output, tuple) else (output,)
        flat = [part for x in results for part in ((x.real, x.imag) if dtypes.is_complex(x.dtype) else (x,))]
        return tuple([np.array(x, order="C") for x in flat])

    def computed(arrays: Sequence[Array], attrs: Any) -> Any:
        arrays = [np.asarray(x, order="C") for x in arrays]  # NumPy's products have other bits for other strides
        try:
            with np.errstate(all="ignore"):
                output = evaluate(*arrays, **attrs)
        except np.linalg.LinAlgError:
            failing = _first_failing(evaluate, arrays, attrs)
            raise LinAlgError(f"{name}: {failure}{failing}", hint=hint) from None
        if isinstance(output, tuple):
            return tuple([_dense(x, arrays[0].dtype) for x in output])
        return _dense(output, arrays[0].dtype)

    def parts(*operands: Any, **attrs: Any) -> Any:
        return op(*(part for x in operands for part in (x if isinstance(x, tuple) else (x,))), **attrs)

    def made(dtype: DType) -> Sequence[Sample]:
        if dtype not in FLOATS:
            return ()
        rng = generator(name, dtype)

        def array(*shape: int) -> Array:
            return np.asarray(rng.uniform(-0.5, 0.5, shape).astype(dtype))

        cases = list(samples(array))
        others = samples(lambda *shape: joined(array(*shape), array(*shape))) if complex_samples != "none" else ()
        for sample in others[:2]:
            single = sample.inputs[0].shape[-1] == 1
            cases.append(replace(sample, differentiable=single or complex_samples == "differentiated"))
        return cases

    op = Op(
        name=name,
        kind="other",
        infer=typed,
        evaluate=run,
        vjp=vjp,
        batch="alike",
        lowering="host",
        generated=generated,
        is_generated=is_generated,
        composed=composed,
        alone=alone,
        parts=parts,
        samples=made,
        doc=doc,
    )
    return op


def _part_types(type: Type) -> tuple[Type, ...]:
    """The types of the parts of a complex tensor; of another, itself."""
    if not isinstance(type, TensorType) or not dtypes.is_complex(type.dtype):
        return (type,)
    return (TensorType(dtypes.part_of(type.dtype), type.shape),) * 2


def _dense(x: Any, like: DType) -> Array:
    """An array of its own; inexact numbers as precise as ``like``."""
    array = np.asarray(x)
    if array.dtype.kind not in "fc":
        return np.array(array, order="C")
    real = dtypes.part_of(like)
    return np.array(array, dtype=dtypes.complex_of(real) if array.dtype.kind == "c" else real, order="C")


def _first_failing(evaluate: Callable[..., Any], arrays: Sequence[Array], attrs: Any) -> str:
    """Which matrix of a batch it is that fails, as text."""
    for index in np.ndindex(arrays[0].shape[:-2]) if arrays[0].ndim > 2 else ():
        try:
            evaluate(*[array[index] for array in arrays], **attrs)
        except np.linalg.LinAlgError:
            return f" (matrix {index if len(index) > 1 else index[0]} of the batch)"
    return ""


def require_matrices(name: str, *types: Type) -> list[TensorType]:
    """The types, which must be matrices or batches of them, of floats in 32 or 64 bits or of complex numbers."""
    rules.require_tensors(name, types, DTYPES)
    tensor_types = [rules.require_tensor(name, type) for type in types]
    for type in tensor_types:
        if type.ndim < 2:
            raise ShapeError(f"{name} takes matrices in the last two axes, not {type}", hint="x[None] adds an axis")
    return tensor_types


def require_square(name: str, type: Type) -> TensorType:
    """The type of square matrices."""
    (matrix_type,) = require_matrices(name, type)
    what = f"{name} takes square matrices, not {matrix_type}: its last two axes"
    size = require_same(context.constraints(), matrix_type.shape[-2], matrix_type.shape[-1], what)
    return TensorType(matrix_type.dtype, (*matrix_type.shape[:-2], size, size))


def lesser(rows: DimLike, columns: DimLike) -> DimLike:
    """The lesser extent of a matrix; of named sizes that leave it open, an order is assumed and recorded.

    What is known decides first, so that no second assumption contradicts one that was made before.
    """
    known = context.constraints()
    settled = Constraints(known, frozen=True)
    for constraints in settled, known:
        if constraints.at_least(rows, columns):
            return columns
        if constraints.at_least(columns, rows):
            return rows
    raise ShapeError(f"which of the sizes {rows} and {columns} of a matrix is the lesser one is open")


def turned(x: Any) -> Any:
    """The transposes of the matrices."""
    ndim = len(x.shape)
    return transpose(x, permutation=(*range(ndim - 2), ndim - 1, ndim - 2))


def formed(op: Op, *operands: Any, **attrs: Any) -> Any:
    """``op`` of real operands, or what it is for complex ones."""
    if dtypes.is_complex(operands[0].dtype):
        from jitgraph.ops.complex_forms import of_complex  # here: few programs have complex numbers

        op = of_complex(op)
    return op(*operands, **attrs)


def conj(x: Any) -> Any:
    """The conjugates: of real numbers, themselves."""
    if not dtypes.is_complex(x.dtype):
        return x
    from jitgraph.ops.complex_functions import complex_conj

    return complex_conj(x)


def adjoint(x: Any) -> Any:
    """The conjugate transposes."""
    return conj(turned(x))


def times(x: Any, y: Any) -> Any:
    """x * y."""
    return formed(mul, x, y)


def over(x: Any, r: Any) -> Any:
    """x / r, of real r."""
    return _by_real(div, x, r)


def scaled(x: Any, r: Any) -> Any:
    """x * r, of real r."""
    return _by_real(mul, x, r)


def real_like(x: Any) -> Any:
    """A real matrix of the shape of x: its real part."""
    return real(x) if dtypes.is_complex(x.dtype) else x


def halved(x: Any) -> Any:
    """x / 2."""
    part = real(x) if dtypes.is_complex(x.dtype) else x
    return scaled(x, full_like(0.5, part))


def _by_real(op: Op, x: Any, r: Any) -> Any:
    if not dtypes.is_complex(x.dtype):
        return op(x, r)
    return complex_(op(real(x), r), op(imag(x), r))


def real_part(x: Any) -> Any:
    """x with zeros for imaginary parts, in its dtype."""
    return as_like(real(x), x) if dtypes.is_complex(x.dtype) else x


def imaginary_part(x: Any) -> Any:
    """x with zeros for real parts."""
    return complex_(zeros_of(imag(x)), imag(x)) if dtypes.is_complex(x.dtype) else zeros_like(x)


def as_like(r: Any, x: Any) -> Any:
    """Real r in the dtype of x."""
    return complex_(r, zeros_of(r)) if dtypes.is_complex(x.dtype) and not dtypes.is_complex(r.dtype) else r


def product(*factors: Any) -> Any:
    """The products of the matrices, from left to right."""
    result = factors[0]
    batch = tuple(range(len(result.shape) - 2))
    for factor in factors[1:]:
        result = formed(dot, result, factor, batch=(batch, batch), contract=((len(batch) + 1,), (len(batch),)))
    return result


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


def _diagonal_index(x: Any) -> tuple[Any, Any]:
    ndim = len(x.shape)
    row, column = (iota(shape=x.shape, axis=axis, dtype=dtypes.int64) for axis in (ndim - 2, ndim - 1))
    return row, column


def columns_of(x: Any, start: DimLike, stop: DimLike) -> Any:
    """The columns from ``start`` up to ``stop``."""
    return _cut(x, len(x.shape) - 1, start, stop)


def rows_of(x: Any, start: DimLike, stop: DimLike) -> Any:
    """The rows from ``start`` up to ``stop``."""
    return _cut(x, len(x.shape) - 2, start, stop)


def _cut(x: Any, axis: int, start: DimLike, stop: DimLike) -> Any:
    starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
    stops = tuple(stop if i == axis else extent for i, extent in enumerate(x.shape))
    return slice(x, starts=starts, stops=stops, strides=(1,) * len(x.shape))


def lower(x: Any) -> Any:
    """x with zeros above the diagonal."""
    return select(ge(*_diagonal_index(x)), x, zeros_like(x))


def below(x: Any) -> Any:
    """x with zeros on the diagonal and above."""
    return select(gt(*_diagonal_index(x)), x, zeros_like(x))


def upper_of(x: Any) -> Any:
    """x with zeros below the diagonal."""
    return select(le(*_diagonal_index(x)), x, zeros_like(x))


def above(x: Any) -> Any:
    """x with zeros on the diagonal and below."""
    return select(lt(*_diagonal_index(x)), x, zeros_like(x))


def diagonal_of(x: Any) -> Any:
    """x with zeros off the diagonal."""
    return select(eq(*_diagonal_index(x)), x, zeros_like(x))


def with_ones(x: Any) -> Any:
    """x with ones on the diagonal."""
    return select(eq(*_diagonal_index(x)), full_like(1.0, x), x)


def diagonal_matrix(v: Any) -> Any:
    """Square matrices with the vectors on their diagonals."""
    shape = (*v.shape, v.shape[-1])
    return diagonal_of(broadcast(v, shape=shape, axes=tuple(range(len(v.shape)))))
