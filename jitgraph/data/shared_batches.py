"""Batches through shared memory, from the process that makes them to the one that reads them.

A batch is pickled with its arrays out of band (protocol 5), and everything is copied into one block of shared memory;
only the block's name and sizes go through a pipe.

Python notes each block in a process of its own (``multiprocessing.resource_tracker``), whose client has a lock. A
worker that is forked while another thread has that lock could never send a batch: no fork cuts our own use of it in
two, and in a child the lock is free again.
"""

from __future__ import annotations

import io
import pickle
from multiprocessing import resource_tracker
from multiprocessing.shared_memory import SharedMemory
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.runtime import forks
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.creation import asarray

_ALIGNMENT: Final = 64


def _renew_tracker() -> None:
    """Free the lock of the tracker's client in a child, where the thread that has it does not exist."""
    forks.renew(getattr(getattr(resource_tracker, "_resource_tracker", None), "_lock", None))


forks.in_child(_renew_tracker)


class SharedBatch(NamedTuple):
    """A batch in shared memory: the name, and the sizes of what was pickled and of the arrays behind it."""

    name: str
    sizes: tuple[int, ...]


def _tensor(array: Any) -> Tensor:
    return asarray(array)


class _Pickler(pickle.Pickler):
    """Tensors go as their arrays."""

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return _tensor, (np.ascontiguousarray(obj.detach().cpu().numpy()),)
        return NotImplemented


def _offsets(sizes: tuple[int, ...]) -> tuple[list[int], int]:
    """Where each part of a block begins, and the size of the whole."""
    starts, end = [], 0
    for size in sizes:
        starts.append(end)
        end += -(-size // _ALIGNMENT) * _ALIGNMENT
    return starts, max(end, 1)


def sent(batch: Any, name: str) -> SharedBatch:
    """A batch in a new block of shared memory of this name."""
    stream, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    _Pickler(stream, protocol=5, buffer_callback=buffers.append).dump(batch)
    parts = [stream.getbuffer(), *(buffer.raw() for buffer in buffers)]
    sizes = tuple(part.nbytes for part in parts)
    starts, total = _offsets(sizes)
    memory = SharedMemory(name=name, create=True, size=total)
    block = SharedBatch(memory.name, sizes)
    try:
        view: Any = memory.buf
        for part, start in zip(parts, starts, strict=True):
            view[start : start + part.nbytes] = part
    except BaseException:
        _give_back(memory)
        raise
    memory.close()
    return block


def received(block: SharedBatch) -> Any:
    """The batch of a block, which is given back."""
    with forks.whole():
        memory = SharedMemory(name=block.name)
    try:
        starts, _ = _offsets(block.sizes)
        view: Any = memory.buf
        parts = [bytearray(view[start : start + size]) for start, size in zip(starts, block.sizes, strict=True)]
    finally:
        _give_back(memory)
    return pickle.loads(bytes(parts[0]), buffers=parts[1:])


def discard(message: Any) -> None:
    """Give back a block that will not be read."""
    if isinstance(message, SharedBatch):
        with forks.whole():
            try:
                memory = SharedMemory(name=message.name)
            except FileNotFoundError:
                return
        _give_back(memory)


def _give_back(memory: SharedMemory) -> None:
    memory.close()
    with forks.whole():
        memory.unlink()
