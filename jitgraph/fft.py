"""Discrete Fourier transforms with NumPy's names, parameters and conventions, eager and in traces, with gradients.

Real and integer operands count as complex; float64 gives complex128, all else complex64. ``n`` cuts the axis or adds
zeros behind it. ``norm`` is "backward" (1/n on the inverse), "ortho" (1/sqrt(n) on both) or "forward" (1/n on the
transform). Sizes along transformed axes have to be numbers; other axes may have names.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.complex_numbers import conj
from jitgraph.tensor.functions.creation import arange
from jitgraph.tensor.functions.manipulation import roll
from jitgraph.tensor.functions.method import array_function, axes_of, axis_of
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import listed, python_int

__all__ = [
    "fft",
    "fft2",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "hfft2",
    "hfftn",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "ihfft2",
    "ihfftn",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftfreq",
    "rfftn",
]

Axes = Sequence[int] | None
_SWAPPED: Final = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _scale(n: int, norm: str | None, *, inverse: bool) -> float:
    name = "backward" if norm is None else norm
    if name not in _SWAPPED:
        raise JitgraphError(f"norm={norm!r} is no norm of a transform\n  hint: 'backward', 'ortho' or 'forward'")
    if name == "ortho":
        return 1 / math.sqrt(n)
    return 1 / n if (name == "backward") == inverse else 1.0


def _resized(value: Any, n: int | None, axis: int) -> tuple[Any, int]:
    """``value`` with n elements along an axis, cut or with zeros behind; and their number."""
    size = value.shape[axis]
    if n is None:
        if not isinstance(size, int) or size < 1:
            raise ShapeError(f"a transform along axis {axis} of size {size}, which is no positive number", hint="n=...")
        return value, size
    n = python_int(n)
    if n < 1:
        raise ShapeError(f"a transform of n={n} elements", hint="n is at least 1")
    if not isinstance(size, int):
        raise ShapeError(f"a transform of n={n} elements along axis {axis}, whose size {size} is a name")
    rank = len(value.shape)
    if size > n:
        stops = tuple(n if i == axis else extent for i, extent in enumerate(value.shape))
        value = ops.slice(value, starts=(0,) * rank, stops=stops, strides=(1,) * rank)
    elif size < n:
        zero = ops.full(shape=(), value=0.0, dtype=value.dtype)
        high = tuple(n - size if i == axis else 0 for i in range(rank))
        value = ops.pad(value, zero, low=(0,) * rank, high=high, interior=(0,) * rank)
    return value, n


def _complex(x: TensorLike) -> Any:
    value = lifting.value_of(x)
    return lifting.cast(value, dtypes.complex_of(value.dtype))


def _real(x: TensorLike, name: str) -> Any:
    value = lifting.value_of(x)
    if dtypes.is_complex(value.dtype):
        raise DTypeError(f"{name} of {value.dtype.name}", hint=f"jg.fft.{name[1:]} takes complex numbers; or x.real")
    return lifting.cast(value, dtypes.part_of(dtypes.complex_of(value.dtype)))


def _one(x: TensorLike, n: int | None, axis: int, norm: str | None, *, inverse: bool) -> Tensor:
    value = _complex(x)
    axis_index = axis_of(axis, len(value.shape), "fft")
    value, size = _resized(value, n, axis_index)
    return wrap(ops.fft(value, axis=axis_index, inverse=inverse, scale=_scale(size, norm, inverse=inverse)))


@array_function
def fft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Element k is the sum of x[j] exp(-2 pi i j k / n) along ``axis``."""
    return _one(x, n, axis, norm, inverse=False)


@array_function
def ifft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``fft``: with exp(2 pi i j k / n), and divided by n."""
    return _one(x, n, axis, norm, inverse=True)


@array_function
def rfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """Elements 0 .. n // 2 of the transform of real numbers, whose others are conjugates of these."""
    value = _real(x, "rfft")
    axis_index = axis_of(axis, len(value.shape), "rfft")
    value, size = _resized(value, n, axis_index)
    return wrap(ops.rfft(value, axis=axis_index, scale=_scale(size, norm, inverse=False)))


@array_function
def irfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``rfft``: n real numbers, by default 2 (m - 1) of m; imaginary parts of the ends do not count."""
    value = _complex(x)
    axis_index = axis_of(axis, len(value.shape), "irfft")
    size = value.shape[axis_index]
    if n is None:
        if not isinstance(size, int) or size < 2:
            raise ShapeError(f"irfft along axis {axis} of size {size} needs the number of results", hint="n=...")
        n = 2 * (size - 1)
    if n < 1:
        raise ShapeError(f"irfft to n={n} elements", hint="n is at least 1")
    value, _ = _resized(value, n // 2 + 1, axis_index)
    return wrap(ops.irfft(value, axis=axis_index, n=n, scale=_scale(n, norm, inverse=True)))


@array_function
def hfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The real transform of n numbers, of which the first half is given and the rest are conjugates of these."""
    return irfft(conj(x), n, axis, _SWAPPED.get("backward" if norm is None else norm, norm))


@array_function
def ihfft(x: TensorLike, n: int | None = None, axis: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of ``hfft``."""
    return conj(rfft(x, n, axis, _SWAPPED.get("backward" if norm is None else norm, norm)))


def _axes(x: TensorLike, s: Axes, axes: Axes) -> list[tuple[int, int | None]]:
    """The axes to transform, in order, each with its size where one is given."""
    rank = len(lifting.value_of(x).shape)
    sizes = None if s is None else listed(s)
    if axes is None:
        axes = range(rank) if sizes is None else range(rank - len(sizes), rank)
    axis_indices = [axis_of(axis, rank, "fftn") for axis in listed(axes)]
    if sizes is not None and len(sizes) != len(axis_indices):
        raise ShapeError(f"s={sizes} has {len(sizes)} sizes for {len(axis_indices)} axes")
    return list(zip(axis_indices, sizes if sizes is not None else [None] * len(axis_indices), strict=True))


@array_function
def fftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """``fft`` along each of ``axes`` (all, or the last ones where ``s`` has their sizes), the last one first."""
    result = wrap(_complex(x))
    for axis, n in reversed(_axes(x, s, axes)):
        result = fft(result, n, axis, norm)
    return result


@array_function
def ifftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """The inverse of ``fftn``."""
    result = wrap(_complex(x))
    for axis, n in reversed(_axes(x, s, axes)):
        result = ifft(result, n, axis, norm)
    return result


@array_function
def rfftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """``rfft`` along the last of ``axes``, and ``fft`` along the others."""
    *others, (last, n) = _require_some(_axes(x, s, axes))
    result = rfft(x, n, last, norm)
    for axis, size in reversed(others):
        if axis == last and size is None:  # it has half as many elements now
            size = lifting.value_of(x).shape[axis]
        result = fft(result, size, axis, norm)
    return result


@array_function
def irfftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """The inverse of ``rfftn``; ``s`` are the sizes of the result."""
    *others, (last, n) = _require_some(_axes(x, s, axes))
    result = wrap(_complex(x))
    for axis, size in others:
        result = ifft(result, size, axis, norm)
    return irfft(result, n, last, norm)


def _require_some(axes: list[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    if not axes:
        raise ShapeError("a real transform along no axis")
    return axes


@array_function
def fft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``fftn`` along two axes."""
    return fftn(x, s, axes, norm)


@array_function
def ifft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``ifftn`` along two axes."""
    return ifftn(x, s, axes, norm)


@array_function
def rfft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``rfftn`` along two axes."""
    return rfftn(x, s, axes, norm)


@array_function
def irfft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``irfftn`` along two axes."""
    return irfftn(x, s, axes, norm)


@array_function
def fftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of ``fft``'s elements for samples d apart: 0, 1, ... and then -n / 2 ..., over n d; float32."""
    bins = (arange(n, dtype=dtypes.int64, device=device) + n // 2) % n - n // 2
    return _frequencies(bins, n, d, dtype)


@array_function
def rfftfreq(
    n: int, d: float = 1.0, *, dtype: Any = None, device: str | None = None, requires_grad: bool = False
) -> Tensor:
    """The frequencies of ``rfft``'s elements: 0 .. n // 2, over n d; float32."""
    return _frequencies(arange(n // 2 + 1, dtype=dtypes.int64, device=device), n, d, dtype)


def _frequencies(bins: Tensor, n: int, d: float, dtype: Any) -> Tensor:
    kind = dtypes.float32 if dtype is None else dtypes.canonical(dtype)
    if not dtypes.is_float(kind):
        raise DTypeError(f"frequencies in {kind.name}", hint="a float dtype")
    frequencies: Tensor = (bins.astype(dtypes.float64) / (n * d)).astype(kind)
    return frequencies


@array_function
def fftshift(x: TensorLike, axes: int | Sequence[int] | None = None) -> Tensor:
    """The element of frequency 0 moved to the middle of each axis."""
    return _shifted(x, axes, forward=True)


@array_function
def ifftshift(x: TensorLike, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of ``fftshift``."""
    return _shifted(x, axes, forward=False)


def _shifted(x: TensorLike, axes: int | Sequence[int] | None, *, forward: bool) -> Tensor:
    result = wrap(lifting.value_of(x))
    for axis in axes_of(axes, result.ndim, "fftshift"):
        half = result.shape[axis] // 2
        result = roll(result, half if forward else -half, axis)
    return result


@array_function
def hfftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """``fft`` along each of ``axes`` but the last, along which ``hfft`` makes it real; ``s`` are the result's sizes."""
    *others, (last, n) = _require_some(_axes(x, s, axes))
    result = wrap(_complex(x))
    for axis, size in others:
        result = fft(result, size, axis, norm)
    return hfft(result, n, last, norm)


@array_function
def ihfftn(x: TensorLike, s: Axes = None, axes: Axes = None, norm: str | None = None) -> Tensor:
    """The inverse of ``hfftn``."""
    *others, (last, n) = _require_some(_axes(x, s, axes))
    result = ihfft(x, n, last, norm)
    for axis, size in others:
        result = ifft(result, size, axis, norm)
    return result


@array_function
def hfft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``hfftn`` along two axes."""
    return hfftn(x, s, axes, norm)


@array_function
def ihfft2(x: TensorLike, s: Axes = None, axes: Axes = (-2, -1), norm: str | None = None) -> Tensor:
    """``ihfftn`` along two axes."""
    return ihfftn(x, s, axes, norm)
