"""What the type rules of ops have in common: which dtypes an op takes, and shapes that must agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeGuard

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.types import Shape, TensorType, Type

if TYPE_CHECKING:
    from jitgraph.ir.graph import Graph

FLOATS: Final = frozenset(d for d in dtypes.DTYPES if dtypes.is_float(d))
INTEGERS: Final = frozenset(d for d in dtypes.DTYPES if dtypes.is_integer(d))
BOOL: Final = frozenset({dtypes.bool_})
NUMBERS: Final = FLOATS | INTEGERS
BITS: Final = INTEGERS | BOOL
ALL: Final = NUMBERS | BOOL
COMPLEX: Final = dtypes.COMPLEX
LINEAR: Final = NUMBERS | COMPLEX  # what is added part by part
EVERY: Final = ALL | COMPLEX
INEXACT: Final = FLOATS | COMPLEX
HALF: Final = dtypes.HALF

_WORDS: Final = {
    FLOATS: "a float",
    INTEGERS: "an integer",
    NUMBERS: "a number",
    BITS: "an integer or bool",
    BOOL: "bool",
    ALL: "a real",
    LINEAR: "a number",
    EVERY: "any",
    INEXACT: "a float or complex",
}


def describe(types: Sequence[Type]) -> str:
    """The types as they stand in messages: ``f32[2, 3], f32[4]``."""
    return ", ".join(map(str, types))


def require_tensors(op: str, types: Sequence[Type], accepts: frozenset[DType], count: int | None = None) -> None:
    """DTypeError unless all are tensors (``count`` of them) of one dtype among ``accepts``."""
    if count is not None and len(types) != count:
        raise ShapeError(f"{op} takes {count} operands, not {len(types)}")
    tensors = [require_tensor(op, type) for type in types]
    if any(type.dtype != tensors[0].dtype for type in tensors):
        raise DTypeError(f"{op}: the dtypes of {describe(types)} differ", hint="cast one side with .astype(...)")
    if tensors:
        require_dtype(op, tensors[0], accepts)


def require_tensor(op: str, type: Type, ndim: int | None = None) -> TensorType:
    """``type``, which must be a tensor (of ``ndim`` axes): DTypeError or ShapeError where it is not."""
    if not isinstance(type, TensorType):
        raise DTypeError(f"{op} takes tensors, not {type}")
    if ndim is not None and type.ndim != ndim:
        raise ShapeError(f"{op}: {type} should have {ndim} axes")
    return type


def require_dtype(op: str, type: TensorType, accepts: frozenset[DType]) -> None:
    """DTypeError unless the dtype of ``type`` is among ``accepts``."""
    if type.dtype not in accepts:
        expected = _WORDS.get(accepts) or " or ".join(sorted(d.name for d in accepts))
        hint = "cast it with .astype(...)"
        if dtypes.is_complex(type.dtype):
            hint = "complex numbers have no order and no such rule: take x.real, x.imag or jg.abs(x)"
        raise DTypeError(f"{op} takes {expected} dtype, not {type}", hint=hint)


def same_shape(op: str, types: Sequence[TensorType]) -> Shape:
    """The shape that all operands have; ShapeError where they differ. Nothing broadcasts here."""
    first = types[0].shape
    if all(type.shape == first for type in types):
        return first
    if any(len(type.shape) != len(first) for type in types):
        raise ShapeError(f"{op}: the shapes of {describe(types)} differ")
    shape = first
    for type in types[1:]:
        shape = same_dims(f"{op}({describe(types)})", shape, type.shape)
    return shape


def same_dims(what: str, left: Shape, right: Shape) -> Shape:
    """The common shape of two of equal length; ShapeError that begins with ``what`` and names the axis."""
    if left == right:
        return left
    if len(left) != len(right):
        raise ShapeError(f"{what}: {len(left)} axes and {len(right)} differ")
    known = context.constraints()
    return tuple(
        require_same(known, a, b, f"{what}: axis {i}") for i, (a, b) in enumerate(zip(left, right, strict=True))
    )


def require_region(op: str, region: Graph, types: Iterable[Type]) -> None:
    """ShapeError unless the inputs of ``region`` have the operands' types, under the known constraints."""
    actual = tuple(types)
    expected = tuple(value.type for value in region.inputs)
    if actual == expected:
        return
    what = f"{op}: the region {region.name} takes ({describe(expected)}), not ({describe(actual)})"
    require_same_types(what, actual, expected)


def require_same_types(what: str, left: tuple[Type, ...], right: tuple[Type, ...]) -> None:
    """ShapeError that begins with ``what`` unless both lists of types agree."""
    if left == right:
        return
    if len(left) != len(right):
        raise ShapeError(what)
    for a, b in zip(left, right, strict=True):
        if isinstance(a, TensorType) and isinstance(b, TensorType) and a.dtype == b.dtype:
            same_dims(what, a.shape, b.shape)
        elif a != b:
            raise ShapeError(what)


def at_least(what: str, left: DimLike, bound: DimLike) -> None:
    """ShapeError that begins with ``what`` unless ``left >= bound``; an open question is recorded as a constraint."""
    if not context.constraints().at_least(left, bound):
        raise ShapeError(f"{what}: {left} should be at least {bound}")


def require_elements(what: str, size: DimLike) -> None:
    """ShapeError that begins with ``what`` for a size of 0; an open question is recorded as a constraint."""
    if not context.constraints().at_least(size, 1):
        raise ShapeError(f"{what}: {size} should be at least 1")


def quotient(what: str, size: DimLike, parts: DimLike) -> DimLike:
    """``size // parts``, which leaves no rest: ShapeError where it does, of which ``what`` is the subject.

    An open question is recorded as a constraint, such as ``n % 4 == 0``.
    """
    known = context.constraints()
    if not known.at_least(parts, 1) or not known.same(size % parts, 0):
        raise ShapeError(f"{what} do not divide by {parts}")
    return size // parts


def require_axes(op: str, axes: object, ndim: int) -> tuple[int, ...]:
    """``axes``: sorted distinct ints in ``0 .. ndim - 1``; ShapeError where they are not."""
    if not _is_ints(axes) or any(not 0 <= axis < ndim for axis in axes) or list(axes) != sorted(set(axes)):
        raise ShapeError(f"{op}: axes {axes} are not sorted distinct axes of {ndim}")
    return tuple(axes)


def require_axis(op: str, axis: object, ndim: int) -> int:
    """``axis``: an int in ``0 .. ndim - 1``; ShapeError where it is not."""
    if not isinstance(axis, int) or not 0 <= axis < ndim:
        raise ShapeError(f"{op}: axis {axis} is not one of {ndim} axes")
    return axis


def require_shape(op: str, shape: object) -> Shape:
    """``shape``: a tuple of sizes, none negative; ShapeError where it is not."""
    if not isinstance(shape, tuple) or not all(isinstance(d, int | Dim) and not isinstance(d, bool) for d in shape):
        raise ShapeError(f"{op}: {shape!r} is not a shape")
    for dim in shape:
        at_least(f"{op}: size in {shape}", dim, 0)
    return shape


def without_axes(shape: Sequence[Any], axes: Sequence[int]) -> tuple[Any, ...]:
    """``shape`` without ``axes``."""
    return tuple(dim for axis, dim in enumerate(shape) if axis not in axes)


def _is_ints(values: object) -> TypeGuard[tuple[int, ...]]:
    return isinstance(values, tuple) and all(isinstance(v, int) and not isinstance(v, bool) for v in values)


def open_extent(extent: int, name: str) -> int | str:
    """``name`` for an extent that a kernel leaves open, or 1: a product with a vector is computed in another way."""
    return 1 if extent == 1 else name


def extent_of(start: DimLike, stop: DimLike, stride: int) -> DimLike:
    """How many of start, start + stride, ... lie below stop."""
    return (stop - start + (stride - 1)) // stride
