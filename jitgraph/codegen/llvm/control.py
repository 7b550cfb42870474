"""Branches, loops and prints of a schedule, and polls whether a call is to stop, as code of every target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from jitgraph.codegen.kernels.schedule import Branch, HostStep, PrintStep, Step, While
from jitgraph.codegen.llvm.builder import Definition, LlvmFunction, LlvmValue, check
from jitgraph.runtime import loader
from jitgraph.runtime.loader import abi
from jitgraph.runtime.loader.abi import CALLBACK_FAILED

# ----------------------------------------------------------------------
# The question to the host whether a call is to stop, as a function that loops of the calling thread may call often.

_CYCLES: Final = 1 << 27  # about 50 ms: 27 ms at 5 GHz, 107 ms at 1.25 GHz

POLL: Final = Definition(
    "jg_poll",
    "i32 @jg_poll(ptr %host, ptr %call)",
    f"""start:
  %poll.at = getelementptr i8, ptr %host, i64 {abi.HOST_POLL}
  %last.at = getelementptr i8, ptr %call, i64 {abi.CALL_LAST_POLL}
  %now = call i64 @llvm.readcyclecounter()
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %early = icmp ult i64 %passed, {_CYCLES}
  br i1 %early, label %go.on, label %due
due:
  store i64 %now, ptr %last.at
  %first = icmp eq i64 %last, 0
  br i1 %first, label %go.on, label %ask
ask:
  %poll = load ptr, ptr %poll.at
  %has = icmp ne ptr %poll, null
  br i1 %has, label %call.it, label %go.on
call.it:
  %asked = call i32 %poll(ptr %host)
  %yes = icmp ne i32 %asked, 0
  %result = select i1 %yes, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0""",
    linkage="",
    hot=False,
    returns=2,
)
"""INTERRUPTED where the host, which is asked every 50 ms or so, wants the call to stop; else 0."""


# ----------------------------------------------------------------------
# Branches, loops and prints of a schedule, as code of every target: how a predicate is read is the target's own.

Write = Callable[[Sequence[Step]], None]
"""What writes steps to the end of the function."""


def emit_branch(function: LlvmFunction, branch: Branch, predicate: Callable[[str], str], write: Write) -> None:
    """The steps of one side or the other; ``predicate`` reads the bool in a buffer as an i1."""
    then, otherwise, after = (function.label(hint) for hint in ("then", "otherwise", "after"))
    function.branch(predicate(branch.predicate), then, otherwise)
    for label, steps in ((then, branch.then), (otherwise, branch.otherwise)):
        function.start_block(label)
        write(steps)
        function.jump(after)
    function.start_block(after)


def emit_while(
    function: LlvmFunction, loop: While, predicate: Callable[[str], str], write: Write, poll: Callable[[], None]
) -> None:
    """The body for as long as the predicate, which the condition stores, is true; ``poll`` comes behind each turn."""
    test, body, after = (function.label(hint) for hint in ("test", "body", "after"))
    function.jump(test)
    function.start_block(test)
    write(loop.condition)
    function.branch(predicate(loop.predicate), body, after)
    function.start_block(body)
    write(loop.body)
    poll()
    function.jump(test)
    function.start_block(after)


def emit_print(
    function: LlvmFunction,
    host: LlvmValue,
    call: LlvmValue,
    step: PrintStep,
    addresses: Callable[[], Sequence[str]],
    checked: Callable[[str], None],
) -> None:
    """Ask the host, where it prints, to print: the number of the print and its operands lie in the call.

    ``addresses`` gives where the operands lie in the host's memory, ``checked`` makes a call that gives an error code.
    """
    slot = function.emit("ptr", f"getelementptr i8, {host}, i64 {abi.HOST_PRINT}")
    ask, go_on = function.label("print"), function.label("go_on")
    printer = function.emit("ptr", f"load ptr, {slot}, align 8")
    function.branch(function.emit("i1", f"icmp ne {printer}, null").name, ask, go_on)
    function.start_block(ask)
    operands = function.alloca("ptr", max(1, len(step.buffers)), align=8)
    for index, address in enumerate(addresses()):
        at = function.emit("ptr", f"getelementptr ptr, {operands}, i64 {index}")
        function.do(f"store ptr {address}, {at}, align 8")
    for value, offset in ((f"i64 {step.site}", abi.CALL_PRINT_SITE), (operands, abi.CALL_PRINT_OPERANDS)):
        at = function.emit("ptr", f"getelementptr i8, {call}, i64 {offset}")
        function.do(f"store {value}, {at}, align 8")
    checked(f"call i32 {printer.name}({host}, {call})")
    function.jump(go_on)
    function.start_block(go_on)


def emit_host_call(
    function: LlvmFunction,
    host: LlvmValue,
    call: LlvmValue,
    dims: LlvmValue,
    step: HostStep,
    ptrs: Sequence[str],
) -> None:
    """Have the host evaluate an op, whose operands and results lie at ``ptrs``; a host that cannot ends the call."""
    slot = function.emit("ptr", f"getelementptr i8, {host}, i64 {abi.HOST_CALLBACK}")
    callback = function.emit("ptr", f"load ptr, {slot}, align 8")
    ask, refuse = function.label("call"), function.label("no_callback")
    function.branch(function.emit("i1", f"icmp ne {callback}, null").name, ask, refuse)
    function.start_block(refuse)
    function.ret(LlvmValue(str(CALLBACK_FAILED), "i32"))
    function.start_block(ask)
    buffers = function.alloca("ptr", max(1, len(ptrs)), align=8)
    for number, address in enumerate(ptrs):
        at = function.emit("ptr", f"getelementptr ptr, {buffers}, i64 {number}")
        function.do(f"store ptr {address}, {at}, align 8")
    check(function, f"call i32 {callback.name}({host}, {call}, i64 {step.site}, {buffers}, {dims})")
