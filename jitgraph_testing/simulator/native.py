"""The native half of the scheduler: made once a process, from LLVM IR, and reached by addresses.

What is rare stays in Python, which runs on the scheduler's stack alone. A warp runs on natively as long as all of the
lanes that run meet in a shuffle, a vote or a warp barrier.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from jitgraph.codegen.cpu import linker
from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph_testing.simulator import libm, native_text
from jitgraph_testing.simulator.state import (
    MOST_COPIES,
    MOST_LOGGED,
    STACK_BYTES,
    AsyncCopy,
    Fiber,
    Live,
    NotedAccess,
    memory,
)

_RECORDS: Final = {"F": Fiber, "C": AsyncCopy, "E": NotedAccess, "V": Live}
_SIZES: Final = {"F": ctypes.sizeof(Fiber), "C": ctypes.sizeof(AsyncCopy), "E": ctypes.sizeof(NotedAccess), "V": 24}
_FIELD: Final = re.compile(r"<([LFCEVN])\.(\w+)>")


def filled(text: str) -> str:
    """LLVM IR with ``<L.field>`` replaced by the address of a field of the launch, ``<F.field>`` by an offset."""
    here = memory()
    numbers = {
        "stacks": here.stacks_at,
        "fibers": here.fibers_at,
        "copies": here.copies_at,
        "stack": STACK_BYTES,
        "most_copies": MOST_COPIES,
        "most_logged": MOST_LOGGED,
        **{name: number for name, number in vars(native_text).items() if isinstance(number, int)},
    }

    def value(match: re.Match[str]) -> str:
        record, field = match.groups()
        if record == "L":
            return f"inttoptr (i64 {here.of_launch(field)} to ptr)"
        if record == "N":
            return str(numbers[field])
        return str(_SIZES[record] if field == "size_of" else getattr(_RECORDS[record], field).offset)

    return _FIELD.sub(value, text)


class Native:
    """The functions' addresses, and those that Python calls as functions; the lock of the interpreter stays held."""

    def __init__(self) -> None:
        text = filled(native_text.TEXT)
        self.image, self.addresses = mapped(text, native_text.FUNCTIONS, hot=True)
        self.prepare = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(self.addresses["prepare"])
        self.run = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self.addresses["run"])
        self.rows = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)(self.addresses["rows"])
        self.round = ctypes.PYFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)(self.addresses["round"])
        self.damaged = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(self.addresses["damaged"])


@cache
def native() -> Native:
    """The one of this process."""
    return Native()


@cache
def host() -> Target:
    """What the host's code is made for."""
    return Target.host()


def mapped(text: str, functions: tuple[str, ...], *, hot: bool) -> tuple[loader.Image, Mapping[str, int]]:
    """Code in memory, and the addresses of some of its functions, which must not be internal.

    Code that is not ``hot`` is made in half the time, and runs at two thirds of the speed: kernels run seldom.
    """
    stores = "\n".join(
        f"  %at.{i} = getelementptr ptr, ptr %table, i64 {i}\n  store ptr @{name}, ptr %at.{i}"
        for i, name in enumerate(functions)
    )
    text += f"\ndefine hidden i32 @simulator_table(ptr %table) {{\n{stores}\n  ret i32 0\n}}\n"
    code = machine.assemble_unit(machine.Unit(text, hot), host())
    image = loader.Image(linker.link([code, *libm.objects(code, host())], {"entry": "simulator_table"}))
    table = (ctypes.c_int64 * len(functions))()
    fill: Any = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(image.export("entry"))
    fill(table)
    return image, dict(zip(functions, table, strict=True))
