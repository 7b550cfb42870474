"""max_pool2d and avg_pool2d over x[N, C, H, W]: one strided slice for each place in the window, combined.

``kernel``, ``strides`` are (height, width), ``padding`` is ((top, bottom), (left, right)), non-negative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from jitgraph.dtypes import DType
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op, Sample
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, bitwise_and, bitwise_not, bitwise_or, div, eq, maximum, ne, select
from jitgraph.ops.composite import composite
from jitgraph.ops.creation import full, full_like, zeros_like
from jitgraph.ops.numeric import least
from jitgraph.ops.sampling import generator, values
from jitgraph.ops.windows import pad, slice

Pair = tuple[int, int]
Pads = tuple[Pair, Pair]


def _taps(kernel: Pair) -> Iterator[Pair]:
    return ((row, column) for row in range(kernel[0]) for column in range(kernel[1]))


def _padded(x: Any, value: Any, padding: Pads) -> Any:
    if padding == ((0, 0), (0, 0)):
        return x
    (top, bottom), (left, right) = padding
    fill = full(shape=(), value=value, dtype=x.dtype)
    return pad(x, fill, low=(0, 0, top, left), high=(0, 0, bottom, right), interior=(0, 0, 0, 0))


def _pooled(x: Any, kernel: Pair, strides: Pair) -> list[Any]:
    """The output's height and width for a padded x; ShapeError where the window does not fit."""
    if len(x.shape) != 4:
        raise ShapeError(f"pooling: expected x[N, C, H, W], not {x.type}")
    for extent, size in zip(x.shape[2:], kernel, strict=True):
        rules.at_least(f"pooling of {x.type} (padded) by a window of {kernel}", extent, size)
    return [(extent - size) // stride + 1 for extent, size, stride in zip(x.shape[2:], kernel, strides, strict=True)]


def _windows(x: Any, kernel: Pair, strides: Pair) -> Iterator[Any]:
    """For each place in the window, what stands there in every window: slices [N, C, *output]."""
    out = _pooled(x, kernel, strides)
    for offset in _taps(kernel):
        stops = [start + (count - 1) * step + 1 for start, count, step in zip(offset, out, strides, strict=True)]
        yield slice(x, starts=(0, 0, *offset), stops=(*x.shape[:2], *stops), strides=(1, 1, *strides))


def _max_pool2d(x: Any, *, kernel: Pair, strides: Pair, padding: Pads) -> Any:
    slices = _windows(_padded(x, least(x.dtype), padding), kernel, strides)
    result = next(slices)
    for each in slices:
        result = maximum(result, each)
    return result


def _max_pool2d_vjp(ct: Any, out: Any, x: Any, *, kernel: Pair, strides: Pair, padding: Pads) -> tuple[Any]:
    """Each window's gradient goes to the first place that holds its maximum (as in PyTorch)."""
    padded = _padded(x, least(x.dtype), padding)
    zero = full(shape=(), value=0, dtype=x.dtype)
    taken: Any = None
    total: Any = None
    for offset, each in zip(_taps(kernel), _windows(padded, kernel, strides), strict=True):
        hit = bitwise_or(eq(each, out), bitwise_and(ne(each, each), ne(out, out)))
        fresh = hit if taken is None else bitwise_and(hit, bitwise_not(taken))
        taken = hit if taken is None else bitwise_or(taken, hit)
        reach = [(count - 1) * step + 1 for count, step in zip(ct.shape[2:], strides, strict=True)]
        high = [extent - at - span for extent, at, span in zip(padded.shape[2:], offset, reach, strict=True)]
        part = pad(
            select(fresh, ct, zeros_like(ct)),
            zero,
            low=(0, 0, *offset),
            high=(0, 0, *high),
            interior=(0, 0, strides[0] - 1, strides[1] - 1),
        )
        total = part if total is None else add(total, part)
    (top, _), (left, _) = padding
    if padded is x:
        return (total,)
    stops = (*x.shape[:2], top + x.shape[2], left + x.shape[3])
    return (slice(total, starts=(0, 0, top, left), stops=stops, strides=(1, 1, 1, 1)),)


def _window_sum(x: Any, kernel: Pair, strides: Pair, padding: Pads) -> Any:
    slices = _windows(_padded(x, 0, padding), kernel, strides)
    total = next(slices)
    for each in slices:
        total = add(total, each)
    return total


def _avg_pool2d(x: Any, *, kernel: Pair, strides: Pair, padding: Pads, count_include_pad: bool) -> Any:
    total = _window_sum(x, kernel, strides, padding)
    if count_include_pad or padding == ((0, 0), (0, 0)):
        return div(total, full_like(float(kernel[0] * kernel[1]), total))
    return div(total, _window_sum(full_like(1.0, x), kernel, strides, padding))


def _pool_samples(name: str, **attrs: Any) -> Callable[[DType], Sequence[Sample]]:
    cases: list[tuple[tuple[int, ...], Pair, Pair, Pads]] = [
        ((1, 2, 4, 4), (2, 2), (2, 2), ((0, 0), (0, 0))),
        ((2, 1, 5, 6), (3, 2), (2, 1), ((1, 1), (0, 1))),
        ((1, 1, 3, 3), (3, 3), (1, 1), ((1, 1), (1, 1))),
        ((1, 1, 2, 2), (1, 1), (1, 1), ((0, 0), (0, 0))),
        ((0, 2, 2, 2), (2, 2), (2, 2), ((0, 0), (0, 0))),
    ]

    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.FLOATS:
            return ()
        rng = generator(name, dtype)
        return [
            Sample((values(rng, dtype, shape),), {"kernel": kernel, "strides": strides, "padding": padding} | attrs)
            for shape, kernel, strides, padding in cases
        ]

    return samples


max_pool2d: Op = composite(
    "max_pool2d",
    _max_pool2d,
    vjp=_max_pool2d_vjp,
    samples=_pool_samples("max_pool2d"),
    onnx="MaxPool",
    traits=("kinked",),
    doc="The greatest element of each window; padding never wins.",
)
avg_pool2d: Op = composite(
    "avg_pool2d",
    _avg_pool2d,
    samples=lambda dtype: [
        *_pool_samples("avg_pool2d", count_include_pad=True)(dtype),
        *_pool_samples("avg_pool2d", count_include_pad=False)(dtype)[1:3],
    ],
    onnx="AveragePool",
    in_float32=True,
    doc="The mean of each window, over all its places or (count_include_pad=False) over those inside x.",
)
