"""What the code of every op needs: its fields, what it reads, and where it goes on."""

from __future__ import annotations

from jitgraph.codegen.dispatch.routine import Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import OP


class OpWriter:
    """The loop over the ops of a table, while it is written. ``op`` is the address of the current one."""

    op: str

    def __init__(self, module: LlvmModule) -> None:
        code = self.code = Routine(module, "checked", "i1", "ptr", "ptr", "ptr", "ptr", "ptr")
        code.runtime, self.first, self.registers, self.addresses, self.held = code.parameters
        self.place = code.variable("ptr")  # of the current op
        self.found = code.variable("ptr")

    def _word(self, name: str, type: str = "ptr") -> str:
        return self.code.load(type, self.op, OP[name])

    def _flags(self) -> str:
        return self.code.load("i8", self.op, OP["flags"])

    def _target(self) -> str:
        return self.code.widened("i16", self.op, OP["target"])

    def _entry_number(self) -> str:
        return self.code.widened("i32", self.op, OP["number"])

    def _source(self) -> str:
        """What the register holds that the op reads."""
        number = self.code.widened("i16", self.op, OP["source"])
        return self.code.load("ptr", self.registers, number, layout.WORD)

    def _of_type(self, address: str, kind: str) -> None:
        self.code.need(self.code.is_same(self.code.load("ptr", address, cpython.TYPE), kind), "fail")

    def _operand(self, memory: str, keeper: str) -> None:
        code, number = self.code, self._target()
        code.store("ptr", memory, self.addresses, number, layout.WORD)
        code.store("ptr", keeper, self.held, number, layout.WORD)
        code.jump("next")

    def _loaded(self, address: str) -> None:
        self.code.store("ptr", address, self.found)
        self.code.jump("loaded")
