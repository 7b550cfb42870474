"""A writer of LLVM functions over records in memory: loads and stores at offsets, tests, and loops with variables.

Values are names of LLVM values. Words are ``i64``, addresses ``ptr``. Variables live in the frame; LLVM makes registers
of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmValue
from jitgraph.runtime import dispatch_records as layout

NULL: Final = "null"
RUNTIME_ADDRESS: Final = "runtime_address"
"""The constant of the module that holds the runtime's address."""
_ATTRIBUTES: Final = 'nounwind "no-builtins"'


class Routine(LlvmFunction):
    """One function; ``ptr``s in ``arguments`` are its parameters, ``runtime`` the address of the runtime's words."""

    def __init__(
        self, module: LlvmModule, name: str, result: str, *parameters: str, linkage: str = "internal",
        inlined: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(module, name, result, linkage, _ATTRIBUTES, inlined)
        self.parameters = [self.argument(kind).name for kind in parameters]
        self.runtime = NULL
        self._open = True

    def find_runtime(self) -> None:
        """Take the runtime's address from the image, where who maps it has put it."""
        self.runtime = self.value("ptr", f"load volatile ptr, ptr {self.named(RUNTIME_ADDRESS)}")

    # --- instructions -----------------------------------------------------------------------------------------------

    def value(self, type: str, instruction: str) -> str:
        """The result of an instruction."""
        return self.emit(type, instruction).name

    def at(self, base: str, offset: int | str, scale: int = 1) -> str:
        """The address ``base + offset * scale``."""
        if isinstance(offset, str) and scale != 1:
            offset = self.value("i64", f"mul i64 {offset}, {scale}")
        elif isinstance(offset, int):
            offset *= scale
        return base if offset == 0 else self.value("ptr", f"getelementptr i8, ptr {base}, i64 {offset}")

    def load(self, type: str, base: str, offset: int | str = 0, scale: int = 1) -> str:
        """What lies there."""
        return self.value(type, f"load {type}, ptr {self.at(base, offset, scale)}")

    def store(self, type: str, value: str | int, base: str, offset: int | str = 0, scale: int = 1) -> None:
        """Put a value there."""
        self.do(f"store {type} {value}, ptr {self.at(base, offset, scale)}")

    def widened(self, type: str, base: str, offset: int) -> str:
        """An unsigned number of fewer bits as a word."""
        return self.value("i64", f"zext {type} {self.load(type, base, offset)} to i64")

    def compare(self, how: str, type: str, left: str, right: str | int) -> str:
        return self.value("i1", f"icmp {how} {type} {left}, {right}")

    def is_same(self, left: str, right: str = NULL) -> str:
        """Whether two addresses are equal."""
        return self.compare("eq", "ptr", left, right)

    def differs(self, left: str, right: str = NULL) -> str:
        return self.compare("ne", "ptr", left, right)

    def both(self, left: str, right: str) -> str:
        return self.value("i1", f"and i1 {left}, {right}")

    def either(self, left: str, right: str) -> str:
        return self.value("i1", f"or i1 {left}, {right}")

    def add(self, left: str, right: str | int) -> str:
        return self.value("i64", f"add i64 {left}, {right}")

    def select(self, condition: str, type: str, yes: str, no: str) -> str:
        return self.value(type, f"select i1 {condition}, {type} {yes}, {type} {no}")

    def word(self, name: str, type: str = "ptr") -> str:
        """A word of the runtime."""
        return self.load(type, self.runtime, layout.RUNTIME[name])

    def api(self, name: str, result: str, *arguments: str) -> str:
        """Call a function of CPython or libc."""
        call = f"call {result} {self.word(name)}({', '.join(arguments)})"
        self.known.clear()  # what was loaded may have changed
        if result == "void":
            self.do(call)
            return ""
        return self.value(result, call)

    def run(self, name: str, result: str, *arguments: str) -> str:
        """Call a function of the module."""
        call = self.call_of(result, name, *arguments)
        if result == "void":
            self.do(call)
            return ""
        return self.value(result, call)

    # --- variables --------------------------------------------------------------------------------------------------

    def variable(self, type: str, count: int = 1) -> str:
        """The address of memory in the frame."""
        return self.alloca(type, count, align=8).name

    # --- control ----------------------------------------------------------------------------------------------------

    def do(self, instruction: str) -> None:
        super().do(instruction)
        self._open = instruction.split(None, 1)[0] not in ("br", "ret", "switch", "unreachable")

    def start_block(self, label: str, known: dict[str, LlvmValue] | None = None) -> None:
        super().start_block(label, known)
        self._open = True

    def mark(self, label: str) -> None:
        """Begin a block; what stands before it goes on there."""
        if self._open:
            self.jump(label)
        self.start_block(label)

    def need(self, condition: str, otherwise: str) -> None:
        """Go on where the condition is true, else at ``otherwise``."""
        rest = self.label("go")
        known = self.known
        self.branch(condition, rest, otherwise, likely=True)
        self.start_block(rest, known)

    @contextmanager
    def when(self, condition: str, likely: bool | None = None) -> Iterator[None]:
        """A block that runs where the condition is true."""
        inside, end = self.label("then"), self.label("end")
        known = dict(self.known)
        self.branch(condition, inside, end, likely)
        self.start_block(inside, known)
        yield
        self.mark(end)

    @contextmanager
    def each(self, count: str, first: str = "0") -> Iterator[str]:
        """A block that runs for each number from ``first`` below ``count``."""
        number, head, inside, end = self.variable("i64"), self.label("head"), self.label("each"), self.label("done")
        self.store("i64", first, number)
        self.mark(head)
        now = self.load("i64", number)
        self.branch(self.compare("slt", "i64", now, count), inside, end)
        self.start_block(inside)
        yield now
        self.store("i64", self.add(now, 1), number)
        self.jump(head)
        self.mark(end)

    def give(self, type: str, value: str) -> None:
        """Return a value; what is written next is a block of its own."""
        self._returns += 1
        self.do(f"ret {type} {value}" if type != "void" else "ret void")

    def never(self) -> None:
        """A block that nothing leads to, after ``give`` at the end of one that others close."""
        self.start_block(self.label("never"))
        self.do("unreachable")

    # --- references -------------------------------------------------------------------------------------------------

    def hold(self, address: str) -> None:
        """Count a reference more; immortal objects, whose low 32 bits are negative, stay as they are."""
        self.run("hold", "void", f"ptr {address}")

    def drop(self, address: str) -> None:
        """Count a reference less; the last one ends the object, which may run any code."""
        self.run("drop", "void", f"ptr {self.runtime}", f"ptr {address}")
