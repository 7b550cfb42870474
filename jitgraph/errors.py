"""The errors that jitgraph raises: what happened, where in the user's code, and a hint how to fix it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np

from jitgraph.location import Location
from jitgraph.runtime.loader import CHECK_KINDS, ArgumentError, JitgraphError, LoadError

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "CompileError",
    "CudaError",
    "DTypeError",
    "DeviceError",
    "GraphError",
    "HostAccessError",
    "IndexingError",
    "InternalError",
    "JitgraphError",
    "LinAlgError",
    "LoadError",
    "LocatedError",
    "NumberError",
    "OptionError",
    "OutOfMemoryError",
    "PrecisionWarning",
    "ScriptError",
    "ShapeError",
    "SharingError",
    "TraceError",
    "UndecidedError",
    "UnsupportedOp",
]


_noted: ContextVar[list[JitgraphError] | None] = ContextVar("jitgraph_noted_errors", default=None)


@contextmanager
def noting() -> Iterator[list[JitgraphError]]:
    """The errors that arise in the block, also those that code in it catches."""
    errors: list[JitgraphError] = []
    token = _noted.set(errors)
    try:
        yield errors
    finally:
        _noted.reset(token)


def note(error: JitgraphError) -> None:
    """Add an error to those of the surrounding ``noting``."""
    if (errors := _noted.get()) is not None:
        errors.append(error)


def withdraw(error: JitgraphError) -> None:
    """Note an error no more: another one takes its place."""
    if (errors := _noted.get()) is not None:
        errors[:] = [other for other in errors if other is not error]


@contextmanager
def trying() -> Iterator[None]:
    """A block whose failure has another way out: what it raises goes on, and is noted no more."""
    errors = _noted.get()
    before = len(errors) if errors is not None else 0
    try:
        yield
    except BaseException:
        if errors is not None:
            del errors[before:]
        raise


class LocatedError(JitgraphError):
    """An error with the user's line and a hint how to fix it.

    ``str()`` gives the message, then ``at file:line`` and ``hint: ...`` on lines of their own where known.
    """

    def __init__(self, message: str, *, location: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location if location is not None else Location.of_user()
        self.hint = hint
        note(self)

    def __str__(self) -> str:
        lines = [self.message]
        if self.location is not None:
            lines.append(f"  at {self.location}")
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)


class TraceError(LocatedError):
    """A function does something that a trace cannot record.

    Wrong: ``if x.sum() > 0: ...`` under ``@jg.trace``. Right: ``jg.where(x.sum() > 0, a, b)`` or ``@jg.script``.
    """


class ScriptError(LocatedError):
    """A construct that ``@jg.script`` cannot capture."""


class ShapeError(LocatedError, ValueError):
    """Shapes that do not match. Wrong: ``zeros((2, 3)) + zeros((4,))``. Right: ``zeros((2, 3)) + zeros((3,))``."""


class OptionError(LocatedError, ValueError):
    """A word or a number that is none of those which an option of a function may be.

    Wrong: ``mse_loss(x, y, reduction="average")``. Right: ``mse_loss(x, y, reduction="mean")``.
    """


class UndecidedError(TraceError, ShapeError):
    """A question about a named size that has different answers for different values of the name.

    Wrong: ``x[3::-1]`` of a named size.
    Right: leave the size out of ``dynamic_shapes``, or say it in terms of the size, as ``x[:4][::-1]``.
    """


class DTypeError(LocatedError, TypeError):
    """Dtypes that an op does not accept together.

    Wrong: ``jg.asarray([1]) << jg.asarray([1.0])``. Right: cast with ``x.astype(dtype)``.
    """


class PrecisionWarning(UserWarning):
    """A float64 array or scalar makes a float32 model compute in float64: twice the memory, about half the speed.

    Wrong: ``model(np.random.rand(8, 64))``. Right: ``model(np.random.rand(8, 64).astype(np.float32))``, or
    ``model.double()`` where float64 is meant. Shown once for each line, as ``warnings`` filters it.
    """


class NumberError(LocatedError, OverflowError):
    """A Python int that a dtype does not hold. Wrong: ``jg.asarray([1], dtype=jg.int8) + 300``.

    Right: ``x.astype(jg.int16) + 300``. float32 and float64 take no int that they would round: write it as a float.
    """


class IndexingError(LocatedError, CHECK_KINDS["IndexError"]):  # type: ignore[misc, valid-type]
    """An index that does not fit: an IndexError, of the class that compiled code raises.

    Wrong: ``jg.zeros(3)[3]``. Right: ``jg.zeros(3)[2]`` or ``jg.zeros(3)[-1]``.
    """


class GraphError(LocatedError):
    """A graph that breaks the rules of the IR; raised by the verifier and the parser."""


class CompileError(LocatedError):
    """A graph that is well formed but cannot be turned into native code for this target.

    Also where jitgraph itself is at fault: the message then names the op and a file that holds the graph.
    """


class InternalError(LocatedError):
    """jitgraph itself failed while it recorded a function; the message names a file to report."""


class UnsupportedOp(CompileError):
    """An op, dtype or attribute that this target or transform does not know."""


class DeviceError(LocatedError):
    """A device that does not exist, or tensors on different devices."""


class HostAccessError(DeviceError):
    """Memory of a device was used where the CPU reads its own. Wrong: ``np.asarray(x)`` of a CUDA tensor.

    Right: ``np.asarray(x.cpu())``.
    """


class CudaError(DeviceError):
    """A call of the CUDA driver failed: which call, and CUDA's name and text; ``code`` is the result."""

    def __init__(self, message: str, *, code: int, location: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message, location=location, hint=hint)
        self.code = code


class OutOfMemoryError(CudaError, MemoryError):
    """A device has too little memory for a request, even after unused memory was returned to it."""


class LinAlgError(LocatedError, np.linalg.LinAlgError):
    """A matrix that does not have the requested inverse or decomposition. Wrong: ``jg.linalg.inv(jg.zeros((2, 2)))``.

    Right: ``jg.linalg.pinv(x)``, ``jg.linalg.lstsq(a, b)``, or a matrix of full rank.
    """


class SharingError(LocatedError, BufferError, ValueError):
    """Memory that cannot go from one library to another without a copy.

    Wrong: ``jg.asarray([1.0, 2.0], copy=False)``. Right: leave ``copy`` out.
    """


class AnomalyError(LocatedError, FloatingPointError):
    """An op produced NaN or infinity from finite operands under ``jg.detect_anomaly()``.

    In a gradient, ``str()`` also names the op that is differentiated and its line.
    """

    differentiated: str | None = None  # the op whose gradient this is, and its line
    in_forward = False  # whether it arose where the forward ran once more for its gradient

    def __str__(self) -> str:
        text = super().__str__()
        if self.differentiated is None:
            return text
        return text.replace(self.message, f"{self.message}, in the backward of {self.differentiated}", 1)
