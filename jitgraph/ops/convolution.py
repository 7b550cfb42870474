"""conv: convolution (in the sense of neural networks: correlation) over any number of spatial axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.errors import ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import require_same
from jitgraph.ir.dims import DimLike
from jitgraph.ir.op import Op, OpenShape, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.creation import full
from jitgraph.ops.movement import flip, reshape, transpose
from jitgraph.ops.numeric import Array, rounded
from jitgraph.ops.ordered_product import matmul
from jitgraph.ops.sampling import samples_for
from jitgraph.ops.windows import concat, pad, slice

# ----------------------------------------------------------------------
# Convolutions of spread operands, computed without the zeros between their elements.
#
# Where x is dilated by L, the output at y meets every L-th element of the kernel alone, those k with y + k - low a
# multiple of L. Outputs of one remainder make a convolution of x itself with these elements; remainders with the same
# number of kernel elements are output channels of one convolution, and all of them are interleaved at the end. So a
# transposed convolution multiplies by no zeros (Dumoulin and Visin 2016 have the picture), and an infinite kernel
# element meets no zero that would make it NaN.

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


# ----------------------------------------------------------------------
# conv: convolution (in the sense of neural networks: correlation) over any number of spatial axes.
#
# ``conv(x[N, C, *S], w[O, C / groups, *K])`` gives ``[N, O, *Y]``: with x dilated by ``lhs_dilation`` (zeros between
# its elements), padded by ``padding`` (zeros; negative padding crops) and w dilated by ``rhs_dilation``,
#
#     out[n, o, y] = sum over c, k of w[o, c, k] * x[n, g(o) * C / groups + c, y * strides + k * rhs_dilation]
#
# where g(o) is the group of output channel o. 16-bit floats are accumulated in float32.

_WIDEST_WINDOW: Final = 16
"""Elements along an axis of a window that are compiled as they are; a weight gradient's are as many as an image's."""


def _dilated(extent: DimLike, dilation: int) -> DimLike:
    return (extent - 1) * dilation + 1


def output_extent(extent: DimLike, kernel: DimLike, stride: int, pad: tuple[DimLike, DimLike]) -> DimLike:
    """How many places a (dilated) kernel takes on a padded axis."""
    return (extent + pad[0] + pad[1] - kernel) // stride + 1


def _conv_type(
    x: Type, w: Type, *, strides: Ints, padding: Padding, lhs_dilation: Ints, rhs_dilation: Ints, groups: int
) -> TensorType:
    rules.require_tensors("conv", (x, w), rules.NUMBERS, 2)
    left, right = rules.require_tensor("conv", x), rules.require_tensor("conv", w)
    spatial = left.ndim - 2
    what = f"conv({left}, {right})"
    if spatial < 0 or right.ndim != left.ndim:
        raise ShapeError(f"{what}: expected x[N, C, *S] and w[O, C / groups, *K] with as many spatial axes")
    if any(len(each) != spatial for each in (strides, padding, lhs_dilation, rhs_dilation)):
        raise ShapeError(f"{what}: strides, padding and dilations need {spatial} entries each")
    if any(step < 1 for step in (*strides, *lhs_dilation, *rhs_dilation, groups)):
        raise ShapeError(f"{what}: strides, dilations and groups should be positive")
    rules.quotient(f"{what}: {right.shape[0]} output channels", right.shape[0], groups)
    what_channels = f"{what}: channels of x and groups={groups} times those of w"
    require_same(context.constraints(), left.shape[1], right.shape[1] * groups, what_channels)
    shape = [left.shape[0], right.shape[0]]
    for axis in range(spatial):
        extent, kernel = left.shape[2 + axis], right.shape[2 + axis]
        where = f"{what}: spatial axis {axis} with padding {padding[axis]}"
        rules.at_least(where, extent, 1)
        rules.at_least(where, kernel, 1)
        outer, reach = _dilated(extent, lhs_dilation[axis]), _dilated(kernel, rhs_dilation[axis])
        rules.at_least(f"{where}: the padded extent", outer + padding[axis][0] + padding[axis][1], reach)
        shape.append(output_extent(outer, reach, strides[axis], padding[axis]))
    return TensorType(left.dtype, tuple(shape))


def _padded(x: Array, padding: Sequence[tuple[int, int]], dilation: Ints) -> Array:
    """x with its spatial axes dilated and padded with zeros; negative padding crops."""
    extents = [(n - 1) * step + 1 for n, step in zip(x.shape[2:], dilation, strict=True)]
    spread = np.zeros((*x.shape[:2], *extents), x.dtype)
    every: tuple[Any, ...] = tuple(np.s_[::step] for step in (1, 1, *dilation))
    spread[every] = x
    grown = np.pad(spread, [(0, 0), (0, 0), *((max(low, 0), max(high, 0)) for low, high in padding)])
    inside: list[Any] = [np.s_[:], np.s_[:]]
    for (low, high), extent in zip(padding, grown.shape[2:], strict=True):
        inside.append(np.s_[max(-low, 0) : extent - max(-high, 0)])
    return np.asarray(grown[tuple(inside)])


def _conv(
    x: Array, w: Array, *, strides: Ints, padding: Any, lhs_dilation: Ints, rhs_dilation: Ints, groups: int
) -> Array:
    """One matrix product a group, of unrolled windows with the kernels."""
    spatial = x.ndim - 2
    kernel = w.shape[2:]
    reach = tuple((k - 1) * step + 1 for k, step in zip(kernel, rhs_dilation, strict=True))
    windows = _padded(x, padding, lhs_dilation)
    if spatial:
        windows = np.lib.stride_tricks.sliding_window_view(windows, reach, tuple(range(2, 2 + spatial)))
    every: tuple[Any, ...] = tuple(np.s_[::step] for step in (1, 1, *strides, *rhs_dilation))
    windows = windows[every]  # [N, C, *Y, *K]
    batch, channels = x.shape[:2]
    out_spatial = windows.shape[2 : 2 + spatial]
    per_group = channels // groups
    rows = windows.reshape((batch, groups, per_group, *out_spatial, *kernel))
    order = (1, 0, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial))
    inner = per_group * int(np.prod(kernel))
    outer = batch * int(np.prod(out_spatial))
    left = rows.transpose(order).reshape((groups, outer, inner))
    right = w.reshape((groups, w.shape[0] // groups, inner)).transpose(0, 2, 1)
    product = matmul(left, right).reshape((groups, batch, *out_spatial, w.shape[0] // groups))
    product = np.moveaxis(product, (0, -1), (1, 2))
    return np.asarray(product.reshape((batch, w.shape[0], *out_spatial)))


def _transposed(w: Any, groups: int) -> Any:
    """Kernels [G * O', C', *K] as [G * C', O', *K], flipped: they lead from a convolution's output to its input."""
    out, channels, *kernel = w.shape
    split = reshape(flip(w, axes=tuple(range(2, 2 + len(kernel)))), shape=(groups, out // groups, channels, *kernel))
    turned = transpose(split, permutation=(0, 2, 1, *range(3, 3 + len(kernel))))
    return reshape(turned, shape=(groups * channels, out // groups, *kernel))


def conv_back(x: Any, w: Any, *, padding: Padding, lhs_dilation: Ints, rhs_dilation: Ints, groups: int) -> Any:
    """x[N, O, *Y] spread by ``lhs_dilation`` and convolved with the transposed kernels of w[O, C / groups, *K]."""
    settings: Any = {"lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation, "groups": groups}
    return spread_conv(conv, x, _transposed(w, groups), padding=padding, **settings)


def _spans(x: Any, dilations: Ints) -> list[DimLike]:
    """The spatial sizes of x with zeros between its elements."""
    return [_dilated(size, step) for size, step in zip(x.shape[2:], dilations, strict=True)]


def _conv_vjp(
    ct: Any,
    out: Any,
    x: Any,
    w: Any,
    *,
    strides: Ints,
    padding: Padding,
    lhs_dilation: Ints,
    rhs_dilation: Ints,
    groups: int,
) -> tuple[Any, Any]:
    spatial = range(len(strides))
    extents, reaches, out_spans = _spans(x, lhs_dilation), _spans(w, rhs_dilation), _spans(ct, strides)
    # x meets kernel element k from places y * strides = s + low - k * rhs_dilation: a convolution of the dilated
    # cotangent with the flipped kernel, at the places s that hold elements of x
    lows = [reaches[i] - 1 - padding[i][0] for i in spatial]
    around = tuple((lows[i], extents[i] + reaches[i] - 1 - out_spans[i] - lows[i]) for i in spatial)
    spread: Any = {"padding": around, "lhs_dilation": strides, "rhs_dilation": rhs_dilation, "groups": groups}
    if any(step > 1 for step in lhs_dilation):
        dx = conv(ct, _transposed(w, groups), strides=lhs_dilation, **spread)
    else:
        dx = conv_back(ct, w, **spread)
    settings: Any = {"strides": strides, "padding": padding, "lhs_dilation": lhs_dilation, "rhs_dilation": rhs_dilation}
    return dx, conv_weight_gradient(ct, x, w, **settings, groups=groups)


def conv_weight_gradient(
    ct: Any, x: Any, w: Any, *, strides: Ints, padding: Padding, lhs_dilation: Ints, rhs_dilation: Ints, groups: int
) -> Any:
    """The cotangent of w for the cotangent of ``conv(x, w)``; of w only the shape counts."""
    spatial = range(len(strides))
    extents, reaches, out_spans = _spans(x, lhs_dilation), _spans(w, rhs_dilation), _spans(ct, strides)
    # the batch is the axis to sum over: [C', G * N, *S] with [O, N, *Y]
    batch, channels, *size = x.shape
    split = reshape(x, shape=(batch, groups, channels // groups, *size))
    turned = transpose(split, permutation=(2, 1, 0, *range(3, 3 + len(size))))
    lhs = reshape(turned, shape=(channels // groups, groups * batch, *size))
    rhs = transpose(ct, permutation=(1, 0, *range(2, 2 + len(size))))
    inside = tuple((padding[i][0], reaches[i] - 1 + out_spans[i] - extents[i] - padding[i][0]) for i in spatial)
    settings: Any = {"lhs_dilation": lhs_dilation, "rhs_dilation": strides, "groups": groups}
    dw = conv(lhs, rhs, strides=rhs_dilation, padding=inside, **settings)
    return transpose(dw, permutation=(1, 0, *range(2, 2 + len(size))))


def _conv_flops(out: TensorType, x: Type, w: TensorType, **attrs: Any) -> DimLike:
    """A product and a sum for each element of the result and each element of its window."""
    return 2 * dims.product(w.shape[1:]) * out.size


def _conv_open_shapes(x: Ints, w: Ints, *, groups: int, **attrs: Any) -> tuple[OpenShape, OpenShape]:
    """A name for each extent but those of short windows, and of channels that are cut into groups."""
    grouped = groups != 1
    channels = x[1] if grouped else rules.open_extent(x[1], "c")
    weights = w[:2] if grouped else (rules.open_extent(w[0], "o"), channels)
    window = [extent if extent <= _WIDEST_WINDOW else f"k{axis}" for axis, extent in enumerate(w[2:])]
    spatial = [rules.open_extent(extent, f"s{axis}") for axis, extent in enumerate(x[2:])]
    return (rules.open_extent(x[0], "n"), channels, *spatial), (*weights, *window)


def _attributes(spatial: int, **changes: Any) -> dict[str, Any]:
    plain = {"strides": (1,) * spatial, "padding": ((0, 0),) * spatial}
    return plain | {"lhs_dilation": (1,) * spatial, "rhs_dilation": (1,) * spatial, "groups": 1} | changes


conv: Op = Op(
    name="conv",
    kind="contraction",
    batch="conv",
    infer=_conv_type,
    evaluate=rounded(_conv),
    vjp=_conv_vjp,
    lowering="conv",
    flops=_conv_flops,
    open_shapes=_conv_open_shapes,
    onnx="Conv",
    samples=samples_for(
        "conv",
        rules.NUMBERS,
        lambda array: [
            Sample((array(*x), array(*w)), attrs)
            for x, w, attrs in [
                ((1, 2, 5), (3, 2, 3), _attributes(1)),
                ((2, 2, 6), (2, 2, 2), _attributes(1, strides=(2,), padding=((1, 2),))),
                ((1, 1, 4), (1, 1, 2), _attributes(1, lhs_dilation=(2,), rhs_dilation=(3,))),
                ((1, 1, 6), (1, 1, 2), _attributes(1, padding=((-1, -2),))),
                ((2, 4, 3, 3), (6, 2, 2, 2), _attributes(2, groups=2, padding=((1, 1), (0, 1)))),
                ((1, 3, 4, 4), (3, 1, 3, 3), _attributes(2, groups=3, strides=(2, 1), padding=((1, 1), (1, 1)))),
                ((0, 2, 3), (1, 2, 2), _attributes(1)),
                ((1, 0, 3), (2, 0, 2), _attributes(1)),
                ((2, 3), (4, 3), _attributes(0)),
                ((1, 1, 3, 3, 3), (2, 1, 2, 2, 2), _attributes(3)),
            ]
        ],
    ),
    doc="The convolution of x[N, C, *S] with w[O, C / groups, *K].",
    traits=frozenset({"autocast_low"}),
)
