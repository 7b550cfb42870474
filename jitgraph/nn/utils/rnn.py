"""Sequences of different lengths in one tensor, in PyTorch's names.

A ``PackedSequence`` holds the padded tensor and the lengths, so that it has a static shape and stands in traces;
PyTorch's layout without padding is ``.data``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jitgraph.dtypes import is_integer
from jitgraph.eager import placement
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.nn.functional.arguments import fits
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tensor.functions.creation import arange, asarray
from jitgraph.tensor.functions.elementwise import where
from jitgraph.tensor.functions.manipulation import moveaxis, pad, stack
from jitgraph.tensor.functions.shapes import reshape
from jitgraph.tensor.lifting import TensorLike


class PackedSequence(NamedTuple):
    """Sequences [T, N, ...] with the lengths [N] (int64) of each; what lies behind an end does not count."""

    padded: Tensor
    lengths: Tensor

    @property
    def data(self) -> Tensor:
        """The elements without padding [sum of lengths, ...] in PyTorch's order; outside of traces alone."""
        steps, members = self._order()
        elements: Tensor = self.padded[asarray(steps), asarray(members)]
        return elements

    @property
    def batch_sizes(self) -> Tensor:
        """How many sequences reach each step; outside of traces alone."""
        lengths = self._known()
        return asarray((lengths[None, :] > np.arange(lengths.max(initial=0))[:, None]).sum(axis=1))

    @property
    def sorted_indices(self) -> Tensor:
        """The sequences' numbers by falling length; outside of traces alone."""
        return asarray(np.argsort(-self._known(), kind="stable"))

    @property
    def unsorted_indices(self) -> Tensor:
        """The place of each sequence in ``sorted_indices``; outside of traces alone."""
        return asarray(np.argsort(np.argsort(-self._known(), kind="stable")))

    def to(self, *targets: Any) -> PackedSequence:
        """The sequences in another dtype, or on another device together with the lengths."""
        moved = self.padded.to(*targets)
        return PackedSequence(moved, self.lengths.to(moved.device))

    def cuda(self) -> PackedSequence:
        """On the current GPU."""
        return self.to("cuda")

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self.to("cpu")

    def _known(self) -> Any:
        if context.current().trace is not None:
            raise JitgraphError("a PackedSequence in a trace has no layout without padding\n  hint: mask by .lengths")
        return np.asarray(self.lengths)

    def _order(self) -> tuple[Any, Any]:
        lengths = self._known()
        longest_first = np.argsort(-lengths, kind="stable")
        steps = np.arange(lengths.max(initial=0))
        pairs = [(t, n) for t in steps for n in longest_first if lengths[n] > t]
        return tuple(np.asarray(column, np.int64) for column in zip(*pairs, strict=True)) if pairs else ((), ())  # type: ignore[return-value]


def pack_padded_sequence(
    input: TensorLike, lengths: TensorLike, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [T, N, ...] (or [N, T, ...]) with their lengths, each from 1 to T.

    Where the lengths are known, the tensor is cut to the longest. ``enforce_sorted`` asks for falling lengths.
    """
    x = wrap(lifting.value_of(input))
    if x.ndim < 2:
        raise ShapeError(f"pack_padded_sequence takes x[T, N, ...], not {x.value.type}")
    x = moveaxis(x, 0, 1) if batch_first else x
    sizes = asarray(lengths).astype("int64")
    if not fits(sizes, (x.value.type.shape[1],)):
        raise ShapeError(f"pack_padded_sequence: lengths {sizes.value.type} for {x.shape[1]} sequences")
    if context.current().trace is None or not isinstance(lengths, Tensor):
        known = np.asarray(lengths)
        if known.size == 0 or known.min() < 1 or known.max() > x.shape[0]:
            raise ShapeError(f"pack_padded_sequence: lengths {known.tolist()} should lie from 1 to {x.shape[0]}")
        if enforce_sorted and (np.diff(known) > 0).any():
            raise JitgraphError(
                "pack_padded_sequence: the lengths are not falling\n  hint: enforce_sorted=False takes any order"
            )
        x = x[: int(known.max())]
    return PackedSequence(x, sizes)


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The padded sequences [T, N, ...] (or [N, T, ...]), T the longest or ``total_length``, and the lengths [N]."""
    x, lengths = sequence.padded, sequence.lengths
    steps: Any = x.value.type.shape[0]
    if total_length is not None:
        if isinstance(steps, int) and total_length < steps:
            raise ShapeError(f"pad_packed_sequence: total_length={total_length} is less than the longest, {steps}")
        x = pad(x, [(0, total_length - steps), *[(0, 0)] * (x.ndim - 1)])
    with placement.beside(x.value):
        present = reshape(arange(x.value.type.shape[0]), (-1, 1)) < lengths
    x = where(reshape(present, (*x.value.type.shape[:2], *(1,) * (x.ndim - 2))), x, _filler(padding_value, x))
    return (moveaxis(x, 0, 1) if batch_first else x), lengths


def pad_sequence(
    sequences: Sequence[TensorLike],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences [T_i, ...] as one tensor [T, N, ...] (or [N, T, ...]), padded to the longest."""
    if padding_side not in ("left", "right"):
        raise JitgraphError(f"pad_sequence: padding_side={padding_side!r} is neither 'left' nor 'right'")
    rows = [wrap(lifting.value_of(x)) for x in sequences]
    if not rows:
        raise ShapeError("pad_sequence of no sequences")
    longest: Any = max(int(x.shape[0]) for x in rows)
    padded = []
    for x in rows:
        missing = longest - int(x.shape[0])
        sides = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(pad(x, [sides, *[(0, 0)] * (x.ndim - 1)], _filler(padding_value, x)))
    return stack(padded, axis=0 if batch_first else 1)


def _filler(value: float, x: Tensor) -> float:
    """The padding as an int where it is a whole number and the elements are ints, such as token numbers."""
    return int(value) if is_integer(x.dtype) and float(value).is_integer() else value


def pack_sequence(sequences: Sequence[TensorLike], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [T_i, ...] with their lengths."""
    lengths = [int(wrap(lifting.value_of(x)).shape[0]) for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), np.array(lengths), enforce_sorted=enforce_sorted)


def unpad_sequence(padded_sequences: Tensor, lengths: TensorLike, batch_first: bool = False) -> list[Tensor]:
    """The sequences [T_i, ...] of a padded tensor; outside of traces alone."""
    x = padded_sequences if batch_first else moveaxis(padded_sequences, 0, 1)
    return [x[i, : int(size)] for i, size in enumerate(np.asarray(lengths))]


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [T_i, ...] of a packed one; outside of traces alone."""
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
