"""Padding with elements of the tensor itself: each axis gathers the places that its widened range stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import ops
from jitgraph.errors import JitgraphError
from jitgraph.ir.dims import DimLike
from jitgraph.ops import rules
from jitgraph.tensor import lifting
from jitgraph.tensor.functions.elementwise import clip, maximum, remainder, where
from jitgraph.tensor.tensor import Tensor, wrap

MODES: Final = {  # each with the names that NumPy and PyTorch have for it
    "constant": "constant",
    "reflect": "reflect",
    "edge": "edge",
    "replicate": "edge",
    "wrap": "wrap",
    "circular": "wrap",
    "symmetric": "symmetric",
}


def mode_of(name: str) -> str:
    """The mode of this name; JitgraphError for one that there is not."""
    if name not in MODES:
        raise JitgraphError(f"pad: mode={name!r} is none of {', '.join(MODES)}")
    return MODES[name]


def padded(value: Any, widths: Sequence[tuple[int, int]], mode: str) -> Any:
    """``value`` with (before, after) places more along each axis, filled as ``mode`` says."""
    for axis, (low, high) in enumerate(widths):
        if low or high:
            size = value.shape[axis]
            rules.require_elements(f"pad with mode={mode!r} of {value.type} along axis {axis}", size)
            value = ops.gather(value, _positions(value, size, low, high, mode).value, axis=axis)
    return value


def _positions(value: Any, size: DimLike, low: int, high: int, mode: str) -> Tensor:
    """Which element of an axis each place of the padded one shows."""
    index = wrap(lifting.positions_along((low + size + high,), 0, value)) - low
    extent = wrap(ops.full(shape=(), value=size, dtype=index.dtype))
    if mode == "edge":
        return clip(index, 0, extent - 1)
    if mode == "wrap":
        return remainder(index, extent)
    if mode == "symmetric":  # the last element twice where it turns
        turned = remainder(index, 2 * extent)
        return where(turned < extent, turned, 2 * extent - 1 - turned)
    turned = remainder(index, maximum(2 * extent - 2, 1))
    return where(turned < extent, turned, 2 * extent - 2 - turned)
