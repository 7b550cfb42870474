"""Faults of jitgraph's own while it records: exceptions that neither the user's code nor a refusal raised."""

from __future__ import annotations

from typing import Final

from jitgraph.errors import InternalError, JitgraphError
from jitgraph.ir.fault import write_report
from jitgraph.location import Location, located, location_of_frame, raised_at

_OF_THE_CALL: Final = (JitgraphError, MemoryError, RecursionError, Warning)


def may_be_fault(error: BaseException) -> bool:
    """Whether code of this package raised an exception that is no refusal.

    It raises what Python would, too, where a script does what Python would; then the numbers themselves raise it again.
    """
    if not isinstance(error, Exception) or isinstance(error, _OF_THE_CALL):
        return False
    if (trace := raised_at(error)) is None:
        return False
    raised_in = str(trace.tb_frame.f_globals.get("__name__"))
    return raised_in.partition(".")[0] == "jitgraph"


def is_fault(error: BaseException) -> bool:
    """Whether an assertion of this package does not hold, which no code of the user's can mean."""
    return isinstance(error, AssertionError) and may_be_fault(error)


def internal_error(name: str, error: BaseException) -> InternalError:
    """The error for a fault in the recording of the function ``name``, with a file that tells about it."""
    report = write_report([f"failed to record {name}"], "", error, ".txt", "the traceback")
    return InternalError(
        f"jitgraph failed to record {name}: {type(error).__name__}: {str(error).strip()}",
        location=_user_line(error),
        hint=f"the fault is jitgraph's; {report}; with its numbers in static_argnames, or under "
        "JITGRAPH_DISABLE_JIT=1, the function may run",
    )


def _user_line(error: BaseException) -> Location | None:
    trace = raised_at(error)
    return None if trace is None else located(location_of_frame(trace.tb_frame))
