"""Eager values as native code reads and writes them: dense memory, with the address and the type on the value.

What one look at an array tells (its dtype, shape and address, that it is dense and nobody else's) holds for as long as
the array lives, so it is kept on the value: ``native`` is the type then, and a later call asks for that alone. Arrays
that a caller can reach (borrowed, exported or views) could change under us and are looked at in each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import is_unique


def readable(value: EagerValue) -> EagerValue:
    """``value``, or a value of the same elements, whose memory native code can read."""
    if value.native is not None:
        return value
    array = value.array
    return readable_as(value, array, native_type(array.dtype, array.shape))


def readable_as(value: EagerValue, array: Any, type: TensorType) -> EagerValue:
    """The same for a value with this array, which is of ``type``."""
    dense = loader.is_dense(array)
    if not dense or value.array is not array or not value.is_private():
        value = EagerValue(array if dense else np.array(array, order="C", subok=False), access="borrowed")
        array = value.array
    value.address = loader.address_of(array)
    value.native = type
    return value


def owned_value(array: Any, type: TensorType, address: int) -> EagerValue:
    """The value of an array that native code has written or will write, and to which nothing else refers."""
    value = EagerValue(array)
    value.address = address
    value.native = type
    return value


def fresh(type: TensorType, size: int) -> EagerValue:
    """A value of ``size`` bytes, yet to be written to."""
    array = loader.allocator.empty(type.shape, type.dtype, size)  # type: ignore[arg-type]
    return owned_value(array, type, loader.address_of(array))


def output_value(number: int, plan: loader.ShapePlan) -> EagerValue:
    """A value for the output of this number, yet to be written to."""
    shape, dtype, _ = plan.outputs[number]
    array = plan.empty(number)
    return owned_value(array, native_type(dtype, shape), loader.address_of(array))


class Recycled:
    """Results of one kind of call: the memory of one that is no longer held is written to again."""

    __slots__ = ("_fresh", "_kept")

    DEPTH: Final = 2
    """Results kept: that of the last call is often looked at while the next one runs."""

    def __init__(self, fresh: Callable[..., EagerValue]) -> None:
        """``fresh`` makes a new one."""
        self._fresh = fresh
        self._kept: list[EagerValue] = []

    def take(self, *args: Any) -> EagerValue:
        """A value of an earlier call that nothing else holds, or what ``fresh`` makes of ``args``."""
        pool = self._kept
        try:
            oldest = pool.pop(0)
        except IndexError:
            value = self._fresh(*args)
        else:
            if is_unique(oldest) and oldest.native is not None and oldest.record is None:
                value = oldest
            else:
                value = self._fresh(*args)
                if len(pool) < self.DEPTH - 1:
                    pool.append(oldest)
        pool.append(value)
        return value
