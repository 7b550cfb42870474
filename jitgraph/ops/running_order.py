"""The order of cumulative sums and products of floats, and their NumPy evaluation in that order.

Element i combines what comes before its chunk of 32 elements with the elements of the chunk up to itself, which are
combined one after another. What comes before a chunk is found from the totals of chunks in the same way: they stand in
chunks of 32 themselves, and the totals of these again; those of 32768 elements are combined one after another. So
chunks can be worked on at once, and a sum of n elements errs by at most (96 + n / 32768) u sum|x|, u being half a unit
in the last place of 1.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from jitgraph.ops.numeric import Array

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
