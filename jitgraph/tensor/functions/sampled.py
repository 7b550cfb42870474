"""Functions given by samples: integrals, slopes, interpolation, convolution; covariances; sums of exponentials."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.ir.builder import build
from jitgraph.ir.types import TensorType
from jitgraph.ops import statistics
from jitgraph.ops.fourier_factors import transform_size
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.complex_numbers import complex as complex_of
from jitgraph.tensor.functions.complex_numbers import conj, imag, real
from jitgraph.tensor.functions.elementwise import abs, astype, clip, isfinite, maximum, remainder, sqrt, where
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import concat, flip, moveaxis
from jitgraph.tensor.functions.method import array_function, axes_of, axis_of, method
from jitgraph.tensor.functions.operands import float_tensor, tensor_like
from jitgraph.tensor.functions.ordering import bucketize
from jitgraph.tensor.functions.reductions import cumsum, mean
from jitgraph.tensor.functions.reductions import sum as sum_of
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import items
from jitgraph.tensor.tensor import Tensor, wrap


def _part(x: Tensor, axis: int, start: Any, stop: Any) -> Tensor:
    """``x[..., start:stop, ...]`` along ``axis``, the bounds sizes that may have names."""
    shape = x.value.type.shape
    starts = tuple(start if i == axis else 0 for i in range(x.ndim))
    stops = tuple(stop if i == axis else size for i, size in enumerate(shape))
    return wrap(ops.slice(x.value, starts=starts, stops=stops, strides=(1,) * x.ndim))


def _steps(y: Tensor, x: TensorLike | None, dx: TensorLike, axis: int, name: str) -> Any:
    """The distances between samples: one number, or a tensor that broadcasts against them."""
    if x is None:
        return dx
    coords = float_tensor(x)
    if coords.ndim == 1:
        coords = reshape(coords, (coords.value.type.size, *[1] * (y.ndim - axis - 1)))
        number = 0
    else:
        number = axis - (y.ndim - coords.ndim)
        if number < 0:
            raise ShapeError(f"{name}: places {coords.value.type} have no axis {axis} of {y.value.type}")
    size = coords.value.type.shape[number]
    return _part(coords, number, 1, size) - _part(coords, number, 0, size - 1)


def _areas(y: TensorLike, x: TensorLike | None, dx: TensorLike, axis: int, name: str) -> tuple[Tensor, int]:
    tensor = float_tensor(y)
    number = axis_of(axis, tensor.ndim, name)
    size = tensor.value.type.shape[number]
    if isinstance(size, int) and size == 0:
        raise ShapeError(f"{name} of no samples: {tensor.value.type} along axis {axis}")
    both = _part(tensor, number, 1, size) + _part(tensor, number, 0, size - 1)
    return both * _steps(tensor, x, dx, number, name) * 0.5, number


@array_function
def trapezoid(y: TensorLike, x: TensorLike | None = None, *, dx: TensorLike = 1.0, axis: int = -1) -> Tensor:
    """The integral of samples along ``axis`` by the trapezoidal rule, at positions ``x`` or ``dx`` apart."""
    areas, number = _areas(y, x, dx, axis, "trapezoid")
    return sum_of(areas, number)


@array_function
def cumulative_trapezoid(y: TensorLike, x: TensorLike | None = None, *, dx: TensorLike = 1.0, axis: int = -1) -> Tensor:
    """The integrals from the first sample to each later one by the trapezoidal rule."""
    areas, number = _areas(y, x, dx, axis, "cumulative_trapezoid")
    return cumsum(areas, number)


@array_function
def gradient(x: TensorLike, *spacing: TensorLike, axis: int | Sequence[int] | None = None, edge_order: int = 1) -> Any:
    """Slopes of samples along each axis (a list where there are several): central inside, one-sided at the ends.

    ``spacing`` is one number or vector of places for all axes, or one for each, as in NumPy. With ``edge_order=2`` the
    ends are of second order, too.
    """
    tensor = float_tensor(x)
    axes = axes_of(axis, tensor.ndim, "gradient")
    spacings = list(spacing) * len(axes) if len(spacing) == 1 else list(spacing) or [1.0] * len(axes)
    if len(spacings) != len(axes):
        raise ShapeError(f"gradient: {len(spacing)} spacings for {len(axes)} axes")
    if edge_order not in (1, 2):
        raise JitgraphError(f"gradient: edge_order={edge_order!r} is neither 1 nor 2")
    slopes = [_slope(tensor, number, gap, edge_order) for number, gap in zip(axes, spacings, strict=True)]
    return slopes[0] if len(slopes) == 1 and items(axis) is None else slopes


def _slope(x: Tensor, axis: int, spacing: TensorLike, order: int) -> Tensor:
    size = x.value.type.shape[axis]
    if isinstance(size, int) and size < order + 1:
        raise ShapeError(f"gradient: {size} samples along axis {axis}; at least {order + 1} are needed")
    coords = wrap(lifting.beside(spacing, x)[0])
    if coords.ndim:
        rows = reshape(coords, (coords.value.type.size, *[1] * (x.ndim - axis - 1)))
        h = _part(rows, 0, 1, size) - _part(rows, 0, 0, size - 1)
        before, after = _part(h, 0, 0, size - 2), _part(h, 0, 1, size - 1)
        first, last = _part(h, 0, 0, 1), _part(h, 0, size - 2, size - 1)
        second, second_last = (_part(h, 0, 1, 2), _part(h, 0, size - 3, size - 2)) if order == 2 else (first, last)
    else:
        before = after = first = last = second = second_last = coords

    def at(start: Any, stop: Any) -> Tensor:
        return _part(x, axis, start, stop)

    left, middle, right = at(0, size - 2), at(1, size - 1), at(2, size)
    inner = (before * before * right + (after * after - before * before) * middle - after * after * left) / (
        before * after * (before + after)
    )
    if not coords.ndim:
        inner = (right - left) / (2 * coords)
    if order == 1:
        begin = (at(1, 2) - at(0, 1)) / first
        end = (at(size - 1, size) - at(size - 2, size - 1)) / last
    else:
        begin = _second_order(at(0, 1), at(1, 2), at(2, 3), first, second)
        end = -_second_order(at(size - 1, size), at(size - 2, size - 1), at(size - 3, size - 2), last, second_last)
    return concat([begin, inner, end], axis)


def _second_order(a: Tensor, b: Tensor, c: Tensor, h: Any, k: Any) -> Tensor:
    """The slope at a of the parabola through samples at 0, h and h + k."""
    slope: Tensor = -(2 * h + k) / (h * (h + k)) * a + (h + k) / (h * k) * b - h / (k * (h + k)) * c
    return slope


@method
def interp(
    x: TensorLike, xp: TensorLike, fp: TensorLike, left: TensorLike | None = None, right: TensorLike | None = None
) -> Tensor:
    """The piecewise linear function through the points (xp, fp) at x; ``xp`` ascends.

    Beyond the ends it is ``left`` and ``right``, or the first and the last value, as in NumPy.
    """
    at, points, values = (float_tensor(wrap(value)) for value in lifting.beside(x, xp, fp))
    if points.ndim != 1 or points.value.type.shape != values.value.type.shape:
        raise ShapeError(
            f"interp: points {points.value.type} and values {values.value.type} are no vectors of one size"
        )
    size = points.value.type.shape[0]
    if isinstance(size, int) and size == 0:
        raise ShapeError("interp of no points")
    above = clip(bucketize(at, points, right=True), 1, maximum(size - 1, 1)) if size != 1 else bucketize(at, points) * 0
    below = maximum(above - 1, 0)
    x0, x1, y0, y1 = (_taken(vector, index) for vector in (points, values) for index in (below, above))
    gap = x1 - x0
    interpolated = y0 + (y1 - y0) * ((at - x0) / where(gap == 0, 1, gap))
    first, last = (_taken(points, index) for index in (below * 0, below * 0 + (size - 1)))
    low, high = (_taken(values, index) for index in (below * 0, below * 0 + (size - 1)))
    interpolated = where(at == x1, y1, interpolated)
    interpolated = where(at < first, low if left is None else left, interpolated)
    return where(at > last, high if right is None else right, interpolated)


def _taken(vector: Tensor, index: Tensor) -> Tensor:
    return wrap(ops.gather(vector.value, index.value, axis=0))


@method
def unwrap(x: TensorLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * math.pi) -> Tensor:
    """x with multiples of ``period`` added, so that no step along ``axis`` exceeds half of it.

    Only steps of at least ``discont`` (half of the period, and no less) are changed; NumPy's function.
    """
    tensor = tensor_like(x)
    if isinstance(period, float) or not dtypes.is_integer(tensor.dtype):
        tensor = float_tensor(tensor)
    number = axis_of(axis, tensor.ndim, "unwrap")
    size = tensor.value.type.shape[number]
    if isinstance(size, int) and size < 2:
        return tensor
    steps = _part(tensor, number, 1, size) - _part(tensor, number, 0, size - 1)
    is_integer = dtypes.is_integer(tensor.dtype)
    half: Any = period // 2 if is_integer else period / 2
    wrapped = remainder(steps + half, period) - half
    if not is_integer or period % 2 == 0:
        wrapped = where((wrapped == -half) & (steps > 0), half, wrapped)
    change = where(abs(steps) < (half if discont is None else discont), 0, wrapped - steps)
    rest = _part(tensor, number, 1, size) + astype(cumsum(change, number), tensor.dtype)
    return concat([_part(tensor, number, 0, 1), rest], number)


# --- convolution --------------------------------------------------------------------------------------------------


@array_function
def convolve(a: TensorLike, v: TensorLike, mode: str = "full") -> Tensor:
    """The discrete convolution of two vectors: "full", "same" (as long as the longer one) or "valid", as in NumPy.

    Long floats go through Fourier transforms, if all are finite: errors are then small beside the product of the norms
    of both vectors, not beside each element. Integers are exact, and wrap.
    """
    left, right = (wrap(value) for value in _vectors(a, v, "convolve"))
    n, m = left.value.type.shape[0], right.value.type.shape[0]
    if isinstance(n, int) and isinstance(m, int) and m > n:
        left, right, n, m = right, left, m, n
    if mode not in ("full", "same", "valid"):
        raise JitgraphError(f"convolve: mode={mode!r} is none of full, same, valid")
    if not isinstance(m, int) or m == 0 or (isinstance(n, int) and n == 0):
        raise ShapeError(f"convolve of {left.value.type} and {right.value.type}: the shorter one has a known size")
    low = {"full": m - 1, "same": m // 2, "valid": 0}[mode]
    count = n - m + 1 if mode == "valid" else n if mode == "same" else n + m - 1
    if dtypes.is_complex(left.dtype):
        return _by_windows(left, right, low, count)
    if dtypes.is_bool(left.dtype):
        first, second = (lifting.cast(tensor.value, dtypes.int64) for tensor in (left, right))
        return wrap(lifting.cast(_slid(first, second, low, count), dtypes.bool_))
    if not (isinstance(n, int) and dtypes.is_float(left.dtype) and _is_long(n, m)):
        return wrap(_slid(left.value, right.value, low, count))
    start = m - 1 - low
    operands = left.value, right.value
    finite = [ops.reduce_min(isfinite(tensor).value, axes=(0,)) for tensor in (left, right)]
    by_transforms = partial(_transformed, start=start, count=count)
    by_products = partial(_slid, low=low, count=count)
    if context.current().trace is None:
        function = by_transforms if all(bool(wrap(each).item()) for each in finite) else by_products
        return wrap(function(*operands))
    types = [value.type for value in operands]
    regions = build(by_transforms, types, "by_transforms"), build(by_products, types, "by_products")
    return wrap(ops.cond(ops.bitwise_and(*finite), *operands, regions=regions))


def _is_long(n: int, m: int) -> bool:
    """Whether transforms take much less time than products, which one core does some 5 of in the time of an element."""
    return m >= _LEAST_TRANSFORMED and n * m > _PRODUCTS * (n + m) * (n + m).bit_length()


_LEAST_TRANSFORMED = 256
_PRODUCTS = 8


def _slid(x: Any, weights: Any, low: int, count: Any) -> Any:
    """``count`` elements of the convolution of x with zeros around it, from ``low`` before its first one on."""
    zero = lifting.constant(0, x.dtype)
    high = count + weights.shape[0] - 1 - low - x.shape[0]
    longer = ops.pad(x, zero, low=(low,), high=(high,), interior=(0,)) if low or high != 0 else x
    return ops.slide(longer, ops.flip(weights, axes=(0,)))


def _transformed(x: Any, weights: Any, start: int, count: int) -> Any:
    """``count`` elements of the full convolution from ``start`` on, by the product of spectra; 16-bit in float32."""
    dtype = x.dtype
    wide = [lifting.cast(value, dtypes.part_of(dtypes.complex_of(dtype))) for value in (x, weights)]
    size = transform_size(x.shape[0] + weights.shape[0] - 1)
    zero = lifting.constant(0, wide[0].dtype)
    spectra = []
    for value in wide:
        longer = ops.pad(value, zero, low=(0,), high=(size - value.shape[0],), interior=(0,))
        spectra.append(ops.rfft(longer, axis=0, scale=1.0))
    product = ops.irfft(ops.complex_mul(*spectra), axis=0, n=size, scale=1.0 / size)
    result = ops.slice(product, starts=(start,), stops=(start + count,), strides=(1,))
    return lifting.cast(result, dtype)


def _by_windows(left: Tensor, right: Tensor, low: int, count: Any) -> Tensor:
    """The same of complex numbers, by a matrix of windows."""
    (n,), (m,) = left.value.type.shape, right.value.type.shape
    zero = lifting.constant(0, left.dtype)
    longer = wrap(ops.pad(left.value, zero, low=(low,), high=(count + m - 1 - low - n,), interior=(0,)))
    first, second = (wrap(lifting.positions_along((count, m), axis, left.value)) for axis in (0, 1))
    windows = wrap(ops.gather(longer.value, (first + second).value, axis=0))
    return matmul(windows, flip(right, 0))


def _vectors(a: TensorLike, v: TensorLike, name: str) -> list[Any]:
    dtype = lifting.common_dtype(a, v)
    values = [lifting.cast(lifting.value_of(x, dtype), dtype) for x in (a, v)]
    for value in values:
        if len(value.shape) != 1:
            raise ShapeError(f"{name} takes two vectors, not {value.type}")
    return list(lifting.together(*values))


@array_function
def correlate(a: TensorLike, v: TensorLike, mode: str = "valid") -> Tensor:
    """Sums of products of a with v moved along it: "full", "same" or "valid", as in NumPy."""
    left, right = (wrap(value) for value in _vectors(a, v, "correlate"))
    return convolve(left, flip(right, 0), mode)


# --- covariances --------------------------------------------------------------------------------------------------


@method
def cov(
    x: TensorLike, *, correction: int = 1, fweights: TensorLike | None = None, aweights: TensorLike | None = None
) -> Tensor:
    """The covariances of the rows of a matrix, whose columns are observations; the variance of a vector.

    Of complex numbers the second row is conjugated.

    ``fweights`` says how often each observation counts, ``aweights`` how much. Divided by the sum of weights less
    ``correction`` (times the mean of aweights), as in PyTorch and NumPy.
    """
    tensor = float_tensor(x)
    if tensor.ndim > 2:
        raise ShapeError(f"cov takes a matrix or a vector, not {tensor.value.type}")
    rows = reshape(tensor, (1, -1)) if tensor.ndim < 2 else tensor
    rows = rows - expand_dims(wrap(ops.stop_gradient(statistics.first(rows.value, (1,)))), 1)  # see ``deviations``
    count = rows.value.type.shape[1]
    kind = dtypes.part_of(rows.dtype)
    weight = None
    for factor in (fweights, aweights):
        if factor is not None:
            each = astype(wrap(lifting.beside(factor, rows)[0]), kind)
            weight = each if weight is None else weight * each
    if weight is None:
        middle = mean(rows, 1, keepdims=True)
        left = rows - middle
        total = wrap(ops.full(shape=(), value=count, dtype=kind)) - correction
        scaled = left
    else:
        weight_sum = sum_of(weight)
        middle = sum_of(rows * weight, 1, keepdims=True) / weight_sum
        left = rows - middle
        scaled = left * weight
        total = weight_sum - correction
        if aweights is not None and correction:
            share = sum_of(weight * astype(wrap(lifting.beside(aweights, rows)[0]), kind)) / weight_sum
            total = weight_sum - correction * share
    total = maximum(total, 0)
    covariance = matmul(left, moveaxis(conj(scaled), 0, 1)) / total
    return reshape(covariance, ()) if tensor.ndim < 2 else covariance


@method
def corrcoef(x: TensorLike) -> Tensor:
    """The correlation coefficients of the rows of a matrix, limited to -1 to 1; 1 for a vector."""
    covariance = cov(x)
    if covariance.ndim == 0:
        return covariance / covariance
    count = covariance.value.type.shape[0]
    diagonal = sum_of(where(_identity(count, covariance), covariance, 0), 1)
    size = sqrt(real(diagonal))
    bounded = covariance / expand_dims(size, 1) / expand_dims(size, 0)
    if dtypes.is_complex(bounded.dtype):
        return complex_of(clip(real(bounded), -1, 1), clip(imag(bounded), -1, 1))
    return clip(bounded, -1, 1)


def _identity(count: Any, like: Tensor) -> Tensor:
    rows, columns = (wrap(lifting.positions_along((count, count), axis, like.value)) for axis in (0, 1))
    return rows == columns


@method
def logcumsumexp(x: TensorLike, axis: int) -> Tensor:
    """log of the running sum of exp(x) along ``axis``, without overflow; one step of logaddexp after the other."""
    tensor = float_tensor(x)
    if not tensor.ndim:
        return tensor
    number = axis_of(axis, tensor.ndim, "logcumsumexp")
    size = tensor.value.type.shape[number]
    if isinstance(size, int) and size == 0:
        return tensor
    rows = moveaxis(tensor, number, 0).value
    row = TensorType(rows.dtype, rows.type.shape[1:])

    def step(carry: Any, new: Any) -> Any:
        total = ops.logaddexp(carry, new)
        return total, total

    body = build(step, [row, row], "logcumsumexp")
    with placement.beside(rows):
        start = ops.full(shape=row.shape, value=float("-inf"), dtype=rows.dtype)
    _, sums = ops.scan(start, rows, regions=(body,), num_carries=1, num_xs=1, length=size, reverse=False)
    return moveaxis(wrap(sums), 0, number)
