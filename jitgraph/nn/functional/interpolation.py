"""Images at other sizes: interpolate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.adaptive_pooling import adaptive_avg_pool
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.nn.functional.resampling import (
    CUBIC,
    Array,
    cubic_far,
    cubic_near,
    known_sizes,
    shared_with_repetitions,
    weighted,
    windows,
)
from jitgraph.ops.rules import HALF
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import astype
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.scalars import for_each
from jitgraph.tensor.tensor import Tensor, wrap

_RANKS: Final = {"linear": (3,), "bilinear": (4,), "bicubic": (4,), "trilinear": (5,), "lanczos": (4,)}
_MODES: Final = ("nearest", "nearest-exact", "area", *_RANKS)


def _step(size: int, out: int, scale: float | None, align_corners: bool) -> float:
    """How far apart in the input the places are that neighbours in the output stand for."""
    if align_corners:
        return (size - 1) / (out - 1) if out > 1 else 0.0
    return size / out if scale is None else 1 / scale


def _cubic(distance: Array, a: float) -> Array:
    d = np.abs(distance)
    return np.asarray(np.where(d <= 1, cubic_near(d, a), np.where(d < 2, cubic_far(d, a), 0.0)))


# The kernels that antialias, as Pillow and PyTorch take them, and how far each reaches from its middle.
_KERNELS: Final[dict[str, tuple[int, Callable[[Array], Array]]]] = {
    "bilinear": (1, lambda distance: np.maximum(1 - np.abs(distance), 0)),
    "bicubic": (2, lambda distance: _cubic(distance, -0.5)),  # another kernel of Keys than PyTorch has elsewhere
    "lanczos": (3, lambda distance: np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)),
}


def _antialiased(x: Tensor, axis: int, out: int, scale: float | None, mode: str, align_corners: bool) -> Tensor:
    """Means whose kernel is as many times wider as the image gets smaller; at the borders it is cut off."""
    size = x.value.type.shape[axis]
    step = _step(size, out, scale, align_corners)
    reach, kernel = _KERNELS[mode]
    wider = max(step, 1.0)
    centre = step * (np.arange(out) + 0.5)
    starts = np.clip((centre - reach * wider + 0.5).astype(np.int64), 0, size - 1)
    stops = np.clip((centre + reach * wider + 0.5).astype(np.int64), starts + 1, size)
    indices, counted = windows(starts, stops)
    weights = np.where(counted, kernel((indices - centre[:, None] + 0.5) / wider), 0.0)
    weights /= weights.sum(axis=1, keepdims=True)
    return weighted(x, axis, indices, shared_with_repetitions(weights, counted))


def _resampled(x: Tensor, axis: int, out: int, scale: float | None, mode: str, align_corners: bool) -> Tensor:
    size = x.value.type.shape[axis]
    step = _step(size, out, scale, align_corners)
    if mode in ("nearest", "nearest-exact"):
        shift = 0.5 if mode == "nearest-exact" else 0.0
        indices = np.minimum(np.floor((np.arange(out) + shift) * step).astype(np.int64), size - 1)
        return wrap(ops.gather(x.value, lifting.value_of(indices), axis=axis))
    steps = np.arange(out, dtype=np.float64)
    centre = steps * step if align_corners else (steps + 0.5) * step - 0.5  # fractions between elements of the input
    if mode == "bicubic":
        base = np.floor(centre)
        taps = base[:, None] + np.arange(-1, 3)
        weights = _cubic(centre[:, None] - taps, CUBIC)
    else:
        centre = np.maximum(centre, 0)
        base = np.minimum(np.floor(centre), size - 1)
        taps = base[:, None] + np.arange(2)
        weights = np.stack([1 - (centre - base), centre - base], 1)
    return weighted(x, axis, np.clip(taps, 0, size - 1).astype(np.int64), weights)


def interpolate(
    input: TensorLike,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """x[N, C, ...] at another ``size`` of its spatial axes, or ``scale_factor`` times theirs, rounded down.

    ``mode``: nearest, nearest-exact, area, linear, bilinear, bicubic, trilinear or lanczos, of which linear to
    trilinear take ``align_corners``. Without ``recompute_scale_factor`` places go by the factor itself, as in PyTorch.
    ``antialias`` (bilinear, bicubic; lanczos has no other form) averages over more where an image gets smaller.
    """
    x = wrap(floats(input)[0])
    if mode not in _MODES:
        raise JitgraphError(f"interpolate: mode={mode!r} is none of {', '.join(_MODES)}")
    if antialias and mode not in _KERNELS:
        raise JitgraphError(f"interpolate: mode={mode!r} takes no antialias; {', '.join(_KERNELS)} do")
    if mode == "lanczos" and (align_corners or not antialias):
        raise JitgraphError("interpolate: mode='lanczos' takes antialias=True and no align_corners")
    if x.ndim not in _RANKS.get(mode, (3, 4, 5)):
        raise ShapeError(f"interpolate with mode={mode!r} of {x.value.type}, which has {x.ndim - 2} spatial axes")
    if align_corners is not None and mode not in _RANKS:
        raise JitgraphError(f"interpolate: mode={mode!r} takes no align_corners")
    if (size is None) == (scale_factor is None):
        raise JitgraphError("interpolate takes one of size= and scale_factor=")
    spatial = known_sizes(x, 2, "interpolate")
    scales: list[float | None] = [None] * len(spatial)
    if size is not None:
        target = repeated("interpolate", "size", size, len(spatial))
    else:
        listed_factors = for_each(scale_factor, len(spatial))
        if len(listed_factors) != len(spatial):
            raise ShapeError(f"interpolate: {len(listed_factors)} factors for {len(spatial)} spatial axes")
        factors = [float(factor) for factor in listed_factors if factor is not None]
        target = tuple(math.floor(n * factor) for n, factor in zip(spatial, factors, strict=True))
        scales = [None] * len(spatial) if recompute_scale_factor or mode == "area" else list(factors)
    if min((*target, *spatial), default=1) < 1:
        raise ShapeError(f"interpolate of {x.value.type} to {target}: there are no elements")
    wide = astype(x, dtypes.float32) if x.dtype in HALF else x
    with placement.beside(x.value):
        if mode == "area":
            wide = adaptive_avg_pool("interpolate", len(spatial), wide, target)
        else:
            resampled = _antialiased if antialias else _resampled
            for axis, (out, scale) in enumerate(zip(target, scales, strict=True), 2):
                wide = resampled(wide, axis, out, scale, mode, bool(align_corners))
    return astype(wide, x.dtype)
