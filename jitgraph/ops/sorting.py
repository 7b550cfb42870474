"""sort along an axis: the values and where they came from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import zeros_like
from jitgraph.ops.cumulative import add_along
from jitgraph.ops.numeric import Array, widen
from jitgraph.ops.sampling import edges, generator, values


def _sort_type(x: Type, *, axis: int, descending: bool, stable: bool = True) -> tuple[TensorType, TensorType]:
    type = rules.require_tensor("sort", x)
    rules.require_dtype("sort", type, rules.ALL)
    rules.require_axis("sort", axis, type.ndim)
    if stable is not True:
        raise ShapeError("sort: stable=True is the one order there is")
    return type, TensorType(dtypes.int64, type.shape)


def _sort(x: Array, *, axis: int, descending: bool, stable: bool = True) -> tuple[Array, Array]:
    keys = widen(x)
    if not descending:
        order = np.argsort(keys, axis=axis, kind="stable")
    else:
        # sorted from the back, so that equal elements come out in their own order when it is turned round
        back = np.flip(keys, axis)
        order = x.shape[axis] - 1 - np.flip(np.argsort(back, axis=axis, kind="stable"), axis)
    return np.take_along_axis(x, order, axis), order.astype(np.int64)


def _sort_samples(dtype: DType) -> Sequence[Sample]:
    rng = generator("sort", dtype)
    cases = []
    for descending in (False, True):
        for shape, axis in [((5,), 0), ((3, 4), 0), ((3, 4), 1), ((0,), 0), ((2, 0), 1), ((1, 1), 0), ((2, 37), 1)]:
            cases.append(Sample((values(rng, dtype, shape),), {"axis": axis, "descending": descending, "stable": True}))
        mixed = rng.permutation(np.repeat(edges(dtype), 2))
        cases.append(Sample((mixed,), {"axis": 0, "descending": descending, "stable": True}, differentiable=False))
    return cases


def _sort_vjp(ct: Any, out: Any, x: Any, *, axis: int, descending: bool, stable: bool = True) -> tuple[Any]:
    return (None if ct[0] is None else add_along(zeros_like(x), out[1], ct[0], axis),)


sort: Op = Op(
    name="sort",
    kind="other",
    batch="shifted",
    infer=_sort_type,
    evaluate=_sort,
    vjp=_sort_vjp,
    lowering="sort",
    samples=_sort_samples,
    doc="The elements in order along an axis and their int64 places; stable, and NaN counts as greatest.",
)
