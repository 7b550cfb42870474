"""``vectorcall``: a call of a traced function, by the first of its tables that fits, or else by Python; and its
image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.cpu.objects import ObjectStore
from jitgraph.codegen.dispatch import checks, objects
from jitgraph.codegen.dispatch.objects import RECORD_BYTES, Making
from jitgraph.codegen.dispatch.routine import NULL, RUNTIME_ADDRESS, Routine
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.runtime.dispatch_records import EFFECT, FUNCTION, HANDLE, RESULT, SIGNATURE, TABLE, VALUE, VIEW, WORD
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# ``bound``: the arguments of a call in the order of the parameters, as Python binds them.


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


# ----------------------------------------------------------------------
# ``vectorcall``: a call of a traced function, by the first of its tables that fits, or else by Python.
#
# The order of a call: check, make values and handles, check again if that may have run code of the user's, take
# references, run the entry, commit every effect, then drop what was replaced. Between the last check and the commit no
# code of the user's runs, unless the table says that the interpreter's lock is released; such a table changes no
# handle.

_DECLINED = "inttoptr (i64 1 to ptr)"
_ARGUMENTS_MASK = (1 << 63) - 1


def module() -> LlvmModule:
    """The whole dispatcher."""
    dispatcher = LlvmModule(machine.TRIPLE)
    dispatcher.declare(f"@{RUNTIME_ADDRESS} = hidden constant i64 {layout.RUNTIME_MARK}, align 8")
    objects.define(dispatcher)
    define(dispatcher)
    checks.define(dispatcher)
    objects.define_views(dispatcher)
    _Attempt(dispatcher).write()
    _vectorcall(dispatcher)
    _export_of(dispatcher)
    return dispatcher


def _vectorcall(module: LlvmModule) -> None:
    code = Routine(module, "vectorcall", "ptr", "ptr", "ptr", "i64", "ptr", linkage="hidden")
    function, arguments, flags, keywords = code.parameters
    code.find_runtime()
    first = code.load("ptr", function, FUNCTION["table"])
    code.need(code.differs(first), "decline")
    args = (f"ptr {code.runtime}", f"ptr {function}", f"ptr {arguments}", f"i64 {flags}", f"ptr {keywords}")
    result = code.run("attempt", "ptr", *args)
    code.need(code.differs(result, _DECLINED), "decline")
    code.give("ptr", result)
    code.mark("decline")
    fallback = code.load("ptr", function, FUNCTION["fallback"])
    code.give("ptr", code.api("PyObject_Vectorcall", "ptr", f"ptr {fallback}", *args[2:]))
    code.finish()


def _export_of(module: LlvmModule) -> None:
    """``ptr export(i64 number)``: where the image's functions lie, for who maps it."""
    code = Routine(module, "export", "ptr", "i64", linkage="hidden")
    (number,) = code.parameters
    address = code.named(layout.EXPORTS[0])
    for index, name in enumerate(layout.EXPORTS[1:], 1):
        matches = code.compare("eq", "i64", number, index)
        address = code.select(matches, "ptr", code.named(name), address)
    code.give("ptr", address)
    code.finish()


class _Attempt(Making):
    """``ptr attempt(runtime, function, arguments, flags, keywords)``: the result, null with an exception, or 1."""

    def write(self) -> None:
        code = self.code
        nargs = code.value("i64", f"and i64 {self.flags}, {_ARGUMENTS_MASK}")
        signature = code.load("ptr", self.function, FUNCTION["signature"])
        bound = (
            f"ptr {code.runtime}",
            f"ptr {signature}",
            f"ptr {self.arguments}",
            f"i64 {nargs}",
            f"ptr {self.keywords}",
            f"ptr {self.registers}",
        )
        code.need(code.run("bound", "i1", *bound), "declined")
        code.store("i64", nargs, code.at(self.registers, layout.COUNT_REGISTER * WORD))
        code.store("ptr", code.load("ptr", self.function, FUNCTION["table"]), self.current)
        code.mark("try")
        self.table = code.load("ptr", self.current)
        self._check("another")
        code.need(code.compare("eq", "i64", self._word("busy", "i64"), 0), "declined")
        self._need_pool()
        code.hold(self._word("owner"))
        self._make()
        self._hold()
        self._run()
        self._commit()
        self._finish()
        self._failures()
        code.finish()

    def _need_pool(self) -> None:
        """Python starts the pool of threads, after a fork as well."""
        code = self.code
        alone = code.is_same(code.load("ptr", self._word("host"), abi.HOST_POOL))
        code.need(code.compare("eq", "i1", code.both(self._flag(layout.PARALLEL), alone), "false"), "declined")

    # --- the call -----------------------------------------------------------------------------------------------------

    def _hold(self) -> None:
        """Take references to the operands, to what is written or given out, and to the new owners of memory."""
        code = self.code
        with code.each(self._word("held_count", "i64")) as number:
            code.hold(self._register(number))
        with code.each(self._word("input_count", "i64")) as number:
            code.hold(code.load("ptr", self.held, number, WORD))
        inputs = self._word("input_count", "i64")
        with code.each(self._word("value_count", "i64")) as number:
            value = code.load("ptr", self.values, number, WORD)
            with code.when(code.compare("ne", "i8", code.load("i8", self.taken, number, 1), 0)):
                code.hold(value)
            code.store("ptr", code.load("ptr", value, VALUE["address"]), self.addresses, code.add(inputs, number), WORD)

    def _run(self) -> None:
        code = self.code
        view = self._word("view")
        code.need(code.is_same(view), "part")
        code.store("i64", 1, self.table, TABLE["busy"])
        call = self._word("call")
        code.store("i64", 0, call, abi.CALL_LAST_POLL)
        code.store("i32", 0, call, abi.CALL_ERROR_CODE)
        locked, unlocked = code.label("locked"), code.label("unlocked")
        code.branch(self._flag(layout.UNLOCKED), unlocked, locked)
        code.start_block(locked)
        quiet = self._word("quiet_host")
        code.store("ptr", code.load("ptr", self._word("host"), abi.HOST_POOL), quiet, abi.HOST_POOL)
        code.store("i32", self._enter(quiet), self.status)
        code.jump("ran")
        code.start_block(unlocked)
        state = code.api("PyEval_SaveThread", "ptr")
        code.store("i32", self._enter(self._word("host")), self.status)
        code.api("PyEval_RestoreThread", "void", f"ptr {state}")
        code.mark("ran")
        code.store("i64", 0, self.table, TABLE["busy"])
        self._free_blocks()
        code.need(code.compare("eq", "i32", code.load("i32", self.status), 0), "failed")
        code.jump("counted")
        code.start_block("part")
        operand, memory = code.load("ptr", self.held), code.load("ptr", self.addresses)
        begin = code.at(memory, code.load("i64", self.registers, code.load("i64", view, VIEW["offset"]), WORD))
        args = (f"ptr {code.runtime}", f"ptr {view}", f"ptr {operand}", f"ptr {begin}")
        code.run("take_part", "void", *args, f"ptr {code.load('ptr', self.values)}")
        code.mark("counted")
        code.store("i64", code.add(self._word("hits", "i64"), 1), self.table, TABLE["hits"])
        clock = code.add(code.word("clock", "i64"), 1)
        code.store("i64", clock, code.runtime, layout.RUNTIME["clock"])
        code.store("i64", clock, self.table, TABLE["used"])

    def _free_blocks(self) -> None:
        """Free what the call's stacks took."""
        code, call = self.code, self._word("call")
        code.mark("blocks")
        block = code.load("ptr", call, abi.CALL_BLOCKS)
        with code.when(code.differs(block), likely=False):
            code.store("ptr", code.load("ptr", block, abi.BLOCK_NEXT), call, abi.CALL_BLOCKS)
            code.api("free", "void", f"ptr {code.load('ptr', block, abi.BLOCK_BASE)}")
            code.jump("blocks")
            code.never()

    def _enter(self, host: str) -> str:
        code = self.code
        args = (f"ptr {host}", f"ptr {self._word('call')}", f"ptr {self.addresses}", f"ptr {self._word('dims')}")
        return code.value("i32", f"call i32 {self._word('entry')}({', '.join(args)})")

    # --- what it leads to ---------------------------------------------------------------------------------------------

    def _commit(self) -> None:
        """Give the handles their values and write every slot; nothing that was there is dropped yet."""
        code = self.code
        none = code.word("None")
        with self._each_taken() as number:  # how the old contents were made
            value = code.load("ptr", self.values, number, WORD)
            offset = layout.VALUE_SLOTS["record"]
            old = code.load("ptr", value, offset)
            with code.when(code.differs(old, none), likely=False):
                code.hold(none)
                code.store("ptr", none, value, offset)
                zero, output = code.word("zero"), layout.VALUE_SLOTS["output"]
                code.hold(zero)
                before = code.load("ptr", value, output)
                code.store("ptr", zero, value, output)
                code.drop(before)  # a number
                code.drop(old)  # the record of a leaf, which holds nothing
        offset = layout.HANDLE_SLOTS["_value"]
        with code.each(self._word("handle_count", "i64")) as number:
            record = code.at(self._word("handles"), number, RECORD_BYTES["HANDLE"])
            value = code.load("ptr", self.values, code.load("i64", record, HANDLE["value"]), WORD)
            code.hold(value)
            handle = code.load("ptr", self.handles, number, WORD)
            before = code.load("ptr", handle, offset)  # None
            code.store("ptr", value, handle, offset)
            code.drop(before)
        with code.each(self._word("effect_count", "i64")) as number:
            record = code.at(self._word("effects"), number, RECORD_BYTES["EFFECT"])
            what = self._what(code.load("i64", record, EFFECT["kind"]), code.load("i64", record, EFFECT["what"]))
            code.hold(what)
            owner = code.load("ptr", self.registers, code.load("i64", record, EFFECT["register"]), WORD)
            address = code.at(owner, code.load("i64", record, EFFECT["offset"]))
            code.store("ptr", code.load("ptr", address), self.replaced, number, WORD)
            code.store("ptr", what, address)

    def _what(self, kind: str, what: str) -> str:
        """An object that an effect or a result names."""
        code = self.code
        result = code.variable("ptr")
        sources = {
            layout.FROM_VALUE: self.values,
            layout.FROM_HANDLE: self.handles,
            layout.FROM_REGISTER: self.registers,
        }
        code.store("ptr", code.value("ptr", f"inttoptr i64 {what} to ptr"), result)
        for number, memory in sources.items():
            with code.when(code.compare("eq", "i64", kind, number)):
                code.store("ptr", code.load("ptr", memory, what, WORD), result)
        return code.load("ptr", result)

    def _finish(self) -> None:
        """Make the result, then drop what is no longer needed."""
        code = self.code
        kind = self._word("result_kind", "i64")
        one, several, python = code.label("one"), code.label("several"), code.label("python")
        code.do(
            f"switch i64 {kind}, label %{python} [ i64 {layout.RESULT_ONE}, label %{one} "
            f"i64 {layout.RESULT_TUPLE}, label %{several} ]"
        )
        code.start_block(one)
        result = self._result("0")
        code.hold(result)
        code.store("ptr", result, self.result)
        code.jump("release")
        code.start_block(several)
        results = code.api("PyTuple_New", "ptr", f"i64 {self._word('result_count', 'i64')}")
        code.store("ptr", results, self.result)
        code.need(code.differs(results), "release")
        with code.each(self._word("result_count", "i64")) as number:
            obj = self._result(number)
            code.hold(obj)
            code.store("ptr", obj, code.at(results, cpython.TUPLE_ITEMS), number, WORD)
        code.jump("release")
        code.start_block(python)
        self._call_finish()
        code.mark("release")
        with code.each(self._word("effect_count", "i64")) as number:
            old = code.load("ptr", self.replaced, number, WORD)
            with code.when(code.differs(old), likely=True):
                code.drop(old)
        code.mark("let_go")
        with code.each(self._word("input_count", "i64")) as number:
            code.drop(code.load("ptr", self.held, number, WORD))
        with code.each(self._word("held_count", "i64")) as number:
            code.drop(self._register(number))
        self._drop_made()
        code.drop(self._word("owner"))
        code.give("ptr", code.load("ptr", self.result))

    def _register(self, number: str) -> str:
        """The object in one of the registers that are needed after the call."""
        register = self.code.load("i64", self._word("held"), number, WORD)
        return self.code.load("ptr", self.registers, register, WORD)

    def _result(self, number: str) -> str:
        code = self.code
        record = code.at(self._word("results"), number, RECORD_BYTES["RESULT"])
        return self._what(code.load("i64", record, RESULT["kind"]), code.load("i64", record, RESULT["what"]))

    def _call_finish(self) -> None:
        """``finish(handles, operands, outputs)``: two tuples and a list."""
        code = self.code
        args = code.variable("ptr", 3)

        def put(offset: int, make: str, items: Callable[[str], str], count: str, find: Callable[[str], str]) -> None:
            size = self._word(count, "i64")
            container = code.api(make, "ptr", f"i64 {size}")
            code.store("ptr", container, args, offset * WORD)
            code.need(code.differs(container), "unfinished")
            with code.each(size) as index:
                obj = find(index)
                code.hold(obj)
                code.store("ptr", obj, items(container), index, WORD)

        def in_tuple(container: str) -> str:
            return code.at(container, cpython.TUPLE_ITEMS)

        for number in range(3):
            code.store("ptr", NULL, args, number * WORD)
        put(0, "PyTuple_New", in_tuple, "held_count", self._register)
        put(1, "PyTuple_New", in_tuple, "input_count", lambda number: code.load("ptr", self.held, number, WORD))
        put(2, "PyList_New", lambda arg: code.load("ptr", arg, cpython.LIST_ITEMS), "value_count",
            lambda number: code.load("ptr", self.values, number, WORD))  # fmt: skip
        self._drop_made()
        finish = self._word("finish")
        result = code.api("PyObject_Vectorcall", "ptr", f"ptr {finish}", f"ptr {args}", "i64 3", "ptr null")
        code.store("ptr", result, self.result)
        code.mark("unfinished")
        with code.each("3") as position:
            arg = code.load("ptr", args, position, WORD)
            with code.when(code.differs(arg), likely=True):
                code.drop(arg)

    # --- what goes wrong ----------------------------------------------------------------------------------------------

    def _failures(self) -> None:
        code = self.code
        code.mark("failed")
        number = code.value("i64", f"sext i32 {code.load('i32', self.status)} to i64")
        as_object = code.api("PyLong_FromLong", "ptr", f"i64 {number}")
        code.need(code.differs(as_object), "let_go")
        args = code.variable("ptr")
        code.store("ptr", as_object, args)
        fail = self._word("fail")  # which raises
        code.api("PyObject_Vectorcall", "ptr", f"ptr {fail}", f"ptr {args}", "i64 1", "ptr null")
        code.drop(as_object)
        code.jump("let_go")
        code.mark("undo")  # an exception is set
        self._undo_taken()
        self._drop_made()
        code.drop(self._word("owner"))
        code.give("ptr", NULL)
        code.mark("undo_declined")
        self._undo_taken()
        self._drop_made()
        code.drop(self._word("owner"))
        code.jump("declined")
        code.mark("another")
        following = self._word("next")
        code.store("ptr", following, self.current)
        code.need(code.is_same(following), "try")
        code.mark("declined")
        code.give("ptr", _DECLINED)


# ----------------------------------------------------------------------
# The image of the dispatcher: one for every CPython from 3.11 to 3.13 and every traced function.

TARGET: Final = Target.named("x86-64-v2")
"""It uses nothing that only some processors have."""


def unit() -> Unit:
    """What LLVM makes the dispatcher of."""
    return Unit(module().text(), hot=True)


def dispatcher_image() -> bytes:
    """The flat image; its entry gives the addresses of ``dispatch_records.EXPORTS`` by number."""
    store = ObjectStore()
    code = store.object(unit(), TARGET, "dispatcher")
    store.store()
    return link([code], {"entry": "export"})
