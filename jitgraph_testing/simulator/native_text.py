"""LLVM IR of the native half of the scheduler; ``native.filled`` puts addresses and offsets into it.

``<L.x>`` is a pointer to a field of the launch, ``<F.x>``, ``<C.x>``, ``<E.x>``, ``<V.x>`` the offset of a field in
the record of a fiber, a copy, a noted access, a piece of live memory; ``<N.x>`` is a number.
"""

from __future__ import annotations

from typing import Final

from jitgraph_testing.simulator.native_accesses import ACCESSES
from jitgraph_testing.simulator.native_copies import COPIES
from jitgraph_testing.simulator.native_rounds import ROUNDS
from jitgraph_testing.simulator.native_warps import WARPS

DONE: Final = 0
FIRST_SHUFFLE: Final = 1
SHUFFLES: Final = ("idx", "up", "down", "bfly")
WARP_BARRIER: Final = 5
FIRST_VOTE: Final = 6
VOTES: Final = ("ballot", "any", "all", "uni")
BLOCK_BARRIER: Final = 10
FIRST_RARE: Final = 16
"""Operations with this number and greater ones are Python's."""

READ, WRITE, ATOMIC, VOLATILE = 1, 2, 4, 8
"""What an access does."""

PATIENT: Final = ATOMIC | VOLATILE
"""Accesses by which a thread may wait for another one, and so are counted."""

OUTSIDE, MISALIGNED, CONSTANT, TRAP, SPINNING, TOO_MANY_COPIES, LOG_FULL, DIVISION = 1, 2, 3, 4, 5, 6, 7, 8
"""What can be wrong with an access or a thread."""

GUARD_BYTES: Final = 256
GUARD: Final = 0xA5
PATIENCE: Final = 1 << 22

FUNCTIONS: Final = (
    "prepare",
    "run",
    "look",
    "damaged",
    "sweep",
    "stop",
    "access",
    "fault",
    "copy",
    "commit",
    "land",
    "check",
    "check_noted",
    "check_many",
    "rows",
    "round",
    "divide",
)

# System V ABI: a function keeps these; its caller has saved the rest. Arguments are in rdi and rsi.
_KEPT: Final = ("rbp", "rbx", "r12", "r13", "r14", "r15")
_SWITCH: Final = "; ".join(
    [
        *(f"pushq %{name}" for name in _KEPT),
        *("movq %rsp, (%rdi)", "movq (%rsi), %rsp"),
        *(f"popq %{name}" for name in reversed(_KEPT)),
        "retq",
    ]
)
_STACKS: Final = """
define hidden void @switch(ptr %save, ptr %load) naked noinline nounwind {
  call void asm sideeffect "<N.SWITCH>", ""()
  unreachable
}

define hidden void @start() noreturn nounwind {
  %begin = load ptr, ptr <L.begin>
  call void %begin()
  call void @stop(i32 <N.DONE>)
  unreachable
}

define hidden void @stop(i32 %kind) noinline nounwind {
  %fiber = load ptr, ptr <L.current>
  %kind.at = getelementptr i8, ptr %fiber, i64 <F.kind>
  store i32 %kind, ptr %kind.at
  %site = load i64, ptr <L.site>
  %short = trunc i64 %site to i32
  %site.at = getelementptr i8, ptr %fiber, i64 <F.site>
  store i32 %short, ptr %site.at
  call void @switch(ptr %fiber, ptr <L.host>)
  ret void
}

define hidden void @fault(i64 %what, i64 %address, i64 %size, i64 %kind, i64 %site) noinline noreturn nounwind {
  store i64 %what, ptr <L.fault>
  store i64 %address, ptr <L.fault_address>
  store i64 %size, ptr <L.fault_size>
  store i64 %kind, ptr <L.fault_kind>
  store i64 %site, ptr <L.fault_site>
  %fiber = load ptr, ptr <L.current>
  call void @switch(ptr %fiber, ptr <L.host>)
  unreachable
}

define hidden void @prepare(i64 %threads) nounwind {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %place = mul i64 %i, <F.size_of>
  %fiber = getelementptr i8, ptr inttoptr (i64 <N.fibers> to ptr), i64 %place
  %below = mul i64 %i, <N.stack>
  %stack = add i64 %below, <N.stacks>
  %end = add i64 %stack, <N.stack>
  %cut = sub i64 %end, 64
  %top = and i64 %cut, -16
  %top.at = inttoptr i64 %top to ptr
  store ptr @start, ptr %top.at
  %pointer = sub i64 %top, 48
  store i64 %pointer, ptr %fiber
  %begin.at = getelementptr i8, ptr %fiber, i64 <F.stack_begin>
  store i64 %stack, ptr %begin.at
  %end.at = getelementptr i8, ptr %fiber, i64 <F.stack_end>
  store i64 %end, ptr %end.at
  %copies.at = getelementptr i8, ptr %fiber, i64 <F.copies_begin>
  store i64 0, ptr %copies.at
  %group.at = getelementptr i8, ptr %fiber, i64 <F.copies_group>
  store i64 0, ptr %group.at
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %threads
  br i1 %more, label %loop, label %done
done:
  ret void
}

define hidden void @sweep() nounwind {
entry:
  %fiber = load ptr, ptr <L.current>
  %identity = getelementptr i8, ptr %fiber, i64 <F.thread_id>
  %blocks = load ptr, ptr <L.blocks>
  %block.count = load i64, ptr <L.block_count>
  %threads = load ptr, ptr <L.threads>
  %thread.count = load i64, ptr <L.thread_count>
  %kernel = load ptr, ptr <L.kernel>
  br label %block
block:
  %b = phi i64 [ 0, %entry ], [ %b.next, %block.end ]
  %block.at = getelementptr [4 x i32], ptr %blocks, i64 %b
  %block.id = load <4 x i32>, ptr %block.at, align 4
  store <4 x i32> %block.id, ptr <L.block_id>, align 4
  br label %thread
thread:
  %t = phi i64 [ 0, %block ], [ %t.next, %thread ]
  %thread.at = getelementptr [6 x i32], ptr %threads, i64 %t
  %thread.low = load <4 x i32>, ptr %thread.at, align 4
  store <4 x i32> %thread.low, ptr %identity, align 4
  %high.at = getelementptr i8, ptr %thread.at, i64 16
  %thread.high = load i64, ptr %high.at, align 4
  %high.to = getelementptr i8, ptr %identity, i64 16
  store i64 %thread.high, ptr %high.to, align 4
  store i64 <N.PATIENCE>, ptr <L.patience>
  call void %kernel()
  %t.next = add i64 %t, 1
  %t.more = icmp ult i64 %t.next, %thread.count
  br i1 %t.more, label %thread, label %block.end
block.end:
  %b.next = add i64 %b, 1
  %b.more = icmp ult i64 %b.next, %block.count
  br i1 %b.more, label %block, label %done
done:
  ret void
}
"""

TEXT: Final = _STACKS.replace("<N.SWITCH>", _SWITCH) + ACCESSES + COPIES + WARPS + ROUNDS
