"""The objects of an image: made in threads, in an order of their own, once a process where they are a library's."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time

import llvmlite.binding as llvm
import numpy as np
import pytest

from jitgraph.codegen.cpu import native
from jitgraph.codegen.cpu.objects import in_threads, objects_of
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.undisturbed import undisturbed
from jitgraph.compiler import compile
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.runtime.executable import Executable
from tests.processes import in_child

PRODUCT = """graph @f(%x: f32[40, 64], %y: f32[64, 50]) -> f32[40, 50] {
  %0: f32[40, 50] = dot(%x, %y) {batch=[[],[]], contract=[[1],[0]]}
  return %0
}"""


@pytest.mark.parametrize("processors", [1, 2, 5])
def test_results_come_in_the_order_of_the_tasks(processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    names = set()

    def task(number: int) -> bytes:
        time.sleep(0.002 * (7 - number))
        names.add(threading.current_thread().name)
        return bytes([number])

    made = in_threads([lambda number=number: task(number) for number in range(7)])  # type: ignore[misc]
    assert made == [bytes([number]) for number in range(7)]
    assert len(names) <= processors
    assert in_threads([]) == []


def test_the_first_failure_is_raised_and_ends_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    begun: list[int] = []

    def task(number: int) -> bytes:
        begun.append(number)
        time.sleep(0.01)
        raise ValueError(str(number))

    with pytest.raises(ValueError, match="0"):
        in_threads([lambda number=number: task(number) for number in range(50)])  # type: ignore[misc]
    assert len(begun) <= 2
    assert not [thread for thread in threading.enumerate() if thread.name == "jitgraph-llvm"]


def test_what_libraries_define_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(PRODUCT)
    first = compile(graph)
    assert isinstance(first, Executable)
    module = native.emit_module(first.stages.schedule, Target.host())
    assert {"pack", "tile"} <= {library for library, *_ in module.required}
    made: list[str] = []
    assemble = machine.assemble
    monkeypatch.setattr(machine, "assemble", lambda text, target: made.append(text) or assemble(text, target))
    objects = objects_of(module, Target.host())
    assert len(made) == 1  # the kernel itself; what runs once is assembled without optimisation
    assert objects == objects_of(module, Target.host())
    x, y = np.ones((40, 64), np.float32), np.ones((64, 50), np.float32)
    assert (first.run([x, y])[0] == 64).all()


@pytest.mark.parametrize("context_first", [True, False])
def test_the_collector_ends_a_module_and_its_context_in_any_order(context_first: bool) -> None:
    """As after an interrupt, whose traceback holds the frames and so both; a crash would end the process."""
    code = f"""
import gc
from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target
for _ in range(20):
    with machine._target_machine("x86-64-v3") as used:
        module = machine._parsed("define i32 @f() {{ ret i32 1 }}", used)
        machine._run_passes(module, used)
    context = module._context
    first, second = (context, module) if {context_first} else (module, context)
    first.cycle, second.cycle = second, first
    del module, context, first, second
    gc.collect()
"""
    in_child(code)


def test_llvm_runs_where_no_signal_is_handled() -> None:
    """What a handler raises between the taking of llvmlite's lock and its block would leave the lock taken."""
    threads = set()

    def taken() -> None:
        threads.add(threading.current_thread())

    def given_back() -> None:
        pass

    target, text = Target.named("x86-64-v3"), "define i32 @entry() { ret i32 1 }"
    llvm.ffi.register_lock_callback(taken, given_back)
    try:
        machine.assemble(text, target)
        assert "entry" in machine.optimise(text, target)
        assert "entry" in machine.asm(text, target)
        with pytest.raises(RuntimeError, match="cannot read"):
            machine.assemble("nonsense", target)
    finally:
        llvm.ffi.unregister_lock_callback(taken, given_back)
    assert threads
    assert threading.main_thread() not in threads


def test_an_interrupt_ends_the_call_and_not_the_work() -> None:
    started, finished = threading.Event(), threading.Event()

    @undisturbed
    def work() -> int:
        started.set()
        _thread.interrupt_main()
        time.sleep(0.1)
        finished.set()
        return 1

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be inherited as ignored
    try:
        with pytest.raises(KeyboardInterrupt):
            work()
    finally:
        signal.signal(signal.SIGINT, before)
    assert started.is_set()
    assert finished.wait(10)


def test_a_child_does_the_work_that_its_parent_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that forks while the main thread waits: the other thread is not in the child."""
    monkeypatch.setattr("jitgraph.codegen.llvm.undisturbed._PATIENCE", 0.05)
    parent, children = os.getpid(), []

    @undisturbed
    def work() -> int:
        if os.getpid() == parent:
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0.5)
        return 7

    before = signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
    try:
        found = work()
        if children == [0]:
            os._exit(found)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert found == 7
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
