"""Slices combined where indices send them, or in runs of given lengths, in PyTorch's names."""

from __future__ import annotations

from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.creation import full
from jitgraph.tensor.functions.cumulative import cumsum
from jitgraph.tensor.functions.elementwise import astype, clip, where
from jitgraph.tensor.functions.manipulation import concat, moveaxis
from jitgraph.tensor.functions.method import axis_of, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.scattering import scatter_reduce
from jitgraph.tensor.functions.searching import searchsorted
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor, wrap


@method
def index_reduce(
    x: TensorLike, axis: int, index: TensorLike, source: TensorLike, reduce: str, *, include_self: bool = True
) -> Tensor:
    """x with slice i of ``source`` combined with slice ``index[i]`` along ``axis``: by prod, mean, amax or amin.

    Without ``include_self`` slices of x to which something goes do not take part. As ``scatter_reduce`` otherwise.
    """
    tensor, values = tensor_like(x), tensor_like(source)
    number = axis_of(axis, tensor.ndim, "index_reduce")
    positions = tensor_like(index)
    if positions.ndim > 1 or values.ndim != tensor.ndim:
        raise ShapeError(f"index_reduce: indices {positions.value.type} and a source {values.value.type}")
    positions = reshape(positions, (-1, *[1] * (tensor.ndim - number - 1)))
    spread = wrap(lifting.broadcast_to(positions.value, values.value.type.shape))
    return scatter_reduce(tensor, number, spread, values, reduce, include_self=include_self)


_NAMES = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "prod": "prod"}
_EMPTY = {"sum": 0.0, "mean": float("nan"), "max": float("-inf"), "min": float("inf"), "prod": 1.0}


@method
def segment_reduce(
    x: TensorLike,
    reduce: str,
    *,
    lengths: TensorLike | None = None,
    offsets: TensorLike | None = None,
    axis: int = 0,
    initial: float | None = None,
) -> Tensor:
    """Runs of slices along ``axis`` combined by sum, mean, max, min or prod: one slice for each of them.

    ``lengths`` says how long each run is, or ``offsets`` where each begins, with the end behind, in a vector of
    integers; the runs are all slices. A run of none is ``initial``, which otherwise is combined with each.
    """
    if reduce not in _NAMES:
        raise JitgraphError(f"segment_reduce: reduce={reduce!r} is none of {', '.join(_NAMES)}")
    if (lengths is None) == (offsets is None):
        raise JitgraphError("segment_reduce takes either lengths= or offsets=")
    tensor = tensor_like(x)
    number = axis_of(axis, tensor.ndim, "segment_reduce")
    ends = cumsum(tensor_like(lengths)) if offsets is None else tensor_like(offsets)[1:]  # type: ignore[arg-type]
    if ends.ndim != 1:
        raise ShapeError(f"segment_reduce: the runs are a vector, not {ends.value.type}", hint="jg.vmap for batches")
    rows = moveaxis(tensor, number, 0)
    size, count = rows.value.type.shape[0], ends.value.type.shape[0]
    segment_ids = searchsorted(ends, wrap(lifting.positions_along((size,), 0, rows.value)), side="right")
    spread = wrap(lifting.broadcast_to(reshape(segment_ids, (-1, *[1] * (rows.ndim - 1))).value, rows.value.type.shape))
    begins = concat([ends[:1] * 0, ends[:-1]])
    empty = reshape(ends == begins, (-1, *[1] * (rows.ndim - 1)))
    start = full((count, *rows.value.type.shape[1:]), _EMPTY[reduce] if initial is None else initial, dtype=rows.dtype)
    joined = initial is not None and reduce != "mean"
    reduced = scatter_reduce(start, 0, spread, rows, _NAMES[reduce], include_self=joined)
    if initial is not None and reduce == "mean":
        lengths_of = astype(ends - begins, rows.dtype)
        reduced = reduced + initial / reshape(clip(lengths_of, 1, None), (-1, *[1] * (rows.ndim - 1)))
    return moveaxis(where(empty, start, reduced), 0, number)
