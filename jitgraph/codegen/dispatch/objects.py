"""References, values and handles of a call: taken from the dead where there are some, made, and parts of others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from jitgraph.codegen.dispatch.routine import NULL, Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import (
    EFFECT,
    HANDLE,
    MADE,
    MOST_AXES,
    RESULT,
    RUNTIME,
    TABLE,
    VALUE,
    VALUE_SLOTS,
    VIEW,
    WORD,
)

# ----------------------------------------------------------------------
# References, and the life of values and handles: taken from the dead where there are some, and put back when they end.
#
# A value's small memory comes from lists of free blocks by size and goes back there. Both classes are Python's own
# (``eager/tape.py``, ``tensor/tensor.py``); what stands here takes the place of their deallocation, subclasses
# included.

_NEXT = 24  # where a dead object has the address of the next one


def define(module: LlvmModule) -> None:
    """The functions of this file, of which ``free_value`` and ``free_handle`` are exported."""
    _references(module)
    _new_object(module)
    _end_object(module)
    _new_value(module)
    _new_handle(module)
    _free_value(module)
    _free_handle(module)


def _references(module: LlvmModule) -> None:
    hold = Routine(module, "hold", "void", "ptr", inlined=True)
    (address,) = hold.parameters
    count = hold.value("i32", f"add i32 {hold.load('i32', address)}, 1")
    with hold.when(hold.compare("ne", "i32", count, 0), likely=True):  # immortal: all ones
        hold.store("i32", count, address)
    hold.give("void", "")
    hold.finish()
    drop = Routine(module, "drop", "void", "ptr", "ptr", inlined=True)
    drop.runtime, address = drop.parameters
    count = drop.load("i32", address)
    with drop.when(drop.compare("sge", "i32", count, 0), likely=True):
        left = drop.value("i32", f"sub i32 {count}, 1")
        drop.store("i32", left, address)
        with drop.when(drop.compare("eq", "i32", left, 0), likely=False):
            drop.api("_Py_Dealloc", "void", f"ptr {address}")
    drop.give("void", "")
    drop.finish()


def _new_object(module: LlvmModule) -> None:
    """An object of ``class`` from the list at ``dead``, or a new one; ``slow`` is set where code may have run.

    Its slots hold nothing; the collector tracks a new one, and none that was dead. Null with an exception where there
    is no memory.
    """
    code = Routine(module, "new_object", "ptr", "ptr", "ptr", "ptr", "ptr", "ptr")
    code.runtime, kind, dead, count, slow = code.parameters
    first = code.load("ptr", dead)
    with code.when(code.differs(first), likely=True):
        code.store("ptr", code.load("ptr", first, _NEXT), dead)
        code.store("i64", code.value("i64", f"sub i64 {code.load('i64', count)}, 1"), count)
        code.store("i64", 1, first, cpython.REFERENCES)
        code.give("ptr", first)
        code.never()
    code.store("i1", "true", slow)
    code.give("ptr", code.api("PyType_GenericAlloc", "ptr", f"ptr {kind}", "i64 0"))
    code.finish()


def _end_object(module: LlvmModule) -> None:
    """Put an object without anything in it to the dead, or free it; it is no longer tracked."""
    code = Routine(module, "end_object", "void", "ptr", "ptr", "ptr", "ptr", "ptr")
    code.runtime, address, kind, dead, count = code.parameters
    own = code.load("ptr", address, cpython.TYPE)
    number = code.load("i64", count)
    recyclable = code.both(code.is_same(own, kind), code.compare("slt", "i64", number, layout.MOST_DEAD))
    code.need(recyclable, "free")
    code.store("i64", code.add(number, 1), count)
    code.store("ptr", code.load("ptr", dead), address, _NEXT)
    code.store("ptr", address, dead)  # which keeps its reference to the class
    code.give("void", "")
    code.mark("free")
    code.api("PyObject_GC_Del", "void", f"ptr {address}")
    code.drop(own)
    code.give("void", "")
    code.finish()


def _fill(code: Routine, address: str, slots: Mapping[str, int], objects: Mapping[str, str]) -> None:
    """Put objects into slots."""
    for name, obj in objects.items():
        code.hold(obj)
        code.store("ptr", obj, address, slots[name])


def _new_value(module: LlvmModule) -> None:
    """The value of an output, by its record; null with an exception where there is no memory.

    The collector need not track it: nothing that it holds leads back to it.
    """
    code = Routine(module, "new_value", "ptr", "ptr", "ptr", "ptr")
    code.runtime, record, slow = code.parameters
    size_class = code.load("i64", record, layout.MADE["size_class"])
    block, bytes = code.variable("ptr"), code.variable("i64")
    code.store("ptr", NULL, block)
    code.store("i64", 0, bytes)
    code.need(code.compare("sge", "i64", size_class, 0), "object")  # else the memory is another's
    size = code.value("i64", f"shl i64 64, {size_class}")
    code.store("i64", size, bytes)
    head = code.at(code.at(code.runtime, RUNTIME["free0"]), size_class, layout.WORD)
    first = code.load("ptr", head)
    code.store("ptr", first, block)
    code.need(code.differs(first), "allocate")
    code.store("ptr", code.load("ptr", first), head)
    cached = code.word("cached_bytes", "i64")
    code.store("i64", code.value("i64", f"sub i64 {cached}, {size}"), code.runtime, RUNTIME["cached_bytes"])
    code.jump("make")
    code.start_block("allocate")
    code.store("ptr", code.api("aligned_alloc", "ptr", "i64 64", f"i64 {size}"), block)
    code.mark("make")
    code.need(code.differs(code.load("ptr", block)), "none")
    code.mark("object")
    memory = code.load("ptr", block)
    dead, count = code.at(code.runtime, RUNTIME["dead_values"]), code.at(code.runtime, RUNTIME["dead_value_count"])
    arguments = (f"ptr {code.word('EagerValue')}", f"ptr {dead}", f"ptr {count}", f"ptr {slow}")
    value = code.run("new_object", "ptr", f"ptr {code.runtime}", *arguments)
    code.need(code.differs(value), "failed")
    code.store("ptr", memory, value, VALUE["address"])
    code.store("ptr", memory, value, VALUE["block"])
    code.store("i64", code.load("i64", bytes), value, VALUE["block_bytes"])
    type = code.load("ptr", record, layout.MADE["type"])
    none, zero, own = code.word("None"), code.word("zero"), code.word("own")
    slots = {"_array": none, "_type": type, "access": own, "base": none, "native": type, "output": zero, "record": none}
    _fill(code, value, layout.VALUE_SLOTS, slots)
    code.store("ptr", NULL, value, code.word("value_weak_references", "i64"))
    code.give("ptr", value)
    code.mark("failed")
    code.api("free", "void", f"ptr {memory}")
    code.give("ptr", NULL)
    code.mark("none")
    code.give("ptr", code.api("PyErr_NoMemory", "ptr"))
    code.finish()


def _new_handle(module: LlvmModule) -> None:
    """A new tensor by its record, yet without a value; null with an exception where there is no memory."""
    code = Routine(module, "new_handle", "ptr", "ptr", "ptr", "ptr")
    code.runtime, handle, slow = code.parameters
    dead, count = code.at(code.runtime, RUNTIME["dead_handles"]), code.at(code.runtime, RUNTIME["dead_handle_count"])
    arguments = (f"ptr {code.word('Tensor')}", f"ptr {dead}", f"ptr {count}", f"ptr {slow}")
    obj = code.run("new_object", "ptr", f"ptr {code.runtime}", *arguments)
    code.need(code.differs(obj), "none")
    flags = {name: code.load("ptr", handle, layout.HANDLE[name]) for name in ("requires_grad", "weak", "indexed")}
    none = code.word("None")
    slots = {"_value": none, "_grad": none, "_hooks": none, "_indexed": flags["indexed"],
             "_requires_grad": flags["requires_grad"], "_weak": flags["weak"]}  # fmt: skip
    _fill(code, obj, layout.HANDLE_SLOTS, slots)
    code.store("ptr", NULL, obj, code.word("handle_weak_references", "i64"))
    kind = code.load("ptr", handle, layout.HANDLE["kind"])
    with code.when(code.differs(kind), likely=False):
        code.hold(kind)
        code.store("ptr", kind, obj, cpython.TYPE)
        code.drop(code.word("Tensor"))
    _track(code, obj)
    code.give("ptr", obj)
    code.mark("none")
    code.give("ptr", NULL)
    code.finish()


def _track(code: Routine, address: str) -> None:
    """Let the collector see an object that came from the dead; a new one is tracked already."""
    with code.when(code.is_same(code.load("ptr", address, cpython.COLLECTOR_NEXT))):
        code.api("PyObject_GC_Track", "void", f"ptr {address}")


def _empty(code: Routine, address: str, weak_references: str, slots: Mapping[str, int]) -> None:
    """What every deallocation begins with: untracked, unseen by weak references, and nothing in the slots."""
    with code.when(code.differs(code.load("ptr", address, cpython.COLLECTOR_NEXT))):
        code.api("PyObject_GC_UnTrack", "void", f"ptr {address}")
    with code.when(code.differs(code.load("ptr", address, code.word(weak_references, "i64"))), likely=False):
        code.api("PyObject_ClearWeakRefs", "void", f"ptr {address}")
    for offset in slots.values():
        obj = code.load("ptr", address, offset)
        code.store("ptr", NULL, address, offset)
        with code.when(code.differs(obj), likely=True):
            code.drop(obj)


def _free_value(module: LlvmModule) -> None:
    """``tp_dealloc`` of eager values."""
    code = Routine(module, "free_value", "void", "ptr", linkage="hidden")
    (value,) = code.parameters
    code.find_runtime()
    _empty(code, value, "value_weak_references", layout.VALUE_SLOTS)
    block, size = code.load("ptr", value, VALUE["block"]), code.load("i64", value, VALUE["block_bytes"])
    for word in VALUE.values():
        code.store("i64", 0, value, word)
    with code.when(code.differs(block), likely=True):
        cached = code.add(code.word("cached_bytes", "i64"), size)
        release, done = code.label("release"), code.label("released")
        code.need(code.compare("ule", "i64", cached, layout.MOST_KEPT_BYTES), release)
        size_class = code.value(
            "i64", f"sub i64 57, {code.value('i64', f'call i64 @llvm.ctlz.i64(i64 {size}, i1 true)')}"
        )
        head = code.at(code.at(code.runtime, RUNTIME["free0"]), size_class, layout.WORD)
        code.store("ptr", code.load("ptr", head), block)
        code.store("ptr", block, head)
        code.store("i64", cached, code.runtime, RUNTIME["cached_bytes"])
        code.jump(done)
        code.start_block(release)
        code.api("free", "void", f"ptr {block}")
        code.mark(done)
    _end(code, value, "EagerValue", "dead_values", "dead_value_count")


def _free_handle(module: LlvmModule) -> None:
    """``tp_dealloc`` of tensors. One that ends deep inside others waits, so that no chain of them fills the stack."""
    _end_handle(module)
    code = Routine(module, "free_handle", "void", "ptr", linkage="hidden")
    (handle,) = code.parameters
    code.find_runtime()
    depth = code.word("depth", "i64")
    code.need(code.compare("slt", "i64", depth, layout.MOST_DEPTH), "wait")
    code.store("i64", code.add(depth, 1), code.runtime, RUNTIME["depth"])
    code.run("end_handle", "void", f"ptr {code.runtime}", f"ptr {handle}")
    code.mark("others")  # threads may have taken turns meanwhile, so the depth is counted and not put back
    code.need(code.compare("eq", "i64", code.word("depth", "i64"), 1), "done")
    pending = code.word("pending")
    code.need(code.differs(pending), "done")
    code.store("ptr", code.load("ptr", pending, cpython.COLLECTOR_PREVIOUS), code.runtime, RUNTIME["pending"])
    code.store("ptr", NULL, pending, cpython.COLLECTOR_PREVIOUS)
    code.run("end_handle", "void", f"ptr {code.runtime}", f"ptr {pending}")
    code.jump("others")
    code.start_block("done")
    code.store("i64", code.add(code.word("depth", "i64"), -1), code.runtime, RUNTIME["depth"])
    code.give("void", "")
    code.mark("wait")  # in a list through words of the collector, which no longer tracks it
    with code.when(code.differs(code.load("ptr", handle, cpython.COLLECTOR_NEXT))):
        code.api("PyObject_GC_UnTrack", "void", f"ptr {handle}")
    code.store("ptr", code.word("pending"), handle, cpython.COLLECTOR_PREVIOUS)
    code.store("ptr", handle, code.runtime, RUNTIME["pending"])
    code.give("void", "")
    code.finish()


def _end_handle(module: LlvmModule) -> None:
    code = Routine(module, "end_handle", "void", "ptr", "ptr", inlined=False)
    code.runtime, handle = code.parameters
    _empty(code, handle, "handle_weak_references", layout.HANDLE_SLOTS)
    attributes = code.load("ptr", handle, layout.HANDLE_DICT)
    with code.when(code.differs(attributes), likely=False):
        code.store("ptr", NULL, handle, layout.HANDLE_DICT)
        code.drop(attributes)
    _end(code, handle, "Tensor", "dead_handles", "dead_handle_count")


def _end(code: Routine, address: str, kind: str, dead: str, count: str) -> None:
    lists = (f"ptr {code.at(code.runtime, RUNTIME[dead])}", f"ptr {code.at(code.runtime, RUNTIME[count])}")
    code.run("end_object", "void", f"ptr {code.runtime}", f"ptr {address}", f"ptr {code.word(kind)}", *lists)
    code.give("void", "")
    code.finish()


# ----------------------------------------------------------------------
# What a call makes before it runs: the values of its outputs, some of them its donors' own, and new tensors.

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


# ----------------------------------------------------------------------
# ``take_part``: the value that a part of another becomes, in the same memory or as a copy.


def define_views(module: LlvmModule) -> None:
    """``void take_part(runtime, view, operand, begin, value)``: the value, just made, gets what begins there."""
    _copied(module)
    code = Routine(module, "take_part", "void", "ptr", "ptr", "ptr", "ptr", "ptr", inlined=False)
    code.runtime, view, operand, begin, value = code.parameters
    code.need(code.compare("slt", "i64", code.load("i64", view, VIEW["rank"]), 0), "copy")
    owner = code.variable("ptr")
    code.store("ptr", operand, owner)
    code.mark("up")  # to the owner of the memory, so that parts of parts are no chain
    root = code.load("ptr", owner)
    base = code.load("ptr", root, VALUE_SLOTS["base"])
    code.need(code.differs(base, code.word("None")), "found")
    code.store("ptr", base, owner)
    code.jump("up")
    code.mark("found")
    code.hold(root)
    before = code.load("ptr", value, VALUE_SLOTS["base"])
    code.store("ptr", root, value, VALUE_SLOTS["base"])
    code.store("ptr", begin, value, VALUE["address"])
    code.drop(before)  # None
    code.give("void", "")
    code.mark("copy")
    code.run("copied", "void", f"ptr {view}", f"ptr {begin}", f"ptr {code.load('ptr', value, VALUE['address'])}")
    code.give("void", "")
    code.finish()


def _copied(module: LlvmModule) -> None:
    """Elements at steps become dense, row by row; there is at least one axis, and an element."""
    code = Routine(module, "copied", "void", "ptr", "ptr", "ptr")
    view, begin, memory = code.parameters
    last = code.add(code.load("i64", view, VIEW["rank"]), -1)
    sizes, steps = code.load("ptr", view, VIEW["sizes"]), code.load("ptr", view, VIEW["steps"])
    item = code.load("i64", view, VIEW["item"])
    count, step = code.load("i64", sizes, last, WORD), code.load("i64", steps, last, WORD)
    row = code.value("i64", f"shl i64 {count}, {item}")
    indices, source, target = code.variable("i64", MOST_AXES), code.variable("ptr"), code.variable("ptr")
    axis = code.variable("i64")
    with code.each(last) as number:
        code.store("i64", 0, indices, number, WORD)
    code.store("ptr", begin, source)
    code.store("ptr", memory, target)
    code.mark("row")
    cases = " ".join(f"i64 {log}, label %items_{log}" for log in range(4))
    code.do(f"switch i64 {item}, label %copied_row [ {cases} ]")
    for log in range(4):
        code.start_block(f"items_{log}")
        type, first, here = f"i{8 << log}", code.load("ptr", source), code.load("ptr", target)
        with code.each(count) as number:
            element = code.load(type, first, code.value("i64", f"mul i64 {number}, {step}"))
            code.store(type, element, here, number, 1 << log)
        code.jump("copied_row")
    code.start_block("copied_row")
    code.store("ptr", code.at(code.load("ptr", target), row), target)
    code.store("i64", code.add(last, -1), axis)
    code.mark("axis")
    now = code.load("i64", axis)
    code.need(code.compare("sge", "i64", now, 0), "done")
    along, size = code.load("i64", steps, now, WORD), code.load("i64", sizes, now, WORD)
    index = code.add(code.load("i64", indices, now, WORD), 1)
    moved = code.at(code.load("ptr", source), along)
    code.store("ptr", moved, source)
    code.store("i64", index, indices, now, WORD)
    code.need(code.compare("sge", "i64", index, size), "row")
    span = code.value("i64", f"mul i64 {along}, {size}")
    code.store("ptr", code.at(moved, code.value("i64", f"sub i64 0, {span}")), source)
    code.store("i64", 0, indices, now, WORD)
    code.store("i64", code.add(now, -1), axis)
    code.jump("axis")
    code.mark("done")
    code.give("void", "")
    code.finish()
