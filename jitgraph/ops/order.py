"""The order of float sums and products over axes, running ones as well, and their NumPy evaluation in that order.

A reduction over several axes is one over the last of them, then one over the axis before it, and so on. Along one axis:
slots, chains and a tree (``kernel.Loop`` says it exactly). Along the last axis of an operand there are 256 bytes of
slots, so that neighbours in memory fill registers; along any other axis there is one, since there other elements of the
result do. A chain has 32 steps. So the order follows from the op, the dtype and the number of the axis, never from
extents, layout, fusion, threads or the machine, and a sum is the same wherever it is computed. Of n elements it errs by
at most (32 + log2 S + ceil(log2(n / 32 S))) u sum|x| along an axis, u being half a unit in the last place of 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ops.numeric import Array
from jitgraph.records import NamedTuple

SLOT_BYTES: Final = 256
CHAIN: Final = 32

_PIECE: Final = 1 << 16  # elements that are worked on at once: they stay in the second-level cache


class Order(NamedTuple):
    """``slots`` accumulators, ``chain`` steps to each before it joins the tree; a ``chain`` of 0: any order."""

    slots: int
    chain: int


def order_along(axis: int, ndim: int, dtype: DType) -> Order:
    """The order of a reduction of an operand with ``ndim`` axes along one of them.

    ``dtype`` is the accumulator's, a float; reductions of anything else give the same in any order.
    """
    return Order(SLOT_BYTES // dtype.itemsize if axis == ndim - 1 else 1, CHAIN)


def fewer_slots(slots: int, extent: Any) -> int:
    """The slots that ``extent`` steps fill, a power of two: the rest would only add identities."""
    while isinstance(extent, int) and slots > 1 and slots // 2 >= extent:
        slots //= 2
    return slots


def reduce_in_order(ufunc: np.ufunc, x: Array, axes: Sequence[int], identity: Any, empty: Any) -> Array:
    """``x`` reduced over ``axes``, which are dropped; ``empty`` is the result along an axis without elements."""
    ndim = x.ndim
    for axis in sorted(axes, reverse=True):
        order = order_along(axis, ndim, x.dtype)
        extent = x.shape[axis]
        outer, inner = x.shape[:axis], x.shape[axis + 1 :]
        if extent == 0:
            x = np.full((*outer, *inner), empty, x.dtype)
            continue
        slots = fewer_slots(order.slots, extent)
        count, width = prod(outer), prod(inner)
        if slots > 1 and extent < count:  # many short rows: each step of all of them is one run of memory
            flat = np.ascontiguousarray(x.reshape(count, extent).T).reshape(1, extent, count)
        else:
            flat = x.reshape(count, extent, width)
        x = _along_rows(ufunc, flat, slots, order.chain, x.dtype.type(identity)).reshape((*outer, *inner))
    return x


def _along_rows(ufunc: np.ufunc, x: Array, slots: int, chain: int, identity: Any) -> Array:
    """``x`` [outer, extent, inner] reduced along its middle axis."""
    outer, extent, inner = x.shape
    width = slots * inner  # slots and inner elements alike are neighbours that do not meet
    steps = -(-extent // slots)
    if steps * slots != extent:
        padded = np.full((outer, steps * slots, inner), identity, x.dtype)
        padded[:, :extent] = x
        x = padded
    x = x.reshape(outer, steps, width)
    if steps == 1:
        return _folded(ufunc, x.reshape(outer, slots, inner))
    full_chunks = steps // chain
    chunks = np.empty((outer, -(-steps // chain), width), x.dtype)
    piece = max(1, _PIECE // max(1, chain * width * outer))
    for start in range(0, full_chunks, piece):
        stop = min(start + piece, full_chunks)
        part = x[:, start * chain : stop * chain].reshape(outer, stop - start, chain, width)
        _chain(ufunc, part, chunks[:, start:stop])
    if full_chunks < chunks.shape[1]:
        _chain(ufunc, x[:, None, full_chunks * chain :], chunks[:, full_chunks:])
    return _folded(ufunc, _tree(ufunc, chunks).reshape(outer, slots, inner))


def _folded(ufunc: np.ufunc, total: Array) -> Array:
    """``total`` [outer, slots, inner] folded in halves."""
    half = total.shape[1] // 2
    while half:
        total = ufunc(total[:, :half], total[:, half:])
        half //= 2
    return total[:, 0]


def _chain(ufunc: np.ufunc, x: Array, out: Array) -> None:
    """``x`` [..., steps, width] reduced step by step into ``out``."""
    out[...] = x[..., 0, :]
    for step in range(1, x.shape[-2]):
        ufunc(out, x[..., step, :], out=out)


def _tree(ufunc: np.ufunc, chunks: Array) -> Array:
    """``chunks`` [outer, count, width] merged in pairs, and the pairs in pairs: a last one alone goes up as it is."""
    while chunks.shape[1] > 1:
        pairs = chunks.shape[1] // 2
        merged = ufunc(chunks[:, : 2 * pairs : 2], chunks[:, 1 : 2 * pairs : 2])
        chunks = merged if chunks.shape[1] == 2 * pairs else np.concatenate([merged, chunks[:, -1:]], axis=1)
    return chunks[:, 0]


def in_order(ufunc: np.ufunc, identity: float, empty: float) -> Callable[[Array, tuple[int, ...]], Array]:
    """The evaluation of a reduction that rounds: floats in their order."""

    def evaluate(x: Array, axes: tuple[int, ...]) -> Array:
        if dtypes.is_float(x.dtype):
            return reduce_in_order(ufunc, x, axes, identity, empty)
        return np.asarray(ufunc.reduce(x, axis=axes, dtype=x.dtype))

    return evaluate


# --- running sums and products --------------------------------------------------------------------------------------
# Element i combines what comes before its chunk of 32 elements with the elements of the chunk up to itself, which are
# combined one after another. What comes before a chunk is the totals of chunks, combined in the same way: they stand
# in chunks of 32 themselves, and the totals of these again; those of 32768 elements are combined one after another. So
# chunks can be worked on at once, and a sum of n elements errs by at most (96 + n / 32768) u sum|x|.

CHUNK: Final = 32
LEVELS: Final = 3
"""How often chunks stand in chunks."""


def levels_of(extent: Any) -> int:
    """The levels of chunks of an axis: none where one chunk is all of it, all where its extent is a name."""
    levels = 0
    while levels < LEVELS and not (isinstance(extent, int) and extent <= CHUNK ** (levels + 1)):
        levels += 1
    return levels


def accumulate_in_order(ufunc: np.ufunc, x: Array, axis: int, identity: float) -> Array:
    """``ufunc`` accumulated along an axis; ``identity`` changes no element."""
    rows = np.moveaxis(x, axis, -1)
    accumulated = _accumulated(ufunc, rows, x.dtype.type(identity), levels_of(x.shape[axis]))
    return np.moveaxis(accumulated, -1, axis)


def _accumulated(ufunc: np.ufunc, x: Array, identity: Any, levels: int) -> Array:
    """The rows of ``x`` [..., extent], each element included."""
    if not levels:
        return np.asarray(ufunc.accumulate(x, axis=-1))
    chunks = _in_chunks(x, CHUNK, identity)
    inside = ufunc.accumulate(chunks, axis=-1)
    before = _before(ufunc, inside[..., -1], identity, levels - 1)
    return _joined(ufunc(before[..., None], inside), x.shape[-1])


def _before(ufunc: np.ufunc, totals: Array, identity: Any, levels: int) -> Array:
    """What comes before each of ``totals`` [..., count]."""
    count = totals.shape[-1]
    inside = ufunc.accumulate(_in_chunks(totals, CHUNK if levels else max(1, count), identity), axis=-1)
    shifted = np.full_like(inside, identity)
    shifted[..., 1:] = inside[..., :-1]
    if levels:
        shifted = ufunc(_before(ufunc, inside[..., -1], identity, levels - 1)[..., None], shifted)
    return _joined(shifted, count)


def _in_chunks(x: Array, width: int, identity: Any) -> Array:
    count = -(-x.shape[-1] // width)
    padded = np.full((*x.shape[:-1], count * width), identity, x.dtype)
    padded[..., : x.shape[-1]] = x
    return padded.reshape(*x.shape[:-1], count, width)


def _joined(chunks: Array, extent: int) -> Array:
    return chunks.reshape(*chunks.shape[:-2], chunks.shape[-2] * chunks.shape[-1])[..., :extent]
