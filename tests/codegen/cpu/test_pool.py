"""The native thread pool, failure records, polls and growable stacks."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest

from jitgraph.runtime import loader
from jitgraph.runtime.loader import abi
from jitgraph.runtime.loader.abi import function_address
from tests.processes import in_child
from tests.runtime.handwritten import ENTRY, buffer, entry, image, spec

# out[c] += 1 + the sum of c mixed by a few rounds, for each chunk c; fails where fail[c] is not 0, nested on demand
CHUNKS = f"""
define internal i32 @inner(ptr %cell, i64 %c, ptr %scratch) nounwind {{
  %old = atomicrmw add ptr %cell, i64 %c monotonic  ; inside a loop of one chunk this loop takes the pool
  ret i32 0
}}
define internal i32 @chunk(ptr %ctx, i64 %c, ptr %scratch) nounwind {{
  %out = load ptr, ptr %ctx
  %fail.at = getelementptr ptr, ptr %ctx, i64 1
  %fail = load ptr, ptr %fail.at
  %host.at = getelementptr ptr, ptr %ctx, i64 2
  %host = load ptr, ptr %host.at
  %call.at = getelementptr ptr, ptr %ctx, i64 3
  %call = load ptr, ptr %call.at
  %cell = getelementptr i64, ptr %out, i64 %c
  %old = load i64, ptr %cell
  %new = add i64 %old, 1
  store i64 %new, ptr %cell
  %nested = call i32 @jg_parallel_for(ptr %host, ptr %call, ptr @inner, ptr %cell, i64 5)
  %flag.at = getelementptr i64, ptr %fail, i64 %c
  %flag = load i64, ptr %flag.at
  %bad = icmp ne i64 %flag, 0
  br i1 %bad, label %failed, label %good
failed:
  %code = call i32 @jg_fail(ptr %call, i32 0, i64 %flag, i64 %c, i64 %c)
  ret i32 %code
good:
  ret i32 0
}}
{ENTRY} {{
  %ctx = alloca [4 x ptr], align 8
{buffer("%fail", 0)}{buffer("%repeat", 1)}{buffer("%out", 2)}
  %n = load i64, ptr %dims
  %bytes = mul i64 %n, 8
  %zeroed = call ptr @memset(ptr %out, i32 0, i64 %bytes)
  store ptr %out, ptr %ctx
  %c1 = getelementptr ptr, ptr %ctx, i64 1
  store ptr %fail, ptr %c1
  %c2 = getelementptr ptr, ptr %ctx, i64 2
  store ptr %host, ptr %c2
  %c3 = getelementptr ptr, ptr %ctx, i64 3
  store ptr %call, ptr %c3
  %times = load i64, ptr %repeat
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %next ]
  %more = icmp slt i64 %i, %times
  br i1 %more, label %body, label %done
body:
  %code = call i32 @jg_parallel_for(ptr %host, ptr %call, ptr @chunk, ptr %ctx, i64 %n)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %next
next:
  %j = add i64 %i, 1
  br label %loop
failed:
  ret i32 %code
done:
  ret i32 0
}}
declare ptr @memset(ptr, i32, i64)
"""


@cache
def chunks_image() -> bytes:
    return image(CHUNKS, runtime=True)


def chunks(runtime: loader.Runtime) -> loader.Entry:
    return entry(
        chunks_image(),
        [spec("fail", "int64", "n"), spec("repeat", "int64", default=1)],
        [spec("out", "int64", "n")],
        runtime=runtime,
        dims=("n",),
        checks=(loader.Check("{index} in chunk {bound}", "IndexError"),),
    )


@pytest.fixture(params=[1, 2, 5], ids="threads={}".format)
def runtime(request: pytest.FixtureRequest) -> Iterator[loader.Runtime]:
    result = loader.Runtime(request.param)
    yield result
    result.close()


def test_each_chunk_runs_once(runtime: loader.Runtime) -> None:
    run = chunks(runtime)
    for n in (0, 1, 2, 3, 17, 1000):
        for repeat in (1, 200):
            out = run(np.zeros(n, np.int64), repeat)
            assert np.array_equal(out, np.full(n, repeat * (1 + 10))), n  # the nested loop adds 0 + 1 + 2 + 3 + 4


def test_the_lowest_failing_chunk_is_reported(runtime: loader.Runtime) -> None:
    run = chunks(runtime)
    fail = np.zeros(50, np.int64)
    fail[[7, 8, 9, 30, 49]] = [70, 80, 90, 300, 490]
    for _ in range(300):
        with pytest.raises(IndexError, match=r"^70 in chunk 7$") as caught:
            run(fail)
        assert isinstance(caught.value, loader.JitgraphError)
    assert run(np.zeros(3, np.int64)).tolist() == [11, 11, 11]


def test_two_threads_at_once(runtime: loader.Runtime) -> None:
    run = chunks(runtime)
    wrong: list[object] = []

    def work(n: int) -> None:
        for _ in range(100):
            out = run(np.zeros(n, np.int64), 3)
            if not (out == 33).all():
                wrong.append(out)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 40, 64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_calls_after_the_pool_has_stopped() -> None:
    runtime = loader.Runtime(3)
    run = chunks(runtime)
    run(np.zeros(9, np.int64))
    before = {thread.name for thread in threading.enumerate()}
    runtime.close()
    runtime.close()
    assert len(before) > len({thread.name for thread in threading.enumerate()})
    assert run(np.zeros(9, np.int64)).tolist() == [11] * 9


def test_a_runtime_that_is_dropped_sends_its_threads_home() -> None:
    runtime = loader.Runtime(3)
    chunks(runtime)(np.zeros(9, np.int64))
    assert runtime._pool is not None
    threads = runtime._pool._threads
    assert all(thread.is_alive() for thread in threads)
    del runtime
    gc.collect()
    for thread in threads:
        thread.join(timeout=10)
    assert not any(thread.is_alive() for thread in threads)


def test_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JITGRAPH_NUM_THREADS", "3")
    assert loader.thread_count() == 3
    for text in ("0", "-1", "two", "1.5", "99999"):
        monkeypatch.setenv("JITGRAPH_NUM_THREADS", text)
        with pytest.raises(loader.ArgumentError, match="JITGRAPH_NUM_THREADS"):
            loader.thread_count()
    monkeypatch.delenv("JITGRAPH_NUM_THREADS")
    assert loader.thread_count() >= 1


def test_the_hosts_own_scheduler_comes_first() -> None:
    kind = ctypes.CFUNCTYPE(
        ctypes.c_int32, *[ctypes.c_void_p] * 4, ctypes.c_int64
    )  # fmt: skip
    seen: list[int] = []

    def scheduler(host: int, call: int, function: int, context: int, count: int) -> int:
        seen.append(count)
        pointer = ctypes.c_void_p
        chunk = ctypes.CFUNCTYPE(ctypes.c_int32, pointer, ctypes.c_int64, pointer)(function)
        return max((chunk(context, i, None) for i in reversed(range(count))), default=0)

    runtime = loader.Runtime(1)
    own = kind(scheduler)
    runtime.host.parallel_for = function_address(own)
    assert chunks(runtime)(np.zeros(4, np.int64)).tolist() == [11] * 4
    assert seen == [4, 5, 5, 5, 5]


# Asks for n blocks of the given size, overwrites each and notes its address.
STACK = f"""
{ENTRY} {{
{buffer("%size", 0)}{buffer("%out", 2)}
  %n = load i64, ptr %dims
  %bytes = load i64, ptr %size
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %store ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %block = call ptr @jg_block(ptr %host, ptr %call, i64 %bytes)
  %none = icmp eq ptr %block, null
  br i1 %none, label %refused, label %store
store:
  %filled = call ptr @memset(ptr %block, i32 255, i64 %bytes)
  %address = ptrtoint ptr %block to i64
  %cell = getelementptr i64, ptr %out, i64 %i
  store i64 %address, ptr %cell
  %j = add i64 %i, 1
  br label %loop
refused:
  ret i32 {loader.OUT_OF_MEMORY}
done:
  ret i32 0
}}
declare ptr @memset(ptr, i32, i64)
"""


def test_blocks() -> None:
    stack = entry(
        image(STACK, runtime=True),
        [spec("size", "int64"), spec("x", "bool", "n")],
        [spec("out", "int64", "n")],
        dims=("n",),
        runtime=loader.Runtime(1),
    )
    for size in (0, 1, 64, 1000):
        out = stack(size, np.zeros(50, bool))
        assert (out % 64 == 0).all()
        gaps = np.diff(np.sort(out))
        assert (gaps >= size + 64).all()
        (record,) = stack._free
        assert not record.record.blocks
    for size in (-1, 2**63 - 1, 2**62):
        with pytest.raises(MemoryError):
            stack(size, np.zeros(2, bool))


SPIN = f"""
define internal i32 @chunk(ptr %ctx, i64 %c, ptr %scratch) nounwind {{
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %j = add i64 %i, 1
  call void asm sideeffect "", "~{{memory}}"()
  %more = icmp ult i64 %j, 2000000
  br i1 %more, label %loop, label %done
done:
  ret i32 0
}}
{ENTRY} {{
{buffer("%parallel", 0)}
  %flag = load i8, ptr %parallel
  %is = icmp ne i8 %flag, 0
  br i1 %is, label %chunks, label %loop
chunks:
  %code = call i32 @jg_parallel_for(ptr %host, ptr %call, ptr @chunk, ptr null, i64 1000000)
  ret i32 %code
loop:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %stop = icmp ne i32 %asked, 0
  br i1 %stop, label %done, label %loop
done:
  ret i32 %asked
}}
"""

INTERRUPT = """
import os, signal, sys, threading, time
from tests.codegen.cpu.test_pool import SPIN, entry, image, spec
from jitgraph.runtime import loader
run = entry(image(SPIN, runtime=True), [spec("parallel", "bool")], [], runtime=loader.Runtime({threads}))
calls = []
def later():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
# set in any case: a process that a shell starts in the background inherits a SIGINT that is ignored
def third(*_):
    calls.append(1)
    if len(calls) == 3:
        raise KeyboardInterrupt
    later()  # not all at once: two that wait on a busy machine are one
signal.signal(signal.SIGINT, third if {handler} else signal.default_int_handler)
later()
start = time.monotonic()
try:
    run({parallel})
except KeyboardInterrupt:
    assert time.monotonic() - start < 20, "late"
    assert len(calls) == 3 * {handler}, "a handler that returns lets the call go on"
    print("interrupted")
time.sleep(0.01)
"""


@pytest.mark.parametrize("threads, parallel, handler", [(1, 0, 0), (1, 1, 0), (2, 1, 1)])
def test_interrupt(threads: int, parallel: int, handler: int) -> None:
    text = in_child(INTERRUPT.format(threads=threads, parallel=bool(parallel), handler=handler), "-W", "error")
    assert text == "interrupted\n"


FORK = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks with threads; this is the test of it
import numpy as np
from tests.codegen.cpu.test_pool import chunks
from jitgraph.runtime import loader
runtime = loader.Runtime(3)
run = chunks(runtime)
assert (run(np.zeros(64, np.int64), 50) == 550).all()
child = os.fork()
if child == 0:
    sound = runtime.host.pool is None and (run(np.zeros(64, np.int64), 50) == 550).all()
    os._exit(0 if sound and runtime.host.pool else 1)
assert os.waitpid(child, 0)[1] == 0
assert (run(np.zeros(64, np.int64), 50) == 550).all()
print("both")
"""


def test_fork() -> None:
    assert in_child(FORK, "-W", "error") == "both\n"


def test_exit_during_calls_of_a_daemon_thread() -> None:
    code = (
        "import sys, threading, time\nimport numpy as np\nfrom tests.codegen.cpu.test_pool import chunks\n"
        "from jitgraph.runtime import loader\nrun = chunks(loader.process_runtime)\n"
        "forever = lambda: [run(np.zeros(64, np.int64), 100) for _ in iter(int, 1)]\n"
        "threading.Thread(target=forever, daemon=True).start()\ntime.sleep(0.2)\nprint('end')"
    )
    assert in_child(code, "-W", "error", timeout=30) == "end\n"


def test_callback() -> None:
    ir = f"""
{ENTRY} {{
  %at = getelementptr i8, ptr %host, i64 {abi.HOST_CALLBACK}
  %callback = load ptr, ptr %at
  %code = call i32 %callback(ptr %host, ptr %call, i64 12, ptr %buffers, ptr %dims)
  ret i32 %code
}}
"""
    seen: list[tuple[int, float]] = []

    def callback(number: int, buffers: int, dims: int) -> None:
        (value,) = (ctypes.c_double * 1).from_address(ctypes.c_void_p.from_address(buffers).value or 0)
        seen.append((number, value))
        if value < 0:
            raise ArithmeticError("negative")

    run = entry(image(ir), [spec("x", "float64")], [], callback=callback)
    run(2.5)
    with pytest.raises(ArithmeticError, match="negative"):
        run(-1.0)
    run(3.5)
    assert seen == [(12, 2.5), (12, -1.0), (12, 3.5)]
