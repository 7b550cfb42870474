"""Windows over spatial axes, and padding."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any

from jitgraph import ops
from jitgraph.errors import ShapeError
from jitgraph.ir.op import Op
from jitgraph.nn.functional import general_pooling as general
from jitgraph.nn.functional.arguments import floats
from jitgraph.nn.functional.windows import LETTERS, windows_of
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.manipulation import pad as numpy_pad
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed


def _pool(
    op: Op, name: str, spatial: int, input: TensorLike, kernel: Any, stride: Any, padding: Any, **attrs: Any
) -> Tensor:
    """One or two spatial axes, with or without a batch, by the op on [N, C, H, W]."""
    (operand,) = floats(input)
    if len(operand.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{name} takes x[N, C, {LETTERS[spatial - 1]}], not {operand.type}")
    settings = windows_of(name, spatial, kernel, stride, padding, 1, False)
    lead, fill = (1,) * (spatial + 2 - len(operand.shape)), (1,) * (2 - spatial)
    x = _reshaped(operand, (*lead, *operand.shape[: len(operand.shape) - spatial], *fill, *operand.shape[-spatial:]))
    result = op(
        x,
        kernel=(*fill, *settings.kernel),
        strides=(*fill, *settings.stride),
        padding=(*((0, 0),) * len(fill), *((pad, pad) for pad in settings.padding)),
        **attrs,
    )
    lead_sizes = result.shape[len(lead) : 2]
    return wrap(_reshaped(result, (*lead_sizes, *result.shape[4 - spatial :])))


def _reshaped(value: Any, shape: tuple[Any, ...]) -> Any:
    return value if value.shape == shape else ops.reshape(value, shape=shape)


def _is_plain(spatial: int, dilation: Any, ceil_mode: bool) -> bool:
    """Whether the ops of pools in two axes do it."""
    return spatial < 3 and not ceil_mode and all(gap == 1 for gap in listed(dilation))


def max_pool1d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, L]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    if _is_plain(1, dilation, ceil_mode) and not return_indices:
        return _pool(ops.max_pool2d, "max_pool1d", 1, input, *settings)
    return general.max_pool("max_pool1d", 1, input, *settings, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, H, W]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    if _is_plain(2, dilation, ceil_mode) and not return_indices:
        return _pool(ops.max_pool2d, "max_pool2d", 2, input, *settings)
    return general.max_pool("max_pool2d", 2, input, *settings, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Any:
    """The greatest element of each window of x[N, C, D, H, W]; padding never wins.

    With ``return_indices`` also where it stands in the flat spatial axes (int64), the first of equal ones.
    """
    settings = (kernel_size, stride, padding)
    return general.max_pool("max_pool3d", 3, input, *settings, dilation, ceil_mode, return_indices)


def avg_pool1d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """The mean of each window of x[N, C, L], over all its places or those inside x alone."""
    settings = (kernel_size, stride, padding)
    if _is_plain(1, 1, ceil_mode):
        attrs = {"count_include_pad": count_include_pad}
        return _pool(ops.avg_pool2d, "avg_pool1d", 1, input, *settings, **attrs)
    return general.avg_pool("avg_pool1d", 1, input, *settings, ceil_mode, count_include_pad, None)


def avg_pool2d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of x[N, C, H, W], over its places, those inside x, or ``divisor_override``."""
    settings = (kernel_size, stride, padding)
    if _is_plain(2, 1, ceil_mode) and divisor_override is None:
        attrs = {"count_include_pad": count_include_pad}
        return _pool(ops.avg_pool2d, "avg_pool2d", 2, input, *settings, **attrs)
    return general.avg_pool("avg_pool2d", 2, input, *settings, ceil_mode, count_include_pad, divisor_override)


def avg_pool3d(
    input: TensorLike,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """The mean of each window of x[N, C, D, H, W], over its places, those inside x, or ``divisor_override``."""
    settings = (kernel_size, stride, padding)
    return general.avg_pool("avg_pool3d", 3, input, *settings, ceil_mode, count_include_pad, divisor_override)


def pad(input: TensorLike, pad: Sequence[int], mode: str = "constant", value: float | int | None = None) -> Tensor:
    """x with elements around it: ``pad`` is (before, after) of the last axis, then of the one before.

    ``mode``: constant (``value``, or 0), reflect, replicate, circular, and jg.pad's others. Negative numbers cut
    elements off.
    """
    operand = lifting.value_of(input)
    ndim = len(operand.shape)
    amounts = list(map(index, listed(pad)))
    if len(amounts) % 2 or len(amounts) > 2 * ndim:
        raise ShapeError(f"pad: {len(amounts)} numbers for {operand.type}; give (before, after) from the last axis on")
    widths = [(0, 0)] * (ndim - len(amounts) // 2) + [
        (amounts[i], amounts[i + 1]) for i in range(len(amounts) - 2, -1, -2)
    ]
    starts = tuple(max(-low, 0) for low, _ in widths)
    stops = tuple(size - max(-high, 0) for size, (_, high) in zip(operand.shape, widths, strict=True))
    if any(starts) or stops != operand.shape:
        operand = ops.slice(operand, starts=starts, stops=stops, strides=(1,) * ndim)
    if mode != "constant":
        return numpy_pad(wrap(operand), [(max(low, 0), max(high, 0)) for low, high in widths], mode=mode)
    filler = lifting.constant(0 if value is None else value, operand.dtype)
    low, high = (tuple(max(width[side], 0) for width in widths) for side in (0, 1))
    return wrap(ops.pad(operand, filler, low=low, high=high, interior=(0,) * ndim))
