"""One op on operands of known types, ready to run again and again: by compiled code, or by NumPy."""

from __future__ import annotations

import contextvars
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph.eager.dispatch.function import FEW, NativeFunction
from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import native_runtime
from jitgraph.eager.kernels import Prepared
from jitgraph.eager.native import Recycled, fresh, readable
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.ir.types import TensorType

if TYPE_CHECKING:
    from jitgraph.eager.dispatch.launches import Argument
    from jitgraph.eager.dispatch.table import NativeTable

LONG: Final = 20_000_000
"""Nanoseconds in which a kernel for given sizes is compiled: once one for named sizes ran for as long, it is made."""
_SHORT: Final = 50_000
"""Nanoseconds of a run beside which Python's part of a call counts: such a kernel goes past Python, for named sizes."""
_MOST_BYTES: Final = 4096  # of a result whose memory is kept; above, allocating is not what counts


class KernelCall:
    """Calls a kernel on values of the types that it was prepared for.

    ``run(*values)`` gives a tuple of values: by Python at first, and past it once such calls came back. A kernel for
    named sizes that ran for as long as it takes to compile one gives place to that for these very sizes, which has the
    same bits and may take a fraction of the time.
    """

    __slots__ = ("_exact", "_kernel", "_least", "_makes", "_multiplies", "_next", "_outputs", "_served", "_took",
                 "checks", "entry", "given", "run")  # fmt: skip

    def __init__(
        self, prepared: Prepared, shapes: Sequence[tuple[int, ...]] | None = None, *, multiplies: bool = True,
        python: Callable[..., tuple[EagerValue, ...]] | None = None, exact: Callable[[], Prepared | None] | None = None,
    ) -> None:  # fmt: skip
        """``shapes`` are those of the results, where the kernel has them as rows.

        ``multiplies``: it may do as much work as a product of its operands. ``python`` does the same by Python.
        ``exact`` makes the kernel for these very sizes.
        """
        self._take(prepared)
        self._exact, self._took, self._least = exact, 0, sys.maxsize
        self._multiplies = multiplies
        specs = prepared.plan.outputs
        out_shapes = [shape for shape, _, _ in specs] if shapes is None else shapes
        self._outputs = [
            (native_type(dtype, shape), size) for shape, (_, dtype, size) in zip(out_shapes, specs, strict=True)
        ]
        self._makes = [_making(type, size, recycles=len(specs) == 1) for type, size in self._outputs]
        self.given = prepared.kernel.given
        self._served = 0
        self._next = FEW
        self.run = python or self._by_python

    def _take(self, prepared: Prepared) -> None:
        self.entry = entry = prepared.kernel.entry
        self.checks = bool(entry.signature.checks)
        numbers = prepared.kernel.numbers
        self._kernel = entry.call, prepared.plan, entry.pack, numbers  # in one, as another thread may call it just now

    def _by_python(self, *values: EagerValue) -> tuple[EagerValue, ...]:
        self._served += 1
        if self._served >= self._next:
            self.go_native(values)
        operands = [value if value.native is not None else readable(value) for value in values]
        results = [make() for make in self._makes]
        call, plan, pack, numbers = self._kernel
        if self._exact is None:
            call(plan, pack(*[value.address for value in (*operands, *numbers, *results)]))
            return tuple(results)
        begin = time.perf_counter_ns()
        call(plan, pack(*[value.address for value in (*operands, *numbers, *results)]))
        took = time.perf_counter_ns() - begin
        self._took, self._least = self._took + took, min(self._least, took)
        if self._took >= LONG:
            self._go_exact()
        return tuple(results)

    def _go_exact(self) -> None:
        exact, self._exact = self._exact, None
        prepared = None if exact is None else exact()
        if prepared is not None and prepared.kernel.given == self.given:
            self._take(prepared)

    def go_native(self, values: Sequence[EagerValue]) -> None:
        """Let later calls on values like these go past Python, where that can be; else ask again after as many calls.

        While the dispatcher is being made, every few calls ask.
        """
        try:
            runtime = native_runtime()
            if runtime is None or isinstance(self.run, NativeFunction):
                self._next = self._served + FEW
                return
            table = self.table(values)
        except Unsupported:
            self._next = 2 * self._served
            return
        run = NativeFunction(self.run, len(values))
        run.add(None, table, runtime)
        self.run, self._next = run, sys.maxsize

    @property
    def results(self) -> list[TensorType]:
        """The types of the results."""
        return [type for type, _ in self._outputs]

    def table(
        self, values: Sequence[EagerValue], *ambient: Any, arguments: Sequence[Argument] | None = None
    ) -> NativeTable:
        """A table for calls like this one; Unsupported says why not.

        ``ambient`` is what tables of tensors ask for, ``arguments`` what is given where that is not the operands alone.
        """
        from jitgraph.eager.dispatch.launches import LaunchTable, require_short  # here, as many calls never come back

        if self._exact is not None and self._served >= FEW and self._least > _SHORT:
            raise Unsupported("a kernel for these sizes may take its place")
        types = [native_type(value.dtype, value.shape) for value in values]
        require_short([*types, *self.results], self._multiplies)
        _, plan, _, numbers = self._kernel
        return LaunchTable(self.entry, plan, numbers, arguments or types, self._outputs, *ambient)


def _making(type: TensorType, size: int, *, recycles: bool) -> Callable[[], EagerValue]:
    """What makes the value that a result is written to."""
    make = partial(fresh, type, size)
    return Recycled(make).take if recycles and size <= _MOST_BYTES else make


def _silent_context() -> contextvars.Context:
    silent = contextvars.Context()
    silent.run(np.seterr, all="ignore")
    return silent


_SILENT: Final = _silent_context()  # of NumPy's error state alone: entering it costs a tenth of ``np.errstate``


def silently(function: Callable[..., Any], *arrays: Any) -> Any:
    """``function(*arrays)`` without NumPy's warnings; a function that neither asks for the context nor comes back."""
    try:
        return _SILENT.run(function, *arrays)
    except RuntimeError:  # another thread is inside
        with np.errstate(all="ignore"):
            return function(*arrays)
