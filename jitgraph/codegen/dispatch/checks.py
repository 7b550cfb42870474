"""``checked``: the checks of one table. Each reads a register, and writes a register or an operand.

No code of the user's runs here, so what the registers hold lives until the call has taken references.
"""

from __future__ import annotations

from jitgraph.codegen.dispatch.operands import Operands
from jitgraph.codegen.dispatch.reads import Reads
from jitgraph.codegen.dispatch.routine import NULL
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import OP


def define(module: LlvmModule) -> None:
    """``i1 checked(runtime, ops, registers, addresses, held)``: whether all hold.

    ``addresses`` get the operands' memory, ``held`` the objects that keep it.
    """
    _Checks(module).write()


class _Checks(Operands, Reads):
    """All ops; those here say what an object is, or what is around the call."""

    def write(self) -> None:
        code = self.code
        code.store("ptr", self.first, self.place)
        code.mark("fetch")
        self.op = code.load("ptr", self.place)
        cases = " ".join(f"i8 {number}, label %op_{name}" for number, name in enumerate(layout.OPS))
        code.do(f"switch i8 {code.load('i8', self.op, OP['op'])}, label %fail [ {cases} ]")
        for name in layout.OPS:
            code.mark(f"op_{name}")
            getattr(self, f"op_{name}")()
        code.mark("loaded")  # what was read from an owner
        obj = code.load("ptr", self.found)
        code.need(code.differs(obj), "fail")
        code.store("ptr", obj, self.registers, self._target(), layout.WORD)
        expected = self._word("expected")
        right = code.either(code.is_same(expected), code.is_same(expected, obj))
        code.need(right, "fail")
        code.mark("next")
        code.store("ptr", code.at(self.op, layout.OP_BYTES), self.place)
        code.jump("fetch")
        code.mark("error")
        code.api("PyErr_Clear", "void")
        code.mark("fail")
        code.give("i1", "false")
        code.finish()

    # --- what an object is ------------------------------------------------------------------------------------------

    def op_type(self) -> None:
        self._of_type(self._source(), self._word("a"))
        self.code.jump("next")

    def op_version(self) -> None:
        """The class ``a`` is as it was: nothing was set in it or in its bases."""
        code = self.code
        version = code.load("i32", self._word("a"), cpython.TYPE_VERSION)
        code.need(code.compare("eq", "i32", version, code.load("i32", self.op, OP["number"])), "fail")
        code.jump("next")

    def op_is_tensor(self) -> None:
        code = self.code
        kind = code.load("ptr", self._source(), cpython.TYPE)
        known = code.either(code.is_same(kind, code.word("Tensor")), code.is_same(kind, code.word("Parameter")))
        code.need(known, "fail")
        code.jump("next")

    def op_length(self) -> None:
        code, size = self.code, self.code.load("i64", self._source(), cpython.SIZE)
        code.need(code.compare("eq", "i64", size, self._word("b", "i64")), "fail")
        code.jump("next")

    def op_equal(self) -> None:
        """The object ``a`` itself, or one of its class that equals it: numbers, texts and dtypes alone are so held."""
        code, obj, known = self.code, self._source(), self._word("a")
        code.need(code.differs(obj, known), "next")
        self._of_type(obj, code.load("ptr", known, cpython.TYPE))
        same = code.api("PyObject_RichCompareBool", "i32", f"ptr {obj}", f"ptr {known}", "i32 2")
        code.need(code.compare("eq", "i32", same, 1), "error")
        code.jump("next")

    def op_float_bits(self) -> None:
        code, obj = self.code, self._source()
        self._of_type(obj, code.word("float"))
        bits = code.load("i64", obj, cpython.FLOAT)
        code.need(code.compare("eq", "i64", bits, self._word("offset", "i64")), "fail")
        code.jump("next")

    def op_same(self) -> None:
        other = self.code.load("ptr", self.registers, self._target(), layout.WORD)
        self.code.need(self.code.is_same(self._source(), other), "fail")
        self.code.jump("next")

    def op_distinct(self) -> None:
        """The registers whose numbers lie at ``a`` hold different objects: the first ``number`` of them each another
        than all behind it, of which there are ``offset`` altogether."""
        code, registers = self.code, self._word("a")
        count = self._word("offset", "i64")

        def object_in(index: str) -> str:
            number = code.load("i64", registers, index, layout.WORD)
            return code.load("ptr", self.registers, number, layout.WORD)

        with code.each(self._entry_number()) as left:
            one = object_in(left)
            with code.each(count, code.add(left, 1)) as right:
                code.need(code.differs(one, object_in(right)), "fail")
        code.jump("next")

    # --- what is around a call --------------------------------------------------------------------------------------

    def op_context(self) -> None:
        """The context variable ``a`` holds the object ``b``, or nothing where ``b`` is 0 or a flag allows that."""
        code = self.code
        status = code.api("PyContextVar_Get", "i32", f"ptr {self._word('a')}", "ptr null", f"ptr {self.found}")
        code.need(code.compare("eq", "i32", status, 0), "error")
        obj = code.load("ptr", self.found)
        with code.when(code.differs(obj)):
            code.drop(obj)  # the context holds it, too
        unset = code.both(code.is_same(obj), code.compare("ne", "i8", self._flags(), 0))
        known = code.both(code.differs(obj, NULL), code.is_same(obj, self._word("b")))
        code.need(code.either(unset, known), "fail")
        code.jump("next")

    def op_argument_count(self) -> None:
        """So many positional arguments were given."""
        code = self.code
        count = code.load("i64", self.registers, layout.COUNT_REGISTER * layout.WORD)
        code.need(code.compare("eq", "i64", count, self._word("offset", "i64")), "fail")
        code.jump("next")
