"""The objects of an image: made in threads, in an order of their own, once a process where they are a library's."""

from __future__ import annotations

import _thread
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jitgraph import compilation
from jitgraph.codegen import prebuilt
from jitgraph.codegen.cpu import backend, objects
from jitgraph.codegen.cpu.objects import Task, in_threads, objects_of
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.machine import undisturbed
from jitgraph.compiler import compile
from jitgraph.dtypes import float64
from jitgraph.ir.parser import parse
from jitgraph.ir.target import Target
from jitgraph.runtime.executable import Executable

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

    result = in_threads([lambda number=number: task(number) for number in range(7)])  # type: ignore[misc]
    assert result == [bytes([number]) for number in range(7)]
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


@pytest.mark.parametrize("processors", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_tasks_that_come_later_follow_the_others(count: int, processors: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others begin with what is known, and end; those that come later are shared again."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    begun = threading.Event()

    def task(number: int) -> bytes:
        begun.set()
        return bytes([number])

    def more() -> list[Callable[[], bytes]]:
        if count and processors > 1:
            assert begun.wait(60)  # what is known has begun
        time.sleep(0.01)
        return [lambda number=number: task(number) for number in range(count, 7)]  # type: ignore[misc]

    result = in_threads([lambda number=number: task(number) for number in range(count)], more)  # type: ignore[misc]
    assert result == [bytes([number]) for number in range(7)]


def test_a_failure_to_find_more_tasks_leaves_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})

    def more() -> list[Callable[[], bytes]]:
        raise ValueError("no library")

    with pytest.raises(ValueError, match="no library"):
        in_threads([lambda: b""] * 3, more)
    assert not [thread for thread in threading.enumerate() if thread.name == "jitgraph-llvm"]


def test_what_libraries_define_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = parse(PRODUCT)
    first = compile(graph)
    assert isinstance(first, Executable)
    module = backend.emit_module(first.stages.schedule, Target.host())
    assert {"pack", "tile"} <= {library for library, *_ in module.required}
    results: list[machine.Unit] = []
    assemble = machine.assemble_unit
    monkeypatch.setattr(machine, "assemble_unit", lambda unit, target: results.append(unit) or assemble(unit, target))
    monkeypatch.setattr(objects, "FILE", "none")
    result = objects_of(module, Target.host())
    assert [unit.hot for unit in results].count(True) == 1  # the kernel itself
    assert result == objects_of(module, Target.host())
    x, y = np.ones((40, 64), np.float32), np.ones((64, 50), np.float32)
    assert (first.run([x, y])[0] == 64).all()


def test_what_a_wheel_brings_along_is_not_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For products of all dtypes and math functions of single numbers, on each target."""
    path = tmp_path / "prebuilt.bin"
    prebuilt.write(str(path))
    monkeypatch.setattr(objects, "FILE", str(path))
    monkeypatch.setattr(objects, "library", objects.Library)  # as in another process
    results: list[str] = []
    assemble = machine.assemble_unit
    monkeypatch.setattr(
        machine, "assemble_unit", lambda unit, target: results.append(unit.llvm_ir) or assemble(unit, target)
    )
    for name in prebuilt.TARGETS:
        required = set()
        for dtype in "f32", "f64", "f16", "i32", "u8":
            for sizes in (40, 64, 50), (2, 300, 7):
                m, k, n = sizes
                text = (
                    PRODUCT.replace("40, 64", f"{m}, {k}").replace("64, 50", f"{k}, {n}").replace("40, 50", f"{m}, {n}")
                )
                schedule = compiled_stages(text.replace("f32", dtype), Target.named(name)).schedule
                module = backend.emit_module(schedule, Target.named(name))
                required |= {library for library, *_ in module.required}
                objects_of(module, Target.named(name))
        assert {"pack", "square", "tile"} <= required
    store = objects.ObjectStore()
    pow_ = objects.Library(Target.named("x86-64-v4"), "math", "m_pow_f64_f64_1", "pow", (float64, float64))
    linked = objects.library_object(Target.named("x86-64-v2"), "memory")
    assert pow_.object(store)[:4] == linked[:4] == b"\x7fELF"
    assert results
    assert not [text for text in results if "@k_" not in text and "@jg_entry" not in text], "the object of a library"


def compiled_stages(text: str, target: Target) -> Any:
    return compilation.staged(parse(text), target, ())


@pytest.mark.parametrize(
    "damage", [b"", b"JGOBJCT1", b"JGOBJCT1\xff\xff\0\0\0\0\0\0", b"another file, of whatever kind"]
)
def test_a_damaged_file_of_objects_is_as_good_as_none(damage: bytes, tmp_path: Path, monkeypatch: Any) -> None:
    path = tmp_path / "prebuilt.bin"
    path.write_bytes(damage)
    monkeypatch.setattr(objects, "FILE", str(path))
    result = objects.Library(Target.named("x86-64-v3"), "ranges").object(objects.ObjectStore())
    assert result[:4] == b"\x7fELF"
    cut = objects.packed({"00" * 32: result})[:-1]
    path = tmp_path / "cut.bin"
    path.write_bytes(cut)
    assert objects._prebuilt(str(path)) == {}
    path = tmp_path / "whole.bin"
    path.write_bytes(cut + result[-1:])
    assert objects._prebuilt(str(path)) == {bytes(32): result}


def test_llvm_runs_where_no_signal_is_handled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler raises between two of LLVM's functions would leave a module or a target machine behind."""
    threads = set()
    full = machine._target_machine

    def seen(*args: Any, **kwargs: Any) -> Any:
        threads.add(threading.current_thread())
        return full(*args, **kwargs)

    monkeypatch.setattr(machine, "_target_machine", seen)
    target, text = Target.named("x86-64-v3"), "define i32 @entry() { ret i32 1 }"
    machine.assemble(text, target)
    assert "entry" in machine.optimise(text, target)
    assert "entry" in machine.asm(text, target)
    with pytest.raises(RuntimeError, match="cannot read"):
        machine.assemble("nonsense", target)
    with pytest.raises(RuntimeError, match="PHINode"):
        machine.assemble(
            "define i32 @f() {\n ret i32 1\nb:\n %x = phi i32 [1, %b], [2, %c]\n br label %b\nc:\n ret i32 0\n}", target
        )
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


@pytest.mark.parametrize("at", ["task", "more"])
def test_an_interrupt_waits_for_no_other_thread(at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM may be at one function for long; what has not begun then never begins."""
    monkeypatch.setattr("jitgraph.runtime.loader.processors", lambda: 2)
    main, busy, release, begun = threading.main_thread(), threading.Event(), threading.Event(), []

    def task(number: int) -> bytes:
        begun.append(number)
        if threading.current_thread() is main:
            assert busy.wait(10)
            raise KeyboardInterrupt
        busy.set()
        assert release.wait(60), "nobody waits for this thread, which waits for the test"
        return b""

    def more() -> list[Task]:
        if at == "more":
            assert busy.wait(10)
            raise KeyboardInterrupt
        return []

    try:
        with pytest.raises(KeyboardInterrupt):
            in_threads([lambda number=number: task(number) for number in range(9)], more)  # type: ignore[misc]
        others = [thread for thread in threading.enumerate() if thread.name == "jitgraph-llvm"]
        assert others, "the call waited"
        assert all(thread.daemon for thread in others), "the process would wait for them at its end"
    finally:
        release.set()
    for thread in others:
        thread.join(10)
    assert len(begun) == (1 if at == "more" else 2), "work began after the interrupt"


def test_a_child_does_the_work_that_its_parent_had_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that forks while the main thread waits: the other thread is not in the child."""
    monkeypatch.setattr("jitgraph.codegen.llvm.machine._PATIENCE", 0.05)
    parent, children = os.getpid(), []

    @undisturbed
    def work() -> int:
        if os.getpid() == parent:
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0.5)
        return 7

    before = signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
    try:
        result = work()
        if children == [0]:
            os._exit(result)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert result == 7
    assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7


def test_each_part_of_a_key_tells_objects_apart() -> None:
    text, v3, v4 = "define i32 @entry() { ret i32 1 }", Target.named("x86-64-v3"), Target.named("x86-64-v4")
    keys = [
        objects.key_of(unit, target)
        for unit in (machine.Unit(text, True), machine.Unit(text, False), machine.Unit(text + "\n", True))
        for target in (v3, v4)
    ]
    assert len(set(keys)) == 6
    assert objects.key_of(machine.Unit(text, True), Target.named("x86-64-v3")) == keys[0]


def test_llvm_is_started_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_started", threading.Lock())
    requested: list[int] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: requested.append(process) or {0, 1})
    results: list[machine.Unit] = []
    assemble = machine.assemble_unit
    monkeypatch.setattr(machine, "assemble_unit", lambda unit, target: results.append(unit) or assemble(unit, target))
    for _ in range(3):
        machine.start("x86-64-v3")
    for thread in threading.enumerate():
        if thread.name == "jitgraph-llvm-start":
            thread.join()
    assert [unit.hot for unit in results] == [True]
    assert len(requested) == 1, "later compilations need not know how many processors there are to start LLVM"
    monkeypatch.setattr(machine, "_started", threading.Lock())
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    machine.start("x86-64-v3")
    assert len(results) == 1, "on one processor it would only take time from what it is to go beside"
