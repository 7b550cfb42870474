"""Inputs for the generated tests: edge values of each dtype, smooth random values, shapes from empty to odd."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.op import Sample
from jitgraph.ops.numeric import Array
from jitgraph.ops.rules import ALL

Samples = Callable[[DType], Sequence[Sample]]
Domain = tuple[float, float]


def edges(dtype: DType) -> Array:
    """The values of ``dtype`` where ops have corners: zeros, extremes, NaN, infinities, subnormals, ties."""
    if dtypes.is_bool(dtype):
        return np.array([False, True])
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        width = dtype.itemsize * 8
        some = [0, 1, 2, 3, 7, 100, width - 1, width, width + 1, -1, -2, -7, -100]
        return np.array(
            [v for v in (*some, info.min, info.min + 1, info.max, info.max - 1) if info.min <= v <= info.max], dtype
        )
    limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]
    some_floats = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        2.5,
        -2.5,
        3.7,
        -7.25,
        1e-3,
        20.0,
        -20.0,
        100.0,
        np.inf,
        -np.inf,
        np.nan,
    ]
    extremes = [limits.smallest_subnormal, -limits.tiny, limits.max, limits.min, limits.eps]
    return np.array(some_floats + [float(v) for v in extremes]).astype(dtype)


def pairs(dtype: DType) -> tuple[Array, Array]:
    """Every edge value with every other."""
    values = edges(dtype)
    return np.repeat(values, len(values)), np.tile(values, len(values))


def generator(name: str, dtype: DType) -> np.random.Generator:
    """The same random stream for an op and dtype in every run."""
    return np.random.default_rng(zlib.crc32(f"{name} {dtype.name}".encode()))


def values(rng: np.random.Generator, dtype: DType, shape: Sequence[int], domain: Domain = (-2.0, 2.0)) -> Array:
    """Random values in ``domain`` (for integers -4 .. 4 or 0 .. 8), distinct to the eye of a central difference."""
    if dtypes.is_bool(dtype):
        return rng.integers(0, 2, shape).astype(bool)
    if dtypes.is_integer(dtype):
        return rng.integers(-4 if dtypes.is_signed(dtype) else 0, 5 if dtypes.is_signed(dtype) else 9, shape).astype(
            dtype
        )
    count = int(np.prod(shape))
    low, high = domain
    # evenly spread and shuffled: no two are close, so no tie and no kink lies within a step of another value
    spread = low + (high - low) * (np.arange(count) + rng.uniform(0.3, 0.7, count)) / max(count, 1)
    return np.asarray(rng.permutation(spread).reshape(tuple(shape)).astype(dtype))


def elementwise_samples(
    name: str,
    arity: int,
    accepts: frozenset[DType] = ALL,
    *,
    domain: Domain = (-2.0, 2.0),
    attrs: dict[str, Any] | None = None,
) -> Samples:
    """Samples for an elementwise op on operands of the dtype: edge values, 0-d, empty, size 1, strided, odd."""

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in accepts:
            return ()
        rng = generator(name, dtype)
        corner = (edges(dtype),) if arity == 1 else pairs(dtype)
        shapes: tuple[tuple[int, ...], ...] = ((2, 3), (), (0, 3), (1, 1))
        cases = [Sample(corner[:arity], attrs or {}, differentiable=False)]
        cases += [Sample(_operands(rng, dtype, shape, arity, domain), attrs or {}) for shape in shapes]
        strided = tuple(x[::2, ::-1] for x in _operands(rng, dtype, (5, 19), arity, domain))
        return (*cases, Sample(strided, attrs or {}, differentiable=False))

    return samples


def _operands(
    rng: np.random.Generator, dtype: DType, shape: tuple[int, ...], arity: int, domain: Domain
) -> tuple[Array, ...]:
    together = values(rng, dtype, (arity, *shape), domain)  # drawn at once, so that operands differ from each other too
    return tuple(np.asarray(together[i]) for i in range(arity))


def reduce_samples(name: str, accepts: frozenset[DType]) -> Samples:
    """Samples for a reduction over ``axes``: of nothing, of much, of edge values."""
    shapes = [
        ((2, 3), (1,)),
        ((2, 3), (0,)),
        ((2, 3, 2), (0, 2)),
        ((), ()),
        ((0, 3), (0,)),
        ((0, 3), (1,)),
        ((1, 1), (0, 1)),
    ]
    large = [((3, 37), (1,)), ((37, 3), (0,)), ((2, 5, 7), (1,)), ((301,), (0,))]

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in accepts:
            return ()
        rng = generator(name, dtype)
        cases = [
            Sample((values(rng, dtype, shape, (0.2, 1.7)),), {"axes": axes}, differentiable=all(shape[i] for i in axes))
            for shape, axes in shapes
        ]
        cases += [
            Sample((values(rng, dtype, shape, (0.7, 1.4)),), {"axes": axes}, differentiable=False)
            for shape, axes in large
        ]
        finite = edges(dtype)[: 4 if dtypes.is_float(dtype) else None]
        return [
            *cases,
            Sample((edges(dtype),), {"axes": (0,)}, differentiable=False),
            Sample((finite,), {"axes": (0,)}, differentiable=False),
        ]

    return samples


def samples_for(
    name: str, accepts: frozenset[DType], make: Callable[[Callable[..., Array]], Sequence[Sample]]
) -> Samples:
    """Samples made by ``make(array)``, where ``array(*shape, domain=...)`` gives random values of the dtype."""

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in accepts:
            return ()
        rng = generator(name, dtype)

        def array(*shape: int, domain: Domain = (-2.0, 2.0)) -> Array:
            return values(rng, dtype, shape, domain)

        return make(array)

    return samples
