"""The host's image of a schedule: an entry of the one ABI that puts every launch on the stream of the call.

``host.driver`` is the table of the driver's functions (``runtime/cuda/driver_functions.py``), ``call.stream`` the
stream, ``call.arena`` device memory. Behind inputs and outputs ``buffers`` has the device addresses of the schedule's
constants in order; where a kernel may fail, an address of 40 bytes of pinned host memory to which the error record
(``failures.py``) is copied after the last launch; and the driver's handles of ``function_names`` in order. Device
addresses are multiples of 16. The record lies behind the temporaries in the arena.

The entry only asks for work and never waits for it, so it can be captured into a graph. Where the driver refuses
something its ``CUresult`` is returned negated, and ``error.check_id`` says which launch that was.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.codegen.cuda.launches import KernelLaunch
from jitgraph.codegen.kernels.schedule import MemoryPlan, Schedule, aligned
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule, LlvmValue
from jitgraph.codegen.llvm.entry import EntryWriter, apart, emit_arena_bytes
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver_functions import SLOTS
from jitgraph.runtime.cuda.reports import RECORD_BYTES, RECORD_ROOM
from jitgraph.runtime.loader import offsets

_MOST_BLOCKS: Final = (1 << 31) - 1


def function_names(launches: Sequence[KernelLaunch]) -> tuple[str, ...]:
    """The functions that the launches call, each once, in the order in which the entry is given their handles."""
    return tuple(dict.fromkeys(launch.function for launch in launches))


def constant_names(schedule: Schedule) -> tuple[str, ...]:
    """The buffers whose contents lie on the device before the first call, in the order of their addresses."""
    return tuple(buffer.name for buffer in schedule.buffers if buffer.role == "constant")


def emit_plan(schedule: Schedule, launches: Sequence[KernelLaunch]) -> LlvmModule:
    """The module of the entry, before any pass."""
    module = LlvmModule(machine.TRIPLE)
    plan = schedule.plan or apart(schedule)
    reports = any(launch.reports for launch in launches)
    record_at = aligned(plan.arena_bytes, RECORD_ROOM)
    _PlanWriter(module, schedule, plan, record_at if reports else None).write(launches)
    emit_arena_bytes(module, schedule, record_at + RECORD_ROOM if reports else plan.arena_bytes)
    return module


class _PlanWriter(EntryWriter):
    """The entry that launches; ``record_at`` is the place of the error record in the arena, if there is one."""

    def __init__(self, module: LlvmModule, schedule: Schedule, plan: MemoryPlan, record_at: DimLike | None) -> None:
        super().__init__(module, schedule, plan)
        self.record_at = record_at
        self.record, self.kept = "0", "null"
        self.handles: dict[str, str] = {}

    def write(self, launches: Sequence[KernelLaunch]) -> None:
        """Emit the function."""
        function = self.function
        self.verify_sizes()
        self.driver = self._field(self.host, offsets.HOST_DRIVER)
        self.stream = self._field(self.call, offsets.CALL_STREAM)
        self._place(launches)
        grids = [[self.sizes.value(extent) for extent in launch.grid] for launch in launches]
        if (overflow := self.sizes.overflow()) != "false":
            self.leave_if(overflow, loader.SIZE_OVERFLOW)
        if self.record_at is not None:
            words = RECORD_BYTES // 4
            self._call("cuMemsetD32Async", f"i64 {self.record}, i32 -1, i64 {words}, ptr {self.stream}", 0)
        for number, (launch, grid) in enumerate(zip(launches, grids, strict=True)):
            self._launch(number, launch, grid)
        if self.record_at is not None:
            copied = f"ptr {self.kept}, i64 {self.record}, i64 {RECORD_BYTES}, ptr {self.stream}"
            self._call("cuMemcpyDtoHAsync_v2", copied, len(launches))
        function.ret(LlvmValue(str(loader.OK), "i32"))
        function.finish()

    def _place(self, launches: Sequence[KernelLaunch]) -> None:
        place = self.place_given()
        for name in constant_names(self.schedule):
            self.places[name] = self.given_address(place)
            place += 1
        arena = LlvmValue(self._field(self.call, offsets.CALL_ARENA), "ptr")
        if self.record_at is not None:
            self.kept = self.given_address(place)
            place += 1
            offset = self.sizes.value(self.record_at)
            record = self.function.emit("ptr", f"getelementptr i8, {arena}, i64 {offset}")
            self.record = self.function.emit("i64", f"ptrtoint {record} to i64").name
        for name in function_names(launches):
            self.handles[name] = self.given_address(place)
            place += 1
        for buffer in self.schedule.buffers:
            if buffer.role == "temporary":
                self.place_temporary(buffer, arena)

    def _field(self, structure: LlvmValue, offset: int) -> str:
        address = self.function.emit("ptr", f"getelementptr i8, {structure}, i64 {offset}")
        return self.function.emit("ptr", f"load ptr, {address}, align 8").name

    def _launch(self, number: int, launch: KernelLaunch, grid: Sequence[str]) -> None:
        """One launch; none where the grid has no blocks."""
        function = self.function
        known = [int(extent) for extent in grid if extent.isdecimal()]
        if 0 in known:
            return
        if max(known, default=0) > _MOST_BLOCKS:
            raise CompileError(f"{launch.function} would need {max(known)} blocks, and a GPU takes {_MOST_BLOCKS}")
        after = None
        for extent in grid:
            if extent.isdecimal():
                continue
            too_many = function.emit("i1", f"icmp sgt i64 {extent}, {_MOST_BLOCKS}")
            self.leave_if(too_many.name, loader.SIZE_OVERFLOW)
            some, after = function.label("some"), after or function.label("after")
            function.branch(function.emit("i1", f"icmp sgt i64 {extent}, 0").name, some, after)
            function.start_block(some)
        values = [LlvmValue(self.places[name], "ptr") for name in launch.buffers]
        values += [LlvmValue(self.sizes.values[name], "i64") for name in launch.sizes]
        if launch.reports:
            values += [LlvmValue(self.record, "i64"), LlvmValue(str(number << LAUNCH_SHIFT), "i64")]
        held = function.alloca("i64", max(1, len(values)), 8)
        addresses = function.alloca("ptr", max(1, len(values)), 8)
        for place, value in enumerate(values):
            at = function.emit("ptr", f"getelementptr i64, {held}, i64 {place}")
            function.do(f"store {value}, {at}, align 8")
            listed = function.emit("ptr", f"getelementptr ptr, {addresses}, i64 {place}")
            function.do(f"store {at}, {listed}, align 8")
        extents = [function.emit("i32", f"trunc i64 {extent} to i32").name for extent in grid]
        numbers = ", ".join(f"i32 {extent}" for extent in (*extents, *launch.block, 0))
        handle = self.handles[launch.function]
        self._call("cuLaunchKernel", f"ptr {handle}, {numbers}, ptr {self.stream}, {addresses}, ptr null", number)
        if after is not None:
            function.jump(after)
            function.start_block(after)

    def _call(self, symbol: str, arguments: str, number: int) -> None:
        """A function of the driver; where it does not succeed the entry ends with its result negated."""
        function = self.function
        slot = function.emit("ptr", f"getelementptr ptr, ptr {self.driver}, i64 {SLOTS[symbol]}")
        address = function.emit("ptr", f"load ptr, {slot}, align 8")
        result = function.emit("i32", f"call i32 {address.name}({arguments})")
        refused, done = function.label("refused"), function.label("done")
        bad = function.emit("i1", f"icmp ne {result}, 0")
        function.branch(bad.name, refused, done, likely=False)
        known = function.known
        function.start_block(refused)
        at = function.emit("ptr", f"getelementptr i8, {self.call}, i64 {offsets.CALL_ERROR_CHECK_ID}")
        function.do(f"store i32 {number}, {at}, align 4")
        function.ret(function.emit("i32", f"sub i32 0, {result.name}"))
        function.start_block(done, known)
