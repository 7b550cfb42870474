"""Exponential and Gumbel numbers, and candidates for those distributions that are drawn by rejection.

All are made of ops that round alike wherever they run, like ``normal``. A candidate that is rejected is -1, which no
number of its distribution is; whoever asks draws again from later words.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import Shape, TensorType
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import abs, add, div, eq, ge, gt, le, lt, maximum, mul, neg, select, sub
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like
from jitgraph.ops.distributions import (
    cos_turns,
    drawn_samples,
    from_words,
    key_of,
    log1p_less,
    minus_log,
    require_float,
    word_tensors,
)
from jitgraph.ops.predicates import logical_and, logical_not, logical_or
from jitgraph.ops.transcendental import floor, sqrt

_WIDE: Final = (dtypes.float32, dtypes.float64)
_SMALL: Final = {dtypes.float32: 2.0**-25, dtypes.float64: 2.0**-54}  # half of the first step of uniform numbers


def _uniforms(key: Any, count: int, shape: Shape, dtype: DType) -> list[Any]:
    """``count`` tensors of numbers in [0, 1), from one part of the stream after the other."""
    each = 2 if dtype == dtypes.float64 else 1
    words = word_tensors(key, count * each, shape)
    return [from_words(words[i : i + each], dtype) for i in range(0, count * each, each)]


def _rest(u: Any) -> Any:
    """1 - u, in (0, 1]."""
    return sub(full_like(1.0, u), u)


def _wide(dtype: DType) -> DType:
    return dtypes.float64 if dtype == dtypes.float64 else dtypes.float32


def _exponential(key: Any, *, shape: Shape, dtype: DType) -> Any:
    require_float("exponential", shape, dtype)
    (u,) = _uniforms(key, 1, shape, _wide(dtype))
    value = minus_log(_rest(u))
    return value if value.dtype == dtype else cast(value, dtype=dtype)


def _gumbel(key: Any, *, shape: Shape, dtype: DType) -> Any:
    require_float("gumbel", shape, dtype)
    (u,) = _uniforms(key, 1, shape, _wide(dtype))
    arrival = minus_log(_rest(u))
    value = minus_log(maximum(arrival, full_like(_SMALL[arrival.dtype], arrival)))
    return value if value.dtype == dtype else cast(value, dtype=dtype)


def _gamma_candidate(concentration: Any, key: Any) -> Any:
    dtype: DType = concentration.dtype
    rules.require_dtype("gamma_candidate", TensorType(dtype, concentration.shape), frozenset(_WIDE))
    first, second, third = _uniforms(key, 3, concentration.shape, dtype)
    x = mul(sqrt(mul(minus_log(_rest(first)), full_like(2.0, first))), cos_turns(second))
    d = sub(concentration, full_like(1 / 3, x))
    t = div(x, sqrt(mul(full_like(9.0, d), d)))
    one = full_like(1.0, x)
    root = add(one, t)
    positive = gt(root, full_like(0.0, x))
    t = select(positive, t, full_like(0.0, x))
    square = mul(t, t)
    # d - d v + d log v of the paper, for v = (1 + t)^3: written without what cancels where d is large
    excess = sub(mul(full_like(3.0, t), sub(log1p_less(t), square)), mul(square, t))
    bound = add(mul(full_like(0.5, x), mul(x, x)), mul(d, excess))
    accepted = logical_and(positive, gt(minus_log(_rest(third)), neg(bound)))
    return select(accepted, mul(d, mul(root, mul(root, root))), full_like(-1.0, x))


def stirling_error(k: int) -> float:
    """log(k!) less Stirling's k log k - k + log(2 pi k) / 2; for k = 0 less 0."""
    if k == 0:
        return 0.0
    if k < 16:
        return math.fsum([math.log(math.factorial(k)), -k * math.log(k), k, -0.5 * math.log(2 * math.pi * k)])
    return 1 / (12 * k) - 1 / (360 * k**3) + 1 / (1260 * k**5) - 1 / (1680 * k**7) + 1 / (1188 * k**9)


_TABLE: Final = tuple(stirling_error(k) for k in range(16))


def _stirling_error(k: Any) -> Any:
    """``stirling_error`` of a float64 tensor of whole numbers: a table for small ones, Stirling's series from 16."""
    z = div(full_like(1.0, k), maximum(k, full_like(1.0, k)))
    square = mul(z, z)
    series = full_like(1 / 1188, k)
    for coefficient in (-1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = add(mul(series, square), full_like(coefficient, k))
    value = mul(series, z)
    for number, known in enumerate(_TABLE):
        value = select(eq(k, full_like(float(number), k)), full_like(known, k), value)
    return value


def _log_probability(k: Any, rate: Any) -> Any:
    """The logarithm of the Poisson probability of k > 0: Loader 2000, "Fast and accurate computation of binomial
    probabilities", whose deviance is k (log(1 + x) - x) for x = (rate - k) / k."""
    x = div(sub(rate, k), k)
    scale = mul(full_like(0.5, k), neg(minus_log(mul(full_like(2 * math.pi, k), k))))
    return sub(sub(mul(k, log1p_less(x)), scale), _stirling_error(k))


def _poisson_candidate(rate: Any, key: Any) -> Any:
    rules.require_dtype("poisson_candidate", TensorType(rate.dtype, rate.shape), frozenset({dtypes.float64}))

    def number(value: float) -> Any:
        return full_like(value, rate)

    first, second = _uniforms(key, 2, rate.shape, dtypes.float64)
    u, v = sub(first, number(0.5)), _rest(second)
    b = add(number(0.931), mul(number(2.53), sqrt(rate)))
    a = add(number(-0.059), mul(number(0.02483), b))
    edge = sub(number(0.5), abs(u))
    inside = gt(edge, number(0.0))
    edge = select(inside, edge, number(1.0))
    k = floor(add(mul(add(div(mul(number(2.0), a), edge), b), u), add(rate, number(0.43))))
    squeeze = sub(number(0.9277), div(number(3.6224), sub(b, number(2.0))))
    at_once = logical_and(ge(edge, number(0.07)), le(v, squeeze))
    hopeless = logical_or(lt(k, number(0.0)), logical_and(lt(edge, number(0.013)), gt(v, edge)))
    alpha = add(number(1.1239), div(number(1.1328), sub(b, number(3.4))))
    hat = div(mul(v, alpha), add(div(a, mul(edge, edge)), b))
    clamped = maximum(k, number(1.0))
    log_probability = select(gt(k, number(0.0)), _log_probability(clamped, rate), neg(rate))
    exact = logical_and(logical_not(hopeless), le(neg(minus_log(hat)), log_probability))
    return select(logical_and(inside, logical_or(at_once, exact)), k, number(-1.0))


def _candidates(accepts: tuple[DType, ...], numbers: Sequence[float]) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in accepts:
            return ()
        some = np.array(numbers, dtype)
        return [Sample((part, key_of(i)), differentiable=False) for i, part in enumerate((some, some[0], some[:0]))]

    return samples


exponential: Op = composite(
    "exponential",
    _exponential,
    samples=drawn_samples,
    traits=["nondifferentiable"],
    doc="Exponential floats of mean 1 from a u64[2] key (seed, offset): -log(1 - u).",
)
gumbel: Op = composite(
    "gumbel",
    _gumbel,
    samples=drawn_samples,
    traits=["nondifferentiable"],
    doc="Standard Gumbel floats from a u64[2] key (seed, offset): -log(-log(1 - u)).",
)
gamma_candidate: Op = composite(
    "gamma_candidate",
    _gamma_candidate,
    samples=_candidates(_WIDE, [1.0, 1.5, 7.0, 1e6, 3e30]),
    traits=["nondifferentiable"],
    doc="Gamma floats for concentrations of 1 or more, -1 where rejected: Marsaglia and Tsang 2000, by a u64[2] key.",
)
poisson_candidate: Op = composite(
    "poisson_candidate",
    _poisson_candidate,
    samples=_candidates((dtypes.float64,), [10.0, 12.5, 300.0, 1e9, 1e15]),
    traits=["nondifferentiable"],
    doc="Poisson float64s for rates of 10 or more, -1 where rejected: PTRS of Hoermann 1993, by a u64[2] key.",
)
