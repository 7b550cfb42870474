"""Checks that fail: an error record in device memory, and threads that touch nothing more.

The record is 40 bytes: a lock (int32, 4 bytes of padding), then int64 each: the order of the failure, the value and the
bound that it reports, and the number of the check. Of several failures the one of the lowest order stays; at first all
bytes of the record are 0xFF: nobody has the lock, and the order is the greatest of unsigned numbers. The order of a
failure is that of its launch, above bit 40, and the number of the thread or the block.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from jitgraph.codegen.kernels.kernel import CheckStatement, Load, Store, Var
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.builder import Definition, LlvmFunction, LlvmModule, LlvmScalar, LlvmValue
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.dtypes import bool_

LAUNCH_SHIFT: Final = 40
"""The bit from which on an order holds the number of the launch."""

# A record is more than an atomic holds, so it is written under a lock.
_FAIL: Final = Definition(
    "jg_fail",
    "void @jg_fail(ptr addrspace(1) %record, i64 %order, i64 %value, i64 %bound, i64 %check)",
    """start:
  %order.at = getelementptr i64, ptr addrspace(1) %record, i64 1
  %value.at = getelementptr i64, ptr addrspace(1) %record, i64 2
  %bound.at = getelementptr i64, ptr addrspace(1) %record, i64 3
  %check.at = getelementptr i64, ptr addrspace(1) %record, i64 4
  br label %spin
spin:
  %pair = cmpxchg ptr addrspace(1) %record, i32 -1, i32 1 syncscope("device") acquire monotonic
  %mine = extractvalue { i32, i1 } %pair, 1
  br i1 %mine, label %inside, label %spin
inside:
  %old = load volatile i64, ptr addrspace(1) %order.at
  %first = icmp ult i64 %order, %old
  br i1 %first, label %write, label %out
write:
  store volatile i64 %order, ptr addrspace(1) %order.at
  store volatile i64 %value, ptr addrspace(1) %value.at
  store volatile i64 %bound, ptr addrspace(1) %bound.at
  store volatile i64 %check, ptr addrspace(1) %check.at
  br label %out
out:
  store atomic i32 -1, ptr addrspace(1) %record syncscope("device") release, align 4
  ret void""",
    attributes="cold nounwind",
    inlined=True,
)

_ALIVE: Final = Var("$alive", bool_)


class Failures:
    """The error record of a kernel's function; its last two arguments are its address and the launch's order."""

    def __init__(self, function: LlvmFunction) -> None:
        self.function = function
        self.record = function.argument("ptr addrspace(1)", "align 8")
        self.first = function.argument("i64")
        self._alive: LlvmValue | None = None

    def leave_if_failed(self) -> None:
        """Return where a launch before this one has failed: what it should have checked is not to be relied on.

        The numbers of launches begin again at 0 where loops make more of them than there are.
        """
        function = self.function
        address = function.emit("ptr addrspace(1)", f"getelementptr i64, {self.record}, i64 1")
        order = function.emit("i64", f"load volatile i64, {address}, align 8")
        none = function.emit("i1", f"icmp eq {order}, -1")
        other = function.emit("i64", f"xor {order}, {self.first.name}")
        mine = function.emit("i1", f"icmp ult {other}, {1 << LAUNCH_SHIFT}")
        leave_if(function, function.emit("i1", f"xor i1 {function.emit('i1', f'or {none}, {mine.name}').name}, true"))

    def has_failed(self) -> LlvmValue:
        """Whether a check of any launch so far has failed, this one included."""
        address = self.function.emit("ptr addrspace(1)", f"getelementptr i64, {self.record}, i64 1")
        order = self.function.emit("i64", f"load volatile i64, {address}, align 8")
        return self.function.emit("i1", f"icmp ne {order}, -1")

    def stay(self) -> None:
        """Let threads whose check fails go on, touching nothing, since others wait for them at barriers."""
        self._alive = self.function.alloca("i1", 1, 1)
        self.function.do(f"store i1 true, {self._alive}")

    def masked(self, access: Load | Store, env: Environment) -> Load | Store:
        """The access, which is none for a thread whose check has failed."""
        if self._alive is None:
            return access
        alive = env.ops.make(f"load i1, {self._alive}", bool_, 1)
        env.bind(_ALIVE.name, alive if access.mask is None else env.ops.and_(alive, env[access.mask.name]))
        return replace(access, mask=_ALIVE)

    def check(self, check: CheckStatement, env: Environment) -> None:
        """Record a failure, and return or touch nothing more."""
        _define(env.module)
        failed = env.ops.not_(env[check.ok.name])
        function = self.function
        with loops.only_if(env, failed):
            value, bound = (env[var.name] if var is not None else integer(0) for var in (check.value, check.bound))
            order = function.emit("i64", f"add {self.first}, {env['$order'].name}")
            function.do(f"call void @{_FAIL.name}({self.record}, {order}, {value}, {bound}, i64 {check.check})")
            if self._alive is not None:
                function.do(f"store i1 false, {self._alive}")
        if self._alive is None:
            leave_if(function, LlvmValue(failed.name, failed.type))


def _define(module: LlvmModule) -> None:
    """Write what records a failure, once a module."""
    if module.claim(_FAIL.name):
        module.functions.append(_FAIL)


def leave_if(function: LlvmFunction, condition: LlvmValue | LlvmScalar) -> None:
    """Return from the function where ``condition`` holds; no barrier may follow that waits for this thread."""
    leave, stay, known = function.label("leave"), function.label("stay"), function.known
    function.branch(condition.name, leave, stay, likely=False)
    function.start_block(leave)
    function.ret()
    function.start_block(stay, known)
