"""Places in sorted vectors: binary search, whose steps halve what is left and are the same for every number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ops.arithmetic import add, eq, le, lt, ne, select
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full
from jitgraph.ops.gathering import gather
from jitgraph.ops.predicates import logical_and, logical_or
from jitgraph.ops.rules import FLOATS, INTEGERS, open_extent
from jitgraph.ops.sampling import generator


def halvings(size: int) -> list[int]:
    """By how much the place grows at each step where the element before it comes first; at the end by 1."""
    steps = []
    while size > 1:
        steps.append(size // 2)
        size -= size // 2
    return [*steps, 1] if size else []


def _search(row: Any, queries: Any, *, right: bool) -> Any:
    if len(row.shape) != 1 or not isinstance(row.shape[0], int):
        raise ShapeError(f"search takes a vector of known size, not {row.type}")
    if row.dtype != queries.dtype or row.dtype not in (*FLOATS, *INTEGERS):
        raise DTypeError(f"search takes two tensors of one dtype of numbers, not {row.type} and {queries.type}")
    place = _number(0, queries)
    for step in halvings(row.shape[0]):
        element = gather(row, add(place, _number(step - 1, queries)), axis=0)
        place = select(_before(element, queries, right), add(place, _number(step, queries)), place)
    return place


def _number(value: int, like: Any) -> Any:
    return full(shape=like.shape, value=value, dtype=dtypes.int64)


def _before(element: Any, query: Any, right: bool) -> Any:
    """Whether an element stands before the place of a query, in the order where NaN is the greatest."""
    is_less = (le if right else lt)(element, query)
    if not dtypes.is_float(element.dtype):
        return is_less
    missing = ne(query, query)
    return logical_or(is_less, missing if right else logical_and(missing, eq(element, element)))


_SIZES: Final = (1, 2, 3, 9, 64, 100, 0)


def _samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in (*FLOATS, *INTEGERS):
        return ()
    rng, cases = generator("search", dtype), []
    for number, size in enumerate(_SIZES):
        row = np.sort(rng.integers(0, 50, size)).astype(dtype)
        queries = rng.integers(0, 50, (3, 7)).astype(dtype)
        if dtypes.is_float(dtype):
            queries[0, :3] = (np.nan, np.inf, -0.0)
            row[size - size // 3 :] = np.nan
        cases.append(Sample((row, queries), {"right": number % 2 == 1}))
    return cases


def _open(row: tuple[int, ...], queries: tuple[int, ...], **attrs: Any) -> tuple[OpenShape, OpenShape]:
    return row, tuple(open_extent(n, f"n{axis}") for axis, n in enumerate(queries))


search: Op = composite(
    "search",
    _search,
    samples=_samples,
    lowering="search",
    is_whole=lambda row, queries, **attrs: isinstance(row.shape[0], int),
    open_shapes=_open,
    traits=["nondifferentiable"],
    doc="How many elements of a sorted vector stand before each number, or not behind it; NaN is the greatest.",
)
