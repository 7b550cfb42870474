"""``torch.nn.utils.rnn``: sequences of different lengths in one tensor.

What is packed holds the padded tensor and the lengths; PyTorch's layout is there as ``data``, ``batch_sizes``,
``sorted_indices`` and ``unsorted_indices``, outside of traces.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph.nn.utils import rnn
from jitgraph.torch.adapters import torch_function
from jitgraph.torch.tensors import Tensor, adopted

pad_sequence = torch_function(rnn.pad_sequence)
unpad_sequence = torch_function(rnn.unpad_sequence)
pad_packed_sequence = torch_function(rnn.pad_packed_sequence)
unpack_sequence = torch_function(rnn.unpack_sequence)


class Packed(rnn.PackedSequence):
    """Sequences [T, N, ...] with their lengths; ``PackedSequence(data, batch_sizes, ...)`` makes one."""

    @property
    def data(self) -> Tensor:
        """The elements without padding [sum of lengths, ...], step by step, the longest sequence first."""
        return adopted(rnn.PackedSequence.data.fget(self))  # type: ignore[attr-defined, no-any-return]

    @property
    def batch_sizes(self) -> Tensor:
        """How many sequences reach each step."""
        return adopted(rnn.PackedSequence.batch_sizes.fget(self))  # type: ignore[attr-defined, no-any-return]

    @property
    def sorted_indices(self) -> Any:
        """The sequences' numbers by falling length, None where they are in that order."""
        order = adopted(rnn.PackedSequence.sorted_indices.fget(self))  # type: ignore[attr-defined]
        return None if order.tolist() == list(range(len(order))) else order

    @property
    def unsorted_indices(self) -> Any:
        """The place of each sequence in ``sorted_indices``, None where they are in that order."""
        if self.sorted_indices is None:
            return None
        return adopted(rnn.PackedSequence.unsorted_indices.fget(self))  # type: ignore[attr-defined]

    def _replace(self, **fields: Any) -> Any:
        """Another one with some of ``data``, ``batch_sizes``, ``sorted_indices`` and ``unsorted_indices``."""
        if fields.keys() <= {"padded", "lengths"}:
            return Packed(fields.get("padded", self.padded), fields.get("lengths", self.lengths))
        return PackedSequence(*(fields.get(name, getattr(self, name)) for name in _FIELDS))

    @property
    def is_cuda(self) -> bool:
        """Whether the elements lie on a GPU."""
        return str(self.padded.device).startswith("cuda")

    def is_pinned(self) -> bool:
        """False: copies to a GPU go through locked pages anyway."""
        return False

    def pin_memory(self) -> Packed:
        """This object: copies to a GPU go through locked pages anyway."""
        return self


_FIELDS = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")


class _Constructor(type):
    """Makes ``isinstance(x, PackedSequence)`` true of what is packed."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, rnn.PackedSequence)


class PackedSequence(metaclass=_Constructor):
    """``PackedSequence(data, batch_sizes)``: sequences by PyTorch's layout, outside of traces."""

    def __new__(
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> Any:
        """The sequences, in the order that ``sorted_indices`` tells."""
        sizes = np.asarray(batch_sizes, np.int64)
        count, steps = int(sizes[0]), len(sizes)
        if sorted_indices is not None:
            order = np.asarray(sorted_indices, np.int64)
        elif unsorted_indices is not None:
            order = np.argsort(np.asarray(unsorted_indices))
        else:
            order = np.arange(count)
        at = np.full((steps, count), -1)  # of each step of each sequence, its number in data
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        for step, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            at[step, order[:size]] = start + np.arange(size)
        rows = jg.take(data, jg.asarray(np.maximum(at, 0).ravel()), axis=0)
        padded = jg.reshape(rows, (steps, count, *tuple(data.shape)[1:]))
        present = jg.asarray((at >= 0).reshape(steps, count, *(1,) * (len(data.shape) - 1)))
        return Packed(adopted(jg.where(present, padded, 0)), adopted(jg.asarray((at >= 0).sum(axis=0))))


def _packed(sequence: rnn.PackedSequence) -> Packed:
    return Packed(*map(adopted, sequence))


def pack_padded_sequence(input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True) -> Any:
    """Padded sequences [T, N, ...] (or [N, T, ...]) with their lengths, each from 1 to T."""
    return _packed(rnn.pack_padded_sequence(input, lengths, batch_first, enforce_sorted))


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> Any:
    """Sequences [T_i, ...] with their lengths."""
    return _packed(rnn.pack_sequence(sequences, enforce_sorted))


def invert_permutation(permutation: Any) -> Any:
    """The permutation that undoes another one; None for None."""
    return None if permutation is None else adopted(jg.argsort(permutation))
