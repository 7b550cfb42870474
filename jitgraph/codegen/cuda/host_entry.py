"""The host's entry of a schedule on a GPU: what it is given, how it launches, asks the driver, and ends."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from typing import Final

from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.codegen.cuda.launches import KernelLaunch, Launches, LibraryCall
from jitgraph.codegen.cuda.stacks import DeviceStacks
from jitgraph.codegen.kernels.schedule import MemoryPlan, Schedule
from jitgraph.codegen.llvm.builder import LlvmModule, LlvmValue
from jitgraph.codegen.llvm.entry import EntryWriter
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.driver_functions import SLOTS
from jitgraph.runtime.cuda.reports import RECORD_BYTES
from jitgraph.runtime.device_payload import LIBRARY_FAILED, LIBRARY_SLOTS, WORKSPACE_BYTES
from jitgraph.runtime.loader import offsets

_MOST_BLOCKS: Final = (1 << 31) - 1


def function_names(launches: Iterable[KernelLaunch]) -> tuple[str, ...]:
    """The functions that the launches call, each once, in the order in which the entry is given their handles."""
    return tuple(dict.fromkeys(launch.function for launch in launches if launch.call is None))


def library_launches(launches: Iterable[KernelLaunch]) -> tuple[KernelLaunch, ...]:
    """Those that a library does, in the order in which the entry is given what it needs for them."""
    return tuple(launch for launch in launches if launch.call is not None)


def constant_names(schedule: Schedule) -> tuple[str, ...]:
    """The buffers whose contents lie on the device before the first call, in the order of their addresses."""
    return tuple(buffer.name for buffer in schedule.buffers if buffer.role == "constant")


class HostEntry(EntryWriter):
    """The entry under construction; ``record_at`` is the place of the error record in the arena, if there is one.

    ``waits`` tells whether it is given pinned memory, which ``pinned`` is then the address of. At ``workspace_at`` of
    the arena is the memory of a library.
    """

    def __init__(
        self,
        module: LlvmModule,
        schedule: Schedule,
        plan: MemoryPlan,
        launches: Launches,
        record_at: DimLike | None,
        *,
        waits: bool,
        workspace_at: DimLike = 0,
    ) -> None:
        super().__init__(module, schedule, plan)
        self.launches = launches
        self.waits = waits
        self.all_launches = tuple(chain.from_iterable(launches.values()))
        self._numbers = {id(launch): number for number, launch in enumerate(self.all_launches)}
        self.record_at, self.workspace_at = record_at, workspace_at
        self.products: dict[int, str] = {}  # what a library needs, by the number of the launch
        self.workspace = "null"
        self.record, self.kept, self.pinned = "0", "null", "null"
        self.handles: dict[str, str] = {}
        self.called: dict[str, None] = {}  # functions of the driver, in the order of first calls
        self.stacks = DeviceStacks(self)

    def begin(self) -> None:
        """Where everything lies, and the sizes of all grids."""
        self.verify_sizes()
        self.driver = self._field(self.host, offsets.HOST_DRIVER)
        self.stream = self._field(self.call, offsets.CALL_STREAM)
        self._place()
        for launch in self.all_launches:
            self._grid(launch)

    def begin_steps(self) -> None:
        """What comes before the first step, when all sizes that steps need are known."""
        function = self.function
        if (overflow := self.sizes.overflow()) != "false":
            self.leave_if(overflow, loader.SIZE_OVERFLOW)
        self._order = function.alloca("i64", align=8)
        function.do(f"store i64 0, {self._order}")
        self.stacks.begin(self.schedule.stacks)
        if self.record_at is not None:
            words = RECORD_BYTES // 4
            self.ask("cuMemsetD32Async", f"i64 {self.record}, i32 -1, i64 {words}, ptr {self.stream}", 0)

    def end(self) -> None:
        """What comes after the last step."""
        self.fetch_record()
        self.leave(LlvmValue(str(loader.OK), "i32"))
        self.stacks.finish()
        self.function.finish()

    def _place(self) -> None:
        index = self.bind_arguments()
        for name in constant_names(self.schedule):
            self.places[name] = self.argument_address(index)
            index += 1
        arena = LlvmValue(self._field(self.call, offsets.CALL_ARENA), "ptr")
        if self.record_at is not None:
            self.kept = self.argument_address(index)
            index += 1
            offset = self.sizes.value(self.record_at)
            record = self.function.emit("ptr", f"getelementptr i8, {arena}, i64 {offset}")
            self.record = self.function.emit("i64", f"ptrtoint {record} to i64").name
        if self.waits:
            self.pinned = self.argument_address(index)
            index += 1
        for name in function_names(self.all_launches):
            self.handles[name] = self.argument_address(index)
            index += 1
        for launch in library_launches(self.all_launches):
            self.products[self._numbers[id(launch)]] = self.argument_address(index)
            index += 1
        if self.products:
            offset = self.sizes.value(self.workspace_at)
            self.workspace = self.function.emit("ptr", f"getelementptr i8, {arena}, i64 {offset}").name
        for buffer in self.schedule.buffers:
            if buffer.role == "temporary":
                self.bind_temporary(buffer, arena)
        self.bind_exchanged()

    def _field(self, structure: LlvmValue, offset: int) -> str:
        address = self.function.emit("ptr", f"getelementptr i8, {structure}, i64 {offset}")
        return self.function.emit("ptr", f"load ptr, {address}, align 8").name

    def _grid(self, launch: KernelLaunch) -> list[str]:
        return [self.sizes.value(extent) for extent in launch.grid]

    def launch(self, launch: KernelLaunch, turns: str = "") -> None:
        """One launch; none where the grid has no blocks. ``turns`` is the last argument of one that takes it."""
        if launch.call is not None:
            self._call_library(launch, launch.call)
            return
        function, grid = self.function, self._grid(launch)
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
            self.leave_where(too_many.name, LlvmValue(str(loader.SIZE_OVERFLOW), "i32"))
            some, after = function.label("some"), after or function.label("after")
            function.branch(function.emit("i1", f"icmp sgt i64 {extent}, 0").name, some, after)
            function.start_block(some)
        values = [LlvmValue(self.address(name), "ptr") for name in launch.buffers]
        values += [LlvmValue(self.sizes.values[name], "i64") for name in launch.sizes]
        if launch.reports:
            values += [LlvmValue(self.record, "i64"), self._next_order()]
        if turns:
            values.append(LlvmValue(turns, "i64"))
        slots = function.alloca("i64", max(1, len(values)), 8)
        addresses = function.alloca("ptr", max(1, len(values)), 8)
        for index, value in enumerate(values):
            at = function.emit("ptr", f"getelementptr i64, {slots}, i64 {index}")
            function.do(f"store {value}, {at}, align 8")
            listed = function.emit("ptr", f"getelementptr ptr, {addresses}, i64 {index}")
            function.do(f"store {at}, {listed}, align 8")
        extents = [function.emit("i32", f"trunc i64 {extent} to i32").name for extent in grid]
        numbers = ", ".join(f"i32 {extent}" for extent in (*extents, *launch.block, 0))
        handle, number = self.handles[launch.function], self._numbers[id(launch)]
        self.ask("cuLaunchKernel", f"ptr {handle}, {numbers}, ptr {self.stream}, {addresses}, ptr null", number)
        if after is not None:
            function.jump(after)
            function.start_block(after)

    def _call_library(self, launch: KernelLaunch, call: LibraryCall) -> None:
        function, number = self.function, self._numbers[id(launch)]
        fields = [
            function.emit("ptr", f"load ptr, {self._slot(self.products[number], slot)}, align 8").name
            for slot in range(len(LIBRARY_SLOTS))
        ]
        entry, handle, product, one, left, right, none, result, algorithm = fields
        a, b, c = (
            function.emit("ptr", f"getelementptr i8, ptr {self.address(launch.buffers[buffer])}, i64 {offset}").name
            for buffer, offset in zip(call.buffers, call.offsets, strict=True)
        )
        matrices = (one, a, left, b, right, none, c, result, c, result)
        pointers = ", ".join(f"ptr {pointer}" for pointer in (handle, product, *matrices, algorithm, self.workspace))
        status = function.emit("i32", f"call i32 {entry}({pointers}, i64 {WORKSPACE_BYTES}, ptr {self.stream})")
        self._require(status, LIBRARY_FAILED, number)

    def _slot(self, record: str, slot: int) -> LlvmValue:
        return self.function.emit("ptr", f"getelementptr ptr, ptr {record}, i64 {slot}")

    def _next_order(self) -> LlvmValue:
        """The order of the next launch that may report; a launch in a loop has another one in each turn."""
        function = self.function
        order = function.emit("i64", f"load i64, {self._order}, align 8")
        following = function.emit("i64", f"add {order}, {1 << LAUNCH_SHIFT}")
        function.do(f"store {following}, {self._order}, align 8")
        return order

    def fetch_record(self) -> None:
        """Ask for a copy of the error record, where there is one."""
        if self.record_at is not None:
            copied = f"ptr {self.kept}, i64 {self.record}, i64 {RECORD_BYTES}, ptr {self.stream}"
            self.ask("cuMemcpyDtoHAsync_v2", copied, len(self.all_launches))

    def ask(self, symbol: str, arguments: str, number: int) -> None:
        """A function of the driver; where it does not succeed the entry ends with its result negated."""
        function = self.function
        self.called[symbol] = None
        slot = function.emit("ptr", f"getelementptr ptr, ptr {self.driver}, i64 {SLOTS[symbol]}")
        address = function.emit("ptr", f"load ptr, {slot}, align 8")
        self._require(function.emit("i32", f"call i32 {address.name}({arguments})"), 0, number)

    def _require(self, result: LlvmValue, base: int, number: int) -> None:
        """End the entry with ``base`` less the result where that is not 0."""
        function = self.function
        refused, done = function.label("refused"), function.label("done")
        bad = function.emit("i1", f"icmp ne {result}, 0")
        function.branch(bad.name, refused, done, likely=False)
        known = function.known
        function.start_block(refused)
        at = function.emit("ptr", f"getelementptr i8, {self.call}, i64 {offsets.CALL_ERROR_CHECK_ID}")
        function.do(f"store i32 {number}, {at}, align 4")
        self.leave(function.emit("i32", f"sub i32 {base}, {result.name}"))
        function.start_block(done, known)

    def leave(self, code: LlvmValue) -> None:
        """End the entry with ``code``, once its stacks are given back."""
        if not self.stacks.leave(code):
            self.function.ret(code)

    def leave_where(self, condition: str, code: LlvmValue) -> None:
        """End the entry where ``condition``, an i1, holds."""
        function = self.function
        leave, stay, known = function.label("leave"), function.label("stay"), function.known
        function.branch(condition, leave, stay, likely=False)
        function.start_block(leave)
        self.leave(code)
        function.start_block(stay, known)
