"""One op on operands of known types, ready to run again and again: by compiled code, or by NumPy."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import numpy as np

from jitgraph.eager.kernels import Prepared
from jitgraph.eager.native import Recycled, native_type, placed, readable
from jitgraph.eager.value import EagerValue
from jitgraph.ir.types import TensorType
from jitgraph.runtime import loader
from jitgraph.runtime.loader.memory import allocator

_MOST_BYTES: Final = 4096  # of a result whose memory is kept; above, allocating is not what counts


class KernelCall:
    """Calls a kernel on values of the types that it was prepared for."""

    __slots__ = ("_call", "_makes", "_pack", "_plan", "checks", "given")

    def __init__(self, prepared: Prepared, shapes: Sequence[tuple[int, ...]] | None = None) -> None:
        """``shapes`` are those of the results, where the kernel has them as rows."""
        entry, self._plan = prepared.kernel.entry, prepared.plan
        self._call, self._pack = entry.call, entry.pack
        found = self._plan.outputs
        wanted = [shape for shape, _, _ in found] if shapes is None else shapes
        self._makes = [
            _making(native_type(dtype, shape), size, recycles=len(found) == 1)
            for shape, (_, dtype, size) in zip(wanted, found, strict=True)
        ]
        self.checks = bool(entry.signature.checks)
        self.given = prepared.kernel.given

    def __call__(self, values: Sequence[EagerValue]) -> list[EagerValue]:
        operands = [value if value.native is not None else readable(value) for value in values]
        results = [make() for make in self._makes]
        self._call(self._plan, self._pack(*[value.address for value in operands + results]))
        return results


def _making(type: TensorType, size: int, *, recycles: bool) -> Callable[[], EagerValue]:
    """What makes the value that a result is written to."""
    fresh = partial(_fresh, type, size)
    return Recycled(fresh).take if recycles and size <= _MOST_BYTES else fresh


def _fresh(type: TensorType, size: int) -> EagerValue:
    array = allocator.empty(type.shape, type.dtype, size)  # type: ignore[arg-type]
    return placed(array, type, loader.address_of(array))


def _silent_context() -> contextvars.Context:
    made = contextvars.Context()
    made.run(np.seterr, all="ignore")
    return made


_SILENT: Final = _silent_context()  # of NumPy's error state alone: entering it costs a tenth of ``np.errstate``


def silently(function: Callable[..., Any], *arrays: Any) -> Any:
    """``function(*arrays)`` without NumPy's warnings; a function that neither asks for the context nor comes back."""
    try:
        return _SILENT.run(function, *arrays)
    except RuntimeError:  # another thread is inside
        with np.errstate(all="ignore"):
            return function(*arrays)
