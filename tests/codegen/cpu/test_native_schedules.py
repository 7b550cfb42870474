"""Schedules in native code: steps, stacks, the arena, sizes that leave 64 bits, interruption."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jitgraph.codegen.cpu.backend import emit_module
from jitgraph.codegen.kernels.schedule import Branch, Launch, MemoryPlan, Pop, Push, Schedule, While
from jitgraph.errors import JitgraphError
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph_testing.kernels.kernel_parser import parse_kernel
from jitgraph_testing.kernels.schedule_executor import execute_schedule
from tests.codegen.kernels.test_kernels import POSITIVE, SCALE, STEP_DOWN, THREE, X, control, schedule
from tests.codegen.native_kernels import Array, Native


def run(schedule: Schedule, inputs: list[Array], **sizes: int) -> list[Array]:
    """The outputs of ``schedule`` in native code."""
    outputs = sorted((b for b in schedule.buffers if b.role == "output"), key=lambda buffer: buffer.position)
    arrays = [
        np.full([dims.evaluate(dim, sizes) for dim in buffer.type.shape], 1, buffer.type.dtype) for buffer in outputs
    ]
    Native(schedule)([array.ctypes.data for array in (*inputs, *arrays)], sizes)
    return arrays


def agree(schedule: Schedule, inputs: list[Array], **sizes: int) -> None:
    expected = execute_schedule(schedule, inputs, sizes=dict(sizes))
    for actual, wanted in zip(run(schedule, inputs, **sizes), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


LOOP = While(
    (Launch(POSITIVE, ("c", "p")),),
    "p",
    (Push("s", "c"), Launch(STEP_DOWN, ("c", "d")), Push("s", "d"), Pop("s", "c")),
)
FIRST = Launch(STEP_DOWN, ("given", "c"))


@pytest.mark.parametrize("count", [-3, 1, 4, 3000])
def test_while_and_stacks(count: int) -> None:
    """3000 entries of 8 bytes make the stack grow three times."""
    agree(control((FIRST, LOOP), ("p",)), [np.array(count)])
    if count > 1:
        agree(control((FIRST, LOOP, Pop("s", "c"), Pop("s", "d")), ("c", "d")), [np.array(count)])


def test_popping_an_empty_stack_reads_nothing() -> None:
    with pytest.raises(JitgraphError, match="size overflow"):
        run(control((Pop("s", "c"),), ("c",)), [np.array(1)])


def test_branch_and_constant() -> None:
    steps = (
        Launch(POSITIVE, ("given", "p")),
        Branch("p", (Launch(STEP_DOWN, ("given", "c")),), (Launch(STEP_DOWN, ("seven", "c")),)),
    )
    for value in (4, -4):
        agree(control(steps, ("c",)), [np.array(value)])


def test_temporaries_with_and_without_a_plan() -> None:
    n = Dim.name("n")
    room = (4 * n + 63) // 64 * 64
    agree(schedule(THREE), [X], n=3)
    for size in (0, 1, 100):
        x = np.arange(size, dtype=np.float32)
        agree(schedule(THREE, plan=MemoryPlan({"t": 0, "u": room}, 2 * room, 8 * n)), [x], n=size)


def test_arena_bytes_of_any_size() -> None:
    n = Dim.name("n")
    size = n * n + 7 * (n // 3) + (n - 5) % 4 + (5 - n) // 3
    native = Native(schedule(THREE, plan=MemoryPlan({"t": 0, "u": 64}, size, 0)))
    for value in (0, 1, 2, 3, 10, 2**31, 3 * 10**9):
        expected = dims.evaluate(size, {"n": value})
        assert native.arena_bytes((ctypes.c_int64 * 1)(value)) == expected
    for value in (2**32, 2**62):
        assert native.arena_bytes((ctypes.c_int64 * 1)(value)) == -1


def test_an_offset_that_leaves_64_bits_ends_the_call() -> None:
    n = Dim.name("n")
    native = Native(schedule(THREE, plan=MemoryPlan({"t": 0, "u": 64 * n * n * n}, 64, 0)))
    with pytest.raises(JitgraphError, match="size overflow"):
        native([0, 0], {"n": 2**40})


# --- interruption ---


def interrupted(schedule: Schedule, answer: int, limit: int) -> tuple[int, int]:
    """The code of a call whose host says ``answer`` when polled, and how often it was polled."""
    native = Native(schedule)
    polls = 0

    def poll(_: int) -> int:
        nonlocal polls
        polls += 1
        return answer

    callback = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(poll)
    host = loader.Host.from_buffer_copy(loader.process_runtime.host)
    host.poll = ctypes.cast(callback, ctypes.c_void_p).value
    arguments, flag = np.array(limit), np.zeros((), np.bool_)
    arena = np.zeros(1024, np.uint8)
    call = loader.Call(arena=-(-arena.ctypes.data // 64) * 64, arena_bytes=900)
    buffers = (ctypes.c_void_p * 2)(arguments.ctypes.data, flag.ctypes.data)
    return native.entry(ctypes.byref(host), ctypes.byref(call), buffers, (ctypes.c_int64 * 1)()), polls


def long_loop(**changes: Any) -> Schedule:
    """Counts down from the input."""
    body = (Launch(STEP_DOWN, ("c", "d")), Push("s", "d"), Pop("s", "c"))
    loop = While((Launch(POSITIVE, ("c", "p")),), "p", body)
    return replace(control((FIRST, loop), ("p",)), **changes)


def test_loops_ask_the_host_whether_to_stop() -> None:
    assert interrupted(long_loop(), answer=1, limit=2**62) == (loader.INTERRUPTED, 1)
    assert interrupted(long_loop(), answer=0, limit=1000)[0] == loader.OK


def test_no_poll_behind_a_write_to_donated_memory() -> None:
    plan = MemoryPlan({"c": 0, "d": 64}, 128, 16, donations={"p": "given"})
    code, polls = interrupted(long_loop(plan=plan), answer=1, limit=20_000_000)
    assert (code, polls) == (loader.OK, 0)


def test_a_kernel_may_be_launched_on_one_buffer_twice() -> None:
    add = parse_kernel(
        """
kernel @add(read x: f32[n], read z: f32[n], write y: f32[n]) sizes(n) {
  vector _i0 < n {
    _v0: f32 = load x[_i0]
    _v1: f32 = load z[_i0]
    _v2: f32 = add(_v0, _v1)
    store y[_i0] = _v2
  }
}
"""
    )
    agree(schedule((Launch(SCALE, ("x", "t")), Launch(add, ("x", "x", "u")), Launch(add, ("t", "u", "y")))), [X], n=3)


def test_text_is_the_same_each_time() -> None:
    actual = {emit_module(schedule(THREE), Target.host()).text() for _ in range(2)}
    assert len(actual) == 1
