"""Bodies of control-flow ops change no Python object from outside: recorded once, they run any number of times."""

from __future__ import annotations

import types
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tracing.log import Log
from jitgraph.tracing.source import Place


@contextmanager
def unchanged(name: str, trace: Any, function: Any) -> Iterator[None]:
    """TraceError where the block, which records ``function`` as a body of ``name``, leaves Python state changed.

    That is what the trace sees being changed, and the variables and containers that the function closes over.
    """
    while getattr(trace, "parent", None) is not None:
        trace = trace.parent
    capture = getattr(trace, "capture", None)
    with nullcontext(Log()) if capture is None else capture.watching() as log:
        if isinstance(function, types.FunctionType):
            for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                place = Place("cell", cell, None, variable)
                log.keep(place, variable)
                if type(value := place.get_or(None)) in (list, dict, set):
                    log.keep(value, variable)
        yield
    for entry in log.changed():
        log.undo()
        raise _changed(entry.text, name, entry.location or Location.of_user())


def _changed(text: str, name: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} is changed in a body of {name}, which runs as often as tensors say, while Python runs it once",
        location=location,
        hint="carry it as a value of the loop or a result of the branch, or write into a tensor (t[...] = value)",
    )
