"""The ops that find operands: tensors, arrays and numbers, each with the memory that the entry reads."""

from __future__ import annotations

from jitgraph.codegen.dispatch.op_writer import OpWriter
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import VALUE


class Operands(OpWriter):
    """Checks of what an operand is, and its address."""

    def op_end(self) -> None:
        self.code.give("i1", "true")

    def op_tensor(self) -> None:
        """A tensor of the type ``a``; flags: it requires a gradient."""
        code, handle = self.code, self._source()
        kind = code.load("ptr", handle, cpython.TYPE)
        known = code.either(code.is_same(kind, code.word("Tensor")), code.is_same(kind, code.word("Parameter")))
        code.need(known, "fail")
        value = code.load("ptr", handle, layout.HANDLE_SLOTS["_value"])
        code.need(code.differs(value), "fail")
        self._of_type(value, code.word("EagerValue"))  # else one of a trace, or in flight
        requires_grad = code.is_same(code.load("ptr", handle, layout.HANDLE_SLOTS["_requires_grad"]), code.word("True"))
        recorded = code.differs(code.load("ptr", value, layout.VALUE_SLOTS["record"]), code.word("None"))
        expected = code.compare("ne", "i8", self._flags(), 0)
        code.need(code.compare("eq", "i1", code.either(requires_grad, recorded), expected), "fail")
        self._memory(value)

    def op_value(self) -> None:
        """An eager value of the type ``a``, as itself."""
        value = self._source()
        self._of_type(value, self.code.word("EagerValue"))
        self._memory(value)

    def op_whole(self) -> None:
        """An operand has the type ``a``, and memory that no caller can reach; it is noted as native."""
        code, number = self.code, self._target()
        value, type = code.load("ptr", self.held, number, layout.WORD), self._word("a")
        own = code.is_same(code.load("ptr", value, layout.VALUE_SLOTS["access"]), code.word("own"))
        code.need(own, "fail")
        native = code.load("ptr", value, layout.VALUE_SLOTS["native"])
        code.need(code.differs(native, type), "next")
        array = code.load("ptr", value, layout.VALUE_SLOTS["_array"])  # which was looked at
        flags = code.value("i32", f"and i32 {code.load('i32', array, cpython.ARRAY_FLAGS)}, {cpython.ARRAY_WRITEABLE}")
        alone = code.is_same(code.load("ptr", array, cpython.ARRAY_BASE))
        code.need(code.both(alone, code.compare("ne", "i32", flags, 0)), "fail")
        code.store("ptr", code.load("ptr", array, cpython.ARRAY_DATA), value, VALUE["address"])
        code.hold(type)
        code.store("ptr", type, value, layout.VALUE_SLOTS["native"])
        code.drop(native)  # None
        code.jump("next")

    def op_view_offset(self) -> None:
        """An int as an index into an axis of ``a`` elements, ``offset`` bytes apart, is added to a number of bytes."""
        code, size = self.code, self._word("a", "i64")
        overflow = code.variable("i32")
        index = code.api("PyLong_AsLongLongAndOverflow", "i64", f"ptr {self._source()}", f"ptr {overflow}")
        code.need(code.compare("eq", "i32", code.load("i32", overflow), 0), "fail")
        from_end = code.compare("slt", "i64", index, 0)
        position = code.select(from_end, "i64", code.add(index, size), index)
        code.need(code.compare("ult", "i64", position, size), "fail")
        bytes = code.value("i64", f"mul i64 {position}, {self._word('offset', 'i64')}")
        known = code.load("i64", self.registers, self._target(), layout.WORD)
        code.store("i64", code.add(known, bytes), self.registers, self._target(), layout.WORD)
        code.jump("next")

    def _memory(self, value: str) -> None:
        """The memory of a value of the type ``a``; its array is looked at where need be."""
        code, look = self.code, self.code.label("look")
        native = code.load("ptr", value, layout.VALUE_SLOTS["native"])
        code.need(code.is_same(native, self._word("a")), look)
        self._operand(code.load("ptr", value, VALUE["address"]), value)
        code.mark(look)  # an array that nobody has looked at yet, or that a caller may have changed
        array = code.load("ptr", value, layout.VALUE_SLOTS["_array"])
        code.need(code.differs(array), "fail")
        self._dense(array, "expected")
        self._operand(code.load("ptr", array, cpython.ARRAY_DATA), value)

    def op_array(self) -> None:
        """A plain array with the dtype ``a`` and the shape at ``b``."""
        array = self._source()
        self._dense(array, "a")
        self._operand(self.code.load("ptr", array, cpython.ARRAY_DATA), array)

    def _dense(self, array: str, dtype: str) -> None:
        """Fail unless this is a plain, dense array of that dtype and of the shape at ``b``, of rank ``offset``."""
        code = self.code
        self._of_type(array, code.word("ndarray"))
        rank = code.widened("i32", array, cpython.ARRAY_RANK)
        flags = code.value("i32", f"and i32 {code.load('i32', array, cpython.ARRAY_FLAGS)}, {cpython.ARRAY_DENSE}")
        fits = code.both(
            code.is_same(code.load("ptr", array, cpython.ARRAY_DTYPE), self._word(dtype)),
            code.compare("eq", "i64", rank, self._word("offset", "i64")),
        )
        code.need(code.both(fits, code.compare("eq", "i32", flags, cpython.ARRAY_DENSE)), "fail")
        shape, known = code.load("ptr", array, cpython.ARRAY_SHAPE), self._word("b")
        with code.each(rank) as axis:
            size = code.load("i64", shape, axis, layout.WORD)
            code.need(code.compare("eq", "i64", size, code.load("i64", known, axis, layout.WORD)), "fail")

    def op_float(self) -> None:
        number = self._source()
        self._of_type(number, self.code.word("float"))
        self._operand(self.code.at(number, cpython.FLOAT), number)

    def op_operand(self) -> None:
        """Memory at ``a`` that the object ``b`` keeps."""
        self._operand(self._word("a"), self._word("b"))

    def op_number(self) -> None:
        """An int or float in a dtype (``layout.NUMBER_DTYPES``): floats round, integers decline what does not fit."""
        code, number = self.code, self._source()
        slot = code.at(code.at(self.registers, layout.NUMBERS), self._target(), layout.WORD)
        is_float, is_int = code.label("float"), code.label("int")
        code.branch(code.is_same(code.load("ptr", number, cpython.TYPE), code.word("float")), is_float, is_int)
        code.start_block(is_float)
        value = code.load("double", number, cpython.FLOAT)
        self._store_float(value, slot)
        code.start_block(is_int)
        overflow = code.variable("i32")
        integer = code.api("PyLong_AsLongLongAndOverflow", "i64", f"ptr {number}", f"ptr {overflow}")
        code.need(code.compare("eq", "i32", code.load("i32", overflow), 0), "fail")
        self._store_int(integer, slot)

    def _store_float(self, value: str, slot: str) -> None:
        code = self.code
        single, done = code.label("single"), code.label("stored")
        code.store("double", value, slot)
        kind = self._flags()
        code.need(code.compare("ule", "i8", kind, layout.NUMBER_DTYPES["float32"]), "fail")
        code.need(code.compare("ne", "i8", kind, layout.NUMBER_DTYPES["float64"]), done)
        code.mark(single)
        short = code.value("float", f"fptrunc double {value} to float")
        infinite = self._is_infinite("float", "f32", short)
        code.need(code.compare("eq", "i1", infinite, self._is_infinite("double", "f64", value)), "fail")
        code.store("float", short, slot)
        code.mark(done)
        self._operand(slot, self._source())

    def _is_infinite(self, type: str, suffix: str, value: str) -> str:
        size = self.code.value(type, f"call {type} @llvm.fabs.{suffix}({type} {value})")
        return self.code.value("i1", f"fcmp oeq {type} {size}, 0x7FF0000000000000")

    def _store_int(self, value: str, slot: str) -> None:
        code = self.code
        kind, done = self._flags(), code.label("stored")
        floats, wide = code.label("floats"), code.label("wide")
        code.need(code.compare("uge", "i8", kind, layout.NUMBER_DTYPES["int64"]), floats)
        code.store("i64", value, slot)
        code.need(code.compare("ne", "i8", kind, layout.NUMBER_DTYPES["int64"]), done)
        short = code.value("i64", f"sext i32 {code.value('i32', f'trunc i64 {value} to i32')} to i64")
        code.need(code.compare("eq", "i64", short, value), "fail")
        code.jump(done)
        code.start_block(floats)
        rounded = code.value("double", f"sitofp i64 {value} to double")
        code.store("double", rounded, slot)
        code.need(code.compare("ne", "i8", kind, layout.NUMBER_DTYPES["float64"]), done)
        code.mark(wide)
        code.store("float", code.value("float", f"fptrunc double {rounded} to float"), slot)  # in two steps, as NumPy
        code.mark(done)
        self._operand(slot, self._source())
