"""Where the system gives no further thread, as under a limit of memory, calls compile and run on the caller's own."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import _thread, sys, threading
import numpy as np

left = int(sys.argv[1])
start, start_new_thread = threading.Thread.start, _thread.start_new_thread


def refused(*args):
    raise RuntimeError("can't start new thread")


def started(thread):
    global left
    if not left:
        refused()
    left -= 1
    start(thread)


threading.Thread.start = started
import jitgraph as jg

_thread.start_new_thread = refused if not left else start_new_thread

x = jg.ones((1000, 300))
y = jg.ones(10)
for _ in range(400):
    y = y + 1


@jg.trace
def f(x):
    return (jg.exp(x) * 2).sum(), x @ x.T


total, product = f(x)
np.testing.assert_allclose(float(total), 300000 * 2 * np.e, rtol=1e-4)
assert (product.numpy() == 300).all() and (y.numpy() == 401).all()
print("done")
"""


@pytest.mark.parametrize("threads", [0, 1, 2])
def test_programs_run_without_further_threads(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", "off")
    monkeypatch.setenv("JITGRAPH_NUM_THREADS", "4")
    child = subprocess.run([sys.executable, "-c", PROGRAM, str(threads)], capture_output=True, text=True, timeout=300)
    assert child.stdout == "done\n", child.stderr
