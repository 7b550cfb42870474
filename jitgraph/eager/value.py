"""The value of an eager tensor: memory that is never written to, and the tape's record of how it was made."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np

from jitgraph.eager.tape import Record
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import Access, Array, Buffer

_new: Final = object.__new__


@lru_cache(maxsize=4096)
def native_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """The one object for a type without named sizes, so that types compare by identity."""
    return TensorType(dtype, shape)


class EagerValue(Buffer):
    """A computed tensor value: a buffer that is never written to, and the tape's record of how it was made.

    ``record`` is None where no gradient flows; ``output`` tells which of the record's outputs this is. ``native`` is
    what ``eager/native.py`` found out about the array, or None; where it is set, so is ``address``. ``base`` is the
    value of whose memory this is all or a part, or None for memory of its own.
    """

    __slots__ = ("__weakref__", "_type", "base", "native", "output", "record")

    def __init__(self, array: Array, record: Record | None = None, output: int = 0, access: Access = "own") -> None:
        self._array = array
        self.access = access
        self.record = record
        self.output = output
        self.base: EagerValue | None = None
        self.native: TensorType | None = None
        self._type: TensorType | None = None

    def part_of(self, record: Record, output: int) -> EagerValue:
        """A value of this memory, to which nothing else refers yet, as an output of a record that holds this value."""
        alias: EagerValue = _new(EagerValue)
        alias._array = self._array
        alias.access = self.access
        alias.record = record
        alias.output = output
        alias.base = self
        alias.address = self.address
        alias.native = self.native
        alias._type = self._type if self._type is not None else self.native
        return alias

    def _made_array(self) -> Array:
        if self.base is None:
            return super()._made_array()
        array, (shape, _) = self.base.array, self._layout()
        begin = loader.address_of(array)  # which the base need not have noted
        if self.address != begin or array.shape != shape:  # elements of it that lie side by side
            first = (self.address - begin) // array.itemsize
            array = array.reshape(-1)[first : first + prod(shape)].reshape(shape)
        self._array = array
        return array

    def _layout(self) -> tuple[tuple[int, ...], np.dtype[Any]]:
        assert self._type is not None
        return self._type.shape, self._type.dtype  # type: ignore[return-value]  # no size of a value has a name

    @property
    def type(self) -> TensorType:
        type = self._type
        if type is None:
            array = self.array
            type = self._type = native_type(array.dtype, array.shape)
        return type

    @property
    def shape(self) -> tuple[int, ...]:
        array = self._array
        return array.shape if array is not None else self._layout()[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        array = self._array
        return array.dtype if array is not None else self._layout()[1]

    @property
    def requires_grad(self) -> bool:
        return self.record is not None

    def export(self) -> None:
        """Note that a caller may see the memory from now on, so that what is known of it may change."""
        super().export()
        self.native = None

    def recorded(self, record: Record | None) -> EagerValue:
        """The same memory as a value with another record."""
        return EagerValue(self.array, record, 0, self.access)
