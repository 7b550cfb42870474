"""What the entry of every image has, whatever it runs then: sizes that it verifies, and the addresses of buffers.

``i32 jg_entry(host, call, buffers, dims)`` and ``i64 jg_arena_bytes(dims)`` as ``runtime/loader/abi.py`` documents
them. Of ``buffers`` the inputs come first, by position, then the outputs, by position.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.codegen.kernels.schedule import Exchange, Launch, MemoryPlan, Schedule, ScheduleBuffer, aligned
from jitgraph.codegen.kernels.steps import copied, exchanged_together, extents_of
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.codegen.llvm.exact_sizes import ExactSizes
from jitgraph.codegen.llvm.sizes import Sizes
from jitgraph.errors import CompileError
from jitgraph.ir.constraints import SizeConstraint
from jitgraph.ir.dim_bounds import stays_in_64_bits
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

EXPORTS: Final = {"entry": "jg_entry", "arena_bytes": "jg_arena_bytes"}


def without_reuse(schedule: Schedule) -> MemoryPlan:
    """A plan for schedules without one: temporaries one after another."""
    offsets: dict[str, DimLike] = {}
    end: DimLike = 0
    for buffer in schedule.buffers:
        if buffer.role == "temporary":
            offsets[buffer.name] = end
            end = end + aligned(buffer.bytes, loader.ALIGNMENT)
    return MemoryPlan(offsets, end, end)


def emit_arena_bytes(module: LlvmModule, schedule: Schedule, arena_bytes: DimLike) -> None:
    """Emit the function that says how large the arena is; -1 where a size leaves 64 bits."""
    function = LlvmFunction(module, EXPORTS["arena_bytes"], "i64", linkage="", attributes="nounwind")
    sizes = Sizes(function, schedule.sizes, function.argument("ptr"))
    total = sizes.value(arena_bytes)
    function.ret(function.emit("i64", f"select i1 {sizes.overflow()}, i64 -1, i64 {total}"))
    function.finish()


class EntryWriter:
    """The entry function under construction.

    ``places`` are the addresses of buffers, of those that exchange their memory the ones at the beginning.
    """

    def __init__(self, module: LlvmModule, schedule: Schedule, plan: MemoryPlan) -> None:
        self.module, self.schedule, self.plan = module, schedule, plan
        self.function = LlvmFunction(module, EXPORTS["entry"], "i32", linkage="", attributes="nounwind")
        self.host, self.call, self.buffers, self.dims = (self.function.argument("ptr") for _ in range(4))
        self.sizes = Sizes(self.function, schedule.sizes, self.dims)
        self.exact = ExactSizes(self.sizes)
        self.places: dict[str, str] = {}
        self.exchanged: dict[str, LlvmValue] = {}  # where the addresses of buffers that exchange their memory stand

    def verify_sizes(self) -> None:
        """Leave where the sizes break a condition that kernels rely on, so that no reader can forget it.

        Its number is told: of a constraint its place, and behind them of a size that is negative its own.
        """
        function = self.function
        natural = [SizeConstraint(Dim.name(name), ">=", 0) for name in self.schedule.sizes]
        conditions = (*self.schedule.constraints, *natural)
        if not conditions:
            return
        checks = [self.exact.holds(c.left, c.relation, c.right) for c in conditions]
        number = str(len(checks))
        for index, holds in reversed(list(enumerate(checks))):
            number = function.emit("i32", f"select i1 {holds}, i32 {number}, i32 {index}").name
        refuse, stay = function.label("refuse"), function.label("stay")
        function.branch(function.emit("i1", f"icmp ne i32 {number}, {len(checks)}").name, refuse, stay, likely=False)
        function.start_block(refuse)
        at = function.emit("ptr", f"getelementptr i8, {self.call}, i64 {offsets.CALL_ERROR_CHECK_ID}")
        function.do(f"store i32 {number}, {at}, align 4")
        function.ret(LlvmValue(str(loader.SIZES_REFUSED), "i32"))
        function.start_block(stay)
        self._compute_sizes()

    def _compute_sizes(self) -> None:
        """The numbers of sizes that kernels read; extents of arrays and loops that leave 64 bits are overflows."""
        for dim in (*self.schedule.extents, *extents_of(self.schedule)):
            if not stays_in_64_bits(dim):
                self.sizes.value(dim)
        for number in self.schedule.numbers:
            self.sizes.values[number.name] = self.exact.number(number)
        if (overflow := self.sizes.overflow()) != "false":
            self.leave_if(overflow, loader.SIZE_OVERFLOW)

    def bind_arguments(self) -> int:
        """The addresses of inputs and outputs; gives their number."""
        buffers = [
            buffer
            for role in ("input", "output")
            for buffer in sorted((b for b in self.schedule.buffers if b.role == role), key=lambda b: b.position)
        ]
        for index, buffer in enumerate(buffers):
            self.places[buffer.name] = self.argument_address(index)
        return len(buffers)

    def argument_address(self, index: int) -> str:
        """What stands at a place of the addresses that the caller gives."""
        address = self.function.emit("ptr", f"getelementptr ptr, {self.buffers}, i64 {index}")
        return self.function.emit("ptr", f"load ptr, {address}, align 8").name

    def bind_temporary(self, buffer: ScheduleBuffer, arena: LlvmValue) -> None:
        """The address of a temporary in the arena; CompileError where the plan has no place for it."""
        if buffer.name not in self.plan.offsets:
            raise CompileError(f"{self.schedule.name}: the memory plan has no place for {buffer.name}")
        offset = self.sizes.value(self.plan.offsets[buffer.name])
        self.places[buffer.name] = self.function.emit("ptr", f"getelementptr i8, {arena}, i64 {offset}").name

    def bind_exchanged(self) -> None:
        """Variables for the addresses of buffers that exchange their memory, which LLVM's passes lift to registers."""
        names = frozenset[str]().union(*exchanged_together(self.schedule.steps))
        for name in sorted(names):
            self.exchanged[name] = self.function.alloca("ptr", align=8)
            self.function.do(f"store ptr {self.places[name]}, {self.exchanged[name]}, align 8")

    def address(self, name: str) -> str:
        """Where a buffer lies as the code goes on from here."""
        if name not in self.exchanged:
            return self.places[name]
        return self.function.emit("ptr", f"load ptr, {self.exchanged[name]}, align 8").name

    def exchange(self, step: Exchange) -> None:
        """Each buffer takes the memory of the next one, and the last that of the first."""
        addresses = [self.address(name) for name in step.buffers]
        for name, address in zip(step.buffers, (*addresses[1:], addresses[0]), strict=True):
            self.function.do(f"store ptr {address}, {self.exchanged[name]}, align 8")

    def unless_in_place(self, launch: Launch, write: Callable[[], None]) -> None:
        """Write a launch; one that copies an input to the output that may be its memory is passed over where it is."""
        pair = copied(launch)
        if pair is None or self.plan.donations.get(pair[1]) != pair[0]:
            write()
            return
        function = self.function
        copy, after = function.label("copy"), function.label("after")
        source, target = map(self.address, pair)
        function.branch(function.emit("i1", f"icmp ne ptr {source}, {target}").name, copy, after)
        function.start_block(copy)
        write()
        function.jump(after)
        function.start_block(after)

    def leave_if(self, condition: str, code: int) -> None:
        """Return ``code`` where ``condition`` holds."""
        function = self.function
        leave, stay = function.label("leave"), function.label("stay")
        function.branch(condition, leave, stay, likely=False)
        function.start_block(leave)
        function.ret(LlvmValue(str(code), "i32"))
        function.start_block(stay)
