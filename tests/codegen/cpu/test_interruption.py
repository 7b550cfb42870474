"""A signal stops every reduction and contraction, however long one chunk is: no memory bounds what views repeat."""

from __future__ import annotations

import pytest

from tests.processes import in_child

CHILD = """
import os, signal, threading, time
import numpy as np
import jitgraph as jg
N = 1 << 38
def program(one):
    def ones(*shape, dtype=np.float32):
        return jg.broadcast_to(one.astype(dtype), shape)
    return {program}
one = jg.ones(())
# set in any case: a process that a shell starts in the background inherits a SIGINT that is ignored
signal.signal(signal.SIGINT, signal.default_int_handler)
compiled = jg.trace(program).lower(one).compile()
sent = []
def send():
    sent.append(time.monotonic())
    os.kill(os.getpid(), signal.SIGINT)
threading.Timer(0.3, send).start()
try:
    compiled(one)
except KeyboardInterrupt:
    assert time.monotonic() - sent[0] < 10, "late"
    print("interrupted")
"""

PROGRAMS = {
    "a float sum of a row": "jg.sum(ones(16, N), axis=1)",
    "an int sum of a row": "jg.sum(ones(16, N, dtype=np.int64) * 2, axis=1)",
    "an extreme of a row": "jg.max(ones(16, N), axis=1)",
    "the place of an extreme": "jg.argmax(ones(16, N), axis=1)",
    "an extreme of a column": "jg.max(ones(N, 16), axis=0)",
    "a product of few rows": "ones(2, N) @ ones(N, 3)",
    "a product of vectors": "ones(N) @ ones(N)",
    "a matrix by a vector": "ones(64, N) @ ones(N)",
    "a packed product": "ones(64, N) @ ones(N, 64)",
    "a product of ints": "ones(20, N, dtype=np.int64) @ ones(N, 30, dtype=np.int64)",
    "a streamed product": "ones(2, N) @ jg.broadcast_to(one * jg.arange(64, dtype=np.float32), (N, 64))",
}


@pytest.mark.parametrize("what", PROGRAMS)
def test_a_signal_stops(what: str) -> None:
    assert in_child(CHILD.format(program=PROGRAMS[what]), timeout=20) == "interrupted\n"
