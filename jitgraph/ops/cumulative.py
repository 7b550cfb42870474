"""cumsum, cumprod, cummax and cummin along an axis, and the product of all other elements.

Element i combines elements 0 .. i; sums and products of floats have an order (``ops/order.py``), all else is
the same in any. 16-bit floats are accumulated in float32 and rounded at each output.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir import dims
from jitgraph.ir.builder import build
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, Reduction, Sample, Trait
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, bitwise_or, eq, mul, ne, select
from jitgraph.ops.control import scan
from jitgraph.ops.creation import full, full_like, iota, zeros_like
from jitgraph.ops.gathering import scatter_add
from jitgraph.ops.movement import flip, inverse, reshape, transpose
from jitgraph.ops.numeric import Array, greatest, joined, least, widen, widen_dtype
from jitgraph.ops.order import accumulate_in_order
from jitgraph.ops.sampling import edges, generator, values
from jitgraph.ops.windows import pad, slice


def _latest(x: Array, extreme: Array, axis: int) -> Array:
    """Of the elements that are as extreme, among them zeros of both signs, the latest; of NaNs too."""
    index = np.arange(x.shape[axis]).reshape([-1 if number == axis else 1 for number in range(x.ndim)])
    reached = np.where((widen(x) == extreme) | np.isnan(widen(x)), index, 0)
    return np.asarray(np.take_along_axis(x, np.maximum.accumulate(reached, axis), axis))


def _cumulative(
    name: str,
    ufunc: np.ufunc,
    *,
    init: Callable[[DType], Any],
    combine: Callable[..., Any],
    vjp: Callable[..., tuple[Any, ...]],
    rounds: bool = False,
    accepts: frozenset[DType] = rules.NUMBERS,
    traits: Iterable[Trait] = (),
    onnx: str | None = None,
    doc: str,
) -> Op:
    def infer(x: Type, *, axis: int) -> TensorType:
        rules.require_tensors(name, (x,), accepts, 1)
        type = rules.require_tensor(name, x)
        rules.require_axis(name, axis, type.ndim)
        return type

    def evaluate(x: Array, *, axis: int) -> Array:
        if x.dtype.kind == "c":
            return joined(evaluate(x.real, axis=axis), evaluate(x.imag, axis=axis))
        with np.errstate(all="ignore"):
            if rounds and dtypes.is_float(x.dtype):
                start = init(x.dtype) or -0.0  # the zero that keeps the sign of one which comes first
                return accumulate_in_order(ufunc, widen(x), axis, start).astype(x.dtype)
            result = ufunc.accumulate(widen(x), axis, dtype=widen_dtype(x.dtype))
            if not rounds and dtypes.is_float(x.dtype):
                return _latest(x, result, axis)
            return np.asarray(result).astype(x.dtype)

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.NUMBERS:
            return ()
        rng = generator(name, dtype)
        shapes = [((5,), 0), ((2, 3), 0), ((2, 3), 1), ((0,), 0), ((2, 0), 1), ((0, 2), 1), ((1,), 0), ((2, 3, 2), 1)]
        cases = [Sample((values(rng, dtype, shape, (0.4, 1.6)),), {"axis": axis}) for shape, axis in shapes]
        zeros = values(rng, dtype, (2, 5))
        zeros[0, 1] = zeros[1, 1] = zeros[1, 3] = 0
        cases.append(Sample((zeros,), {"axis": 1}, differentiable=name in ("cumsum", "cumprod")))
        cases.append(Sample((values(rng, dtype, (3, 37), (0.8, 1.2)),), {"axis": 1}, differentiable=False))
        long = values(rng, dtype, (2, 1100), (0.99, 1.01))
        cases.append(Sample((long,), {"axis": 1}, differentiable=False))
        return [*cases, Sample((edges(dtype),), {"axis": 0}, differentiable=False)]

    return Op(
        name=name,
        kind="other",
        batch="shifted",
        infer=infer,
        evaluate=evaluate,
        vjp=vjp,
        reduction=Reduction(init, combine, rounds=rounds),
        lowering="cumulative",
        traits=frozenset(traits),
        onnx=onnx,
        samples=samples,
        doc=doc,
    )


def reversed_cumsum(x: Any, axis: int) -> Any:
    """Element i is the sum of elements i and after."""
    return flip(cumsum(flip(x, axes=(axis,)), axis=axis), axes=(axis,))


def _shifted(x: Any, axis: int, *, later: bool, value: float) -> Any:
    """x moved by one along the axis, to later or earlier places, with ``value`` where it leaves a gap."""
    ndim, extent = len(x.shape), x.shape[axis]
    one, none = tuple(int(i == axis) for i in range(ndim)), (0,) * ndim
    fill = full(shape=(), value=value, dtype=x.dtype)
    longer = pad(x, fill, low=one if later else none, high=none if later else one, interior=none)
    start: DimLike = 0 if later else 1
    starts = tuple(start if i == axis else 0 for i in range(ndim))
    stops = tuple(start + extent if i == axis else size for i, size in enumerate(x.shape))
    return slice(longer, starts=starts, stops=stops, strides=(1,) * ndim)


def _cumprod_vjp(ct: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    """With L[k] the product before k, dx[k] = L[k] * R[k] where R[k] = ct[k] + x[k + 1] * R[k + 1].

    There is no division, so zeros need no case of their own.
    """
    before = cumprod(_shifted(x, axis, later=True, value=1.0), axis=axis)
    following = _shifted(x, axis, later=False, value=0.0)
    front = (axis, *(i for i in range(len(x.shape)) if i != axis))
    rows, factors = transpose(ct, permutation=front), transpose(following, permutation=front)
    row = TensorType(x.dtype, rows.shape[1:])

    def step(carry: Any, seed: Any, factor: Any) -> Any:
        result = add(seed, mul(factor, carry))
        return result, result

    body = build(step, [row, row, row], "linear_recurrence")
    start = full(shape=row.shape, value=0, dtype=x.dtype)
    attrs = {"num_carries": 1, "num_xs": 2, "length": x.shape[axis], "reverse": True}
    _, after = scan(start, rows, factors, regions=(body,), **attrs)
    return (mul(before, transpose(after, permutation=inverse(front))),)


def product_of_others(x: Any, axes: Sequence[int]) -> Any:
    """For each element the product of all other elements along ``axes``, right where some are zero."""
    order = (*(i for i in range(len(x.shape)) if i not in axes), *axes)
    lead = len(order) - len(axes)
    last = transpose(x, permutation=order)
    flat = reshape(last, shape=(*last.shape[:lead], dims.product(last.shape[lead:])))
    before = cumprod(_shifted(flat, lead, later=True, value=1.0), axis=lead)
    backward = flip(flat, axes=(lead,))
    after = flip(cumprod(_shifted(backward, lead, later=True, value=1.0), axis=lead), axes=(lead,))
    return transpose(reshape(mul(before, after), shape=last.shape), permutation=inverse(order))


def along(x: Any, indices: Any, axis: int) -> Any:
    """The flat row-major indices into x of its elements at ``indices`` (shaped like x) along ``axis``."""
    flat: Any = None
    stride: DimLike = 1
    for i in reversed(range(len(x.shape))):
        coordinate = indices if i == axis else iota(shape=indices.shape, axis=i, dtype=dtypes.int64)
        term = mul(coordinate, full_like(stride, coordinate))
        flat = term if flat is None else add(flat, term)
        stride = stride * x.shape[i]
    return reshape(flat, shape=(dims.product(indices.shape),))


def add_along(x: Any, indices: Any, updates: Any, axis: int) -> Any:
    """x with updates added at ``indices`` along ``axis``, which are shaped like the updates and in range."""
    size = dims.product(x.shape)
    values = reshape(updates, shape=(dims.product(updates.shape),))
    flat = scatter_add(reshape(x, shape=(size,)), along(x, indices, axis), values, axis=0)
    return reshape(flat, shape=x.shape)


def _extreme_vjp(ct: Any, out: Any, x: Any, *, axis: int) -> tuple[Any]:
    """Each output's gradient goes to the element it is, the latest of equal ones (as in PyTorch)."""
    new = eq(x, out)
    if dtypes.is_float(x.dtype):
        new = bitwise_or(new, ne(x, x))
    positions = iota(shape=x.shape, axis=axis, dtype=dtypes.int64)
    source = cummax(select(new, positions, zeros_like(positions)), axis=axis)
    return (add_along(zeros_like(x), source, ct, axis),)


cumsum: Op = _cumulative(
    "cumsum",
    np.add,
    init=lambda dtype: dtype.type(0).item(),
    combine=lambda s, x, y: s.add(x, y),
    rounds=True,
    accepts=rules.LINEAR,
    traits=["planewise", "autocast_wide"],
    vjp=lambda ct, out, x, *, axis: (reversed_cumsum(ct, axis),),
    onnx="CumSum",
    doc="Sums of elements 0 .. i; those of floats have an order.",
)
cumprod: Op = _cumulative(
    "cumprod",
    np.multiply,
    init=lambda dtype: dtype.type(1).item(),
    combine=lambda s, x, y: s.mul(x, y),
    rounds=True,
    traits=["autocast_wide"],
    vjp=_cumprod_vjp,
    doc="Products of elements 0 .. i; those of floats have an order.",
)
cummax: Op = _cumulative(
    "cummax",
    np.maximum,
    init=least,
    combine=lambda s, x, y: s.max(y, x),  # the latest of equal ones
    vjp=_extreme_vjp,
    doc="The greatest of elements 0 .. i, of equal ones the latest; NaN from the first NaN on.",
)
cummin: Op = _cumulative(
    "cummin",
    np.minimum,
    init=greatest,
    combine=lambda s, x, y: s.min(y, x),
    vjp=_extreme_vjp,
    doc="The least of elements 0 .. i, of equal ones the latest; NaN from the first NaN on.",
)
