"""Bodies of control-flow ops change no Python object from outside: recorded once, they run any number of times."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tracing.control.journal import Journal
from jitgraph.tracing.state import keeper

_EMPTY: Final = object()


@contextmanager
def unchanged(name: str, trace: Any, function: Any, journal: Journal | None = None) -> Iterator[None]:
    """TraceError where the block, which records ``function`` as a body of ``name``, leaves Python state changed.

    That is what the trace sees being written, but for what ``journal`` covers, and the variables and containers that
    the function closes over. It is put back.
    """
    while getattr(trace, "parent", None) is not None:
        trace = trace.parent
    capture = getattr(trace, "capture", None)
    cells = _cells(function)
    if capture is None:
        yield
    else:
        failed = True
        try:
            with capture.watching() as written:
                yield
            failed = False
        finally:
            left = [write for write in written if not _is_covered(write, journal) and not _is_put_back(write)]
            for write in reversed(left):
                write.place.remove() if write.is_new else write.place.set(write.before)
            if left and not failed:
                raise _changed(left[0].place.text, name, left[0].location)
    for text, is_changed, put_back in cells:
        if is_changed():
            put_back()
            raise _changed(text, name, Location.of_user())


def watched(name: str, trace: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, whose calls ``unchanged`` looks at."""

    def call(*args: Any) -> Any:
        with unchanged(name, trace, function):
            return function(*args)

    return call


def _is_covered(write: Any, journal: Journal | None) -> bool:
    place = write.place
    return journal is not None and journal.covers(place.owner, place.key, attribute=place.kind == "attribute")


def _is_put_back(write: Any) -> bool:
    return _same(write.place.get_or(_EMPTY), _EMPTY if write.is_new else write.before)


def _changed(text: str, name: str, location: Location | None) -> TraceError:
    return TraceError(
        f"{text} is changed in a body of {name}, which runs as often as tensors say, while Python runs it once",
        location=location,
        hint="carry it as a value of the loop or a result of the branch, or write into a tensor (t[...] = value)",
    )


def _cells(function: Any) -> list[tuple[str, Callable[[], bool], Callable[[], None]]]:
    """For each variable that a function closes over, and each list, dict or set in one: is it changed, and its undo."""
    found: list[tuple[str, Callable[[], bool], Callable[[], None]]] = []
    if not isinstance(function, types.FunctionType):
        return found
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        before = _contents(cell)
        if before is not _EMPTY:
            found.append((name, *_holds(cell, before)))
        if type(before) in (list, dict, set):
            found.append((name, *_container(before)))
    return found


def _holds(cell: Any, value: Any) -> tuple[Callable[[], bool], Callable[[], None]]:
    return lambda: not _same(_contents(cell), value), lambda: setattr(cell, "cell_contents", value)


def _container(value: Any) -> tuple[Callable[[], bool], Callable[[], None]]:
    put_back, copy = keeper(value), value.copy()

    def is_changed() -> bool:
        if isinstance(value, set):
            return bool(value != copy)
        mine, old = (list(c.items()) if isinstance(c, dict) else [(None, x) for x in c] for c in (value, copy))
        return len(mine) != len(old) or any(
            a[0] is not b[0] or not _same(a[1], b[1]) for a, b in zip(mine, old, strict=True)
        )

    return is_changed, lambda: put_back(value)


def _contents(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and type(a) in (bool, int, float, str, bytes) and a == b)
