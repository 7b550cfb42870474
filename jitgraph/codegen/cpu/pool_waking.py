"""When workers are woken and how long they stay awake, as LLVM IR.

Callers note the gap between the end of a job and the launch of the next one. While most gaps are shorter than the
pool's ``patience``, workers stay awake for twice as long as those of late (``spin``); otherwise they sleep at once. The
host gives no patience where threads have to share processors.

A thread wakes two others, and who is woken wakes two more of those that are ``unwoken``: a launch costs its caller one
wake, however many threads sleep. It notes what that takes (``wake_cost``): 2 us on a plain machine, 40 us where
processors are virtual ones and halted.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import POOL_FIELDS, futex_wake

_BROOD: Final = 2  # how many a thread wakes
_SUREST: Final = 8  # launches in a row after short gaps, beyond which more change nothing
_MARGIN: Final = 10_000  # cycles beyond twice the usual gap
_MOST_WAKE_COST: Final = 1 << 18  # cycles; what takes longer was no wake but a lost processor

# What the gap before this launch says about the next.
LEARN: Final = f"""
define internal void @jg_learn(ptr %pool, i64 %now) nounwind {{
start:
{POOL_FIELDS}
  %ended = load i64, ptr %ended.at
  %passed = sub i64 %now, %ended
  %patience = load i64, ptr %patience.at
  %usual = load i64, ptr %gap.at
  %sure = load i64, ptr %soon.at
  %short = icmp ult i64 %passed, %patience
  br i1 %short, label %soon, label %late
soon:
  %surer = add i64 %sure, 1
  %at.most = call i64 @llvm.smin.i64(i64 %surer, i64 {_SUREST})
  %over = sub i64 %passed, %usual
  %longer = icmp sgt i64 %over, 0
  %eighth = ashr i64 %over, 3
  %nearer = add i64 %usual, %eighth
  %new.usual = select i1 %longer, i64 %passed, i64 %nearer
  store i64 %new.usual, ptr %gap.at
  br label %set
late:
  %half = lshr i64 %sure, 1
  br label %set
set:
  %gap = phi i64 [ %new.usual, %soon ], [ %usual, %late ]
  %now.sure = phi i64 [ %at.most, %soon ], [ %half, %late ]
  store i64 %now.sure, ptr %soon.at
  %twice = shl i64 %gap, 1
  %wanted = add i64 %twice, {_MARGIN}
  %granted = call i64 @llvm.smin.i64(i64 %wanted, i64 %patience)
  %likely = icmp ne i64 %now.sure, 0
  %stay = select i1 %likely, i64 %granted, i64 0
  store atomic i64 %stay, ptr %spin monotonic, align 8
  ret void
}}
"""

# Wakes two of those that are to be woken.
ROUSE: Final = f"""
define internal void @jg_rouse(ptr %pool) nounwind {{
start:
{POOL_FIELDS}
  %syscall = load ptr, ptr %syscall.at
  br label %look
look:
  %left = load atomic i32, ptr %unwoken seq_cst, align 4
  %any = icmp sgt i32 %left, 0
  br i1 %any, label %take, label %done
take:
  %mine = call i32 @llvm.smin.i32(i32 %left, i32 {_BROOD})
  %rest = sub i32 %left, %mine
  %pair = cmpxchg ptr %unwoken, i32 %left, i32 %rest seq_cst seq_cst
  %got = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %got, label %wake, label %look
wake:
  %mine.64 = zext i32 %mine to i64
{futex_wake("%woken", "%epoch", "%mine.64")}
  br label %done
done:
  ret void
}}
"""

# Wakes the first of %wanted sleepers, which wake the others, and notes the cost: the first, then a quarter of the way
# to each, upwards by a quarter of itself at most.
AWAKEN: Final = f"""
define internal void @jg_awaken(ptr %pool, i32 %wanted) nounwind {{
start:
{POOL_FIELDS}
  store atomic i32 %wanted, ptr %unwoken seq_cst, align 4
  %before = call i64 @llvm.readcyclecounter()
  call void @jg_rouse(ptr %pool)
  %after = call i64 @llvm.readcyclecounter()
  %took = sub i64 %after, %before
  %cost = call i64 @llvm.smin.i64(i64 %took, i64 {_MOST_WAKE_COST})
  %known = load i64, ptr %wake.cost
  %over = sub i64 %cost, %known
  %step = call i64 @llvm.smin.i64(i64 %over, i64 %known)
  %quarter = ashr i64 %step, 2
  %nearer = add i64 %known, %quarter
  %first = icmp eq i64 %known, 0
  %new = select i1 %first, i64 %cost, i64 %nearer
  store i64 %new, ptr %wake.cost
  ret void
}}
"""
