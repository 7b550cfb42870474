"""Images at other sizes (interpolate), and at positions that a tensor gives (grid_sample, affine_grid)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.nn.functional.pooling import adaptive_avg_pool
from jitgraph.nn.functional.windows import (
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
from jitgraph.tensor.functions.elementwise import abs, astype, clip, floor, remainder, where
from jitgraph.tensor.functions.elementwise import round as nearest_even
from jitgraph.tensor.functions.linear_algebra import matmul
from jitgraph.tensor.functions.manipulation import moveaxis
from jitgraph.tensor.functions.shapes import expand_dims, reshape
from jitgraph.tensor.lifting import TensorLike
from jitgraph.tensor.one_step import one_step
from jitgraph.tensor.scalars import for_each, listed
from jitgraph.tensor.tensor import Tensor, wrap

# ----------------------------------------------------------------------
# Images at other sizes: interpolate.

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


@one_step
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


# ----------------------------------------------------------------------
# Images at places given by a tensor: grid_sample, affine_grid.


def affine_grid(theta: TensorLike, size: Sequence[int], align_corners: bool = False) -> Tensor:
    """The grid [N, H, W, 2] (or [N, D, H, W, 3]) for ``grid_sample`` of affine maps ``theta`` [N, 2, 3] ([N, 3, 4])."""
    maps = wrap(floats(theta)[0])
    spatial = listed(size)[2:]
    rank = len(spatial)
    if rank not in (2, 3) or maps.ndim != 3 or maps.value.type.shape[1:] != (rank, rank + 1):
        raise ShapeError(
            f"affine_grid takes theta[N, 2, 3] and 4 sizes, or [N, 3, 4] and 5; not {maps.value.type}, {size}"
        )
    axes = []
    for n in reversed(spatial):
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        axes.append(line if align_corners else line * (n - 1) / n)
    mesh = np.meshgrid(*reversed(axes), indexing="ij")[::-1]
    points = np.stack([*mesh, np.ones(spatial)], -1).reshape(-1, rank + 1).astype(maps.dtype)
    grid = matmul(points, maps.mT)
    return reshape(grid, (maps.value.type.shape[0], *spatial, rank))


def _unnormalised(coords: Tensor, size: int, align_corners: bool) -> Tensor:
    """From -1 .. 1 to places of elements."""
    return (coords + 1) * ((size - 1) / 2) if align_corners else ((coords + 1) * size - 1) / 2


def _reflected(coords: Tensor, low: float, high: float) -> Tensor:
    """Places turned back at ``low`` and ``high`` until they lie between them."""
    span = high - low
    if span == 0:
        return coords * 0
    left = remainder(abs(coords - low), 2 * span)
    return where(left > span, 2 * span - left, left) + low


@one_step
def grid_sample(
    input: TensorLike,
    grid: TensorLike,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """x[N, C, H, W] (or [N, C, D, H, W]) at the places of ``grid`` [N, ..., 2] (3): x, then y, from -1 to 1.

    ``mode``: bilinear, nearest or bicubic (of images); ``padding_mode`` for places outside: zeros, border, reflection.
    """
    x, coords = (wrap(value) for value in floats(input, grid))
    rank = x.ndim - 2
    if rank not in (2, 3) or coords.ndim != x.ndim or coords.value.type.shape[-1] != rank:
        raise ShapeError(f"grid_sample of {x.value.type} at {coords.value.type}")
    if mode not in ("bilinear", "nearest", "bicubic") or (mode == "bicubic" and rank == 3):
        raise JitgraphError(f"grid_sample: mode={mode!r} is none of bilinear, nearest and bicubic (of images)")
    if padding_mode not in ("zeros", "border", "reflection"):
        raise JitgraphError(f"grid_sample: padding_mode={padding_mode!r} is none of zeros, border, reflection")
    sizes = known_sizes(x, 2, "grid_sample")
    corners = bool(align_corners)
    shape = coords.value.type.shape
    flat = reshape(coords, (shape[0], -1, rank))
    at = [_unnormalised(flat[..., rank - 1 - i], n, corners) for i, n in enumerate(sizes)]
    picker = _Picker(x, sizes, padding_mode, corners)
    if mode != "bicubic":
        at = [picker.inside(coord, n) for coord, n in zip(at, sizes, strict=True)]
    if mode == "nearest":
        sampled = picker.pick([nearest_even(coord) for coord in at])
    elif mode == "bilinear":
        sampled = picker.bilinear(at)
    else:
        sampled = picker.bicubic(at)
    return reshape(sampled, (*x.value.type.shape[:2], *shape[1:-1]))


class _Picker:
    """Elements of a grid at whole places [N, P] of each spatial axis."""

    def __init__(self, x: Tensor, sizes: tuple[int, ...], padding: str, align_corners: bool) -> None:
        self.sizes, self.padding, self.align_corners = sizes, padding, align_corners
        batch, channels = x.value.type.shape[:2]
        self.count = math.prod(sizes)
        self.rows = reshape(moveaxis(x, 1, -1), (batch * self.count, channels))

    def inside(self, coords: Tensor, size: int) -> Tensor:
        """Places moved inside, unless zeros stand outside."""
        if self.padding == "reflection":
            ends = (0.0, size - 1.0) if self.align_corners else (-0.5, size - 0.5)
            coords = _reflected(coords, *ends)
        return coords if self.padding == "zeros" else clip(coords, 0, size - 1)

    def pick(self, coords: Sequence[Tensor]) -> Tensor:
        flat: Any = 0
        present: Any = None
        for coord, size in zip(coords, self.sizes, strict=True):
            inside = (coord >= 0) & (coord <= size - 1)
            present = inside if present is None else present & inside
            flat = flat * size + astype(clip(where(coord == coord, coord, 0), 0, size - 1), dtypes.int64)
        batch = wrap(lifting.positions_along(flat.value.type.shape, 0, flat.value))
        picked = wrap(ops.gather(self.rows.value, (flat + batch * self.count).value, axis=0))
        return moveaxis(where(expand_dims(present, -1), picked, 0), -1, 1)

    def bilinear(self, at: Sequence[Tensor]) -> Tensor:
        low = [floor(coord) for coord in at]
        total: Any = None
        for corner in np.ndindex(*[2] * len(at)):
            weight: Any = 1
            for coord, base, side in zip(at, low, corner, strict=True):
                weight = weight * ((coord - base) if side else (1 - (coord - base)))
            term = self.pick([base + side for base, side in zip(low, corner, strict=True)]) * weight[:, None]
            total = term if total is None else total + term
        interpolated: Tensor = total
        return interpolated

    def bicubic(self, at: Sequence[Tensor]) -> Tensor:
        low = [floor(coord) for coord in at]
        weights = [_cubic_weights(coord - base) for coord, base in zip(at, low, strict=True)]
        total: Any = None
        for i in range(4):
            for j in range(4):
                tap_coords = [
                    self.inside(base + tap - 1, n) for base, tap, n in zip(low, (i, j), self.sizes, strict=True)
                ]
                term = (
                    self.pick([nearest_even(coord) for coord in tap_coords]) * (weights[0][i] * weights[1][j])[:, None]
                )
                total = term if total is None else total + term
        interpolated: Tensor = total
        return interpolated


def _cubic_weights(part: Tensor) -> list[Tensor]:
    """The cubic weights of the four elements around a place, ``part`` of the way behind the second."""
    return [
        cubic_far(part + 1, CUBIC),
        cubic_near(part, CUBIC),
        cubic_near(1 - part, CUBIC),
        cubic_far(2 - part, CUBIC),
    ]
