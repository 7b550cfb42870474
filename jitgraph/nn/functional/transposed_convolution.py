"""Transposed convolutions: the maps that send a convolution's result back to its input's shape (Dumoulin 2016)."""

from __future__ import annotations

from typing import Any

from jitgraph import ops
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.nn.functional.windows import require_channels, single
from jitgraph.tensor import Tensor, wrap
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
    operands = (x, w) if b is None else (x, w, b)
    settings: Any = {"strides": steps, "padding": pads, "output_padding": more, "dilation": gaps}
    return single(wrap(ops.conv_transpose_nd(*operands, **settings, groups=groups)), alone)


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
