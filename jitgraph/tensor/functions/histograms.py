"""Histograms over several axes, in PyTorch's and NumPy's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph import dtypes
from jitgraph.errors import ShapeError
from jitgraph.tensor.functions.elementwise import astype, where
from jitgraph.tensor.functions.manipulation import stack, unstack
from jitgraph.tensor.functions.method import array_function, method
from jitgraph.tensor.functions.operands import tensor_like
from jitgraph.tensor.functions.ordering import bin_indices, counted_indices, edges_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.tensor import Tensor


@method
def histogramdd(
    x: TensorLike, bins: Any = 10, *, range: Any = None, weight: TensorLike | None = None, density: bool = False
) -> tuple[Tensor, list[Tensor]]:
    """Counts (or sums of ``weight``, or a density) of the rows of a matrix in a grid of bins, and all edges.

    ``bins`` is a number, or for each axis a number or edges; ``range`` is for each axis None or a pair, or PyTorch's
    flat list of them. Counts have the dtype of x; rows outside, and NaN, are in no bin.
    """
    rows = tensor_like(x)
    rows = rows if dtypes.is_float(rows.dtype) else astype(rows, dtypes.float32)
    if rows.ndim != 2 or not isinstance(rows.value.type.shape[1], int) or not rows.value.type.shape[1]:
        raise ShapeError(f"histogramdd takes a matrix with a row for each point, not {rows.value.type}")
    count = rows.value.type.shape[1]
    bin_specs = [bins] * count if isinstance(bins, int) else list(bins)
    spans = [None] * count if range is None else list(range)
    if len(spans) == 2 * count and not isinstance(spans[0], Sequence):
        spans = list(zip(spans[::2], spans[1::2], strict=True))
    if len(bin_specs) != count or len(spans) != count:
        raise ShapeError(f"histogramdd: {len(bin_specs)} bins and {len(spans)} ranges for {count} columns")
    edges, sizes, flat, inside = [], [], None, None
    for column, each, span in zip(unstack(rows, axis=1), bin_specs, spans, strict=True):
        ends, size = edges_of(reshape(column, (-1,)), each, span, "histogramdd")
        bin_index, within = bin_indices(column, ends, size)
        flat = bin_index if flat is None else flat * size + bin_index
        inside = within if inside is None else inside & within
        edges.append(ends)
        sizes.append(size)
    assert flat is not None
    assert inside is not None
    amount = astype(inside, rows.dtype)
    if weight is not None:
        amount = where(inside, reshape(astype(tensor_like(weight), rows.dtype), (-1,)), 0)
    total_bins = 1
    for size in sizes:
        total_bins *= size
    counts = reshape(counted_indices(where(inside, flat, 0), amount, total_bins, rows.dtype), tuple(sizes))
    if density:
        counts = counts / sum_of(counts)
        for axis, ends in enumerate(edges):
            counts = counts / reshape(ends[1:] - ends[:-1], (-1, *[1] * (count - axis - 1)))
    return counts, edges


@array_function
def histogram2d(
    x: TensorLike,
    y: TensorLike,
    bins: Any = 10,
    *,
    range: Any = None,
    weight: TensorLike | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """``histogramdd`` of the points (x[i], y[i]): the counts, and the edges along both axes, as NumPy gives them.

    ``bins`` is a number, edges for both axes, or for each axis a number or edges.
    """
    both = bins
    if not isinstance(bins, int) and len(bins) not in (1, 2):
        both = [bins, bins]
    points = stack([reshape(tensor_like(each), (-1,)) for each in (x, y)], axis=1)
    counts, (first, second) = histogramdd(points, both, range=range, weight=weight, density=density)
    return counts, first, second
