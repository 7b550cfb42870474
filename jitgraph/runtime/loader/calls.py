"""What a call needs: the plan that its shapes lead to, its record for native code, its workspace, its prints."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import ASKED_TYPE, CALLBACK_FAILED, Block, Call, Host, function_address, libc
from jitgraph.runtime.loader.arguments import address_of
from jitgraph.runtime.loader.dtypes import Array, dtype_named
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.guarded import Guarded
from jitgraph.runtime.loader.memory import allocator
from jitgraph.runtime.loader.signatures import Signature
from jitgraph.runtime.loader.sizes import INT64_MAX, Expression
from jitgraph.runtime.loader.specs import Size


class ShapePlan:
    """What one set of argument shapes leads to."""

    __slots__ = ("arena_bytes", "dims", "dims_address", "makers", "outputs")

    def __init__(
        self,
        dims: ctypes.Array[ctypes.c_int64],
        outputs: tuple[tuple[tuple[int, ...], np.dtype[Any], int], ...],
        arena_bytes: int,
        makers: tuple[Callable[[], Array], ...],
    ) -> None:
        """``outputs`` are shapes, dtypes and bytes; each call asks ``makers`` for uninitialised memory."""
        self.dims = dims
        self.dims_address = ctypes.addressof(dims)
        self.outputs = outputs
        self.arena_bytes = arena_bytes
        self.makers = makers

    def empty(self, output: int) -> Array:
        """Uninitialised memory for an output."""
        return self.makers[output]()


class BoundParameters:
    """The last parameters of an entry, checked and ready for any number of calls, with the plans of those calls."""

    __slots__ = ("addresses", "arrays", "left", "plans", "shapes")

    def __init__(self, left: int, arrays: Iterable[Array] = ()) -> None:
        """So many parameters are ``left`` to each call. The arrays are dense and aligned, and stay where they are."""
        self.left = left
        self.arrays = tuple(arrays)
        self.shapes = tuple([array.shape for array in self.arrays])
        self.addresses = tuple(map(address_of, self.arrays))
        self.plans: dict[tuple[tuple[int, ...], ...], ShapePlan] = {}  # by the shapes of the parameters before them


MOST_ARENA: Final = 4 << 20
"""Bytes of an arena that waits for the next call of the same code; larger ones serve other code meanwhile."""


class CallState:
    """A Call with its arena, reused from call to call."""

    __slots__ = ("address", "arena", "capacity", "error", "printer", "record")

    def __init__(self, threads: int = 0) -> None:
        """``threads`` limits those that take part in the call, this one included; 0 for no limit."""
        self.record = Call(threads=threads)
        self.error = self.record.error  # the same memory
        self.address = ctypes.addressof(self.record)
        self.arena: ctypes.Array[ctypes.c_char] | None = None
        self.capacity = 0
        self.printer: Printer | None = None

    def prepare(self, arena_bytes: int) -> None:
        """Make it ready for a call with a workspace of so many bytes."""
        record = self.record
        if arena_bytes > self.capacity:
            record.arena, self.arena, self.capacity = None, None, 0
            self.arena = allocator.lease(arena_bytes)
            self.capacity = ctypes.sizeof(self.arena)
            record.arena = ctypes.addressof(self.arena)
        record.arena_bytes = arena_bytes
        record.last_poll = 0
        self.error.code = 0

    def settle(self) -> None:
        """After a call: what its stacks took goes back, and so does an arena that others could use meanwhile."""
        if self.record.blocks:
            self.free_blocks()
        if self.capacity > MOST_ARENA:
            self.record.arena, self.arena, self.capacity = None, None, 0

    def free_blocks(self) -> None:
        """Free the blocks of the stacks that a call left behind."""
        block = self.record.blocks
        self.record.blocks = None
        while block:
            header = Block.from_address(block)
            block, base = header.next, header.base
            libc.free(base)


class Printer:
    """Prints what the native code of one call record asks for."""

    def __init__(self, record: Call, signature: Signature) -> None:
        self._record = record
        self._names = signature.dims
        self._sites = [
            (site, [(dtype_named(operand.dtype), parsed_sizes(operand.shape)) for operand in site.operands])
            for site in signature.prints
        ]
        self._sizes: Iterable[int] = ()
        self.calls = Guarded(self._print, CALLBACK_FAILED, 2)
        self._function = ASKED_TYPE(self.calls.ask)
        self._host = Host()

    def host(self, shared: Host, sizes: Iterable[int]) -> Host:
        """A host table like ``shared`` that prints here, for a call with these named sizes."""
        self._sizes = sizes
        ctypes.memmove(ctypes.addressof(self._host), ctypes.addressof(shared), ctypes.sizeof(Host))
        self._host.print = function_address(self._function)
        return self._host

    def _print(self) -> None:
        site, types = self._sites[self._record.print_site]
        dims = dict(zip(self._names, self._sizes, strict=False))
        addresses = (ctypes.c_void_p * len(types)).from_address(self._record.print_operands) if types else ()
        arrays = []
        for (dtype, sizes), address in zip(types, addresses, strict=True):
            shape = tuple(size if isinstance(size, int) else size.evaluate(dims) for size in sizes)
            array: Array = np.empty(shape, dtype)
            ctypes.memmove(address_of(array), address, array.nbytes)
            arrays.append(array)
        site.write(arrays)


def parsed_sizes(shape: Iterable[Size]) -> tuple[int | Expression, ...]:
    """The sizes of a shape, those that depend on the call ready to be evaluated."""
    return tuple(size if isinstance(size, int) else Expression(size) for size in shape)


def because_of(expression: Expression, dims: Mapping[str, int], origin: Mapping[str, str]) -> str:
    """Which sizes an expression got, and from where, in parentheses; empty where it names none."""
    facts = [f"{name} is {dims[name]} by {origin[name]}" for name in sorted(expression.names)]
    return f" ({', '.join(facts)})" if facts else ""


def bytes_of(shape: Iterable[int], dtype: np.dtype[Any], text: str) -> int:
    """Bytes of a dense array; ArgumentError, which calls it ``text``, where they leave 64 bits."""
    # Zero sizes count as one, as NumPy itself does, so that (0, 2**62, 4) is refused too.
    total = dtype.itemsize
    empty = False
    for size in shape:
        empty |= size == 0
        total *= max(size, 1)
    if total > INT64_MAX:
        raise ArgumentError(f"the result {text} with shape {list(shape)} leaves 64 bits")
    return 0 if empty else total
