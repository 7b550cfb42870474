"""conv as contractions, whose factors are elements of the input where they lie, or of copies in a better order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from math import gcd, prod
from typing import Any

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.building import Group, ScheduleBuilder, is_empty
from jitgraph.codegen.lower.contraction import (
    Product,
    factor_at,
    lower_product,
    merged_parts,
    split_product,
    store_results,
)
from jitgraph.codegen.lower.recorder import KernelRecorder, accumulator
from jitgraph.codegen.lower.schedules.heuristics import ConvolutionCopies, ImagesTogether
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.codegen.lower.values import Index, at_least, below, both
from jitgraph.dtypes import bool_, is_float
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops.ordered_product import BLOCK_STEPS


def lower_conv(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A convolution and its epilogue as contractions."""
    if is_empty(node.output.tensor):
        return
    copies = builder.decisions.convolutions
    if copies is None or not _is_known(node):
        _lower_by_index(builder, group, node)
    elif _are_few_steps(node, copies):
        _lower_few_steps(builder, group, node)
    elif _are_sums_of_groups(node, copies):
        _lower_sums_of_groups(builder, group, node)
    elif (together := _images_innermost(node, copies)) is not None:
        _lower_rows(builder, group, node, copies, together)
    else:
        _lower_by_index(builder, group, node)


# ----------------------------------------------------------------------
# The general way: windows are read by index maps.


def _lower_by_index(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    """A contraction for each image and group, or for each group.

    m is the channel of the output in its group, n the place in the output, k the channel of the input in its group and
    the place in the window; the input is read through the index map, and is zero in the padding and between dilated
    elements. Images of few places are one contraction, whose n is the place in all of them, so that the weight is
    packed once; k, and with it the order of every sum, is the same.
    """
    x, w = node.inputs
    groups: Any = node.attrs["groups"]
    images, channels, *place_shape = node.output.shape
    window = w.shape[1:]
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    split = recorder.ranges.split
    of_group = channels // groups
    together = _images_together(node, builder.decisions.images)
    around = (*(() if together else (images,)), *(() if together and groups == 1 else (groups,)))
    columns = (images, *place_shape) if together else tuple(place_shape)

    def group_of(at: Sequence[DimLike]) -> DimLike:
        return at[-1] if around else 0

    def place_of(at: Sequence[DimLike], n: DimLike) -> tuple[DimLike, Index]:
        image, *position = (*(() if together else at[:1]), *split(n, columns))
        return image, tuple(position)

    def weight(at: Sequence[DimLike], m: DimLike, k: DimLike) -> Var:
        return factor_at(values, w, (group_of(at) * of_group + m, *split(k, window)))

    def pixel(at: Sequence[DimLike], k: DimLike, n: DimLike) -> Var:
        image, position = place_of(at, n)
        channel, *taps = split(k, window)
        source, inside = _source(recorder, node, position, taps)
        return factor_at(values, x, (image, group_of(at) * window[0] + channel, *source), inside)

    def epilogue(at: Sequence[DimLike], m: DimLike, n: DimLike, acc: Var) -> None:
        image, position = place_of(at, n)
        store_results(values, node, group, (image, group_of(at) * of_group + m, *position), acc)

    extents = (of_group, dims.product(columns), dims.product(window))
    product = Product(around, extents, weight, pixel, epilogue, accumulator(x.dtype))
    lower_product(builder, recorder, product)
    builder.launch(recorder, group.name)


def _images_together(node: Node, sizes: ImagesTogether | None) -> bool:
    """Whether images are columns of one contraction: few places and a weight that is worth packing once. Where the
    input is dilated, lanes over places of several images are slower to read than the weight is to pack."""
    images, channels, *place_shape = node.output.shape
    attrs: dict[str, Any] = dict(node.attrs)
    if sizes is None or images == 1 or any(spread != 1 for spread in attrs["lhs_dilation"]):
        return False
    pixels, of_group = dims.product(place_shape), channels // attrs["groups"]
    steps = dims.product(node.inputs[1].shape[1:])
    if not isinstance(pixels, int) or not isinstance(of_group, int) or node.output.dtype.itemsize < sizes.least_bytes:
        return False
    many = not isinstance(steps, int) or steps >= sizes.least_steps
    return pixels <= sizes.most_places and of_group >= sizes.least_channels and many


def _source(recorder: KernelRecorder, node: Node, pixel: Index, taps: list[DimLike]) -> tuple[Index, Var | None]:
    """Where in the input a tap of the window lies for a place in the output, and the mask where that is an element."""
    attrs: dict[str, Any] = dict(node.attrs)
    inside: Var | None = None
    source: list[DimLike] = []
    sides = zip(
        pixel,
        taps,
        node.inputs[0].shape[2:],
        attrs["strides"],
        attrs["padding"],
        attrs["lhs_dilation"],
        attrs["rhs_dilation"],
        strict=True,
    )
    for at, tap, extent, stride, (low, _), spread, dilation in sides:
        position = at * stride + tap * dilation - low
        inside = both(recorder, inside, at_least(recorder, position, 0))
        if spread > 1:
            ops = ScalarOps(recorder, bool_)
            gap = recorder.index_value(position % spread)
            inside = both(recorder, inside, ops.cmp("eq", gap, recorder.index_value(0)))
            position = position // spread
        inside = both(recorder, inside, below(recorder, position, extent))
        source.append(position)
    return tuple(source), inside


# ----------------------------------------------------------------------
# Rows of places whose factors are runs of memory.
#
# The input is copied once, padded, and the kernel with its channels innermost. For a row of places (all but the last
# axis fixed) a step of the sum then reads two runs of memory, without masks or divisions: places of the last axis, side
# by side for each remainder of its stride, and channels. Where images are *together* they are the innermost axis of the
# copy, and a run is the places of all images; the sums are transposed behind the contraction.
#
# Gradients of weights are such convolutions too, of few places with windows as large as an image. Their steps are cut
# into parts whose factors fit the second-level cache, in which all rows of places use them; the parts merge by the tree
# of ``Contract``. No bit depends on any of this, since k and with it the order of each sum is the same.


def _is_known(node: Node) -> bool:
    shapes = (*node.inputs[0].shape, *node.inputs[1].shape, *node.output.shape)
    attrs: dict[str, Any] = dict(node.attrs)
    dense = all(spread == 1 for spread in attrs["lhs_dilation"])
    return all(isinstance(extent, int) for extent in shapes) and dense and len(node.output.shape) > 2


def _images_innermost(node: Node, copies: ConvolutionCopies) -> bool | None:
    """Whether images are together in a convolution by rows; None where the general way is better."""
    images, channels, *places = _known(node.output.shape)
    in_channels, *window = _known(node.inputs[1].shape[1:])
    attrs: dict[str, Any] = dict(node.attrs)
    of_group, steps = channels // _groups(node), in_channels * prod(window)
    if _has_large_windows(node):
        return True if steps >= copies.least_steps and images * of_group >= copies.least_sums else None
    if prod(window) == 1 or of_group < copies.least_channels:
        return None
    strided = attrs["strides"][-1] > 1
    if images >= copies.least_images and places[-1] < copies.least_places and not strided:
        return True
    whole = _is_one_contraction(places[-1], of_group, copies)
    return False if whole or places[-1] >= copies.few_places else None


def _is_one_contraction(run: int, of_group: int, copies: ConvolutionCopies) -> bool:
    """Whether all rows are columns of one contraction: packing is a small part of it, vector by vector in each run."""
    vector = gcd(run, copies.vector)
    return vector >= copies.least_vector and vector * of_group >= copies.least_uses


def _groups(node: Node) -> int:
    groups = node.attrs["groups"]
    assert isinstance(groups, int)
    return groups


def _has_large_windows(node: Node) -> bool:
    return prod(_known(node.inputs[1].shape[2:])) > prod(_known(node.output.shape[2:]))


def _is_in_memory(group: Group, value: Value) -> bool:
    """Whether a kernel is dense in memory, so that packing reads it in runs without a copy."""
    return value in group.inputs


class _Rows:
    """A convolution by rows of places: its copies, and the factors and results of its contractions."""

    def __init__(
        self, builder: ScheduleBuilder, group: Group, node: Node, copies: ConvolutionCopies, together: bool
    ) -> None:
        x, w = node.inputs
        attrs: dict[str, Any] = dict(node.attrs)
        self.builder, self.group, self.node, self.together = builder, group, node, together
        self.groups, self.strides, self.dilations = attrs["groups"], attrs["strides"], attrs["rhs_dilation"]
        self.images, self.channels, *self.places = _known(node.output.shape)
        self.window = _known(w.shape[1:])
        self.of_group = self.channels // self.groups
        reach = _reach(node)
        lows = [low for low, _ in attrs["padding"]]
        self.pixels = _padded(builder, group, x, reach, lows, self.strides[-1], together)
        self.recorder = KernelRecorder()
        run = (self.places[-1], *((self.images,) if together else ()))
        whole = _is_one_contraction(prod(run), self.of_group, copies)
        self.rows = () if whole else tuple(self.places[:-1])
        self.around = (*(() if together else (self.images,)), self.groups, *self.rows)
        self.columns = (*(self.places[:-1] if whole else ()), *run)
        uses = prod(self.around) // self.groups * -(-prod(self.columns) // copies.columns)
        self.kernel: Storage | None = None
        if uses > copies.few_uses or not _is_in_memory(group, w):
            self.kernel = _padded(builder, group, w, self.window[1:], [0] * len(self.places), 1, True)
        self.values = builder.evaluator(self.recorder, group)

    def row(self, at: Sequence[DimLike]) -> tuple[DimLike, DimLike, Sequence[DimLike]]:
        """The image (0 where they are together), the group and the place in all axes but the last."""
        image, group, *starts = (0, *at) if self.together else at
        return image, group, starts

    def position_of(self, at: Sequence[DimLike], n: DimLike) -> tuple[Sequence[DimLike], DimLike]:
        """The place in all axes but the last, and where in its run of memory a column is."""
        if self.rows or len(self.places) == 1:
            return self.row(at)[2], n
        run = prod(self.columns[len(self.places) - 1 :])
        *starts, place = self.recorder.ranges.split(n, (*self.places[:-1], run))
        return starts, place

    def pixel(self, at: Sequence[DimLike], k: DimLike, n: DimLike) -> Var:
        image, group, _ = self.row(at)
        starts, position = self.position_of(at, n)
        channel, *taps = self.recorder.ranges.split(k, self.window)
        outer = [
            start * stride + tap * dilation
            for start, stride, tap, dilation in zip(starts, self.strides, taps, self.dilations, strict=False)
        ]
        last = self.recorder.ranges.simplify(taps[-1] * self.dilations[-1])
        stride = self.strides[-1]
        place = (group * self.window[0] + channel, *outer, last % stride, last // stride)
        index = (*place, 0) if self.together else (image, *place)
        return self._factor(self.pixels, offset(index, self.pixels.type.shape) + position)

    def weight(self, at: Sequence[DimLike], k: DimLike, m: DimLike) -> Var:
        channel = self.row(at)[1] * self.of_group + m
        if self.kernel is not None:
            return self._factor(self.kernel, k * self.channels + channel)
        return factor_at(self.values, self.node.inputs[1], (channel, *self.recorder.ranges.split(k, self.window)))

    def _factor(self, storage: Storage, index: DimLike) -> Var:
        return _widened(self.recorder, self.recorder.load(storage, index))

    def result(self, at: Sequence[DimLike], m: DimLike, n: DimLike) -> Index:
        """The index in the output of the sum at (m, n)."""
        image, group, starts = self.row(at)
        places = self.recorder.ranges.split(n, self.columns)
        if self.together:
            image, places = places[-1], places[:-1]
        return (image, group * self.of_group + m, *starts, *places)

    def product(self, epilogue: Callable[[Sequence[DimLike], DimLike, DimLike, Var], None]) -> Product:
        """The contractions; the wider factor goes over lanes where images are together."""
        steps, width, dtype = prod(self.window), prod(self.columns), accumulator(self.node.inputs[0].dtype)
        if width < self.of_group and self.together:
            return Product(
                self.around,
                (width, self.of_group, steps),
                lambda at, m, k: self.pixel(at, k, m),
                self.weight,
                lambda at, m, n, acc: epilogue(at, n, m, acc),
                dtype,
            )
        return Product(
            self.around,
            (self.of_group, width, steps),
            lambda at, m, k: self.weight(at, k, m),
            self.pixel,
            epilogue,
            dtype,
        )


def _lower_rows(builder: ScheduleBuilder, group: Group, node: Node, copies: ConvolutionCopies, together: bool) -> None:
    rows = _Rows(builder, group, node, copies, together)
    dtype = accumulator(node.inputs[0].dtype)
    if not together:

        def results(at: Sequence[DimLike], m: DimLike, n: DimLike, acc: Var) -> None:
            store_results(rows.values, node, group, rows.result(at, m, n), acc)

        lower_product(builder, rows.recorder, rows.product(results))
        builder.launch(rows.recorder, group.name)
        return
    width = prod(rows.columns)
    shape = (*rows.around, rows.of_group, width)
    sums = builder.temporary(TensorType(dtype, shape))
    product = rows.product(lambda at, m, n, acc: rows.recorder.store(sums, offset((*at, m, n), shape), acc))
    span = None
    if _has_large_windows(node):
        step_bytes = (rows.of_group + width) * dtype.itemsize
        span = _span_of(copies, prod(rows.window), step_bytes, prod(shape) * dtype.itemsize)
    if span is None:
        lower_product(builder, rows.recorder, product)
    else:
        split_product(builder, rows.recorder, product, span)
    builder.launch(rows.recorder, group.name)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    extents = (rows.images, rows.groups, rows.of_group, *rows.places)
    with recorder.loops(builder.decisions.independent(extents), extents) as (image, number, channel, *place):
        row, column = place[: len(rows.rows)], place[len(rows.rows) :]
        position = offset((*column, image), rows.columns)
        acc = recorder.load(sums, offset((number, *row, channel, position), shape))
        store_results(values, node, group, (image, number * rows.of_group + channel, *place), acc)
    builder.launch(recorder, group.name)


# ----------------------------------------------------------------------
# Groups of one channel, as depthwise convolutions have.
#
# An element of the output is a sum of few steps, which are written out; places are lanes. In a gradient of the kernels
# it is a sum over all pixels: there groups are lanes, each block of steps is summed by itself, and the blocks merge by
# the tree of ``Contract``.


def _are_few_steps(node: Node, copies: ConvolutionCopies) -> bool:
    w = node.inputs[1]
    return node.output.shape[1] == _groups(node) and prod(_known(w.shape[1:])) <= copies.most_unrolled_steps


def _lower_few_steps(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    x, w = node.inputs
    attrs: dict[str, Any] = dict(node.attrs)
    strides, dilations = attrs["strides"], attrs["rhs_dilation"]
    window = _known(w.shape[1:])
    pixels = _padded(builder, group, x, _reach(node), [low for low, _ in attrs["padding"]], strides[-1], False)
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    shape = _known(node.output.shape)
    with recorder.loops(builder.decisions.independent(shape), shape) as (image, channel, *place):
        total = ScalarOps(recorder, accumulator(x.dtype)).const(0)
        for channel_of_group, *taps in itertools.product(*map(range, window)):
            outer = [
                at * stride + tap * dilation
                for at, stride, tap, dilation in zip(place[:-1], strides, taps, dilations, strict=False)
            ]
            reach = taps[-1] * dilations[-1]
            last = reach % strides[-1], reach // strides[-1] + place[-1]
            index = offset((image, channel * window[0] + channel_of_group, *outer, *last), pixels.type.shape)
            weight = factor_at(values, w, (channel, channel_of_group, *taps))
            total = _multiply_add(recorder, weight, _widened(recorder, recorder.load(pixels, index)), total)
        store_results(values, node, group, (image, channel, *place), total)
    builder.launch(recorder, group.name)


def _are_sums_of_groups(node: Node, copies: ConvolutionCopies) -> bool:
    images, channels, *places = _known(node.output.shape)
    alone = images == 1 and channels == _groups(node) >= copies.vector
    return alone and _has_large_windows(node) and prod(places) <= copies.most_unrolled_steps


def _lower_sums_of_groups(builder: ScheduleBuilder, group: Group, node: Node) -> None:
    x, w = node.inputs
    attrs: dict[str, Any] = dict(node.attrs)
    strides, dilations, dtype = attrs["strides"], attrs["rhs_dilation"], accumulator(x.dtype)
    _, groups, *places = _known(node.output.shape)
    window = _known(w.shape[1:])
    lows = [low for low, _ in attrs["padding"]]
    pixels = _padded(builder, group, x, _reach(node), lows, 1, True, groups)
    kernel = _padded(builder, group, w, window[1:], [0] * len(places), 1, True)
    steps = prod(window)
    blocks = -(-steps // BLOCK_STEPS)
    shape = (blocks, *places, groups)
    sums = builder.temporary(TensorType(dtype, shape))
    recorder = KernelRecorder()
    zero = ScalarOps(recorder, dtype).const(0)
    extents = (blocks, *places[:-1], groups)
    with recorder.loops(builder.decisions.independent(extents), extents) as (block, *row, number):

        def step(k: DimLike, totals: tuple[Var, ...]) -> tuple[Var, ...]:
            channel, *taps = recorder.ranges.split(k, window)
            weight = _widened(recorder, recorder.load(kernel, k * groups + number))
            results = []
            for last, total in enumerate(totals):
                position = [
                    at * stride + tap * dilation
                    for at, stride, tap, dilation in zip((*row, last), strides, taps, dilations, strict=True)
                ]
                index = offset((channel, *position[:-1], 0, position[-1], number), pixels.type.shape)
                pixel = _widened(recorder, recorder.load(pixels, index))
                results.append(_multiply_add(recorder, weight, pixel, total))
            return tuple(results)

        totals = recorder.serial(steps, (zero,) * places[-1], step, begin=block * BLOCK_STEPS, span=BLOCK_STEPS)
        for last, total in enumerate(totals):
            recorder.store(sums, offset((block, *row, last, number), shape), total)
    values = builder.evaluator(recorder, group)
    with recorder.loops(builder.decisions.independent((groups, *places)), (groups, *places)) as (number, *place):

        def block_sum(block: DimLike) -> Var:
            return recorder.load(sums, offset((block, *place, number), shape), again=True)

        total = merged_parts(recorder, blocks, dtype, block_sum)
        store_results(values, node, group, (0, number, *place), total)
    builder.launch(recorder, group.name)


def _multiply_add(recorder: KernelRecorder, x: Var, y: Var, total: Var) -> Var:
    """One step of a sum of ``Contract``."""
    ops = ScalarOps(recorder, total.dtype)
    return ops.fma(x, y, total) if is_float(total.dtype) else ops.add(ops.mul(x, y), total)


def _widened(recorder: KernelRecorder, x: Var) -> Var:
    return ScalarOps(recorder, x.dtype).cast(x, accumulator(x.dtype))


# ----------------------------------------------------------------------
# Copies of operands.


def _reach(node: Node) -> list[int]:
    """The extents of the padded input, as far as windows reach."""
    attrs: dict[str, Any] = dict(node.attrs)
    sides = zip(
        _known(node.output.shape[2:]),
        attrs["strides"],
        _known(node.inputs[1].shape[2:]),
        attrs["rhs_dilation"],
        strict=True,
    )
    return [(places - 1) * stride + (taps - 1) * dilation + 1 for places, stride, taps, dilation in sides]


def _known(shape: Sequence[DimLike]) -> tuple[int, ...]:
    assert all(isinstance(extent, int) for extent in shape), shape
    return tuple(shape)  # type: ignore[arg-type]


def _span_of(copies: ConvolutionCopies, steps: int, step_bytes: int, sum_bytes: int) -> int | None:
    """Steps of a part, a power of two of blocks, so that its factors fit; None where there is one part."""
    span = BLOCK_STEPS
    while span < steps and (span * step_bytes < copies.part_bytes or steps * sum_bytes > span * copies.most_sum_bytes):
        span *= 2
    return span if span < steps else None


def _padded(
    builder: ScheduleBuilder,
    group: Group,
    value: Value,
    sizes: Sequence[int],
    lows: Sequence[int],
    stride: int,
    images_last: bool,
    groups: int = 1,
) -> Storage:
    """A temporary with ``value``, [N, C, *extents], whose elements begin at ``lows`` of ``sizes``, and 0 elsewhere.

    It is [N, C, *sizes[:-1], stride, ceil(sizes[-1] / stride)], the last axis by its remainders; or N is its last axis.
    A ``value`` of one image counts as [groups, C / groups, *extents].
    """
    images, channels, *extents = _known(value.shape)
    assert groups == 1 or images == 1
    images, channels = images * groups, channels // groups
    last = -(-sizes[-1] // stride)
    inner = (channels, *sizes[:-1], stride, last)
    shape = (*inner, images) if images_last else (images, *inner)
    copy = builder.temporary(TensorType(value.dtype, shape))
    recorder = KernelRecorder()
    values = builder.evaluator(recorder, group)
    outer = [
        (max(low, 0), min(size, low + extent))
        for low, size, extent in zip(lows[:-1], sizes[:-1], extents[:-1], strict=True)
    ]

    def nest(
        region: Sequence[tuple[int, int]],
        phase: int | None,
        element: Callable[[DimLike, DimLike, Sequence[DimLike]], Var],
    ) -> None:
        """Store ``element(image, channel, position)`` for a region, of one remainder or of all."""
        phases = (0, stride) if phase is None else (phase, phase + 1)
        ranges = [(0, channels), *region[:-1], phases, region[-1]]
        ranges = [*ranges, (0, images)] if images_last else [(0, images), *ranges]
        begins, extents = [begin for begin, _ in ranges], [end - begin for begin, end in ranges]
        if min(extents) <= 0:
            return
        with recorder.loops(builder.decisions.independent(extents), extents) as index:
            at = [begin + i for begin, i in zip(begins, index, strict=True)]
            image, (channel, *starts, remainder, place) = (at[-1], at[:-1]) if images_last else (at[0], at[1:])
            x = element(image, channel, [*starts, place * stride + remainder])
            recorder.store(copy, offset(at, shape), x)

    def zero(image: DimLike, channel: DimLike, position: Sequence[DimLike]) -> Var:
        return ScalarOps(recorder, value.dtype).const(0)

    def inside(image: DimLike, channel: DimLike, position: Sequence[DimLike]) -> Var:
        source = [p - low for p, low in zip(position, lows, strict=True)]
        index = (image, channel) if groups == 1 else (0, image * channels + channel)
        return values.at(value, (*index, *source))

    for axis, (begin, end) in enumerate(outer):
        for border in ((0, begin), (end, sizes[axis])):
            nest([*outer[:axis], border, *((0, size) for size in sizes[axis + 1 : -1]), (0, last)], None, zero)
    for phase in range(stride):
        begin = min(max(-(-(lows[-1] - phase) // stride), 0), last)
        end = max(min(-(-(lows[-1] + extents[-1] - phase) // stride), last), begin)
        for border in ((0, begin), (end, last)):
            nest([*outer, border], phase, zero)
        nest([*outer, (begin, end)], phase, inside)
    builder.launch(recorder, group.name)
    return copy
