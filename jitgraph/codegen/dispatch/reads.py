"""The ops that read what stands in an object, where CPython keeps it."""

from __future__ import annotations

from jitgraph.codegen.dispatch.op_writer import OpWriter
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import OP


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
