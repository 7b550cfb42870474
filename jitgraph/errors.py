"""Every error a user can meet: what happened, where in the user's code, and how to mend it."""

from __future__ import annotations

from jitgraph.location import Location
from jitgraph.runtime.loader import CHECK_KINDS, ArgumentError, JitgraphError, LoadError

__all__ = [
    "AnomalyError",
    "ArgumentError",
    "CompileError",
    "DTypeError",
    "DeviceError",
    "GraphError",
    "IndexingError",
    "JitgraphError",
    "LoadError",
    "LocatedError",
    "ScriptError",
    "ShapeError",
    "TraceError",
    "UnsupportedOp",
]


class LocatedError(JitgraphError):
    """An error that knows the user's line and how to mend it.

    ``str()`` gives the message, then ``at file:line`` and ``hint: ...`` on lines of their own where known.
    """

    def __init__(self, message: str, *, location: Location | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.location = location if location is not None else Location.of_user()
        self.hint = hint

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
    """Shapes that do not fit. Wrong: ``zeros((2, 3)) + zeros((4,))``. Right: ``zeros((2, 3)) + zeros((3,))``."""


class DTypeError(LocatedError, TypeError):
    """Dtypes that do not fit. Wrong: ``jg.asarray([1]) << jg.asarray([1.0])``. Right: cast with ``x.astype(dtype)``."""


class IndexingError(LocatedError, CHECK_KINDS["IndexError"]):  # type: ignore[valid-type,misc]
    """An index that does not fit: an IndexError, of the class that compiled code raises.

    Wrong: ``jg.zeros(3)[3]``. Right: ``jg.zeros(3)[2]`` or ``jg.zeros(3)[-1]``.
    """


class GraphError(LocatedError):
    """A graph that breaks the rules of the IR; raised by the verifier and the parser."""


class CompileError(LocatedError):
    """A graph that is well formed but cannot be turned into native code for this target."""


class UnsupportedOp(CompileError):
    """An op, dtype or attribute that this target or transform does not know."""


class DeviceError(LocatedError):
    """A device that is absent, or tensors on devices that do not fit."""


class AnomalyError(LocatedError, FloatingPointError):
    """A NaN or infinity arose under ``jg.detect_anomaly()`` from operands that were all finite."""
