"""References, and the life of values and handles: taken from the dead where there are some, and put back when they end.

A value's small memory comes from lists of free blocks by size and goes back there. Both classes are Python's own
(``eager/value.py``, ``tensor/tensor.py``); what stands here takes the place of their deallocation, subclasses included.
"""

from __future__ import annotations

from collections.abc import Mapping

from jitgraph.codegen.dispatch.routine import NULL, Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import RUNTIME, VALUE

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
    slots = {"_value": none, "_grad": none, "_indexed": flags["indexed"], "_requires_grad": flags["requires_grad"],
             "_weak": flags["weak"]}  # fmt: skip
    _fill(code, obj, layout.HANDLE_SLOTS, slots)
    code.store("ptr", NULL, obj, code.word("handle_weak_references", "i64"))
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
