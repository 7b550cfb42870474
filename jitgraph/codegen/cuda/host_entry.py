"""The host's entry of a schedule on a GPU, of the one ABI: launches, stacks, questions to the driver, and how it
ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from typing import Final, Protocol

from jitgraph.codegen.cuda.failures import LAUNCH_SHIFT
from jitgraph.codegen.cuda.launches import KernelLaunch, Launches, LibraryCall
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    Launch,
    MemoryPlan,
    Pop,
    PrintStep,
    Push,
    Schedule,
    Step,
    While,
    aligned,
    all_steps,
)
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.control import POLL, emit_branch, emit_print, emit_while
from jitgraph.codegen.llvm.entry import EntryWriter, emit_arena_bytes, without_reuse
from jitgraph.errors import CompileError
from jitgraph.ir.dims import DimLike
from jitgraph.runtime import loader
from jitgraph.runtime.cuda.deferred_errors import RECORD_BYTES, RECORD_ROOM
from jitgraph.runtime.cuda.driver import SLOTS
from jitgraph.runtime.device_payload import LIBRARY_FAILED, LIBRARY_SLOTS, WORKSPACE_BYTES
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# Growable stacks in device memory, of which the host knows the height: what loops leave for their gradients.
#
# Memory is taken from and given back to the driver in the order of the stream, so nothing is waited for.

_LEAST_BYTES: Final = 1 << 16
"""Of a stack's first memory: the driver gives no less, and each growth asks it."""


class StackEntry(Protocol):
    """The entry under construction (``host_entry.py``)."""

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


# ----------------------------------------------------------------------
# The host's entry of a schedule on a GPU: what it is given, how it launches, asks the driver, and ends.

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
        self.driver = self._field(self.host, abi.HOST_DRIVER)
        self.stream = self._field(self.call, abi.CALL_STREAM)
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
        arena = LlvmValue(self._field(self.call, abi.CALL_ARENA), "ptr")
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
        at = function.emit("ptr", f"getelementptr i8, {self.call}, i64 {abi.CALL_ERROR_CHECK_ID}")
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


# ----------------------------------------------------------------------
# The steps of a schedule as code of the host's entry: what it asks of the stream, and where it waits for an answer.
#
# A branch, and a loop whose number of turns the device alone knows, wait once for each predicate: it is copied to
# pinned memory, with the error record, so that a failed check ends a loop at once. A loop of known length waits for
# nothing. A branch or loop that is one launch (``block_loops.py``) is launched for so many turns at a time, so that the
# host gets to poll; where its length is not known the predicate says whether it is to go on.

_APART: Final = 64
"""Bytes between what is copied to pinned memory: the predicate lies first, then a print's operands."""


def host_sizes(schedule: Schedule, launches: Launches) -> tuple[DimLike, ...]:
    """Bytes of pinned memory, of which the entry is given the greatest; none where it never waits.

    It waits where it looks at the device, asks the host to poll or print, or needs memory on the way.
    """
    waits = any(
        isinstance(step, Push | Pop | PrintStep)
        or (isinstance(step, Branch) and id(step) not in launches)
        or (isinstance(step, While) and not _is_launched_once(step, launches))
        for step in _on_the_host(schedule.steps, launches)
    )
    prints = [step for step in all_steps(schedule.steps) if isinstance(step, PrintStep)]
    return (_APART, *(_print_indices(schedule, step)[-1] for step in prints)) if waits else ()


def _on_the_host(steps: Sequence[Step], launches: Launches) -> list[Step]:
    """The steps that the host runs: nothing inside of those that are one launch."""
    host_steps: list[Step] = []
    for step in steps:
        host_steps.append(step)
        if isinstance(step, Branch) and id(step) not in launches:
            host_steps += _on_the_host((*step.then, *step.otherwise), launches)
        if isinstance(step, While) and id(step) not in launches:
            host_steps += _on_the_host((*step.condition, *step.body), launches)
    return host_steps


def _is_launched_once(loop: While, launches: Launches) -> bool:
    return id(loop) in launches and isinstance(loop.count, int) and loop.count <= launches[id(loop)][0].most_turns


def _print_indices(schedule: Schedule, step: PrintStep) -> list[DimLike]:
    """Where the operands of a print lie in pinned memory, and where they end."""
    offsets: list[DimLike] = [_APART]
    for name in step.buffers:
        size = next(buffer.bytes for buffer in schedule.buffers if buffer.name == name)
        offsets.append(offsets[-1] + aligned(size, _APART))
    return offsets


class HostSteps:
    """Writes steps to the end of the entry. Sizes that they need are known before the first one."""

    def __init__(self, entry: HostEntry) -> None:
        self.entry = entry
        self.bytes: dict[str, str] = {}
        value = entry.sizes.value
        of_buffer = {buffer.name: buffer.bytes for buffer in entry.schedule.buffers}
        for step in all_steps(entry.schedule.steps):
            match step:
                case Push(_, name) | Pop(_, name):
                    self.bytes[name] = value(of_buffer[name])
                case PrintStep(_, names):
                    self.bytes |= {name: value(of_buffer[name]) for name in names}
                    for offset in _print_indices(entry.schedule, step):
                        value(offset)
                case While(_, _, _, count) if count is not None:
                    value(count)

    def write(self, steps: Sequence[Step]) -> None:
        entry = self.entry
        for step in steps:
            if isinstance(step, Branch | While) and id(step) in entry.launches:
                self._launched(step, *entry.launches[id(step)])
                continue
            match step:
                case Launch():
                    entry.unless_in_place(step, partial(self._launch, step))
                case Branch():
                    emit_branch(entry.function, step, self._predicate, self.write)
                case While(_, _, _, None):
                    emit_while(entry.function, step, self._predicate, self.write, self._poll)
                case While(_, _, body, count):
                    assert count is not None
                    self._counted(entry.sizes.value(count), 1, partial(self._turn, body))
                case Push(stack, name):
                    entry.stacks.push(stack, entry.address(name), self.bytes[name])
                case Pop(stack, name):
                    entry.stacks.pop(stack, entry.address(name), self.bytes[name])
                case PrintStep():
                    self._print(step)
                case Exchange():
                    entry.exchange(step)

    def _launch(self, step: Launch) -> None:
        for launch in self.entry.launches[id(step)]:
            self.entry.launch(launch)

    def _launched(self, step: Branch | While, launch: KernelLaunch) -> None:
        """A branch or loop that is one launch, again and again where it may take more turns than one launch has."""
        entry, function, most = self.entry, self.entry.function, str(launch.most_turns)
        if isinstance(step, Branch):
            entry.launch(launch)
        elif step.count is not None:
            count = entry.sizes.value(step.count)
            if _is_launched_once(step, entry.launches):
                if count != "0":
                    entry.launch(launch, count)
                return

            def turns(done: LlvmValue) -> None:
                left = function.emit("i64", f"sub i64 {count}, {done.name}")
                some = function.emit("i64", f"call i64 @llvm.smin.i64({left}, i64 {most})")
                entry.launch(launch, some.name)

            self._counted(count, launch.most_turns, turns)
        else:
            again, after = function.label("again"), function.label("after")
            function.jump(again)
            function.start_block(again)
            entry.launch(launch, most)
            self._poll()
            function.branch(self._predicate(step.predicate), again, after)
            function.start_block(after)

    def _counted(self, count: str, by: int, turn: Callable[[LlvmValue], None]) -> None:
        """``turn(done)`` for 0, ``by``, ... below ``count``; the host is asked whether to stop behind each."""
        function = self.entry.function
        before, test, body, after = function.block, *(function.label(hint) for hint in ("test", "body", "after"))
        function.jump(test)
        function.start_block(test)
        done = function.phi("i64")
        done.add("0", before)
        function.branch(function.emit("i1", f"icmp slt {done.value}, {count}").name, body, after)
        function.start_block(body)
        turn(done.value)
        self._poll()
        following = function.emit("i64", f"add {done.value}, {by}")
        done.add(following.name, function.block)
        function.jump(test)
        function.start_block(after)

    def _turn(self, body: Sequence[Step], _: LlvmValue) -> None:
        self.write(body)

    def _poll(self) -> None:
        """Ask the host whether to stop."""
        entry, function = self.entry, self.entry.function
        if function.module.claim(POLL.name):
            function.module.functions.append(POLL)
        self._check(function.call_of("i32", POLL.name, entry.host, entry.call))

    def _check(self, call: str) -> None:
        """Make a call that gives an error code, and end the entry with the code where it is not zero."""
        code = self.entry.function.emit("i32", call)
        self.entry.leave_where(self.entry.function.emit("i1", f"icmp ne {code}, 0").name, code)

    def _predicate(self, name: str) -> str:
        """Whether the bool in a buffer is true, once the stream has come there."""
        entry, function = self.entry, self.entry.function
        self._fetch(entry.pinned, name, "1")
        self._wait()
        byte = function.emit("i8", f"load i8, ptr {entry.pinned}, align 1")
        return function.emit("i1", f"icmp ne {byte}, 0").name

    def _print(self, step: PrintStep) -> None:
        entry = self.entry
        emit_print(entry.function, entry.host, entry.call, step, lambda: self._fetched(step), self._check)

    def _fetched(self, step: PrintStep) -> list[str]:
        """Where the operands of a print lie in pinned memory, once they have arrived there."""
        entry, addresses = self.entry, []
        for name, offset in zip(step.buffers, _print_indices(entry.schedule, step), strict=False):
            at = f"getelementptr i8, ptr {entry.pinned}, i64 {entry.sizes.value(offset)}"
            addresses.append(entry.function.emit("ptr", at).name)
            self._fetch(addresses[-1], name, self.bytes[name])
        self._wait()
        return addresses

    def _fetch(self, to: str, name: str, size: str) -> None:
        """Ask for a copy of the first ``size`` bytes of a buffer in the host's memory."""
        entry = self.entry
        source = entry.function.emit("i64", f"ptrtoint ptr {entry.address(name)} to i64")
        entry.ask("cuMemcpyDtoHAsync_v2", f"ptr {to}, {source}, i64 {size}, ptr {entry.stream}", 0)

    def _wait(self) -> None:
        """Let what was asked for arrive; where a check has failed by then the entry ends, and the record tells it."""
        entry, function = self.entry, self.entry.function
        entry.fetch_record()
        entry.ask("cuStreamSynchronize", f"ptr {entry.stream}", 0)
        if entry.record_at is None:
            return
        at = function.emit("ptr", f"getelementptr i64, ptr {entry.kept}, i64 1")
        order = function.emit("i64", f"load i64, {at}, align 8")
        failed = function.emit("i1", f"icmp ne {order}, -1")
        entry.leave_where(failed.name, LlvmValue(str(loader.OK), "i32"))


# ----------------------------------------------------------------------
# The host's image of a schedule: an entry of the one ABI that puts every launch on the stream of the call.
#
# ``host.driver`` is the table of the driver's functions (``runtime/cuda/driver.py``), ``call.stream`` the
# stream, ``call.arena`` device memory. Behind inputs and outputs ``buffers`` has the device addresses of the schedule's
# constants in order; where a kernel may fail, an address of 40 bytes of pinned host memory to which the error record
# (``failures.py``) is copied after the last launch; where the entry waits, the address of pinned host memory that is
# the call's until the entry returns, as large as the greatest of ``steps.host_sizes``; the driver's handles of
# ``function_names`` in order; and for each of ``library_launches`` an address of ``LIBRARY_SLOTS``. Device addresses
# are multiples of 16. The record lies behind the temporaries in the arena, and a library's memory between them.
#
# Most entries only ask for work and never wait for it, so they can be captured into a graph. One waits for the stream
# where a branch, a loop or a print has to know what is on the device (``host_entry.py``), and asks the host's ``poll``
# in loops. Where the driver refuses something its ``CUresult`` is returned negated, and ``error.check_id`` says which
# launch that was.

_WORKSPACE_ALIGNMENT: Final = 256


def emit_plan(schedule: Schedule, launches: Launches) -> tuple[LlvmModule, tuple[str, ...]]:
    """The module of the entry, before any pass, and the driver's functions that it calls."""
    module = LlvmModule(machine.TRIPLE)
    plan = schedule.plan or without_reuse(schedule)
    reports = any(launch.reports for launch in chain.from_iterable(launches.values()))
    workspace_at = end = plan.arena_bytes
    if library_launches(chain.from_iterable(launches.values())):
        workspace_at = aligned(plan.arena_bytes, _WORKSPACE_ALIGNMENT)
        end = workspace_at + WORKSPACE_BYTES
    record_at = aligned(end, RECORD_ROOM)
    waits = bool(host_sizes(schedule, launches))
    error_record = record_at if reports else None
    entry = HostEntry(module, schedule, plan, launches, error_record, waits=waits, workspace_at=workspace_at)
    entry.begin()
    steps = HostSteps(entry)
    entry.begin_steps()
    steps.write(schedule.steps)
    entry.end()
    emit_arena_bytes(module, schedule, record_at + RECORD_ROOM if reports else end)
    return module, tuple(entry.called)
