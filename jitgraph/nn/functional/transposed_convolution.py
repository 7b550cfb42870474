"""Transposed convolutions: the maps that send a convolution's result back to its input's shape (Dumoulin 2016).

x is spread by ``stride`` with zeros between, padded, and correlated with the flipped weights, so that gradients and
every target come from ``conv_nd``.
"""

from __future__ import annotations

from typing import Any

from jitgraph import ops
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.nn.functional.windows import require_channels, single
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.lifting import TensorLike


def _transposed(
    name: str,
    spatial: int,
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: int,
    dilation: Any,
) -> Tensor:
    x, w, b = floats(input, weight, bias, optional=1)
    if len(w.shape) != spatial + 2:
        raise ShapeError(f"{name} takes a weight [in, out / groups, *kernel] of {spatial + 2} axes, not {w.type}")
    alone = len(x.shape) == spatial + 1
    if alone:
        x = ops.reshape(x, shape=(1, *x.shape))
    channels, each = w.shape[0], w.shape[1]
    if groups < 1 or channels % groups:
        raise JitgraphError(f"{name}: groups={groups} does not divide in_channels={channels}")
    require_channels(name, input, x, channels, b, each * groups, spatial)
    steps = repeated(name, "stride", stride, spatial)
    pads = repeated(name, "padding", padding, spatial)
    gaps = repeated(name, "dilation", dilation, spatial)
    more = repeated(name, "output_padding", output_padding, spatial)
    if min(*steps, *gaps) < 1 or min(*pads, *more) < 0:
        raise ShapeError(f"{name}: stride={steps}, dilation={gaps} are positive, padding={pads} not negative")
    if any(extra >= max(step, gap) for extra, step, gap in zip(more, steps, gaps, strict=True)):
        raise ShapeError(f"{name}: output_padding={more} should be less than stride={steps} or dilation={gaps}")
    zero = lifting.constant(0.0, x.dtype)
    spans = [gap * (size - 1) for gap, size in zip(gaps, w.shape[2:], strict=True)]
    low = [span - pad for span, pad in zip(spans, pads, strict=True)]
    high = [first + extra for first, extra in zip(low, more, strict=True)]
    spread = ops.pad(x, zero, low=_added(low), high=_added(high), interior=(0, 0, *(step - 1 for step in steps)))
    spread = _cut(spread, low, high)
    parted = ops.reshape(w, shape=(groups, channels // groups, *w.shape[1:]))
    swapped = ops.transpose(parted, permutation=(0, 2, 1, *range(3, 3 + spatial)))
    whole = ops.reshape(swapped, shape=(groups * each, channels // groups, *w.shape[2:]))
    flipped = ops.flip(whole, axes=tuple(range(2, 2 + spatial)))
    operands = (spread, flipped) if b is None else (spread, flipped, b)
    result = ops.conv_nd(*operands, strides=(1,) * spatial, padding=((0, 0),) * spatial, dilation=gaps, groups=groups)
    return single(wrap(result), alone)


def _added(sizes: list[int]) -> tuple[int, ...]:
    """The padding of all axes, without what negative sizes take away."""
    return (0, 0, *(max(0, size) for size in sizes))


def _cut(x: Any, low: list[int], high: list[int]) -> Any:
    """Without the elements that negative padding takes away."""
    if min(*low, *high) >= 0:
        return x
    starts = (0, 0, *(max(0, -size) for size in low))
    ends = (0, 0, *(max(0, -size) for size in high))
    stops = tuple(size - end for size, end in zip(x.shape, ends, strict=True))
    return ops.slice(x, starts=starts, stops=stops, strides=(1,) * len(x.shape))


def conv_transpose1d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv1d`` of x[N, C, L] with weight[C, O / groups, K], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose1d", 1, input, weight, bias, *settings)


def conv_transpose2d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv2d`` of x[N, C, H, W] with weight[C, O / groups, KH, KW], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose2d", 2, input, weight, bias, *settings)


def conv_transpose3d(
    input: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
) -> Tensor:
    """The transposed ``conv3d`` of x[N, C, D, H, W] with weight[C, O / groups, KD, KH, KW], plus bias[O]."""
    settings = (stride, padding, output_padding, groups, dilation)
    return _transposed("conv_transpose3d", 3, input, weight, bias, *settings)
