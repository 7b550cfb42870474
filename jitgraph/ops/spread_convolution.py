"""Convolutions of spread operands, computed without the zeros between their elements.

Where x is dilated by L, the output at y meets every L-th element of the kernel alone, those k with y + k - low a
multiple of L. Outputs of one remainder make a convolution of x itself with these elements; remainders with the same
number of kernel elements are output channels of one convolution, and all of them are interleaved at the end. So a
transposed convolution multiplies by no zeros (Dumoulin and Visin 2016 have the picture), and an infinite kernel element
meets no zero that would make it NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ops import rules
from jitgraph.ops.creation import full
from jitgraph.ops.movement import flip, reshape, transpose
from jitgraph.ops.windows import concat, pad, slice

Ints = tuple[int, ...]
Padding = tuple[tuple[DimLike, DimLike], ...]


class _Remainders(NamedTuple):
    """Remainders ``first`` to ``last`` (without it), whose outputs meet ``taps`` elements of the kernel each."""

    first: int
    last: int
    taps: int


class _PartedAxis(NamedTuple):
    """A spatial axis whose outputs are parted by their remainders; other axes have one group of one remainder."""

    spread: int
    taps: int  # the most that an output meets
    groups: tuple[_Remainders, ...]
    places: DimLike  # outputs of each remainder
    before: DimLike  # the first of them starts that many elements of x before x
    skipped: DimLike  # of the interleaved outputs, before the first that is asked for
    extent: DimLike  # outputs that are asked for


def _axis(extent: DimLike, kernel: int, spread: int, low: int, high: DimLike) -> _PartedAxis:
    """How outputs y = L t - r + low of a kernel axis are parted by r, from 0 to L - 1."""
    outputs = (extent - 1) * spread + 1 + low + high - (kernel - 1)
    rules.at_least("the output of a convolution with a spread operand", outputs, 1)
    begin = -(low // spread)  # t of the first output, and of the last one
    end = (outputs + spread - 2 - low) // spread
    full_taps, rest = divmod(kernel, spread)
    groups = [_Remainders(rest, spread, full_taps), *([_Remainders(0, rest, full_taps + 1)] if rest else [])]
    skipped = spread - 1 - low - begin * spread
    return _PartedAxis(spread, full_taps + bool(rest), tuple(groups), end - begin + 1, -begin, skipped, outputs)


def _taps(w: Any, axes: Sequence[_PartedAxis | None]) -> Any:
    """w[O, C, *K] with each parted axis as [elements of one remainder, remainders from the last to the first]."""
    padded = [0 if axis is None else axis.taps * axis.spread - w.shape[2 + i] for i, axis in enumerate(axes)]
    if any(padded):
        zero = full(shape=(), value=0, dtype=w.dtype)
        none = (0,) * (2 + len(axes))
        w = pad(w, zero, low=none, high=(0, 0, *padded), interior=none)
    shape, reversed_axes = [*w.shape[:2]], []
    for i, axis in enumerate(axes):
        if axis is None:
            shape += [w.shape[2 + i], 1]
        else:
            shape += [axis.taps, axis.spread]
            reversed_axes.append(len(shape) - 1)
    return flip(reshape(w, shape=tuple(shape)), axes=tuple(reversed_axes))


def _kernel(taps: Any, axes: Sequence[_PartedAxis | None], part: Sequence[_Remainders | None]) -> Any:
    """The kernel [O * remainders, C, *elements] of one convolution."""
    starts, stops = [0, 0], [*taps.shape[:2]]
    for i, (axis, group) in enumerate(zip(axes, part, strict=True)):
        if axis is None or group is None:
            starts += [0, 0]
            stops += [*taps.shape[2 + 2 * i : 4 + 2 * i]]
        else:
            starts += [0, axis.spread - group.last]
            stops += [group.taps, axis.spread - group.first]
    cut = slice(taps, starts=tuple(starts), stops=tuple(stops), strides=(1,) * len(starts))
    spatial = range(len(axes))
    turned = transpose(cut, permutation=(0, *(3 + 2 * i for i in spatial), 1, *(2 + 2 * i for i in spatial)))
    remainders = dims.product(turned.shape[: 1 + len(axes)])
    return reshape(turned, shape=(remainders, *turned.shape[1 + len(axes) :]))


def spread_conv(
    conv: Any, x: Any, w: Any, *, padding: Padding, lhs_dilation: Ints, rhs_dilation: Ints, groups: int
) -> Any:
    """``conv`` with strides of 1, where outputs along axes with ``lhs_dilation`` are parted by what they meet.

    Axes of kernels with named sizes, or with dilation of their own, are left to ``conv``.
    """
    spatial = range(len(padding))
    axes: list[_PartedAxis | None] = [None] * len(padding)
    for i in spatial:
        (low, high), kernel = padding[i], w.shape[2 + i]
        if lhs_dilation[i] > 1 and rhs_dilation[i] == 1 and isinstance(low, int) and isinstance(kernel, int):
            axes[i] = _axis(x.shape[2 + i], kernel, lhs_dilation[i], low, high)
    if not any(axes):
        settings = {"lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation, "groups": groups}
        return conv(x, w, strides=(1,) * len(padding), padding=padding, **settings)
    taps = _taps(w, axes)

    def part(chosen: tuple[_Remainders | None, ...]) -> Any:
        """The outputs [N, O, *remainders, *places] of one group for each axis, or of all groups of further axes."""
        i = len(chosen)
        if i < len(axes):
            axis = axes[i]
            pieces = [part((*chosen, group)) for group in (axis.groups if axis else (None,))]
            return pieces[0] if len(pieces) == 1 else concat(*pieces, axis=2 + i)
        around, spread, out_extents, remainders = [], [], [], []
        for i, (axis, group) in enumerate(zip(axes, chosen, strict=True)):
            if axis is None or group is None:
                around.append(padding[i])
                reach = (w.shape[2 + i] - 1) * rhs_dilation[i]
                out_extents.append((x.shape[2 + i] - 1) * lhs_dilation[i] + 1 + sum(padding[i]) - reach)
            else:
                around.append((axis.before, axis.places - x.shape[2 + i] - axis.before + group.taps - 1))
                out_extents.append(axis.places)
            spread.append(1 if axis else lhs_dilation[i])
            remainders.append(group.last - group.first if group else 1)
        shape = (x.shape[0], w.shape[0], *remainders, *out_extents)
        if any(group is not None and group.taps == 0 for group in chosen):
            return full(shape=shape, value=0, dtype=x.dtype)
        kernel = _kernel(taps, axes, chosen)
        settings = {"lhs_dilation": tuple(spread), "rhs_dilation": rhs_dilation, "groups": groups}
        return reshape(conv(x, kernel, strides=(1,) * len(axes), padding=tuple(around), **settings), shape=shape)

    parts = part(())
    count = len(axes)
    pairs = tuple(axis for i in spatial for axis in (2 + count + i, 2 + i))
    turned = transpose(parts, permutation=(0, 1, *pairs))
    extents = [turned.shape[2 + 2 * i] * turned.shape[3 + 2 * i] for i in spatial]
    merged = reshape(turned, shape=(*turned.shape[:2], *extents))
    starts = [axis.skipped if axis else 0 for axis in axes]
    stops = [
        start + (axis.extent if axis else extents[i]) for i, (start, axis) in enumerate(zip(starts, axes, strict=True))
    ]
    return slice(merged, starts=(0, 0, *starts), stops=(*merged.shape[:2], *stops), strides=(1,) * (2 + count))
