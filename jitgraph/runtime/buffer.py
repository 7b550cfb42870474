"""Buffer: the memory of one value, and the one place that knows who else may see it.

The memory of a buffer is in one of four states:

- unique: one value holds it and nobody else does, so it may be overwritten in place, or serve again;
- shared: other values, the tape or a running call hold it, too;
- borrowed: it is a caller's own (``asarray(..., copy=False)``, an array argument), who may write to it;
- exported: it is ours, and a caller was shown it (``.numpy()``, DLPack). It stays so for as long as it lives.

Unique and shared are told apart by CPython's reference counts, which nothing but this file asks for. What a count is
where nobody else holds an object depends on the interpreter and on the way the question takes, so it is measured once,
on that way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from sys import getrefcount
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from jitgraph.runtime import loader
from jitgraph.runtime.cpython.native_fields import class_with_native_fields

Array: TypeAlias = "np.ndarray[tuple[Any, ...], np.dtype[Any]]"
Access: TypeAlias = Literal["own", "borrowed", "exported"]
Ownership: TypeAlias = Literal["unique", "shared", "borrowed", "exported"]

CPU: Final = "cpu"


if TYPE_CHECKING:

    class _BufferFields:
        address: int
        block: int
        block_bytes: int
else:
    _BufferFields = class_with_native_fields("BufferWords", "address", "block", "block_bytes")


class Buffer(_BufferFields):
    """Memory on a device, with the array through which it is read and which keeps it alive.

    ``address`` is where the memory begins, 0 where nobody noted it. What native calls return is a ``block`` of their
    own of ``block_bytes``, which goes back to them with the buffer; its array is made when somebody first asks for it,
    and keeps the memory from then on.
    """

    __slots__ = ("_array", "access")

    device: ClassVar[str] = CPU
    access: Access
    """"own" until a caller is shown the memory, "borrowed" from the start where it is a caller's."""

    def __init__(self, array: Array, access: Access = "own") -> None:
        self._array: Array | None = array
        self.access = access

    @property
    def array(self) -> Array:
        """The memory as an array."""
        array = self._array
        return array if array is not None else self._made_array()

    def _made_array(self) -> Array:
        block = self.block
        if block:
            lease, array = loader.allocator.adopting(block, self.block_bytes, *self._layout())
            if self._array is None:  # from here on no call is made, so no thread, handler or finaliser comes in between
                self._array = array
                lease.frees = True
                self.block = 0
        assert self._array is not None
        return self._array

    def _layout(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Shape and dtype of a buffer that native code made."""
        raise NotImplementedError

    @property
    def nbytes(self) -> int:
        """The bytes that the array spans, without gaps."""
        return self.array.nbytes

    def export(self) -> None:
        """Note that a caller may see the memory from now on."""
        if self.access == "own":
            self.access = "exported"

    def shown(self) -> Array:
        """A read-only view for a caller, who may keep it."""
        view = self.array.view()
        view.flags.writeable = False
        self.export()
        return view

    def is_private(self) -> bool:
        """Whether the array stays what it is (its place, its layout, who may write): no caller can reach it."""
        array = self.array
        return self.access == "own" and array.flags.writeable and not isinstance(array.base, np.ndarray)


def ownership(buffer: Buffer, holders: int) -> Ownership:
    """The state of a buffer that so many places of the caller hold: names, containers, attributes."""
    if buffer.access != "own":
        return buffer.access
    alone = getrefcount(buffer) == _NAMED[0] + holders - 1 and getrefcount(buffer.array) == _NAMED[1]
    return "unique" if alone and buffer.is_private() else "shared"


def is_unique(buffer: Buffer) -> bool:
    """Whether one name of the caller is all that holds a steady buffer."""
    return getrefcount(buffer) == _NAMED[0] and getrefcount(buffer.array) == _NAMED[1]


def is_referenced(value: object) -> bool:
    """Whether anything but one name of the caller refers to a value."""
    return getrefcount(value) > _NAMED[0]


_array_of: Final = attrgetter("array")


class UniqueAmong:
    """Asks, call after call, which of ``count`` steady buffers are held by a list and ``holders`` others alone.

    ``memory`` gives what keeps the memory of one, which only that one may hold: its array, or a GPU's buffer.
    """

    __slots__ = ("_alone", "_memory")

    def __init__(self, count: int, holders: int, memory: Callable[[Any], object] = _array_of) -> None:
        self._alone = [_LISTED[0] + holders] * count, [_LISTED[1]] * count
        self._memory = memory

    def __call__(self, listed: Sequence[Any]) -> list[bool] | None:
        """For each whether it is unique; None where all are."""
        buffers = list(map(getrefcount, listed))
        arrays = list(map(getrefcount, list(map(self._memory, listed))))
        if (buffers, arrays) == self._alone:
            return None
        pairs = zip(zip(buffers, arrays, strict=True), zip(*self._alone, strict=True), strict=True)
        return [counts == alone for counts, alone in pairs]


def holders(listed: Sequence[object]) -> list[int]:
    """How many others than this list or tuple hold each of its objects."""
    return [count - _LISTED[0] for count in map(getrefcount, listed)]


def are_released(listed: Sequence[object]) -> bool:
    """Whether nothing but the list holds any of these objects."""
    return max(map(getrefcount, listed)) <= _LISTED[0]


def _counts(buffer: Buffer) -> tuple[int, int]:
    return getrefcount(buffer), getrefcount(buffer.array)


def _named() -> tuple[int, int]:
    """The counts of a buffer that one name of the caller holds, and of its array."""
    buffer = Buffer(np.zeros(1))
    return _counts(buffer)


def _listed() -> tuple[int, int]:
    """The same of one that a list holds."""
    listed = [Buffer(np.zeros(1))]
    (buffer,) = list(map(getrefcount, listed))
    (array,) = list(map(getrefcount, list(map(_array_of, listed))))
    return buffer, array


_NAMED: Final = _named()
_LISTED: Final = _listed()
