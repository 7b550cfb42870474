"""Statements of kernel bodies, one by one. See ``environment.py`` for what an environment is."""

from __future__ import annotations

from typing import Any, Final

from jitgraph.codegen.cpu import parallel, pool, serial
from jitgraph.codegen.cpu.access import active_mask, emit_load, emit_store
from jitgraph.codegen.kernels.kernel import (
    CheckStatement,
    Contract,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
)
from jitgraph.codegen.llvm.division import any_lane
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import index_value
from jitgraph.codegen.llvm.let import emit_let
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.errors import CompileError
from jitgraph.runtime import imports

MAX_LOCAL_BYTES: Final = 256 << 10


def emit_statement(statement: Statement, env: Environment) -> None:
    """Emit one statement and bind what it defines."""
    match statement:
        case Let():
            env.bind(statement.var.name, emit_let(statement, env))
        case IndexValue():
            env.bind(statement.var.name, index_value(env, statement.index))
        case Load():
            emit_load(statement, env)
        case Store():
            emit_store(statement, env)
        case CheckStatement():
            emit_check(statement, env)
        case Local():
            emit_local(statement, env)
        case Loop(kind="reduce"):
            _part("reductions").emit_reduce(statement, env)
        case Loop():
            if env.outermost and statement.kind in ("parallel", "vector"):
                parallel.emit_parallel(statement, env)
            else:
                serial.emit_loop(statement, env)
        case Contract():
            with env.memory.frame():
                _part("contract").emit_contract(statement, env)


def _part(name: str) -> Any:
    """A module of this room that most kernels do not need, and that takes a while to import."""
    return imports.module(f"jitgraph.codegen.cpu.{name}")


def emit_check(check: CheckStatement, env: Environment) -> None:
    """Return from the function with the error where any lane that is in range fails."""
    s, function = env.ops, env.function
    bad = s.not_(env[check.ok.name])
    if env.lanes is not None and (bad.lanes > 1 or env.lanes.mask is not None):
        active = active_mask(env, bad)
        assert active is not None
        bad = active
    failed, passed = function.label("failed"), function.label("passed")
    function.branch(any_lane(s, bad).name, failed, passed, likely=False)
    known = function.known
    function.start_block(failed)
    lane = _first_lane(env, bad)
    reported = [
        _of_lane(env, env[var.name], lane) if var is not None else integer(0) for var in (check.value, check.bound)
    ]
    pool.declare(env.module)
    code = function.emit(
        "i32",
        f"call i32 @jg_fail({env['$call']}, i32 {check.check}, {reported[0]}, {reported[1]}, {env['$order']})",
    )
    function.ret(code)
    function.start_block(passed, known)


def _first_lane(env: Environment, bad: LlvmScalar) -> str:
    if bad.lanes == 1:
        return "0"
    function = env.function
    bits = function.emit(f"i{bad.lanes}", f"bitcast {bad} to i{bad.lanes}")
    return function.emit(bits.type, f"call {bits.type} @llvm.cttz.{bits.type}({bits}, i1 true)").name


def _of_lane(env: Environment, x: LlvmScalar, lane: str) -> LlvmScalar:
    if x.lanes == 1:
        return x
    return env.ops.make(f"extractelement {x}, i{x.lanes} {lane}", x.dtype, 1)


def emit_local(local: Local, env: Environment) -> None:
    """Reserve the buffer; inside a vector loop every lane has its own, element by element."""
    lanes = env.lanes.width if env.lanes is not None else 1
    if local.size * lanes * local.dtype.itemsize > MAX_LOCAL_BYTES:
        raise CompileError(
            f"kernel {env.kernel.name} wants {local.size * lanes * local.dtype.itemsize} bytes of memory"
            f" for {local.buffer}; {MAX_LOCAL_BYTES} are allowed",
            hint="put it into a temporary buffer instead",
        )
    memory = env.private(local.dtype, local.size * lanes)
    env.bind("&" + local.buffer, memory._replace(lanes=lanes))
