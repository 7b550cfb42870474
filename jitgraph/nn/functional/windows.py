"""Windows over the spatial axes of x[N, C, ...]: what pooling and resizing of every kind is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np

from jitgraph import ops
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError, UndecidedError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import floats, repeated
from jitgraph.ops import rules
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike

# ----------------------------------------------------------------------
# Windows over the spatial axes of x[N, C, ...]: what pooling of every kind is made of.
#
# A window's place k along an axis holds the element o * stride + k * dilation - padding for output o. For each place of
# the window there is one strided slice of the padded x; a pool combines these slices.

Sizes = tuple[int, ...]
LETTERS = ("L", "H, W", "D, H, W")


@dataclass(frozen=True)
class Windows:
    """The settings of a pool, a number for each axis; with ``ceil_mode`` each window counts that begins inside."""

    name: str
    kernel: Sizes
    stride: Sizes
    padding: Sizes
    dilation: Sizes
    ceil_mode: bool

    @property
    def spatial(self) -> int:
        return len(self.kernel)

    def span(self, axis: int) -> int:
        """The elements that a window covers along an axis, those that dilation passes over among them."""
        return self.dilation[axis] * (self.kernel[axis] - 1) + 1

    def outputs(self, x: Any) -> tuple[Any, ...]:
        """The sizes of the result's spatial axes; ShapeError where no window fits."""
        return tuple(self._output(x, axis) for axis in range(self.spatial))

    def _output(self, x: Any, axis: int) -> Any:
        size, pad, step = x.shape[axis - self.spatial], self.padding[axis], self.stride[axis]
        room = size + 2 * pad - self.span(axis)
        least = self.span(axis) - (step - 1 if self.ceil_mode else 0)
        rules.at_least(f"{self.name} of {x.type} padded by {pad}", size + 2 * pad, least)
        if not self.ceil_mode:
            return room // step + 1
        if not isinstance(room, int):
            known(self.name, x, self.spatial)
        count = -(-room // step) + 1
        return count - 1 if (count - 1) * step >= size + pad else count

    def overhang(self, x: Any, axis: int) -> int:
        """How far the last window reaches beyond the padded axis, which happens with ``ceil_mode`` alone."""
        if not self.ceil_mode:
            return 0
        size = x.shape[axis - self.spatial] + 2 * self.padding[axis]
        last: int = (self._output(x, axis) - 1) * self.stride[axis] + self.span(axis)
        return int(max(0, last - size))

    def taps(self) -> Iterator[Sizes]:
        """The places in a window, the last axis fastest."""
        return product(*map(range, self.kernel))

    def slices(self, x: Any, fill: float) -> Iterator[Tensor]:
        """For each place of the window the elements that stand there, [N, C, *outputs]; ``fill`` is the padding."""
        high = tuple(pad + self.overhang(x, axis) for axis, pad in enumerate(self.padding))
        return self.strided(padded(x, fill, self.padding, high), self.outputs(x))

    def strided(self, padded: Any, out: Sequence[Any]) -> Iterator[Tensor]:
        """For each place of the window the elements of a padded tensor that stand there in ``out`` windows."""
        lead = len(padded.shape) - self.spatial
        for tap in self.taps():
            starts = tuple(k * d for k, d in zip(tap, self.dilation, strict=True))
            stops = tuple(
                start + (count - 1) * step + 1 for start, count, step in zip(starts, out, self.stride, strict=True)
            )
            yield wrap(
                ops.slice(
                    padded,
                    starts=(*(0,) * lead, *starts),
                    stops=(*padded.shape[:lead], *stops),
                    strides=(*(1,) * lead, *self.stride),
                )
            )


def padded(x: Any, fill: float, low: Sizes, high: Sizes) -> Any:
    """x with so many elements of ``fill`` before and behind each of its last axes."""
    if not any(low) and not any(high):
        return x
    lead = (0,) * (len(x.shape) - len(low))
    filler = lifting.constant(fill, x.dtype)
    return ops.pad(x, filler, low=(*lead, *low), high=(*lead, *high), interior=(0,) * len(x.shape))


def padding_by_word(
    name: str, word: str, dilation: Sequence[int], kernel: Sequence[int]
) -> tuple[tuple[int, int], ...]:
    """(before, after) for each spatial axis: "same" keeps the size and puts an odd element after, as in PyTorch."""
    if word == "valid":
        return ((0, 0),) * len(kernel)
    if word == "same":
        spans = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        return tuple((span // 2, span - span // 2) for span in spans)
    raise JitgraphError(f"{name}: padding={word!r} is neither 'same' nor 'valid', nor a number for each axis")


def windows_of(
    name: str, spatial: int, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool
) -> Windows:
    """The settings as PyTorch takes them: numbers or sequences; ShapeError for those that make no windows."""
    sizes = repeated(name, "kernel_size", kernel, spatial)
    steps = sizes if stride is None else repeated(name, "stride", stride, spatial)
    pads, gaps = repeated(name, "padding", padding, spatial), repeated(name, "dilation", dilation, spatial)
    if min(*sizes, *steps, *gaps) < 1:
        raise ShapeError(f"{name}: kernel_size={sizes}, stride={steps} and dilation={gaps} should be positive")
    if any(not 0 <= 2 * pad <= size for pad, size in zip(pads, sizes, strict=True)):
        raise ShapeError(f"{name}: padding={pads} should be at most half of kernel_size={sizes}")
    return Windows(name, sizes, steps, pads, gaps, bool(ceil_mode))


def batched(name: str, spatial: int, input: TensorLike) -> tuple[Any, bool]:
    """x[N, C, ...] as a value, and whether it came without the batch."""
    (x,) = floats(input)
    if len(x.shape) not in (spatial + 1, spatial + 2):
        raise ShapeError(f"{name} takes x[N, C, {LETTERS[spatial - 1]}], not {x.type}")
    alone = len(x.shape) == spatial + 1
    return (ops.reshape(x, shape=(1, *x.shape)) if alone else x), alone


def require_channels(name: str, input: TensorLike, x: Any, channels: Any, bias: Any, out: Any, spatial: int) -> None:
    """ShapeError unless x (``input``) has the channels that a weight takes, and the bias those it gives."""
    if len(x.shape) != spatial + 2 or not context.constraints().same(x.shape[1], channels):
        takes = f"x[N, {channels}, {LETTERS[spatial - 1]}]"
        raise ShapeError(
            f"{name} with in_channels={channels} takes {takes}, not {lifting.value_of(input).type}",
            hint="channels stand on axis 1; x[:, None] adds an axis for a single one",
        )
    if bias is not None and tuple(bias.shape) != (out,):
        raise ShapeError(f"{name} with out_channels={out} takes a bias [{out}], not {bias.type}")


def single(result: Tensor, alone: bool) -> Tensor:
    """Without the batch axis again, where x had none."""
    return reshape(result, result.value.type.shape[1:]) if alone else result


def known(name: str, x: Any, spatial: int) -> Sizes:
    """The sizes of the spatial axes, which have to be numbers."""
    sizes: Sequence[Any] = x.shape[-spatial:]
    for size in sizes:
        if not isinstance(size, int):
            raise ShapeError(f"{name} along the named size {size}", hint="name batch and channels alone")
    return tuple(sizes)


# ----------------------------------------------------------------------
# Weighted windows of the elements along an axis, which resizing images and adaptive pools are made of.
#
# Sizes of spatial axes are known numbers here; places and weights are computed in float64 when the call is recorded.

Array = np.ndarray[Any, Any]

CUBIC: Final = -0.75
"""The number by which PyTorch chooses among Keys' kernels (R. Keys, IEEE Trans. ASSP 29, 1981)."""


def known_sizes(x: Tensor, first: int, name: str) -> tuple[int, ...]:
    """The sizes from axis ``first`` on, which have to be numbers."""
    sizes = x.value.type.shape[first:]
    for size in sizes:
        if not isinstance(size, int):
            raise UndecidedError(f"{name} along the named size {size}", hint="name batch and channels alone")
    return tuple(sizes)


def weighted(x: Tensor, axis: int, indices: Array, weights: Array) -> Tensor:
    """Sums along ``axis`` of elements at ``indices`` [out, taps] times ``weights``, tap after tap."""
    column = (-1, *[1] * (x.ndim - axis - 1))
    total: Any = None
    with placement.beside(x.value):
        for tap in range(indices.shape[1]):
            picked = wrap(ops.gather(x.value, lifting.value_of(indices[:, tap]), axis=axis))
            term = picked * np.reshape(weights[:, tap], column).astype(x.dtype)
            total = term if total is None else total + term
    result: Tensor = total
    return result


def windows(starts: Array, stops: Array) -> tuple[Array, Array]:
    """The places from each of ``starts`` to before its stop, [out, most]; short rows repeat their first place.

    The second array says which places are no repetitions.
    """
    offsets = np.arange(int((stops - starts).max(initial=1)))
    counted = offsets < (stops - starts)[:, None]
    return np.where(counted, starts[:, None] + offsets, starts[:, None]), counted


def shared_with_repetitions(weights: Array, counted: Array) -> Array:
    """``weights`` whose first column is divided among the repetitions: a weight of 0 would make NaN of infinity."""
    first = ~counted
    first[:, 0] = True
    return np.where(first, weights[:, :1] / first.sum(axis=1, keepdims=True), weights)


def cubic_near(d: Any, a: float) -> Any:
    """Keys' kernel for distances of up to 1."""
    return ((a + 2) * d - (a + 3)) * d * d + 1


def cubic_far(d: Any, a: float) -> Any:
    """Keys' kernel for distances from 1 to 2, beyond which it is 0."""
    return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
