"""The seam to a target: what a backend does for the one pipeline, and what it gives; Python's calls in its code.

Passes, fusion, the lowering of single ops, verifiers, the memory plan, signatures and caches are shared. A backend
chooses the loop nests of its schedules, writes code for them, and puts code to work in this process.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Protocol

import numpy as np

from jitgraph.codegen.kernels.schedule import HostCall, Schedule
from jitgraph.errors import GraphError
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader import Array

# ----------------------------------------------------------------------
# Ops that Python evaluates for compiled code: the callback of an image, which is given addresses.


class HostCalls:
    """Serves the calls of one image: ``calls(number, buffers, sizes)`` with addresses, as the ABI has them."""

    def __init__(self, calls: Sequence[HostCall], sizes: Sequence[str]) -> None:
        """``sizes`` are the names of the sizes that the second address holds, in order."""
        self._calls = tuple(calls)
        self._sizes = tuple(sizes)

    @classmethod
    def of(cls, schedule: Schedule) -> HostCalls | None:
        """Those of a schedule; None where it has none."""
        return cls(schedule.calls, schedule.sizes) if schedule.calls else None

    def __call__(self, number: int, buffers: int, sizes: int) -> None:
        call = self._calls[number]
        count = len(self._sizes)
        extents = (ctypes.c_int64 * count).from_address(sizes) if count else ()
        known = dict(zip(self._sizes, extents, strict=True))
        types = (*call.operands, *call.results)
        addresses = (ctypes.c_void_p * len(types)).from_address(buffers)
        arrays = [_array(type, address, known) for type, address in zip(types, addresses, strict=True)]
        count = len(call.operands)
        results = run_host_call(call, arrays[:count], known)
        for out, result in zip(arrays[count:], results, strict=True):
            if np.shape(result) != out.shape:  # which might broadcast
                raise GraphError(f"{call.op.name} gives the shape {np.shape(result)}, and its type says {out.shape}")
            out[...] = result


def run_host_call(call: HostCall, operands: Sequence[Array], sizes: Mapping[str, int]) -> tuple[Array, ...]:
    """The results of one call with these named sizes; what the op raises gets a note with the user's line."""
    from jitgraph.ir.attributes import substitute_attrs  # here: few graphs call Python

    evaluate = call.op.evaluate
    if evaluate is None:
        raise GraphError(f"{call.op.name} has no evaluation that Python could run")
    try:
        results = evaluate(*operands, **substitute_attrs(call.attrs, sizes))
    except BaseException as error:
        if call.location is not None:
            error.add_note(f"in {call.op.name}, at {call.location}")
        raise
    return results if isinstance(results, tuple) else (results,)


def _array(type: TensorType, address: int | None, sizes: Mapping[str, int]) -> Array:
    """The memory of a tensor, dense and row-major."""
    shape = tuple(_extent(extent, sizes) for extent in type.shape)
    count = int(np.prod(shape, dtype=np.int64))
    if not count or address is None:
        return np.empty(shape, type.dtype)
    memory = (ctypes.c_uint8 * (count * type.dtype.itemsize)).from_address(address)
    array: Array = np.ctypeslib.as_array(memory).view(type.dtype).reshape(shape)
    return array


def _extent(extent: Any, sizes: Mapping[str, int]) -> int:
    return extent if isinstance(extent, int) else int(dims.substitute(extent, sizes))


# ----------------------------------------------------------------------
# What a backend makes, and the backend itself.

Stage = Callable[[str], AbstractContextManager[None]]
"""``with stage("llvm"):`` times a part of a backend's work, and names it in what is reported of a fault there."""


@dataclass(frozen=True)
class Code:
    """What a backend makes of a schedule, without a device: a host image with the one ABI, and its texts by language.

    ``calls`` are those of Python that the image asks for. ``texts`` are what ``low.compile()`` shows, such as "llvm";
    a backend may keep more in a subclass.
    """

    image: bytes
    texts: Mapping[str, str] = field(default_factory=dict)
    calls: HostCalls | None = None

    @property
    def bytes(self) -> int:
        """About the memory that it takes."""
        return len(self.image) + sum(map(len, self.texts.values()))


class Backend(Protocol):
    """Code for one kind of target. Its methods keep no state between calls, so that threads may share it."""

    name: str
    alignment: int
    """Of temporaries in the arena, in bytes."""
    reads_again: bool
    """Whether code of a kernel may read what stands outside of its loops more than once."""

    def schedule(self, graph: Graph, target: Target, given_away: Collection[int] = ()) -> Schedule:
        """The schedule of a fused graph without gradients: kernels and steps, no code. UnsupportedOp where an op has
        no lowering. ``given_away`` are inputs that the call may be allowed to overwrite."""
        ...

    def emit(self, schedule: Schedule, target: Target, stage: Stage) -> Code:
        """Code for a planned schedule; it follows from the arguments alone. CompileError where it cannot be had."""
        ...

    def load(self, code: Code, signature: loader.Signature, target: Target) -> Executable:
        """The code, ready to run in this process."""
        ...
