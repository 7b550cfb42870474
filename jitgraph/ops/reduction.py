"""Reductions over axes, which are dropped, and argmax and argmin; ``broadcasting`` has reduce_sum.

A reduction of nothing gives the identity: 0, 1, -inf or the least value for reduce_max, inf or the greatest for
reduce_min (False and True for bool). 16-bit floats are accumulated in float32 and rounded at the end. Sums and products
of floats have an order (``ops/order.py``); all else is the same in any: among zeros 0.0 is greater than -0.0, and a NaN
wins. argmax and argmin have a tuple accumulator (value, int64 index), to which element i contributes (x[i], i), and the
index is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Reduction, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import div, eq, mul, ne, select
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.cumulative import product_of_others
from jitgraph.ops.define import reduce_over
from jitgraph.ops.movement import reduce_sum, restore
from jitgraph.ops.numeric import Array, greatest, least, widen
from jitgraph.ops.order import in_order
from jitgraph.ops.sampling import edges, generator, values


def _extreme(ufunc: np.ufunc, init: Callable[[DType], Any], winner: float) -> Callable[[Array, tuple[int, ...]], Array]:
    """The evaluation of reduce_max or reduce_min; ``winner`` is the zero that wins."""

    def evaluate(x: Array, axes: tuple[int, ...]) -> Array:
        start = {} if x.size else {"initial": init(x.dtype)}
        result = np.asarray(ufunc.reduce(x, axis=axes, **start))
        if dtypes.is_float(x.dtype) and (zeros := result == 0).any():
            wins = ((x == 0) & (np.signbit(x) == np.signbit(winner))).any(axis=axes)
            result = np.where(zeros, np.where(wins, winner, -winner), result)
        return result

    return evaluate


def _extreme_of(s: Any, x: Any, y: Any, op: str, bits: str) -> Any:
    """The greater or smaller of two scalars; of two that compare equal, zeros alone differ, in their sign bit."""
    if not dtypes.is_float(x.dtype):
        return getattr(s, bits if dtypes.is_bool(x.dtype) else op)(x, y)
    raw = np.dtype(f"u{x.dtype.itemsize}")
    same = s.bitcast(getattr(s, bits)(s.bitcast(x, raw), s.bitcast(y, raw)), x.dtype)
    return s.select(s.cmp("eq", x, y), same, getattr(s, op)(x, y))


def _prod_vjp(ct: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    return (mul(restore(ct, x.type, axes), product_of_others(x, axes)),)


def _extreme_vjp(ct: Any, out: Any, x: Any, *, axes: tuple[int, ...]) -> tuple[Any]:
    """The gradient in equal parts to all elements that are the extreme; NaN where that is NaN (as PyTorch's amax)."""
    hit = eq(x, restore(out, x.type, axes))
    count = reduce_sum(cast(hit, dtype=x.dtype), axes=axes)
    rest = select(ne(out, out), full_like(math.nan, out), zeros_like(out))
    return (select(hit, restore(div(ct, count), x.type, axes), restore(rest, x.type, axes)),)


reduce_prod: Op = reduce_over(
    "reduce_prod",
    in_order(np.multiply, 1.0, 1.0),
    Reduction(lambda dtype: dtype.type(1).item(), lambda s, x, y: s.mul(x, y), rounds=True),
    accepts=rules.NUMBERS,
    vjp=_prod_vjp,
    onnx="ReduceProd",
    traits=["autocast_wide"],
    doc="The product over axes; its gradient is right at zeros.",
)
reduce_max: Op = reduce_over(
    "reduce_max",
    _extreme(np.maximum, least, 0.0),
    Reduction(least, lambda s, x, y: _extreme_of(s, x, y, "max", "or_" if dtypes.is_bool(x.dtype) else "and_")),
    accepts=rules.ALL,
    vjp=_extreme_vjp,
    onnx="ReduceMax",
    doc="The greatest element over axes (any, for bool); NaN where there is one.",
)
reduce_min: Op = reduce_over(
    "reduce_min",
    _extreme(np.minimum, greatest, -0.0),
    Reduction(greatest, lambda s, x, y: _extreme_of(s, x, y, "min", "and_" if dtypes.is_bool(x.dtype) else "or_")),
    accepts=rules.ALL,
    vjp=_extreme_vjp,
    onnx="ReduceMin",
    doc="The least element over axes (all, for bool); NaN where there is one.",
)


def _arg_reduce(name: str, find: Callable[..., Any], worst: Callable[[DType], Any], better: str, onnx: str) -> Op:
    def infer(x: Type, *, axis: int) -> TensorType:
        type = rules.require_tensor(name, x)
        rules.require_dtype(name, type, rules.ALL)
        rules.require_axis(name, axis, type.ndim)
        rules.at_least(f"{name}: {type} along axis {axis} has no element", type.shape[axis], 1)
        return TensorType(dtypes.int64, rules.without_axes(type.shape, (axis,)))

    def combine(s: Any, left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
        (x, i), (y, j) = left, right
        wins, ties = s.cmp(better, y, x), s.cmp("eq", x, y)
        if x.dtype.kind != "b" and not dtypes.is_integer(x.dtype):  # NaN is better than any number, and as good as NaN
            x_nan, y_nan = s.cmp("ne", x, x), s.cmp("ne", y, y)
            wins = s.or_(wins, s.and_(y_nan, s.not_(x_nan)))
            ties = s.or_(ties, s.and_(x_nan, y_nan))
        take = s.or_(wins, s.and_(ties, s.cmp("lt", j, i)))
        return s.select(take, y, x), s.select(take, j, i)

    def samples(dtype: DType) -> Sequence[Sample]:
        rng = generator(name, dtype)
        shapes = [((2, 3), 0), ((2, 3), 1), ((1,), 0), ((0, 3), 1), ((3, 37), 1), ((37, 3), 0), ((2, 5, 3), 1)]
        cases = [Sample((values(rng, dtype, shape),), {"axis": axis}) for shape, axis in shapes]
        flat = np.repeat(edges(dtype), 2)
        return [
            *cases,
            Sample((flat,), {"axis": 0}),
            Sample((flat[:1].repeat(5),), {"axis": 0}),
            Sample((flat[:0:-1],), {"axis": 0}),
        ]

    return Op(
        name=name,
        kind="reduce",
        infer=infer,
        evaluate=lambda x, *, axis: np.asarray(find(widen(x), axis=axis), np.int64),
        reduction=Reduction(lambda dtype: (worst(dtype), int(np.iinfo(np.int64).max)), combine),
        traits=frozenset({"nondifferentiable"}),
        onnx=onnx,
        samples=samples,
        doc="The int64 index of the extreme along an axis: the first of equal ones; a NaN counts as the extreme.",
    )


argmax: Op = _arg_reduce("argmax", np.argmax, least, "gt", "ArgMax")
argmin: Op = _arg_reduce("argmin", np.argmin, greatest, "lt", "ArgMin")
