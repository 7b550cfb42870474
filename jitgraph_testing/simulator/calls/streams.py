"""Streams and events."""

from __future__ import annotations

from typing import Final

from jitgraph_testing.simulator.calls.codes import (
    CAPTURE_MERGE,
    CAPTURE_UNSUPPORTED,
    CAPTURED_EVENT,
    INVALID_HANDLE,
    INVALID_VALUE,
    NOT_READY,
    DriverFault,
)
from jitgraph_testing.simulator.calls.pointers import put_float, put_handle
from jitgraph_testing.simulator.calls.state import DriverState, FakeEvent
from jitgraph_testing.simulator.calls.works import FakeStream, StreamCapture

_NON_BLOCKING: Final = 1  # of CUstream_flags
_DISABLE_TIMING: Final = 2  # of CUevent_flags


def _create(state: DriverState, to: int, flags: int) -> None:
    state.device()
    if flags & ~_NON_BLOCKING:
        raise DriverFault(INVALID_VALUE, f"the flags {flags} of a stream")
    stream = FakeStream(0, state.current, flags != _NON_BLOCKING)
    stream.handle = state.new(stream)
    state.scheduler.streams[stream.handle] = stream
    put_handle(to, stream.handle)


def _destroy(state: DriverState, handle: int) -> None:
    stream = state.get(handle, FakeStream)
    if stream.capture:
        stream.capture.invalid = True
        raise DriverFault(CAPTURE_UNSUPPORTED, "a stream that captures is destroyed")
    state.scheduler.drain([stream])  # its work is done all the same
    state.drop(handle, FakeStream)
    del state.scheduler.streams[handle]


def _synchronize(state: DriverState, handle: int | None) -> None:
    state.wait([state.stream(handle)])


def _query(state: DriverState, handle: int | None) -> None:
    stream = state.stream(handle)
    if stream.capture:
        stream.capture.invalid = True
        raise DriverFault(CAPTURE_UNSUPPORTED, "a stream that captures is asked")
    state.scheduler.progress()
    if state.error:
        raise DriverFault(state.error)
    if stream.queue:
        state.asked(stream)
        raise DriverFault(NOT_READY, "")


def _wait_event(state: DriverState, handle: int | None, event_handle: int, flags: int) -> None:
    stream, event = state.stream(handle), state.get(event_handle, FakeEvent)
    if event.captured:
        capture, after = event.captured
        assert isinstance(capture, StreamCapture)
        if stream.capture not in (None, capture):
            raise DriverFault(CAPTURE_MERGE)
        capture.join(stream, after)
        return
    if stream.capture:
        stream.capture.invalid = True
        raise DriverFault(CAPTURE_UNSUPPORTED, "a stream that captures waits for an event from outside of the capture")
    if event.work and not event.work.done:
        waits = [event.work, *state.before(stream)]
        state.scheduler.submit(stream, "wait for an event", _nothing, waits)


def _nothing() -> None:
    """What a marker in a stream does."""


def _event_create(state: DriverState, to: int, flags: int) -> None:
    state.device()
    put_handle(to, state.new(FakeEvent(state.current, not flags & _DISABLE_TIMING)))


def _event_destroy(state: DriverState, handle: int) -> None:
    state.drop(handle, FakeEvent)


def _record(state: DriverState, handle: int, stream_handle: int | None) -> None:
    stream, event = state.stream(stream_handle), state.get(handle, FakeEvent)
    if event.context != stream.context:
        raise DriverFault(INVALID_HANDLE, "the event belongs to another context")
    if stream.capture:
        event.captured, event.work = (stream.capture, stream.capture.ends[stream.handle]), None
        return
    event.captured = None
    event.work = state.scheduler.submit(stream, "event", _nothing, state.before(stream))


def _event_query(state: DriverState, handle: int) -> None:
    event = state.get(handle, FakeEvent)
    if event.captured:
        raise DriverFault(CAPTURED_EVENT)
    state.scheduler.progress()
    if state.error:
        raise DriverFault(state.error)
    if event.work and not event.work.done:
        state.asked(event.work.stream)
        raise DriverFault(NOT_READY, "")


def _event_synchronize(state: DriverState, handle: int) -> None:
    event = state.get(handle, FakeEvent)
    if event.captured:
        raise DriverFault(CAPTURED_EVENT)
    if event.work:
        state.scheduler.finish(event.work)
    if state.error:
        raise DriverFault(state.error)


def _elapsed(state: DriverState, to: int, first: int, second: int) -> None:
    begin, end = state.get(first, FakeEvent), state.get(second, FakeEvent)
    if not (begin.timed and end.timed and begin.work and end.work):
        raise DriverFault(INVALID_HANDLE, "an event that was not recorded, or takes no time")
    if not (begin.work.done and end.work.done):
        raise DriverFault(NOT_READY, "an event has not come yet")
    put_float(to, 1e3 * (end.work.time - begin.work.time))


CALLS: Final = {
    "cuStreamCreate": _create,
    "cuStreamDestroy_v2": _destroy,
    "cuStreamSynchronize": _synchronize,
    "cuStreamQuery": _query,
    "cuStreamWaitEvent": _wait_event,
    "cuEventCreate": _event_create,
    "cuEventDestroy_v2": _event_destroy,
    "cuEventRecord": _record,
    "cuEventQuery": _event_query,
    "cuEventSynchronize": _event_synchronize,
    "cuEventElapsedTime": _elapsed,
}
"""The driver's functions by symbol."""
