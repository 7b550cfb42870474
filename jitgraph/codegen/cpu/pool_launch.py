"""Launches of parallel loops, as LLVM IR: ``jg_parallel_for``, and ``jg_share``, which knows what a chunk costs.

What a chunk does depends on its number alone, never on who runs it, so results do not depend on the number of threads.
``scratch`` is memory of the thread that runs it (``scratch.py``); the chunks of a loop inside a chunk leave it alone.
The caller takes part. It owns the pool while ``busy`` is 1; whoever finds it busy (a loop inside a chunk, another
thread's call) runs its chunks itself, in order, and so does a call that is limited to one thread. ``order`` of
``jg_fail`` is the chunk's number (0 outside a loop), by which the record keeps the failure of that same chunk.

Threads that are awake join without being asked. Waking one that sleeps can cost the caller more than the job
(``pool_waking.py``), so sleepers are woken

- at once where more jobs are likely to come soon, or where the job's estimated work is ``_SURELY`` times the cost;
- else where the first chunk, which the caller then runs alone, shows that the others will take ``_MEASURED`` times it.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import POOL_FIELDS, field, futex_wait, yield_processor
from jitgraph.codegen.cpu.pool_threads import SPIN_CYCLES
from jitgraph.runtime.loader import offsets

CHUNK_CYCLES: Final = 40_000
"""What a chunk is taken to cost where nobody says it."""

_SURELY: Final = 6.0  # estimates are up to three times too high
_MEASURED: Final = 4.0
_FEW: Final = 4  # of fewer chunks the first is too much to run alone
_PARTS: Final = 4  # a claim takes this part of a thread's share of what is left
_CALLER_CYCLES: Final = 1 << 21  # about 1 ms, for which a caller looks for the last worker before it sleeps

PARALLEL_FOR: Final = f"""
define i32 @jg_parallel_for(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks) nounwind {{
  %code = call i32 @jg_share(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks, double {float(CHUNK_CYCLES)!r})
  ret i32 %code
}}
"""

# The calling thread's scratch memory begins its call's arena. Of the limit 0, which is none, one less is the most.
SHARE: Final = f"""
define i32 @jg_share(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks, double %cost) nounwind {{
start:
{field("%own.at", "%host", offsets.HOST_PARALLEL_FOR)}
  %own = load ptr, ptr %own.at
  %has.own = icmp ne ptr %own, null
  br i1 %has.own, label %delegate, label %ours
delegate:
  %theirs = call i32 %own(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks)
  ret i32 %theirs
ours:
{field("%scratch.at", "%call", offsets.CALL_ARENA)}{field("%limit.at", "%call", offsets.CALL_THREADS)}
{field("%pool.at", "%host", offsets.HOST_POOL)}
  %scratch = load ptr, ptr %scratch.at
  %limit = load i64, ptr %limit.at
  %pool = load ptr, ptr %pool.at
  %no.pool = icmp eq ptr %pool, null
  %no.other = icmp eq i64 %limit, 1
  %alone = or i1 %no.pool, %no.other
  br i1 %alone, label %polled, label %with.pool
with.pool:
{POOL_FIELDS}
  %count = load atomic i32, ptr %workers monotonic, align 4
  %none = icmp slt i32 %count, 1
  br i1 %none, label %polled, label %any
any:
  %single = icmp slt i64 %chunks, 2
  br i1 %single, label %serial, label %acquire
acquire:
  %taken = cmpxchg ptr %busy, i32 0, i32 1 acquire monotonic
  %free = extractvalue {{ i32, i1 }} %taken, 1
  br i1 %free, label %publish, label %serial

publish:
  %started = call i64 @llvm.readcyclecounter()
  call void @jg_learn(ptr %pool, i64 %started)
  %syscall = load ptr, ptr %syscall.at
  %count.64 = zext i32 %count to i64
  %beside = sub i64 %limit, 1
  %allowed = call i64 @llvm.umin.i64(i64 %count.64, i64 %beside)
  %other.chunks = sub i64 %chunks, 1
  %helpers = call i64 @llvm.umin.i64(i64 %allowed, i64 %other.chunks)
  %threads = add i64 %helpers, 1
  %parts = mul i64 %threads, {_PARTS}
  store ptr %fn, ptr %function
  store ptr %ctx, ptr %context
  store i64 %chunks, ptr %chunks.at
  store i64 %parts, ptr %parts.at
  store atomic i64 %helpers, ptr %seats monotonic, align 8
  store atomic i64 0, ptr %next monotonic, align 8
  store atomic i64 -1, ptr %failure monotonic, align 8
  store atomic i32 1, ptr %open seq_cst, align 4
  %grown = atomicrmw add ptr %epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %awake = sub i32 %count, %asleep
  %helpers.32 = trunc i64 %helpers to i32
  %wanted = sub i32 %helpers.32, %awake
  %too.few = icmp sgt i32 %wanted, 0
  br i1 %too.few, label %consider, label %work
consider:
  %sure = load i64, ptr %soon.at
  %likely = icmp ugt i64 %sure, 1
  %wake = load i64, ptr %wake.cost
  %wake.fp = sitofp i64 %wake to double
  %enough = fmul double %wake.fp, {_SURELY!r}
  %chunks.fp = sitofp i64 %chunks to double
  %estimate = fmul double %chunks.fp, %cost
  %large = fcmp oge double %estimate, %enough
  %at.once = or i1 %likely, %large
  br i1 %at.once, label %awaken, label %unsure
unsure:
  %many = icmp sge i64 %chunks, {_FEW}
  br i1 %many, label %try.one, label %work
try.one:
  %ran.one = call i64 @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch, i1 true)
  %then = call i64 @llvm.readcyclecounter()
  %spent = sub i64 %then, %started
  %spent.fp = sitofp i64 %spent to double
  %claimed = load atomic i64, ptr %next monotonic, align 8
  %left = sub i64 %chunks, %claimed
  %left.fp = sitofp i64 %left to double
  %rest = fmul double %spent.fp, %left.fp
  %due = fmul double %wake.fp, {_MEASURED!r}
  %pays = fcmp oge double %rest, %due
  br i1 %pays, label %awaken, label %work
awaken:
  call void @jg_awaken(ptr %pool, i32 %wanted)
  br label %work
work:
  %ran = call i64 @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch, i1 false)
  store atomic i32 0, ptr %open seq_cst, align 4
  store atomic i32 0, ptr %unwoken seq_cst, align 4
  %since = call i64 @llvm.readcyclecounter()
  br label %wait
wait:
  %inside = load atomic i32, ptr %entered seq_cst, align 4
  %all.out = icmp eq i32 %inside, 0
  br i1 %all.out, label %finish, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %since
  %fresh = icmp ult i64 %waited, {SPIN_CYCLES}
  br i1 %fresh, label %wait, label %give.way
give.way:
  %tired = icmp ugt i64 %waited, {_CALLER_CYCLES}
  br i1 %tired, label %sleep, label %yield
yield:
{yield_processor("%yielded")}
  br label %wait
sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %inside.64 = zext i32 %inside to i64
{futex_wait("%slept", "%entered", "%inside.64")}
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %wait
finish:
  %lowest = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %lowest, -1
  %low = trunc i64 %lowest to i32
  %result = select i1 %sound, i32 0, i32 %low
  %end = call i64 @llvm.readcyclecounter()
  store i64 %end, ptr %ended.at
  store atomic i32 0, ptr %busy release, align 4
  ret i32 %result

serial:
  br label %loop
polled:
  br label %loop
loop:
  %polls = phi i1 [ false, %serial ], [ true, %polled ], [ %polls, %next.chunk ]
  %i = phi i64 [ 0, %serial ], [ 0, %polled ], [ %i.next, %next.chunk ]
  %remain = icmp slt i64 %i, %chunks
  br i1 %remain, label %one, label %done
one:
  %code = call i32 %fn(ptr %ctx, i64 %i, ptr %scratch)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %failed, label %good
good:
  %i.next = add i64 %i, 1
  br i1 %polls, label %poll, label %next.chunk
poll:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %interrupted = icmp ne i32 %asked, 0
  br i1 %interrupted, label %give.up, label %next.chunk
next.chunk:
  br label %loop
failed:
  ret i32 %code
give.up:
  ret i32 %asked
done:
  ret i32 0
}}
"""
