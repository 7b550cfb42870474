"""``take_part``: the value that a part of another becomes, in the same memory or as a copy."""

from __future__ import annotations

from jitgraph.codegen.dispatch.routine import Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime.dispatch_records import MOST_AXES, VALUE, VALUE_SLOTS, VIEW, WORD


def define(module: LlvmModule) -> None:
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
