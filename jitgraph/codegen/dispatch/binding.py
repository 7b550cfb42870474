"""``bound``: the arguments of a call in the order of the parameters, as Python binds them."""

from __future__ import annotations

from jitgraph.codegen.dispatch.routine import Routine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import SIGNATURE


def define(module: LlvmModule) -> None:
    """``i1 bound(runtime, signature, arguments, count, keywords, registers)``; false where Python has to bind.

    Register k gets the value of parameter k; further positional arguments, where the signature takes any, come last.
    """
    code = Routine(module, "bound", "i1", "ptr", "ptr", "ptr", "i64", "ptr", "ptr")
    code.runtime, signature, arguments, nargs, keywords, registers = code.parameters
    count = code.load("i64", signature, SIGNATURE["count"])
    variadic = code.compare("ne", "i64", code.load("i64", signature, SIGNATURE["variadic"]), 0)
    few = code.compare("sle", "i64", nargs, code.load("i64", signature, SIGNATURE["positional"]))
    code.need(code.either(few, variadic), "no")
    code.need(code.compare("slt", "i64", nargs, layout.MOST_REGISTERS // 2), "no")
    with code.each(nargs) as number:
        code.store("ptr", code.load("ptr", arguments, number, layout.WORD), registers, number, layout.WORD)
    rest = code.label("rest")
    has_keywords = code.differs(keywords)
    code.need(code.either(has_keywords, code.compare("slt", "i64", nargs, count)), "yes")
    with code.each(count, nargs) as number:
        code.store("ptr", "null", registers, number, layout.WORD)
    names = code.load("ptr", signature, SIGNATURE["names"])
    code.need(has_keywords, rest)
    with code.each(code.load("i64", keywords, cpython.SIZE)) as index:
        name = code.load("ptr", code.at(keywords, cpython.TUPLE_ITEMS), index, layout.WORD)
        match = code.variable("i1")
        code.store("i1", "false", match)
        with code.each(count, nargs) as number:
            same = code.is_same(code.load("ptr", names, number, layout.WORD), name)  # both are interned
            with code.when(same):
                code.store("i1", "true", match)
                value = code.load("ptr", code.at(arguments, code.add(nargs, index), layout.WORD))
                code.store("ptr", value, registers, number, layout.WORD)
        code.need(code.load("i1", match), "no")
    code.mark(rest)
    defaults = code.load("ptr", signature, SIGNATURE["defaults"])
    function = code.load("ptr", signature, SIGNATURE["function"])
    positional = code.load("i64", signature, SIGNATURE["positional"])
    with code.each(count, nargs) as number:
        missing = code.is_same(code.load("ptr", registers, number, layout.WORD))
        with code.when(missing):
            default = code.load("ptr", defaults, number, layout.WORD)
            match, by_name, filled = code.variable("ptr"), code.label("by_name"), code.label("filled")
            fixed = code.label("steady")
            code.store("ptr", default, match)
            code.need(code.differs(function), fixed)
            code.need(code.compare("slt", "i64", number, positional), by_name)
            code.need(code.differs(default), "no")
            now = code.load("ptr", function, cpython.FUNCTION_DEFAULTS)
            code.need(code.is_same(now, code.load("ptr", signature, SIGNATURE["defaults_object"])), "no")
            code.jump(filled)
            code.start_block(by_name)  # such defaults are read from their dict at each call
            mapping = code.load("ptr", function, cpython.FUNCTION_KWDEFAULTS)
            code.need(code.differs(mapping), "no")
            name = code.load("ptr", names, number, layout.WORD)
            value = code.api("PyDict_GetItemWithError", "ptr", f"ptr {mapping}", f"ptr {name}")
            code.need(code.differs(value), "no")
            code.store("ptr", value, match)
            code.jump(filled)
            code.start_block(fixed)  # of no function whose defaults may change
            code.need(code.differs(default), "no")
            code.mark(filled)
            code.store("ptr", code.load("ptr", match), registers, number, layout.WORD)
    code.mark("yes")
    code.give("i1", "true")
    code.mark("no")
    code.api("PyErr_Clear", "void")
    code.give("i1", "false")
    code.finish()
