"""Bodies of control-flow ops change no Python object from outside: recorded once, they run any number of times."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tracing.control.write_log import WriteLog
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.source import Slot
from jitgraph.tracing.undo_log import UndoEntry, UndoLog


@contextmanager
def unchanged(name: str, trace: Recorder, function: Any, journal: WriteLog | None = None) -> Iterator[None]:
    """TraceError where the block, which records ``function`` as a body of ``name``, leaves Python state changed.

    That is what the trace sees being changed, but for what ``journal`` covers, and the variables and containers that
    the function closes over. It is put back.
    """
    *_, root = trace.outwards()
    capture = root.capture
    failed = True
    log = UndoLog()
    try:
        with nullcontext(log) if capture is None else capture.effects.watching(log):
            if isinstance(function, types.FunctionType):
                _save_variables(function, log)
            yield
        failed = False
    finally:
        left = [entry for entry in log.changed() if not _is_covered(entry, journal)]
        for entry in reversed(left):
            entry.put_back()
        if left and not failed:
            raise _changed(left[0].text, name, left[0].location or Location.of_user())


def _save_variables(function: types.FunctionType, log: UndoLog) -> None:
    """The variables that a function closes over, and the containers in them, may be changed from now on."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        slot = Slot("cell", cell, None, name)
        log.save(slot, name)
        if type(value := slot.get_or(None)) in (list, dict, set):
            log.save(value, name)


def watched(name: str, trace: Recorder, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls ``unchanged`` looks at."""

    def call(*args: Any) -> Any:
        with unchanged(name, trace, function):
            return function(*args)

    return call


def _is_covered(entry: UndoEntry, journal: WriteLog | None) -> bool:
    """Whether the journal takes care of what was changed."""
    target = entry.target
    if journal is None:
        return False
    if isinstance(target, Slot):
        return journal.covers(target.owner, target.key, attribute=target.kind in ("attribute", "own"))
    return journal.covers(target, None, attribute=False)


def _changed(text: str, name: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} is changed in a body of {name}, which runs as often as tensors say, while Python runs it once",
        location=location,
        hint="carry it as a value of the loop or a result of the branch, or write into a tensor (t[...] = value)",
    )
