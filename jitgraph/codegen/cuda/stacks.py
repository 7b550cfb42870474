"""Growable stacks in device memory, of which the host knows the height: what loops leave for their gradients.

Memory is taken from and given back to the driver in the order of the stream, so nothing is waited for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue
from jitgraph.runtime import loader

_LEAST_BYTES: Final = 1 << 16
"""Of a stack's first memory: the driver gives no less, and each growth asks it."""


class StackEntry(Protocol):
    """The entry under construction (``plan.py``)."""

    function: LlvmFunction
    stream: str

    def ask(self, symbol: str, arguments: str, number: int) -> None: ...
    def leave_where(self, condition: str, code: LlvmValue) -> None: ...


class DeviceStacks:
    """The stacks of an entry: each has an address, the bytes in use and its capacity in the entry's frame."""

    def __init__(self, entry: StackEntry) -> None:
        self.entry = entry
        self._at: dict[str, tuple[LlvmValue, LlvmValue, LlvmValue]] = {}
        self._code = LlvmValue("", "ptr")
        self._done = ""

    def begin(self, names: Sequence[str]) -> None:
        """From here on the stacks are there, empty; ``leave`` ends the entry, which is given back what they have."""
        if not names:
            return
        function = self.entry.function
        self._code, self._done = function.alloca("i32", align=8), function.label("done")
        for name in names:
            data, used, capacity = (function.alloca("i64", align=8) for _ in range(3))
            self._at[name] = data, used, capacity
            for field in self._at[name]:
                function.do(f"store i64 0, {field}, align 8")

    def push(self, name: str, source: str, size: str) -> None:
        """Append ``size`` bytes from the device address ``source``."""
        entry, function = self.entry, self.entry.function
        data, used, capacity = self._at[name]
        height = self._load(used)
        top = function.emit("i64", f"add i64 {height}, {size}").name
        overflow = function.emit("i1", f"icmp slt i64 {top}, {height}")  # both are natural numbers
        entry.leave_where(overflow.name, LlvmValue(str(loader.OUT_OF_MEMORY), "i32"))
        grow, copy = function.label("grow"), function.label("copy")
        fits = function.emit("i1", f"icmp sle i64 {top}, {self._load(capacity)}")
        function.branch(fits.name, copy, grow, likely=True)
        function.start_block(grow)
        self._grow(name, height, top)
        function.jump(copy)
        function.start_block(copy)
        to = function.emit("i64", f"add i64 {self._load(data)}, {height}")
        entry.ask("cuMemcpyDtoDAsync_v2", f"{to}, {self._address(source)}, i64 {size}, ptr {entry.stream}", 0)
        function.do(f"store i64 {top}, {used}, align 8")

    def pop(self, name: str, to: str, size: str) -> None:
        """Move the last ``size`` bytes to the device address ``to``."""
        entry, function = self.entry, self.entry.function
        data, used, _ = self._at[name]
        left = function.emit("i64", f"sub i64 {self._load(used)}, {size}").name
        empty = function.emit("i1", f"icmp slt i64 {left}, 0")
        entry.leave_where(empty.name, LlvmValue(str(loader.SIZE_OVERFLOW), "i32"))
        source = function.emit("i64", f"add i64 {self._load(data)}, {left}")
        entry.ask("cuMemcpyDtoDAsync_v2", f"{self._address(to)}, {source}, i64 {size}, ptr {entry.stream}", 0)
        function.do(f"store i64 {left}, {used}, align 8")

    def leave(self, code: LlvmValue) -> bool:
        """End the entry with ``code`` by way of ``finish``; False where there are no stacks, which have no such way."""
        if not self._at:
            return False
        self.entry.function.do(f"store {code}, {self._code}, align 4")
        self.entry.function.jump(self._done)
        return True

    def finish(self) -> None:
        """Where entries with stacks end: the memory goes back behind all work on it."""
        if not self._at:
            return
        function = self.entry.function
        function.start_block(self._done)
        stacks, self._at = self._at, {}  # what is refused from here on ends the entry at once
        for data, _, _ in stacks.values():
            self._replace(self._load(data))
        function.ret(function.emit("i32", f"load i32, {self._code}, align 4"))

    def _grow(self, name: str, height: str, least: str) -> None:
        """Memory for twice ``least`` bytes, and what the stack holds to there."""
        entry, function = self.entry, self.entry.function
        data, _, capacity = self._at[name]
        doubled = function.emit("i64", f"call i64 @llvm.sshl.sat.i64(i64 {least}, i64 1)").name
        new_size = function.emit("i64", f"call i64 @llvm.smax.i64(i64 {doubled}, i64 {_LEAST_BYTES})").name
        fresh = function.alloca("i64", align=8)
        entry.ask("cuMemAllocAsync", f"{fresh}, i64 {new_size}, ptr {entry.stream}", 0)
        old, new = self._load(data), self._load(fresh)
        function.do(f"store i64 {new}, {data}, align 8")
        function.do(f"store i64 {new_size}, {capacity}, align 8")
        self._replace(old, new, height)

    def _replace(self, old: str, new: str = "", size: str = "") -> None:
        """Give memory back, if there is any; ``size`` bytes of it go to ``new`` before that."""
        entry, function = self.entry, self.entry.function
        some, after = function.label("some"), function.label("after")
        function.branch(function.emit("i1", f"icmp ne i64 {old}, 0").name, some, after)
        function.start_block(some)
        if new:
            entry.ask("cuMemcpyDtoDAsync_v2", f"i64 {new}, i64 {old}, i64 {size}, ptr {entry.stream}", 0)
        entry.ask("cuMemFreeAsync", f"i64 {old}, ptr {entry.stream}", 0)
        function.jump(after)
        function.start_block(after)

    def _load(self, field: LlvmValue) -> str:
        return self.entry.function.emit("i64", f"load i64, {field}, align 8").name

    def _address(self, pointer: str) -> LlvmValue:
        return self.entry.function.emit("i64", f"ptrtoint ptr {pointer} to i64")
