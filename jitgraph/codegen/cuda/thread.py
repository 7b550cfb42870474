"""Statements of one thread: scalars, elements of memory, checks, and loops that run all of their steps in it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from jitgraph.codegen.cuda.failures import Failures
from jitgraph.codegen.cuda.indices import AxisPosition, Indices, alignment
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
    Update,
)
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import element_address, load_element, store_element, to_memory
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, emit_let
from jitgraph.codegen.llvm.loops import Emit, emit_serial, window
from jitgraph.dtypes import is_float, is_signed
from jitgraph.errors import UnsupportedOp

VECTOR_BYTES = 16
"""The most that one instruction loads or stores."""

_WRITTEN_OUT = 256
"""Instructions up to which a run of memory that a thread walks is written out: LLVM then joins its accesses."""

_GROUP = 4
"""Elements of such a run that are aligned together; wider elements make several accesses."""


class ThreadStatements:
    """What ``Environment.statement`` is where each thread works by itself.

    Of elements that a thread has side by side the first says how it is aligned, from which LLVM makes accesses of
    several: ``first_of`` is their axis and their number, while the first one is emitted. ``places`` are axes whose
    values, while an element is emitted, lie at constant distances from those of a thread's first one.
    """

    def __init__(self, indices: Indices, failures: Failures | None) -> None:
        self.indices, self.failures = indices, failures
        self.first_of: tuple[str, int] | None = None
        self.places: Mapping[str, AxisPosition] = {}

    def statement(self, statement: Statement, env: Environment) -> None:
        """Emit one statement and bind what it defines."""
        match statement:
            case Let():
                env.bind(statement.var.name, emit_let(statement, env))
            case IndexValue():
                env.bind(statement.var.name, self.indices.value(env, statement.index))
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
                serial = replace(statement, kind="serial")
                if is_aligned_run(serial):
                    emit_serial(serial, env, *window(serial, env), _plain, _WRITTEN_OUT, self._turn_of(serial))
                else:
                    emit_serial(serial, env, *window(serial, env), _plain)
            case _:
                raise UnsupportedOp(f"kernel {env.kernel.name}: a contraction inside of other loops")

    def _turn_of(self, loop: Loop) -> Callable[[int | None], None]:
        """What says of each step of a run that is written out whether it is the first of an aligned group."""
        outside = self.first_of

        def at_turn(turn: int | None) -> None:
            first = turn is not None and turn % _GROUP == 0
            self.first_of = outside if turn is None else (loop.axis, _GROUP) if first else None

        return at_turn

    def _load(self, load: Load, env: Environment) -> None:
        buffer = env["&" + load.buffer]
        access = self._masked(load, env)
        mask = None if access.mask is None else env[access.mask.name]
        index = self.indices.element(env, load.index, self.places)
        env.bind(load.var.name, load_element(env, buffer, index, mask, self._alignment(load, env)))

    def _store(self, store: Store, env: Environment) -> None:
        buffer = env["&" + store.buffer]
        access = self._masked(store, env)
        mask = None if access.mask is None else env[access.mask.name]
        value = to_memory(env, env[store.value.name], buffer.dtype)
        index = self.indices.element(env, store.index, self.places)
        if store.update is None:
            store_element(env, buffer, index, value, mask, self._alignment(store, env))
            return
        with loops.only_if(env, mask):
            update_element(env, buffer, index, value, store.update)

    def _alignment(self, access: Load | Store, env: Environment) -> int:
        if self.first_of is None or all(param.name != access.buffer for param in env.kernel.params):
            return 1  # memory of the kernel's own is aligned to an element
        dtype = access.var.dtype if isinstance(access, Load) else access.value.dtype
        return min(alignment(access.index, *self.first_of), VECTOR_BYTES // dtype.itemsize)

    def _masked(self, access: Load | Store, env: Environment) -> Load | Store:
        return access if self.failures is None else self.failures.masked(access, env)


def is_aligned_run(loop: Loop) -> bool:
    """Whether a serial loop walks a run of memory, of groups that are aligned wherever it begins."""
    if loop.span is None or loop.span % _GROUP or loop.begin % _GROUP != 0:
        return False
    return all(isinstance(statement, Let | IndexValue | Load | Store) for statement in loop.body)


def update_element(env: Environment, buffer: LlvmScalar, index: LlvmScalar, value: LlvmScalar, update: Update) -> None:
    """An element and ``value`` combined in one step, which no other thread of the device comes between."""
    name: str = update
    if is_float(buffer.dtype):
        name = f"f{update}"
    elif update != "add" and not is_signed(buffer.dtype):
        name = f"u{update}"
    address = element_address(env, buffer, index)
    env.function.do(f'atomicrmw {name} ptr {address}, {value} syncscope("device") monotonic')


def _plain(env: Environment, step: Emit, body: Body, count: int | None) -> Emit:
    return step
