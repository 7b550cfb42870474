"""What a call makes before it runs: the values of its outputs, some of them its donors' own, and new tensors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jitgraph.codegen.dispatch.routine import NULL, Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.dispatch_records import EFFECT, HANDLE, MADE, RESULT, TABLE, WORD

RECORD_BYTES: Final = {"MADE": len(MADE) * WORD, "HANDLE": len(HANDLE) * WORD, "EFFECT": len(EFFECT) * WORD,
                 "RESULT": len(RESULT) * WORD}  # fmt: skip


class Making:
    """The frame of ``attempt`` and the words of its table, with the part that makes values and handles."""

    table: str

    def __init__(self, module: LlvmModule) -> None:
        code = self.code = Routine(module, "attempt", "ptr", "ptr", "ptr", "ptr", "i64", "ptr", inlined=False)
        code.runtime, self.function, self.arguments, self.flags, self.keywords = code.parameters
        self.registers = code.variable("ptr", layout.MOST_REGISTERS + layout.MOST_INPUTS)
        self.addresses = code.variable("ptr", layout.MOST_INPUTS + layout.MOST_VALUES)
        self.held = code.variable("ptr", layout.MOST_INPUTS)
        self.values = code.variable("ptr", layout.MOST_VALUES)
        self.taken = code.variable("i8", layout.MOST_VALUES)  # whether a value is its donor's own
        self.handles = code.variable("ptr", layout.MOST_HANDLES)
        self.replaced = code.variable("ptr", layout.MOST_EFFECTS)
        self.current = code.variable("ptr")
        self.slow = code.variable("i1")
        self.again = code.variable("i1")
        self.status = code.variable("i32")
        self.result = code.variable("ptr")

    def _word(self, name: str, type: str = "ptr") -> str:
        return self.code.load(type, self.table, TABLE[name])

    def _flag(self, flag: int) -> str:
        masked = self.code.value("i64", f"and i64 {self._word('flags', 'i64')}, {flag}")
        return self.code.compare("ne", "i64", masked, 0)

    def _check(self, otherwise: str) -> None:
        code = self.code
        args = (f"ptr {code.runtime}", f"ptr {self._word('ops')}", f"ptr {self.registers}", f"ptr {self.addresses}")
        code.need(code.run("checked", "i1", *args, f"ptr {self.held}"), otherwise)

    def _make(self) -> None:
        """Make the outputs' values and the new handles; check again where code of the user's may have run meanwhile."""
        code = self.code
        for memory, count in ((self.values, "value_count"), (self.handles, "handle_count")):
            with code.each(self._word(count, "i64")) as number:
                code.store("ptr", NULL, memory, number, WORD)
        code.store("i1", "false", self.again)
        code.store("ptr", NULL, self.result)
        code.mark("make")
        code.store("i1", "false", self.slow)
        with code.each(self._word("value_count", "i64")) as number:
            self._make_value(number)
        with code.each(self._word("handle_count", "i64")) as number:
            missing = code.is_same(code.load("ptr", self.handles, number, WORD))
            with code.when(missing):
                record = code.at(self._word("handles"), number, RECORD_BYTES["HANDLE"])
                handle = code.run("new_handle", "ptr", f"ptr {code.runtime}", f"ptr {record}", f"ptr {self.slow}")
                code.need(code.differs(handle), "undo")
                code.store("ptr", handle, self.handles, number, WORD)
        with code.when(self.code.load("i1", self.slow), likely=False):
            code.need(code.compare("eq", "i1", code.load("i1", self.again), "false"), "undo_declined")
            code.store("i1", "true", self.again)
            self._undo_taken()  # who owned memory may do so no longer
            self._check("undo_declined")
            code.need(code.compare("eq", "i64", self._word("busy", "i64"), 0), "undo_declined")
            code.jump("make")
            code.never()

    @contextmanager
    def _each_taken(self) -> Iterator[str]:
        """A block that runs for each output whose value is its donor's."""
        code = self.code
        with code.each(self._word("value_count", "i64")) as number:
            taken = code.compare("ne", "i8", code.load("i8", self.taken, number, 1), 0)
            with code.when(taken):
                yield number

    def _make_value(self, number: str) -> None:
        """The value of an output: that of the donor, where nothing else refers to it, or a new one."""
        code = self.code
        with code.when(code.is_same(code.load("ptr", self.values, number, WORD))):
            record = code.at(self._word("values"), number, RECORD_BYTES["MADE"])
            code.store("i8", 0, self.taken, number, 1)
            donor = code.load("i64", record, MADE["donor"])
            fresh, large, done = code.label("fresh"), code.label("large"), code.label("made")
            value_slot = code.variable("ptr")
            code.need(code.compare("sge", "i64", donor, 0), fresh)
            value = code.load("ptr", self.held, donor, WORD)
            self._need_unique(value, code.load("i64", record, MADE["donor_handle"]), fresh)
            code.store("i8", 1, self.taken, number, 1)
            code.store("ptr", value, value_slot)
            code.jump(done)
            code.start_block(fresh)
            maker = code.load("ptr", record, MADE["make"])
            code.need(code.is_same(maker), large)
            new = code.run("new_value", "ptr", f"ptr {code.runtime}", f"ptr {record}", f"ptr {self.slow}")
            code.store("ptr", new, value_slot)
            code.jump(done)
            code.start_block(large)
            code.store("i1", "true", self.slow)
            new = code.api("PyObject_Vectorcall", "ptr", f"ptr {maker}", "ptr null", "i64 0", "ptr null")
            code.store("ptr", new, value_slot)
            code.mark(done)
            new = code.load("ptr", value_slot)
            code.need(code.differs(new), "undo")
            code.store("ptr", new, self.values, number, WORD)

    def _need_unique(self, value: str, register: str, otherwise: str) -> None:
        """Go on where a handle alone holds a value, and that alone its memory, which no caller has seen."""
        code = self.code
        handle = code.load("ptr", self.registers, register, WORD)
        here = code.is_same(code.load("ptr", handle, layout.HANDLE_SLOTS["_value"]), value)
        alone = code.compare("eq", "i32", code.load("i32", value), 1)
        own = code.is_same(code.load("ptr", value, layout.VALUE_SLOTS["access"]), code.word("own"))
        native = code.differs(code.load("ptr", value, layout.VALUE_SLOTS["native"]), code.word("None"))
        no_base = code.is_same(code.load("ptr", value, layout.VALUE_SLOTS["base"]), code.word("None"))
        code.need(code.both(code.both(here, alone), code.both(code.both(own, native), no_base)), otherwise)
        array = code.load("ptr", value, layout.VALUE_SLOTS["_array"])
        unseen = code.is_same(array, code.word("None"))
        count = code.load("i32", array)
        code.need(code.either(unseen, code.compare("eq", "i32", count, 1)), otherwise)

    def _undo_taken(self) -> None:
        """Forget the donors' values, to which no reference was taken."""
        code = self.code
        with self._each_taken() as number:
            code.store("ptr", NULL, self.values, number, WORD)

    def _drop_made(self) -> None:
        """Drop what was made and is not dropped yet."""
        code = self.code
        for memory, count in ((self.handles, "handle_count"), (self.values, "value_count")):
            with code.each(self._word(count, "i64")) as number:
                obj = code.load("ptr", memory, number, WORD)
                with code.when(code.differs(obj), likely=True):
                    code.store("ptr", NULL, memory, number, WORD)
                    code.drop(obj)
