"""Reductions of more elements than anybody has memory for: each ends soon where the host asks, on any thread."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.compiler import compile
from jitgraph.runtime.executable import Executable
from jitgraph.runtime.loader import Runtime

LONG = 1 << 36

PROGRAMS: dict[str, tuple[type, Callable[[Any], Any]]] = {
    "sum of few rows": (np.float32, lambda x: jg.broadcast_to(x, (3, LONG)).sum(axis=1)),
    "sum of rows": (np.float32, lambda x: (jg.broadcast_to(x, (9, LONG)) * 0.5).sum(axis=1)),
    "sum of columns": (np.float32, lambda x: jg.broadcast_to(x[0] + jg.zeros(9), (LONG, 9)).sum(axis=0)),
    "sum of wide columns": (np.float32, lambda x: jg.broadcast_to(x[0] + jg.zeros(90), (LONG, 90)).sum(axis=0)),
    "sum of one row": (np.float32, lambda x: (jg.broadcast_to(x[0], (LONG,)) * 0.5).sum()),
    "sum over two axes": (np.float32, lambda x: jg.broadcast_to(x[0], (1 << 18, 1 << 18)).sum()),
    "sum of integers": (np.int64, lambda x: (jg.broadcast_to(x, (9, LONG)) * jg.arange(LONG)).sum(axis=1)),
    "maximum of rows": (np.int64, lambda x: (jg.broadcast_to(x, (9, LONG)) * jg.arange(LONG)).max(axis=1)),
    "maximum of columns": (np.float32, lambda x: jg.broadcast_to(x[0] + jg.zeros(9), (LONG, 9)).max(axis=0)),
    "argmax of one row": (np.float32, lambda x: jg.argmax(jg.broadcast_to(x[0], (LONG,)), axis=0)),
    "argmax of rows": (np.float32, lambda x: jg.argmax(jg.broadcast_to(x, (9, LONG)), axis=1)),
    "extreme over two axes": (np.float32, lambda x: jg.broadcast_to(x, (9, LONG)).min()),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("threads", [1, 3])
def test_the_host_is_asked_by_the_calling_thread_alone_and_obeyed_by_all(name: str, threads: int) -> None:
    dtype, program = PROGRAMS[name]
    rows = 3 if "few" in name else 9
    graph = jg.trace(lambda x: program(x)).lower(np.ones((rows, 1), dtype)).graph
    compiled = compile(graph)
    assert isinstance(compiled, Executable)
    runtime = Runtime(threads=threads)
    requested: list[int] = []
    enough = 1 if threads == 1 else 8  # by chance the calling thread might be the first a few times

    def poll(_: int) -> int:
        requested.append(threading.get_ident())
        return len(requested) >= enough

    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(poll)
    runtime.host.poll = ctypes.cast(callback, ctypes.c_void_p).value
    executable = Executable(compiled.image, compiled.signature, runtime=runtime)
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        executable.run([np.ones((rows, 1), dtype)])
    assert time.monotonic() - start < 10, "late"
    assert set(requested) == {threading.get_ident()}
