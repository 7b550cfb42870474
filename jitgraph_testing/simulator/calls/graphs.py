"""Streams that record, and graphs of what they recorded."""

from __future__ import annotations

import threading
from typing import Final

from jitgraph_testing.simulator.calls.codes import (
    CAPTURE_INVALIDATED,
    CAPTURE_UNJOINED,
    CAPTURE_UNMATCHED,
    CAPTURE_UNSUPPORTED,
    CAPTURE_WRONG_THREAD,
    ILLEGAL_STATE,
    INVALID_VALUE,
    DriverFault,
)
from jitgraph_testing.simulator.calls.pointers import put_handle, put_int
from jitgraph_testing.simulator.calls.state import DriverState, FakeGraph, FakeGraphExec
from jitgraph_testing.simulator.calls.works import StreamCapture

_NONE, _ACTIVE, _INVALIDATED = 0, 1, 2  # of CUstreamCaptureStatus
_THREAD_LOCAL: Final = 1


def _begin(state: DriverState, handle: int | None, mode: int) -> None:
    stream = state.stream(handle)
    if stream.handle == 0:
        raise DriverFault(CAPTURE_UNSUPPORTED, "the legacy stream cannot capture")
    if mode not in (0, 1, 2):
        raise DriverFault(INVALID_VALUE, f"no mode {mode}")
    if stream.capture:
        raise DriverFault(ILLEGAL_STATE, "the stream captures already")
    stream.capture = StreamCapture(stream, mode, threading.get_ident(), members=[stream])
    stream.capture.ends[stream.handle] = frozenset()


def _end(state: DriverState, handle: int | None, to: int) -> None:
    stream = state.stream(handle)
    capture = stream.capture
    if capture is None:
        raise DriverFault(ILLEGAL_STATE, "the stream does not capture")
    if capture.origin is not stream:
        capture.invalid = True
        raise DriverFault(CAPTURE_UNMATCHED)
    if capture.mode == _THREAD_LOCAL and capture.thread != threading.get_ident():
        raise DriverFault(CAPTURE_WRONG_THREAD)
    for member in capture.members:
        member.capture = None
    if capture.invalid or capture.unjoined():
        put_handle(to, 0)
        raise DriverFault(CAPTURE_INVALIDATED if capture.invalid else CAPTURE_UNJOINED)
    put_handle(to, state.new(FakeGraph(capture.nodes)))


def _is_capturing(state: DriverState, handle: int | None, to: int) -> None:
    capture = state.stream(handle).capture
    put_int(to, _NONE if capture is None else _INVALIDATED if capture.invalid else _ACTIVE)


def _instantiate(state: DriverState, to: int, handle: int, flags: int) -> None:
    state.device()
    graph = state.get(handle, FakeGraph, INVALID_VALUE)
    put_handle(to, state.new(FakeGraphExec(state.current, list(graph.nodes))))


def _launch(state: DriverState, handle: int, stream_handle: int | None) -> None:
    stream, graph = state.stream(stream_handle), state.get(handle, FakeGraphExec, INVALID_VALUE)

    def replay() -> None:
        for node in state.scheduler.order(graph.nodes):
            node.do()

    state.submit(stream, f"graph of {len(graph.nodes)} nodes", replay)


def _destroy_exec(state: DriverState, handle: int) -> None:
    state.get(handle, FakeGraphExec, INVALID_VALUE)
    state.drop(handle, FakeGraphExec)


def _destroy(state: DriverState, handle: int) -> None:
    state.get(handle, FakeGraph, INVALID_VALUE)
    state.drop(handle, FakeGraph)


CALLS: Final = {
    "cuStreamBeginCapture_v2": _begin,
    "cuStreamEndCapture": _end,
    "cuStreamIsCapturing": _is_capturing,
    "cuGraphInstantiateWithFlags": _instantiate,
    "cuGraphLaunch": _launch,
    "cuGraphExecDestroy": _destroy_exec,
    "cuGraphDestroy": _destroy,
}
"""The driver's functions by symbol."""
