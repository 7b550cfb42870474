"""LLVM where memory is limited: right results, or a MemoryError that names the limit; never the end of the process."""

from __future__ import annotations

import threading
import time

import pytest

from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target
from jitgraph.runtime import loader, system
from tests.processes import FORKS, in_child

pytest.importorskip("resource", reason="this system does not limit the memory of a process")
needs_native = pytest.mark.skipif(bool(loader.lacking_system()), reason="no native code here")

LIMITS = {"RLIMIT_AS": (24, 130, 290, 330, 900), "RLIMIT_DATA": (24, 40, 60, 400)}
"""Megabytes beyond what the process has taken when its first compilation begins."""

CHILDREN = """
import os, resource, signal, sys
os.environ["JITGRAPH_CACHE_DIR"] = "off"
import numpy as np
import jitgraph as jg
import jitgraph.compilation, jitgraph.codegen.cpu.entry, jitgraph.codegen.cpu.objects, jitgraph.codegen.llvm.machine
from jitgraph.runtime import system

x = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64)
expected = np.exp(x @ x).sum(axis=1) + np.tanh(x[0])
program = lambda x: jg.exp(x @ x).sum(axis=1) + jg.tanh(x[0])
calls = {"traced": lambda: jg.trace(program)(x), "eager": lambda: program(jg.asarray(x))}

def outcome(call, name, megabytes):
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[system._LIMITS[name][0]]) * resource.getpagesize()
    limit = used + (megabytes << 20)
    resource.setrlimit(getattr(resource, name), (limit, limit))
    signal.alarm(60)
    try:
        return "right" if np.allclose(call().numpy(), expected, rtol=1e-5) else "wrong"
    except MemoryError as error:
        return f"MemoryError {error}"
    except jg.CompileError as error:
        return f"CompileError {error}"

for name, limits in LIMITS.items():
    for megabytes in limits:
        for way, call in calls.items():
            if way == "eager" and megabytes not in (limits[1], limits[-1]):
                continue
            read, write = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(write, outcome(call, name, megabytes).encode())
                os._exit(0)
            os.close(write)
            status = os.waitpid(child, 0)[1]
            print(name, megabytes, way, status, os.read(read, 10000).decode().replace("\\n", " "), sep="|")
"""


@needs_native
def test_no_limit_ends_the_process() -> None:
    lines = in_child(f"LIMITS = {LIMITS!r}\n{CHILDREN}", *FORKS).splitlines()
    outcomes = [line.split("|") for line in lines]
    assert len(outcomes) == sum(map(len, LIMITS.values())) + 2 * len(LIMITS)
    for name, megabytes, way, status, text in outcomes:
        assert status == "0", (name, megabytes, way, status)
        assert text == "right" or text.startswith(("MemoryError", "CompileError")), (name, megabytes, way, text)
        if int(megabytes) == LIMITS[name][-1]:
            assert text == "right", (name, megabytes, way, text)
        if int(megabytes) == LIMITS[name][1] and way == "traced":
            assert "LLVM" in text and name in text and "hint" in text, (name, megabytes, text)


MODULE = "define i32 @f() {\n  ret i32 0\n}\n"


def with_room(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """A process that seems to have a limit, which leaves so many bytes."""
    limit = system.MemoryLimit("RLIMIT_AS", 10 * free, free, "ulimit -v")
    monkeypatch.setattr(system, "memory_limits", lambda: [limit])


@needs_native
def test_code_is_made_where_there_is_just_enough_room(monkeypatch: pytest.MonkeyPatch) -> None:
    machine.functions()  # which is there already
    needed = machine.needed_by(MODULE)
    with_room(monkeypatch, needed)
    assert machine.assemble(MODULE, Target.host())[:4] == b"\x7fELF"
    with_room(monkeypatch, needed - 1)
    for hot in True, False:
        with pytest.raises(MemoryError, match=r"LLVM may need \d+ MB, and RLIMIT_AS of .* leaves \d+ MB \(hint: "):
            machine.assemble_unit(machine.Unit(MODULE, hot), Target.host())
    with pytest.raises(MemoryError, match="LLVM may need"):
        machine.optimise(MODULE, Target.host())
    with pytest.raises(MemoryError, match="LLVM may need"):
        machine.asm(MODULE, Target.host())


def test_the_library_is_not_mapped_where_it_does_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    with_room(monkeypatch, 1000)
    machine.require(1000, 0, "a library")
    with pytest.raises(MemoryError, match="a library may need 1 MB, and RLIMIT_AS"):
        machine.require(1001, 0, "a library")


def test_threads_wait_where_there_is_room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with_room(monkeypatch, 100)
    at_work, most = 0, 0
    lock = threading.Lock()

    def work() -> None:
        nonlocal at_work, most
        with machine.claimed(60, "work"):
            with lock:
                at_work += 1
                most = max(most, at_work)
            time.sleep(0.01)
            with lock:
                at_work -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (at_work, most) == (0, 1) and not machine._claims
