"""Statements of one thread: scalars, elements of memory, checks, and loops that run all of their steps in it."""

from __future__ import annotations

from dataclasses import replace

from jitgraph.codegen.cuda.failures import Failures
from jitgraph.codegen.cuda.reductions import emit_reduce
from jitgraph.codegen.kernels.kernel import (
    Body,
    CheckStatement,
    IndexValue,
    Let,
    Load,
    Local,
    Loop,
    Statement,
    Store,
)
from jitgraph.codegen.llvm.access import load_element, store_element, to_memory
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.index import index_value
from jitgraph.codegen.llvm.let import emit_let
from jitgraph.codegen.llvm.loops import Emit, emit_serial, window
from jitgraph.errors import UnsupportedOp


class ThreadStatements:
    """What ``Environment.statement`` is where each thread works by itself."""

    def __init__(self, failures: Failures | None) -> None:
        self.failures = failures

    def statement(self, statement: Statement, env: Environment) -> None:
        """Emit one statement and bind what it defines."""
        match statement:
            case Let():
                env.bind(statement.var.name, emit_let(statement, env))
            case IndexValue():
                env.bind(statement.var.name, index_value(env, statement.index))
            case Load():
                self._load(statement, env)
            case Store():
                self._store(statement, env)
            case CheckStatement():
                assert self.failures is not None
                self.failures.check(statement, env)
            case Local():
                env.bind("&" + statement.buffer, env.private(statement.dtype, statement.size))
            case Loop(kind="reduce"):
                emit_reduce(statement, env)
            case Loop():
                emit_serial(replace(statement, kind="serial"), env, *window(statement, env), _plain)
            case _:
                raise UnsupportedOp(f"kernel {env.kernel.name}: a contraction inside of other loops")

    def _load(self, load: Load, env: Environment) -> None:
        buffer = env["&" + load.buffer]
        access = self._masked(load, env)
        mask = None if access.mask is None else env[access.mask.name]
        env.bind(load.var.name, load_element(env, buffer, index_value(env, load.index), mask))

    def _store(self, store: Store, env: Environment) -> None:
        buffer = env["&" + store.buffer]
        access = self._masked(store, env)
        mask = None if access.mask is None else env[access.mask.name]
        value = to_memory(env, env[store.value.name], buffer.dtype)
        store_element(env, buffer, index_value(env, store.index), value, mask)

    def _masked(self, access: Load | Store, env: Environment) -> Load | Store:
        return access if self.failures is None else self.failures.masked(access, env)


def _plain(env: Environment, step: Emit, body: Body, count: int | None) -> Emit:
    return step
