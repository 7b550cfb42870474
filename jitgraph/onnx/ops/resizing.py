"""Images at other sizes, at positions that a tensor gives, and regions of images."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import UnsupportedOp
from jitgraph.nn import functional as F
from jitgraph.nn.functional.windows import weighted
from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn


def _positions(out: Any, size: Any, scale: Any, mode: str, roi: tuple[float, float]) -> Any:
    """Where the elements of the output lie in the input: a tensor where sizes have names."""
    if type(out) is int and type(size) is int:
        places: Any = np.arange(out, dtype=np.float64)
        nothing: Any = np.zeros(out)
    else:
        places = fn.arange(out, dtype=dtypes.float64)
        nothing = fn.zeros((out,), dtype=dtypes.float64)
    if mode == "asymmetric":
        return places / scale
    if mode == "align_corners":
        length = scale * size  # which need not be whole
        return places * (size - 1) / (length - 1) if out > 1 else nothing
    if mode == "pytorch_half_pixel" and out <= 1:
        return nothing
    if mode == "tf_half_pixel_for_nn":
        return (places + 0.5) / scale
    if mode == "tf_crop_and_resize":
        start, end = roi
        if out > 1:
            return start * (size - 1) + places * (end - start) * (size - 1) / (out - 1)
        return nothing + 0.5 * (start + end) * (size - 1)
    if mode == "half_pixel_symmetric":
        adjustment = out / (scale * size)
        centre = size / 2
        return centre * (1 - adjustment) + (places + 0.5) / scale - 0.5
    return (places + 0.5) / scale - 0.5


def _nearest(positions: Any, mode: str) -> Any:
    floor, ceil = (fn.floor, fn.ceil) if isinstance(positions, Tensor) else (np.floor, np.ceil)
    if mode == "round_prefer_ceil":
        return floor(positions + 0.5)
    if mode == "floor":
        return floor(positions)
    if mode == "ceil":
        return ceil(positions)
    return ceil(positions - 0.5)  # round_prefer_floor


def _cubic(d: Any, a: float) -> Any:
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0.0))


def _linear(d: Any, a: float) -> Any:
    return np.maximum(1 - d, 0)


def _resampled_of_any_size(x: Any, axis: int, positions: Any, size: Any, mode: str, how: dict[str, Any]) -> Any:
    """x at positions that are a tensor, along an axis whose size has a name."""
    if mode == "nearest":
        places = fn.clip(_nearest(positions, how["nearest_mode"]), 0, size - 1)
        return fn.take(x, fn.astype(places, dtypes.int64), axis=axis)
    if mode == "cubic" or how["antialias"] or how["exclude_outside"]:
        raise UnsupportedOp(
            f"Resize in the mode {mode!r} of an axis with a named size, or with antialias or exclude_outside",
            hint="onnx.load(..., static_sizes=[name])",
        )
    low = fn.floor(positions)
    column = (-1, *[1] * (x.ndim - axis - 1))
    share = fn.astype(fn.reshape(positions - low, column), x.dtype)
    first, second = (
        fn.take(x, fn.astype(fn.clip(place, 0, size - 1), dtypes.int64), axis=axis) for place in (low, low + 1)
    )
    return first * (1 - share) + second * share


def _resampled(x: Any, axis: int, positions: Any, size: Any, scale: Any, mode: str, how: dict[str, Any]) -> Any:
    """x at these positions of an axis."""
    if isinstance(positions, Tensor):
        return _resampled_of_any_size(x, axis, positions, size, mode, how)
    if mode == "nearest":
        places = np.clip(_nearest(positions, how["nearest_mode"]), 0, size - 1).astype(np.int64)
        return fn.take(x, places, axis=axis)
    reach, kernel = (2, _cubic) if mode == "cubic" else (1, _linear)
    narrow = min(1.0, scale) if how["antialias"] else 1.0
    span = math.ceil(reach / narrow)
    taps = np.floor(positions)[:, None] + np.arange(1 - span, span + 1)
    weights = kernel(np.abs(positions[:, None] - taps) * narrow, how["cubic_coeff_a"])
    inside = (taps >= 0) & (taps <= size - 1)
    if how["exclude_outside"]:
        weights = np.where(inside, weights, 0.0)
    if how["exclude_outside"] or narrow != 1:
        weights = weights / weights.sum(1, keepdims=True)
    return weighted(x, axis, np.clip(taps, 0, size - 1).astype(np.int64), weights)


def _resize(x: Any, roi: Any, scales: Any, sizes: Any, axes: Any, mode: str, how: dict[str, Any]) -> Any:
    along = list(range(x.ndim)) if axes is None else [axis + x.ndim if axis < 0 else axis for axis in axes]
    own = [x.shape[axis] for axis in along]
    coordinate = how["coordinate_transformation_mode"]
    regions = None if roi is None or not roi.size else roi.astype(np.float64)
    if sizes is not None:
        target = values.sizes(sizes)
        policy = how["keep_aspect_ratio_policy"]
        factors = [out / size for out, size in zip(target, own, strict=True)]
        if policy != "stretch":
            factor = min(factors) if policy == "not_larger" else max(factors)
            factors = [factor] * len(own)
            target = [math.floor(size * factor + 0.5) for size in own]
    else:
        factors = [float(each) for each in scales.flat]
        target = []
        for i, (size, factor) in enumerate(zip(own, factors, strict=True)):
            if factor == 1:
                target.append(size)
            elif coordinate == "tf_crop_and_resize" and regions is not None:
                target.append(math.floor(size * (regions[i + len(own)] - regions[i]) * factor))
            else:
                target.append(size * int(factor) if factor.is_integer() else math.floor(size * factor))
    dtype = x.dtype
    outside: Any = None
    whole = mode != "nearest" and dtype.kind in "iu"
    wide = fn.astype(x, np.float32) if whole else x
    for i, axis in enumerate(along):
        size, out = own[i], target[i]
        if type(size) is not int and factors[i] == 1 and coordinate != "tf_crop_and_resize":
            continue
        if out == size and coordinate != "tf_crop_and_resize" and factors[i] == 1:
            continue
        region = (0.0, 1.0) if regions is None else (regions[i], regions[i + len(own)])
        positions = _positions(out, size, factors[i], coordinate, region)
        wide = _resampled(wide, axis, positions, size, factors[i], mode, how)
        if coordinate == "tf_crop_and_resize":
            beyond = ((positions < 0) | (positions > size - 1)).reshape(-1, *[1] * (x.ndim - axis - 1))
            outside = beyond if outside is None else outside | beyond
    if outside is not None and outside.any():
        wide = fn.where(outside, fn.asarray(how["extrapolation_value"], dtype=wide.dtype), wide)
    return fn.astype(fn.round(wide), dtype) if whole else wide


_DEFAULTS: dict[str, Any] = {
    "antialias": 0,
    "coordinate_transformation_mode": "half_pixel",
    "cubic_coeff_a": -0.75,
    "exclude_outside": 0,
    "extrapolation_value": 0.0,
    "keep_aspect_ratio_policy": "stretch",
    "nearest_mode": "round_prefer_floor",
}


@define("Resize", since=11, host=(1, 2, 3))
def resize(
    x: Any, roi: Any = None, scales: Any = None, sizes: Any = None, axes: Any = None, mode: str = "nearest", **how: Any
) -> Any:
    if sizes is not None and sizes.size == 0:
        sizes = None
    return _resize(x, roi, scales, sizes, axes, mode, _DEFAULTS | how)


_OLD = _DEFAULTS | {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


@define("Resize", host=(1,))
def old_resize(x: Any, scales: Any, mode: str = "nearest") -> Any:
    return _resize(x, None, scales, None, None, mode, _OLD)


@define("Upsample", since=9, host=(1,))
def upsample(x: Any, scales: Any, mode: str = "nearest") -> Any:
    return _resize(x, None, scales, None, None, "linear" if mode == "bilinear" else mode, _OLD)


@define("Upsample", since=7)
def upsample_by_attribute(x: Any, scales: Any, mode: str = "nearest") -> Any:
    return _resize(x, None, np.array(scales), None, None, "linear" if mode == "bilinear" else mode, _OLD)


@define("Upsample")
def first_upsample(x: Any, height_scale: float, width_scale: float, mode: str = "nearest") -> Any:
    scales = np.array([1.0, 1.0, height_scale, width_scale])
    return _resize(x, None, scales, None, None, "linear" if mode == "bilinear" else mode, _OLD)


@define("GridSample")
def grid_sample(x: Any, grid: Any, align_corners: int = 0, mode: str = "linear", padding_mode: str = "zeros") -> Any:
    names = {"linear": "bilinear", "cubic": "bicubic"}
    return F.grid_sample(x, grid, names.get(mode, mode), padding_mode, bool(align_corners))


@define("AffineGrid", host=(1,))
def affine_grid(theta: Any, size: Any, align_corners: int = 0) -> Any:
    return F.affine_grid(theta, values.sizes(size), bool(align_corners))
