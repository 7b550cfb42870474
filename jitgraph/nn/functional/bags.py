"""Rows of a table looked up, with what PyTorch's embeddings do to them: limits of their norms, and sums of bags."""

from __future__ import annotations

import math
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.autograd import no_grad
from jitgraph.eager import placement
from jitgraph.errors import DTypeError, JitgraphError, ShapeError, UnsupportedOp
from jitgraph.nn.functional.layers import embedding as rows_of
from jitgraph.nn.functional.layers import without_padding
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.elementwise import maximum, where
from jitgraph.tensor.functions.norms import p_norm
from jitgraph.tensor.functions.reductions import all as all_of
from jitgraph.tensor.functions.reductions import max as max_of
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.scattering import scatter_reduce, segment_sum
from jitgraph.tensor.functions.searching import searchsorted
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike


def require_dense(name: str, sparse: bool) -> None:
    """UnsupportedOp for gradients that hold the rows alone that were used."""
    if sparse:
        raise UnsupportedOp(f"{name} with sparse=True", hint="leave it out: gradients are dense")


def limited_rows(weight: Tensor, indices: TensorLike, max_norm: float, norm_type: float) -> Tensor:
    """The rows of ``weight`` that ``indices`` name, scaled so that no norm is greater than ``max_norm``.

    ``weight`` is changed in place; gradients of the scaled rows are those of its rows, as in PyTorch.
    """
    positions = wrap(lifting.positions(lifting.value_of(indices)))
    before = rows_of(positions, weight)
    with no_grad():
        flat = reshape(positions, (-1,))
        rows = rows_of(flat, weight)
        length = p_norm(rows, float(norm_type), 1, keepdims=True)
        weight[flat] = where(length > max_norm, rows * (max_norm / (length + 1e-7)), rows)
        after = rows_of(positions, weight)
    result: Tensor = after + (before - before.detach())
    return result


def _ones(like: Tensor, dtype: Any) -> Tensor:
    with placement.beside(like.value):
        return wrap(lifting.repeated(1.0, dtype, like.value.type.shape))


def by_frequency(rows: Tensor, indices: TensorLike, count: Any) -> Tensor:
    """The same rows, whose gradients are divided by how often each row was looked up."""
    positions = wrap(lifting.positions(lifting.value_of(indices)))
    flat = reshape(positions, (-1,))
    often = segment_sum(_ones(flat, rows.dtype), flat, count)
    share = 1.0 / rows_of(positions, expand_dims(often, 1))
    fixed = rows.detach()
    result: Tensor = fixed + (rows - fixed) * share
    return result


def treated_rows(
    input: TensorLike,
    weight: Tensor,
    padding_idx: int | None,
    max_norm: float | None,
    norm_type: float,
    scale_grad_by_freq: bool,
) -> Tensor:
    """As ``functional.embedding`` with limits of norms, or gradients divided by frequencies."""
    positions = wrap(lifting.value_of(input))
    if not dtypes.is_integer(positions.dtype):
        raise DTypeError(f"embedding takes integers, not {positions.value.type}", hint="x.astype(jg.int64)")
    if max_norm is None:
        rows = rows_of(positions, weight, padding_idx)
    else:
        if not isinstance(weight, Tensor):
            raise JitgraphError(f"embedding: max_norm changes weight, a tensor, not a {type(weight).__name__}")
        rows = limited_rows(weight, positions, max_norm, norm_type)
        rows = without_padding(rows, lifting.positions(positions.value), weight.value.type.shape[0], padding_idx)
    return by_frequency(rows, positions, lifting.value_of(weight).shape[0]) if scale_grad_by_freq else rows


def embedding_bag(
    input: TensorLike,
    weight: Tensor,
    offsets: TensorLike | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: TensorLike | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of weight[V, D], a bag of them for each row of ``input`` [B, N].

    Or of a vector whose bags begin at ``offsets`` [B] (with ``include_last_offset`` the last one ends them). Rows
    ``padding_idx`` do not count; an empty bag gives zeros. ``per_sample_weights`` [B, N] belong to mode "sum".
    """
    require_dense("embedding_bag", sparse)
    if mode not in ("sum", "mean", "max"):
        raise JitgraphError(f"embedding_bag: mode={mode!r} is none of sum, mean, max")
    if per_sample_weights is not None and mode != "sum":
        raise JitgraphError(f"embedding_bag: per_sample_weights with mode={mode!r}\n  hint: mode='sum'")
    positions = wrap(lifting.value_of(input))
    if not dtypes.is_integer(positions.dtype):
        raise DTypeError(f"embedding_bag takes integers, not {positions.value.type}", hint="x.astype(jg.int64)")
    if (positions.ndim == 1) == (offsets is None) or positions.ndim not in (1, 2):
        raise ShapeError(f"embedding_bag takes x[B, N], or a vector and offsets, not {positions.value.type}")
    rows = rows_of(positions, weight) if max_norm is None else limited_rows(weight, positions, max_norm, norm_type)
    if scale_grad_by_freq:
        rows = by_frequency(rows, positions, weight.value.type.shape[0])
    count: Any = _ones(positions, rows.dtype)
    if padding_idx is not None:
        number: Any = padding_idx if padding_idx >= 0 else weight.shape[0] + padding_idx
        count = where(positions == number, 0.0, count)
    if per_sample_weights is not None:
        sample_weights = wrap(lifting.value_of(per_sample_weights))
        if sample_weights.shape != positions.shape:
            raise ShapeError(
                f"embedding_bag: per_sample_weights {sample_weights.value.type} for {positions.value.type}"
            )
        rows = rows * expand_dims(sample_weights.astype(rows.dtype), -1)
    if mode == "max":
        rows = where(expand_dims(count, -1) > 0, rows, -math.inf)
    elif padding_idx is not None:
        rows = where(expand_dims(count, -1) > 0, rows, 0.0)
    if positions.ndim == 2:
        total = max_of(rows, 1) if mode == "max" else sum_of(rows, 1)
        size = sum_of(count, 1)
    else:
        total, size = _by_offsets(rows, count, wrap(lifting.value_of(offsets)), mode, include_last_offset)
    if mode == "sum":
        return total
    size = expand_dims(size, 1)
    if mode == "mean":
        return total / maximum(size, 1.0)
    return where(size > 0, total, 0.0)


def _require_order(offsets: Tensor, count: Any) -> None:
    """A check that bags begin at 0, each no earlier than the one before, and end with the rows."""
    first, last = offsets[:1], offsets[-1:]
    ordered = all_of(first == 0) & all_of(last <= count) & all_of(offsets[1:] >= offsets[:-1])
    message = "embedding_bag: offsets begin with 0, do not fall and are no greater than the count of rows"
    ops.check(ordered.value, kind="IndexError", message=message)


def _by_offsets(rows: Tensor, count: Tensor, offsets: Tensor, mode: str, closed: bool) -> tuple[Tensor, Tensor]:
    """The bags of a vector: sums or maxima, and how many rows count in each."""
    starts: Any = offsets[:-1] if closed else offsets
    bags = starts.value.type.shape[0]
    _require_order(offsets, rows.value.type.shape[0])
    which = searchsorted(starts, arange(rows.value.type.shape[0], dtype=offsets.dtype), side="right") - 1
    size = segment_sum(count, which, bags)
    if mode != "max":
        return segment_sum(rows, which, bags), size
    width = rows.value.type.shape[1]
    with placement.beside(rows.value):
        lowest = wrap(lifting.repeated(-math.inf, rows.dtype, (bags, width)))
    spread = wrap(lifting.broadcast_to(expand_dims(which, 1).value, rows.value.type.shape))
    return scatter_reduce(lowest, 0, spread, rows, "amax"), size
