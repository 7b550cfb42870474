"""The first elements of an order, without all of it: where the largest or smallest of rows are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.dtypes import DType, int64
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ir.types import TensorType
from jitgraph.ops.arithmetic import maximum, minimum
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full
from jitgraph.ops.gathering import gather
from jitgraph.ops.rules import NUMBERS, open_extent
from jitgraph.ops.sampling import edges, generator, values
from jitgraph.ops.sorting import sort
from jitgraph.ops.windows import slice

MOST_PLACES: Final = 64
"""Elements of each row, up to which a kernel has those that come first in a list."""


def _first_positions(x: Any, *, count: int, largest: bool) -> Any:
    if not x.shape or (isinstance(x.shape[-1], int) and x.shape[-1] < count) or count < 1:
        raise ShapeError(f"first_positions of {count} elements of {x.type}")
    _, places = sort(x, axis=len(x.shape) - 1, descending=largest, stable=True)
    rank = len(x.shape)
    return slice(places, starts=(0,) * rank, stops=(*x.shape[:-1], count), strides=(1,) * rank)


def _is_whole(x: TensorType, *, count: int, **attrs: Any) -> bool:
    return x.dtype in NUMBERS and count <= MOST_PLACES and isinstance(x.shape[-1], int)


def _samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in NUMBERS:
        return ()
    rng = generator("first_positions", dtype)
    cases: list[Sample] = []
    for shape, count in (((5,), 2), ((3, 70), 5), ((2, 200), 1), ((1, 8), 8), ((0, 4), 3)):
        x = values(rng, dtype, shape)
        cases += [Sample((x,), {"count": count, "largest": largest}) for largest in (True, False)]
    mixed = rng.permutation(edges(dtype).repeat(3))
    return [*cases, *(Sample((mixed,), {"count": 7, "largest": largest}) for largest in (True, False))]


def _open(x: tuple[int, ...], **attrs: Any) -> tuple[OpenShape, ...]:
    return ((*(open_extent(n, f"n{axis}") for axis, n in enumerate(x[:-1])), x[-1]),)


first_positions: Op = composite(
    "first_positions",
    _first_positions,
    batch="leading",
    samples=_samples,
    lowering="first_positions",
    is_whole=_is_whole,
    open_shapes=_open,
    traits=["nondifferentiable"],
    doc="The int64 places of the first ``count`` elements of each row, in the order that sort has.",
)


# ----------------------------------------------------------------------
# The elements of given ranks: medians and quantiles.


def _ranked_positions(x: Any, ranks: Any) -> Any:
    if not x.shape or len(ranks.shape) != 1 or ranks.dtype != int64:
        raise ShapeError(f"ranked_positions takes rows and a vector of int64 ranks, not {x.type} and {ranks.type}")
    axis = len(x.shape) - 1
    _, places = sort(x, axis=axis, descending=False, stable=True)
    first, last = (full(shape=ranks.shape, value=end, dtype=int64) for end in (0, x.shape[-1] - 1))
    return gather(places, minimum(maximum(ranks, first), last), axis=axis)


def _ranked_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in NUMBERS:
        return ()
    rng = generator("ranked_positions", dtype)
    sizes = (((5,), (2,)), ((3, 70), (0, 35, 69)), ((2, 1), (0, 5, -1)), ((0, 4), (3,)), ((2, 2, 33), (16, 17)))
    cases = [Sample((values(rng, dtype, shape), np.array(ranks))) for shape, ranks in sizes]
    mixed = rng.permutation(edges(dtype).repeat(3))
    return [*cases, Sample((mixed, np.arange(mixed.size)))]


ranked_positions: Op = composite(
    "ranked_positions",
    _ranked_positions,
    samples=_ranked_samples,
    lowering="ranked_positions",
    is_whole=lambda x, ranks: x.dtype in NUMBERS,
    open_shapes=lambda x, ranks: (tuple(open_extent(n, f"n{axis}") for axis, n in enumerate(x)), ranks),
    traits=["nondifferentiable"],
    doc="The int64 places in each row of the elements of these ranks in sorted order; beyond the ends, of the ends.",
)
