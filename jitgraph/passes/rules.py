"""Rewrite rules as text: ``name: pattern => replacement``, with ``if conditions`` where types or attributes matter.

Both sides read as calls of ops. A name stands for any value, the same wherever it stands, and ``key=name`` for any
attribute. A number stands for a tensor that is that number everywhere: ``0`` is +0.0 in floats, never -0.0. On the
right, a number has the type of the whole, ``like(x, f(y))`` that of ``x``. Functions in conditions and in attributes
on the right are those of ``VOCABULARY``, where ``out`` is the value that the pattern matched. Operands of commutative
ops match in either order. A rule never leads to worse code.

A rule of EXACT keeps every bit of every result, for NaN (as NaN), infinity, -0.0 and all integers. Those of FASTMATH
hold for real numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import ml_dtypes
import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.passes.patterns import Matched, Rule, parse_rules

_EXACT_TEXT: Final = """
    neg_neg:              neg(neg(x)) => x
    not_not:              bitwise_not(bitwise_not(x)) => x
    idempotent_abs:       abs(abs(x)) => abs(x)
    abs_neg:              abs(neg(x)) => abs(x)  if is_not_unsigned(x)
    idempotent_floor:     floor(floor(x)) => floor(x)
    idempotent_ceil:      ceil(ceil(x)) => ceil(x)
    idempotent_rint:      rint(rint(x)) => rint(x)
    idempotent_trunc:     trunc(trunc(x)) => trunc(x)
    idempotent_sign:      sign(sign(x)) => sign(x)

    add_integer_zero:     add(x, 0) => x  if is_integer(x)
    add_negative_zero:    add(x, -0.0) => x  if is_float(x)
    add_neg:              add(x, neg(y)) => sub(x, y)
    sub_zero:             sub(x, 0) => x
    sub_neg:              sub(x, neg(y)) => add(x, y)
    sub_integer_self:     sub(x, x) => 0  if is_integer(x)
    negative_zero_minus:  sub(-0.0, x) => neg(x)  if is_float(x)
    integer_zero_minus:   sub(0, x) => neg(x)  if is_integer(x)
    mul_one:              mul(x, 1) => x
    mul_minus_one:        mul(x, -1) => neg(x)
    mul_integer_zero:     mul(x, 0) => 0  if is_integer(x)
    mul_neg_neg:          mul(neg(x), neg(y)) => mul(x, y)
    div_one:              div(x, 1) => x
    div_minus_one:        div(x, -1) => neg(x)
    div_neg_neg:          div(neg(x), neg(y)) => div(x, y)
    div_power_of_two:     div(x, c) => mul(x, like(c, inverse(c)))  if has_exact_inverse(c)
    floor_divide_one:     floor_divide(x, 1) => x  if is_integer(x)

    maximum_self:         maximum(x, x) => x
    minimum_self:         minimum(x, x) => x
    and_self:             bitwise_and(x, x) => x
    or_self:              bitwise_or(x, x) => x
    xor_self:             bitwise_xor(x, x) => 0
    and_zero:             bitwise_and(x, 0) => 0
    or_zero:              bitwise_or(x, 0) => x
    xor_zero:             bitwise_xor(x, 0) => x
    and_true:             bitwise_and(x, 1) => x  if is_bool(x)
    or_true:              bitwise_or(x, 1) => 1  if is_bool(x)
    shift_left_zero:      shift_left(x, 0) => x
    shift_right_zero:     shift_right(x, 0) => x

    select_same:          select(c, x, x) => x
    select_true:          select(1, x, y) => x
    select_false:         select(0, x, y) => y
    select_not:           select(bitwise_not(c), x, y) => select(c, y, x)
    not_lt_integer:       bitwise_not(lt(x, y)) => ge(x, y)  if is_integer(x)
    not_ge_integer:       bitwise_not(ge(x, y)) => lt(x, y)  if is_integer(x)
    not_gt_integer:       bitwise_not(gt(x, y)) => le(x, y)  if is_integer(x)
    not_le_integer:       bitwise_not(le(x, y)) => gt(x, y)  if is_integer(x)
    not_eq:               bitwise_not(eq(x, y)) => ne(x, y)
    not_ne:               bitwise_not(ne(x, y)) => eq(x, y)
    bool_as_number_ne:    ne(cast(x, dtype=d), 0) => x  if is_bool(x)

    cast_same:            cast(x, dtype=d) => x  if same_type(x, out)
    cast_widened:         cast(cast(x, dtype=d), dtype=e) => cast(x, dtype=e)  if holds_all(d, x)
    bitcast_same:         bitcast(x, dtype=d) => x  if same_type(x, out)
    bitcast_bitcast:      bitcast(bitcast(x, dtype=d), dtype=e) => bitcast(x, dtype=e)
    stop_gradient:        stop_gradient(x) => x

    reshape_same:         reshape(x, shape=s) => x  if same_type(x, out)
    reshape_reshape:      reshape(reshape(x, shape=s), shape=t) => reshape(x, shape=t)
    transpose_identity:   transpose(x, permutation=p) => x  if is_identity(p)
    transpose_transpose:  transpose(transpose(x, permutation=p), permutation=q) => transpose(x, permutation=pick(p, q))
    broadcast_same:       broadcast(x, shape=s, axes=a) => x  if same_type(x, out) and is_identity(a)
    broadcast_broadcast:  broadcast(broadcast(x, shape=s, axes=a), shape=t, axes=b)
                          => broadcast(x, shape=t, axes=pick(b, a))
    flip_nothing:         flip(x, axes=a) => x  if is_empty(a)
    flip_flip:            flip(flip(x, axes=a), axes=a) => x
    slice_whole:          slice(x, starts=a, stops=b, strides=s) => x  if same_type(x, out)
    pad_nothing:          pad(x, y, low=l, high=h, interior=i) => x  if same_type(x, out) and all_zero(l, h, i)
    concat_one:           concat(x, axis=a) => x

    reshape_full:         reshape(full(value=v, shape=s, dtype=d), shape=t) => full(value=v, shape=t, dtype=d)
    broadcast_full:       broadcast(full(value=v, shape=s, dtype=d), shape=t, axes=a) => full(value=v, shape=t, dtype=d)
    transpose_full:       transpose(full(value=v, shape=s, dtype=d), permutation=p)
                          => full(value=v, shape=shape_of(out), dtype=d)
"""

_FASTMATH_TEXT: Final = """
    add_zero:             add(x, 0) => x
    zero_minus:           sub(0, x) => neg(x)
    sub_self:             sub(x, x) => 0
    mul_zero:             mul(x, 0) => 0
    div_self:             div(x, x) => 1
    div_constant:         div(x, c) => mul(x, like(c, inverse(c)))  if has_inverse(c)
    div_sqrt:             div(1, sqrt(x)) => rsqrt(x)
    log_exp:              log(exp(x)) => x
    exp_log:              exp(log(x)) => x
    sqrt_square:          sqrt(mul(x, x)) => abs(x)
    log_of_sum_with_one:  log(add(x, 1)) => log1p(x)
    exp_minus_one:        sub(exp(x), 1) => expm1(x)
"""


def _number(c: Matched) -> float | None:
    """The value of a float tensor that is one number everywhere."""
    return float(c.number) if c.number is not None and dtypes.is_float(c.dtype) else None


def _has_inverse(c: Matched) -> bool:
    number = _number(c)
    if number is None or number == 0 or not math.isfinite(number):
        return False
    with np.errstate(all="ignore"):
        inverse = np.array(1 / number).astype(c.dtype)
    return bool(np.isfinite(inverse)) and bool(inverse != 0)


def _has_exact_inverse(c: Matched) -> bool:
    number = _number(c)
    if number is None or math.frexp(number)[0] not in (0.5, -0.5):
        return False
    smallest = float(ml_dtypes.finfo(c.dtype).smallest_normal)  # type: ignore[no-untyped-call]
    return _has_inverse(c) and abs(number) >= smallest and abs(1 / number) >= smallest


def _holds_all(wide: DType, x: Matched) -> bool:
    """Whether a cast of ``x`` to ``wide``, then on, gives the same as one cast: among integers, and among floats."""
    if dtypes.is_bool(x.dtype):
        return not dtypes.is_bool(wide)
    if wide == x.dtype:
        return False
    if dtypes.is_integer(wide) and dtypes.is_integer(x.dtype):
        outer, inner = np.iinfo(wide), np.iinfo(x.dtype)
        return outer.min <= inner.min and inner.max <= outer.max
    return dtypes.is_float(wide) and dtypes.is_float(x.dtype) and dtypes.promote(wide, x.dtype) == wide


VOCABULARY: Final[Mapping[str, Callable[..., Any]]] = {
    "is_float": lambda x: dtypes.is_float(x.dtype),
    "is_integer": lambda x: dtypes.is_integer(x.dtype),
    "is_not_unsigned": lambda x: dtypes.is_float(x.dtype) or dtypes.is_signed(x.dtype),
    "is_bool": lambda x: dtypes.is_bool(x.dtype),
    "same_type": lambda x, y: x.type == y.type,
    "is_identity": lambda permutation: permutation == tuple(range(len(permutation))),
    "is_empty": lambda axes: not axes,
    "all_zero": lambda *tuples: all(item == 0 for items in tuples for item in items),
    "pick": lambda items, indices: tuple(items[i] for i in indices),
    "shape_of": lambda x: x.shape,
    "inverse": lambda c: 1 / float(c.number),
    "has_inverse": _has_inverse,
    "has_exact_inverse": _has_exact_inverse,
    "holds_all": _holds_all,
}

EXACT: Final[tuple[Rule, ...]] = parse_rules(_EXACT_TEXT, VOCABULARY)
FASTMATH: Final[tuple[Rule, ...]] = parse_rules(_FASTMATH_TEXT, VOCABULARY)
