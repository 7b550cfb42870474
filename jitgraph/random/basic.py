"""Uniform and normal numbers, integers, truth values and orders; how an op draws, and what parametrises it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.eager import placement
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op, OpenShape
from jitgraph.ops import rules
from jitgraph.ops.distributions import WORDS
from jitgraph.random.generator import Generator, current, next_key
from jitgraph.tensor import Tensor, lifting, scalars, tensor_of, wrap
from jitgraph.tensor.functions.creation import shape_of
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import broadcast_arrays, broadcast_to, take
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.reductions import argsort
from jitgraph.tensor.lifting import TensorLike

# ----------------------------------------------------------------------
# Applying an op that draws: outside of traces by one kernel for all shapes, once draws were many.
#
# Such an op takes its shape as an attribute, where a kernel takes sizes from operands. The fused op of it here draws as
# many numbers as an operand has, which is never read. Numbers lie in the stream in row-major order, so that those of a
# shape are the same as those in a row.

_WORTH: Final = 64  # draws of a few numbers op by op take as long as compiling the kernel
_MANY: Final = 1 << 15  # numbers, for which ops one by one take as long as half of compiling a kernel
_NUMBERS: Final = 8192  # take as long as a draw of a few
_spent: Final[dict[Any, int]] = {}


def numbers(op: Op, key: Any, shape: Sequence[DimLike], dtype: DType) -> Any:
    """The numbers that ``op`` draws for a key, with the same bits whichever way."""
    return _drawn(op, key, tuple(shape), {"dtype": dtype}, dtype)


def words(key: Any, shape: Sequence[DimLike]) -> Any:
    """The 32-bit words that belong to a key, likewise."""
    return _drawn(ops.random_bits, key, tuple(shape), {}, dtypes.uint32)


def _drawn(op: Any, key: Any, sizes: tuple[Any, ...], attrs: Attrs, dtype: DType) -> Any:
    if context.current().emitter is EAGER and isinstance(key, EagerValue):
        count = math.prod(sizes)
        spent = _spent[op] = _spent.get(op, 0) + 1 + count // _NUMBERS
        if count and (spent > _WORTH or count >= _MANY):
            row: Any = _in_a_row(op)
            shape = (count // WORDS, WORDS) if count % WORDS == 0 else (count,)
            return ops.reshape(row(key, EagerValue(np.empty(shape, dtype)), **attrs), shape=sizes)
    return op(key, shape=sizes, **attrs)


@cache
def _in_a_row(op: Any) -> Op:
    from jitgraph.eager.fused_ops import fused_op  # here, as many programs draw nothing twice

    def body(key: Any, like: Any, **attrs: Any) -> Any:
        return op(key, shape=like.type.shape, **attrs)

    return fused_op(f"{op.name if isinstance(op, Op) else op.__name__}_in_a_row", body, ["nondifferentiable"], _open)


def _open(key: tuple[int, ...], like: tuple[int, ...], **attrs: Any) -> tuple[OpenShape, OpenShape]:
    return key, (rules.open_extent(like[0], "n"), *like[1:])


# ----------------------------------------------------------------------
# What functions of this package take: shapes to draw, numbers and tensors that parametrise, conditions on them.


def at(device: str | None, key: Any) -> Any:
    """A key on the device where numbers are to be drawn; the state stays where it is."""
    return key if device is None else wrap(key).to(device).value


def device_of(x: Any) -> str | None:
    """Where a tensor lies, whose numbers are drawn there, too; None in a trace, which has one place."""
    return x.device if isinstance(x, Tensor) and context.current().trace is None else None


def kind_of(dtype: Any) -> dtypes.DType:
    """The float dtype of numbers to be drawn, float32 for None; DTypeError for another."""
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"these random numbers are floats, not {kind.name}", hint="jg.random.randint for integers")
    return kind


def drawn(
    op: Op, shape: Sequence[DimLike], dtype: dtypes.DType, generator: Generator | None, device: str | None
) -> Tensor:
    """The next numbers of ``op``, an op of a key, a shape and a dtype, on this device; each element uses one number."""
    return wrap(numbers(op, at(device, next_key(shape, dtype, generator=generator)), shape, dtype))


def moved(unit: Tensor, loc: TensorLike, scale: TensorLike) -> Tensor:
    """``unit * scale + loc`` in the dtype of ``unit``, and ``unit`` itself for the numbers 0 and 1."""
    if scalars.is_scalar(loc) and scalars.is_scalar(scale) and (loc, scale) == (0, 1):
        return unit
    return (unit * scale + loc).astype(unit.dtype)  # type: ignore[no-any-return]


def wide_of(dtype: dtypes.DType) -> dtypes.DType:
    """The float in which numbers for this dtype are computed: float64 for itself, else float32."""
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def parameters_of(
    shape: Any, dtype: Any, *parameters: TensorLike
) -> tuple[tuple[DimLike, ...], dtypes.DType, list[Tensor], str | None]:
    """The shape and dtype of what is drawn for these parameters, and they as floats of this shape, without gradients.

    Parameters broadcast against each other and to ``shape``. The dtype is theirs where it is a float and none is asked
    for; 16-bit ones are computed in float32. With them comes the device where a tensor among them lies.
    """
    tensors = [tensor_of(each) for each in parameters]
    floats = [each.dtype for each in tensors if dtypes.is_float(each.dtype) and each.ndim]
    kind = kind_of(dtype if dtype is not None or not floats else max(floats, key=lambda each: each.itemsize))
    device = next((device_of(each) for each in parameters if isinstance(each, Tensor)), None)
    values = broadcast_arrays(*(each.detach().astype(wide_of(kind)) for each in tensors))
    if shape is not None:
        values = [broadcast_to(each, shape_of(shape)) for each in values]
    return values[0].value.shape, kind, values, device


def require(condition: Tensor, message: str) -> None:
    """ValueError with the message where an element of ``condition`` is false, at the call and in compiled code."""
    axes = tuple(range(condition.ndim))
    ops.check(ops.reduce_min(condition.value, axes=axes), kind="ValueError", message=message)


# ----------------------------------------------------------------------
# Uniform and normal numbers, integers, truth values and orders.


def _refuse_shape(name: str, *numbers: Any) -> None:
    """JitgraphError where a shape stands behind, as NumPy has it."""
    if any(isinstance(number, tuple | list) for number in numbers):
        form = "shape, low, high" if name == "uniform" else "shape, mean, std"
        raise JitgraphError(f"{name}: the shape comes first\n  hint: jg.random.{name}({form})")


@array_function
def uniform(
    shape: Any = (),
    low: TensorLike = 0.0,
    high: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Uniform in [low, high), float32 unless ``dtype`` is given; the bounds are numbers or 0-d tensors.

    On every ``device`` the numbers are the same.
    """
    _refuse_shape("uniform", low, high)
    sizes, kind = shape_of(shape), kind_of(dtype)
    unit = drawn(ops.uniform, sizes, kind, generator, device)
    if scalars.is_scalar(low) and scalars.is_scalar(high) and (low, high) == (0, 1):
        return unit
    start, stop = (wrap(lifting.cast(lifting.value_of(bound, kind), kind)) for bound in (low, high))
    scaled = unit * (stop - start) + start
    return where(scaled < stop, scaled, start)  # what rounds up to the end goes to the start


@array_function
def normal(
    shape: Any = (),
    mean: TensorLike = 0.0,
    std: TensorLike = 1.0,
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Normal with this mean and standard deviation, float32 unless ``dtype`` is given; on every ``device`` the same."""
    _refuse_shape("normal", mean, std)
    sizes, kind = shape_of(shape), kind_of(dtype)
    key = at(device, next_key(sizes, kind, normal=True, generator=generator))
    return moved(wrap(numbers(ops.normal, key, sizes, kind)), mean, std)


@array_function
def randint(
    low: int,
    high: int,
    shape: Any = (),
    *,
    dtype: Any = None,
    generator: Generator | None = None,
    device: str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Integers in [low, high), int64 unless ``dtype`` is given; the span is at most 2**32."""
    low, high = scalars.python_int(low), scalars.python_int(high)
    if not 0 < high - low <= 2**32:
        raise JitgraphError(f"randint: [{low}, {high}) is empty or spans more than 2**32 numbers")
    sizes, kind = tuple(shape_of(shape)), dtypes.int64 if dtype is None else dtypes.canonical(dtype)
    for bound in (low, high - 1):
        scalars.require_representable(bound, kind)
    key = at(device, current(generator).key(dims.product(sizes)))
    return wrap(_drawn(_integers, key, sizes, {"low": low, "span": high - low, "dtype": kind}, kind))


def _integers(key: Any, *, shape: Sequence[DimLike], low: int, span: int, dtype: DType) -> Any:
    """Lemire 2019, without the rejection: biased by less than span / 2**32."""
    with placement.beside(key):  # the full tensors have no operand that says where
        wide = lifting.cast(ops.random_bits(key, shape=shape), dtypes.uint64)
        factor, shift = (ops.full(shape=shape, value=value, dtype=dtypes.uint64) for value in (span, 32))
        scaled = lifting.cast(ops.shift_right(ops.mul(wide, factor), shift), dtypes.int64)
        return lifting.cast(ops.add(scaled, ops.full(shape=shape, value=low, dtype=dtypes.int64)), dtype)


def bernoulli(p: TensorLike, shape: Any = None, *, generator: Generator | None = None) -> Tensor:
    """True with probability ``p`` (a number or a tensor), of ``shape`` or that of ``p``.

    JitgraphError for a Python number that does not lie between 0 and 1; of a tensor one below counts as 0, above as 1.
    """
    if isinstance(p, int | float) and not 0.0 <= p <= 1.0:
        raise JitgraphError(f"bernoulli: p={p} is not a probability")
    sizes = shape if shape is not None else getattr(p, "shape", ())
    return uniform(sizes, generator=generator, device=device_of(p)) < p


@array_function
def permutation(
    n: Any, *, generator: Generator | None = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The numbers 0 to n - 1 in random order (int64), or the rows of a tensor in random order.

    The order is that of n random words, equal ones as they come.
    """
    if isinstance(n, Tensor):
        return take(n, permutation(n.shape[0], generator=generator, device=device or device_of(n)), axis=0)
    key = at(device, current(generator).key(dims.product(shape_of(n))))
    return argsort(wrap(words(key, shape_of(n))))
