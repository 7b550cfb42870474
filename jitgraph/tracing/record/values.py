"""TracedValue: what ops are applied to inside a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from jitgraph.errors import TraceError
from jitgraph.ir.graph import Value
from jitgraph.ir.types import Type
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder


class TracedValue:
    """A value of the graph being recorded, with whether gradients flow to it, its trace, and where it was made."""

    __slots__ = ("ir", "location", "requires_grad", "trace")

    def __init__(self, ir: Value, requires_grad: bool, trace: Recorder, location: Location | None) -> None:
        self.ir = ir
        self.requires_grad = requires_grad
        self.trace = trace
        self.location = location

    @property
    def type(self) -> Type:
        return self.ir.type

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.ir.shape

    @property
    def dtype(self) -> Any:
        return self.ir.dtype

    @property
    def device(self) -> str:
        """Where the graph will run, as far as it is known."""
        return self.trace.device

    @property
    def record(self) -> None:
        """No record of the eager tape made this value."""
        return

    def outside(self, handle: object) -> NoReturn:
        """Refuse to read the value where its trace is not being recorded."""
        raise self.leaked()

    def leaked(self) -> TraceError:
        """The error for a value that is used after its trace, or in another one."""
        return TraceError(
            f"a tensor of the trace of {self.trace.name!r} is used outside of it; it has no value there",
            location=self.location,
            hint="return it from the function, or write it into a tensor that exists outside (t[...] = value)",
        )
