"""``checked``: the checks of one table. Each reads a register or an object, and writes a register or an operand."""

from __future__ import annotations

from jitgraph.codegen.dispatch.routine import NULL, Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import OP, VALUE

# ----------------------------------------------------------------------
# What the code of every op needs: its fields, what it reads, and where it goes on.


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


# ----------------------------------------------------------------------
# The ops that find operands: tensors, arrays and numbers, each with the memory that the entry reads.


class Operands(OpWriter):
    """Checks of what an operand is, and its address."""

    def op_end(self) -> None:
        self.code.give("i1", "true")

    def op_tensor(self) -> None:
        """A tensor of the type ``a``; flags: it requires a gradient (1), it is one of PyTorch's API (2)."""
        code, handle = self.code, self._source()
        kind, flags = code.load("ptr", handle, cpython.TYPE), self._flags()
        of_torch = code.compare("uge", "i8", flags, 2)
        tensors, parameters = (
            code.value("ptr", f"select i1 {of_torch}, ptr {code.word(f'Torch{name}')}, ptr {code.word(name)}")
            for name in ("Tensor", "Parameter")
        )
        code.need(code.either(code.is_same(kind, tensors), code.is_same(kind, parameters)), "fail")
        value = code.load("ptr", handle, layout.HANDLE_SLOTS["_value"])
        code.need(code.differs(value), "fail")
        self._of_type(value, code.word("EagerValue"))  # else one of a trace, or in flight
        requires_grad = code.is_same(code.load("ptr", handle, layout.HANDLE_SLOTS["_requires_grad"]), code.word("True"))
        recorded = code.differs(code.load("ptr", value, layout.VALUE_SLOTS["record"]), code.word("None"))
        expected = code.compare("ne", "i8", code.value("i8", f"and i8 {flags}, 1"), 0)
        code.need(code.compare("eq", "i1", code.either(requires_grad, recorded), expected), "fail")
        self._memory(value)

    def op_unhooked_tensor(self) -> None:
        """As ``tensor``, of one whose gradient passes no hooks."""
        code = self.code
        hooks = code.load("ptr", self._source(), layout.HANDLE_SLOTS["_hooks"])
        code.need(code.is_same(hooks, code.word("None")), "fail")
        code.jump("op_tensor")

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


# ----------------------------------------------------------------------
# The ops that read what stands in an object, where CPython keeps it.


class Reads(OpWriter):
    """Loads of fields, attributes, entries and items, and checks of what is not there."""

    def op_constant(self) -> None:
        self.code.store("ptr", self._word("a"), self.registers, self._target(), layout.WORD)
        self.code.jump("next")

    def op_field(self) -> None:
        self._loaded(self.code.load("ptr", self._source(), self._word("offset", "i64")))

    def op_field_or_none(self) -> None:
        code, obj = self.code, self.code.load("ptr", self._source(), self._word("offset", "i64"))
        self._loaded(code.select(code.differs(obj), "ptr", obj, code.word("None")))

    def _values(self) -> str:
        """Where an instance without a dict has its attributes; the check fails where it has one."""
        code, owner = self.code, self._source()
        number = code.label("values")
        values = code.variable("ptr")
        minor = code.word("attributes", "i64")
        cases = " ".join(f"i64 {minor_version}, label %{number}_{minor_version}" for minor_version in (11, 12, 13))
        code.do(f"switch i64 {minor}, label %fail [ {cases} ]")
        code.start_block(f"{number}_11")
        plain = code.load("ptr", owner, cpython.VALUES_11)
        code.need(code.differs(plain), "fail")
        code.store("ptr", plain, values)
        code.jump(f"{number}_found")
        code.start_block(f"{number}_12")
        tagged = code.load("ptr", owner, cpython.INSTANCE_DICT)
        low = code.value("i64", f"and i64 {code.value('i64', f'ptrtoint ptr {tagged} to i64')}, 1")
        code.need(code.compare("ne", "i64", low, 0), "fail")
        code.store("ptr", code.at(tagged, 1), values)
        code.jump(f"{number}_found")
        code.start_block(f"{number}_13")
        inline = code.at(owner, code.load("i64", code.load("ptr", owner, cpython.TYPE), cpython.TYPE_BASIC_SIZE))
        code.need(code.compare("ne", "i8", code.load("i8", inline, cpython.VALUES_13_VALID), 0), "fail")
        code.store("ptr", code.at(inline, cpython.VALUES_13_FIRST), values)
        code.mark(f"{number}_found")
        return code.load("ptr", values)

    def op_attribute(self) -> None:
        """The attribute at this place of the values of an instance."""
        self._loaded(self.code.load("ptr", self._values(), self._word("offset", "i64")))

    def op_unset_attribute(self) -> None:
        """The values have that place, and nothing is there."""
        code = self.code
        code.need(code.is_same(code.load("ptr", self._values(), self._word("offset", "i64"))), "fail")
        code.jump("next")

    def op_shared_keys(self) -> None:
        """An instance still has values, whose shared keys ``b`` are as many as they were."""
        code = self.code
        self._values()
        count = code.load("i64", self._word("b"), cpython.KEYS_COUNT)
        code.need(code.compare("eq", "i64", count, self._word("offset", "i64")), "fail")
        code.jump("next")

    def op_dictionary(self) -> None:
        """The dict of an instance that has one."""
        code = self.code
        attributes = code.load("ptr", self._source(), cpython.INSTANCE_DICT)
        low = code.value("i64", f"and i64 {code.value('i64', f'ptrtoint ptr {attributes} to i64')}, 1")
        code.need(code.compare("eq", "i64", low, 0), "fail")
        self._loaded(attributes)

    def op_entry(self) -> None:
        """What a dict has under the text ``a``: entry ``number`` at ``offset`` of the keys ``b``, or by a search."""
        code, owner = self.code, self._source()
        keys, key = code.load("ptr", owner, cpython.DICT_KEYS), self._word("a")
        number = self._entry_number()
        form = code.value("i32", f"and i32 {code.load('i32', keys, cpython.KEYS_FORM)}, {cpython.KEYS_FORM_MASK}")
        known = code.both(
            code.both(code.is_same(keys, self._word("b")), code.is_same(code.load("ptr", owner, cpython.DICT_VALUES))),
            code.both(
                code.compare("ugt", "i64", code.load("i64", keys, cpython.KEYS_COUNT), number),
                code.compare("eq", "i32", form, self._form()),
            ),
        )
        code.need(known, "search")
        entry = code.at(keys, self._word("offset", "i64"))
        code.need(code.is_same(code.load("ptr", entry), key), "search")
        self._loaded(code.load("ptr", entry, layout.WORD))
        code.mark("search")
        kind = code.load("i8", keys, cpython.KEYS_FORM + 2)
        code.need(code.compare("ne", "i8", kind, cpython.KEYS_GENERAL), "fail")  # other keys may have code of their own
        value = code.api("PyDict_GetItemWithError", "ptr", f"ptr {owner}", f"ptr {key}")
        code.need(code.differs(value), "error")
        self._loaded(value)

    def _form(self) -> str:
        """The form of keys that an entry op expects."""
        return self.code.load("i32", self.op, OP["number"] + 4)

    def op_absent(self) -> None:
        """A dict has nothing under the text ``a``."""
        code, owner = self.code, self._source()
        kind = code.load("i8", code.load("ptr", owner, cpython.DICT_KEYS), cpython.KEYS_FORM + 2)
        code.need(code.compare("ne", "i8", kind, cpython.KEYS_GENERAL), "fail")
        value = code.api("PyDict_GetItemWithError", "ptr", f"ptr {owner}", f"ptr {self._word('a')}")
        code.need(code.is_same(value), "fail")
        code.need(code.is_same(code.api("PyErr_Occurred", "ptr")), "error")
        code.jump("next")

    def op_keys(self) -> None:
        """The keys of a dict are the texts in the tuple ``a``, in that order."""
        code, owner, known = self.code, self._source(), self._word("a")
        keys, values = code.load("ptr", owner, cpython.DICT_KEYS), code.load("ptr", owner, cpython.DICT_VALUES)
        kind = code.load("i8", keys, cpython.KEYS_FORM + 2)
        count = code.load("i64", owner, cpython.SIZE)
        same_count = code.compare("eq", "i64", count, code.load("i64", known, cpython.SIZE))
        code.need(code.both(code.compare("ne", "i8", kind, cpython.KEYS_GENERAL), same_count), "fail")
        index_bytes = code.value("i64", f"shl i64 1, {code.widened('i8', keys, cpython.KEYS_FORM + 1)}")
        entries = code.at(code.at(keys, cpython.KEYS_INDEX), index_bytes)
        expected = code.at(known, cpython.TUPLE_ITEMS)
        code.need(code.is_same(values), "shared")
        seen = code.variable("i64")
        code.store("i64", 0, seen)
        with code.each(code.load("i64", keys, cpython.KEYS_COUNT)) as number:
            entry = code.at(entries, number, cpython.ENTRY_BYTES)
            with code.when(code.differs(code.load("ptr", entry, layout.WORD)), likely=True):  # else it was deleted
                position = code.load("i64", seen)
                key = code.load("ptr", expected, position, layout.WORD)
                code.need(code.is_same(code.load("ptr", entry), key), "fail")
                code.store("i64", code.add(position, 1), seen)
        code.jump("next")
        code.mark("shared")  # with other dicts, which have their values in other orders
        order, step = self._order(values)
        with code.each(count) as number:
            position = code.value("i64", f"mul i64 {number}, {step}")
            index = code.widened("i8", code.at(order, position), 0)
            entry = code.at(entries, index, cpython.ENTRY_BYTES)
            key = code.load("ptr", expected, number, layout.WORD)
            code.need(code.is_same(code.load("ptr", entry), key), "fail")
        code.jump("next")

    def _order(self, values: str) -> tuple[str, str]:
        """Where a dict with shared keys notes the order of its values, and in which direction the bytes go."""
        code = self.code
        newer = code.compare("eq", "i64", code.word("attributes", "i64"), 13)
        capacity = code.widened("i8", values, 0)  # with older ones this is some byte of a value
        behind = code.at(code.at(values, cpython.VALUES_13_FIRST), capacity, layout.WORD)
        before = code.at(values, cpython.ORDER_BEFORE_VALUES)
        return code.select(newer, "ptr", behind, before), code.select(newer, "i64", "1", "-1")

    def _items_of(self, owner: str) -> str:
        """The items of a list (where a flag says so) or a tuple."""
        code = self.code
        is_list, other, both = code.label("list"), code.label("tuple"), code.label("items")
        items = code.variable("ptr")
        code.branch(code.compare("ne", "i8", self._flags(), 0), is_list, other)
        code.start_block(is_list)
        code.store("ptr", code.load("ptr", owner, cpython.LIST_ITEMS), items)
        code.jump(both)
        code.start_block(other)
        code.store("ptr", code.at(owner, cpython.TUPLE_ITEMS), items)
        code.mark(both)
        return code.load("ptr", items)

    def op_item(self) -> None:
        """The item ``offset`` of a list or tuple, whose class was checked."""
        code, owner = self.code, self._source()
        number = self._word("offset", "i64")
        code.need(code.compare("ugt", "i64", code.load("i64", owner, cpython.SIZE), number), "fail")
        self._loaded(code.load("ptr", self._items_of(owner), number, layout.WORD))

    def op_elements(self) -> None:
        """A list or tuple holds the very objects of the tuple ``a``."""
        code, owner, known = self.code, self._source(), self._word("a")
        count = code.load("i64", owner, cpython.SIZE)
        code.need(code.compare("eq", "i64", count, code.load("i64", known, cpython.SIZE)), "fail")
        items, expected = self._items_of(owner), code.at(known, cpython.TUPLE_ITEMS)
        with code.each(count) as number:
            item = code.load("ptr", items, number, layout.WORD)
            code.need(code.is_same(item, code.load("ptr", expected, number, layout.WORD)), "fail")
        code.jump("next")


# ----------------------------------------------------------------------
# ``checked``: the checks of one table. Each reads a register, and writes a register or an operand.
#
# No code of the user's runs here, so what the registers hold lives until the call has taken references.


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
        own = code.either(code.is_same(kind, code.word("Tensor")), code.is_same(kind, code.word("Parameter")))
        of_torch = (code.is_same(kind, code.word(name)) for name in ("TorchTensor", "TorchParameter"))
        code.need(code.either(own, code.either(*of_torch)), "fail")
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
        """The context variable ``a`` holds the object ``b``, or nothing, and then the list ``expected`` holds it."""
        code = self.code
        status = code.api("PyContextVar_Get", "i32", f"ptr {self._word('a')}", "ptr null", f"ptr {self.found}")
        code.need(code.compare("eq", "i32", status, 0), "error")
        obj = code.load("ptr", self.found)
        with code.when(code.differs(obj)):
            code.drop(obj)  # the context holds it, too
        outermost = code.load("ptr", code.load("ptr", self._word("expected"), cpython.LIST_ITEMS))
        unset = code.both(code.is_same(obj), code.is_same(outermost, self._word("b")))
        known = code.both(code.differs(obj, NULL), code.is_same(obj, self._word("b")))
        code.need(code.either(unset, known), "fail")
        code.jump("next")

    def op_argument_count(self) -> None:
        """So many positional arguments were given."""
        code = self.code
        count = code.load("i64", self.registers, layout.COUNT_REGISTER * layout.WORD)
        code.need(code.compare("eq", "i64", count, self._word("offset", "i64")), "fail")
        code.jump("next")
