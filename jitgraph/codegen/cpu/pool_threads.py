"""The threads of the pool and the loops that they share, as LLVM IR: ``jg_parallel_for`` and ``jg_worker``.

What a chunk does depends on its number alone, never on who runs it, so results do not depend on the number of threads.
``scratch`` is memory of the thread that runs it (``scratch.py``); the chunks of a loop inside a chunk leave it alone.
The caller takes part. It owns the pool while ``busy`` is 1; whoever finds it busy (a loop inside a chunk, another
thread's call) runs its chunks itself, in order. Chunks are claimed by an atomic counter. After a chunk fails no further
one is claimed, but each that was claimed ends; so the lowest failing chunk always runs, and its code is the result.
``order`` of ``jg_fail`` is the chunk's number (0 outside a loop), by which the record keeps the failure of that same
chunk.

A worker joins by adding 1 to ``entered`` and then looking at ``open``; the caller ends a job by clearing ``open`` and
then waiting for ``entered`` to be 0. Both are sequentially consistent, so a worker that comes late either sees the job
closed or is waited for, and no worker reads the fields of a job while they change. The caller waits for no thread that
has not joined: a job of few short chunks costs one futex call at most. Workers spin for about 20 us of the cycle
counter, then for about 200 us give way to any other thread, since waking a sleeper takes long where the processor is a
virtual one, then sleep on ``epoch``, which grows with each job.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import field
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

_SPIN_CYCLES: Final = 50_000
_YIELD_CYCLES: Final = 500_000
_SCHED_YIELD: Final = 24
_FUTEX: Final = 202
_WAIT: Final = 128  # FUTEX_WAIT_PRIVATE
_WAKE: Final = 129


_FIELDS: Final = (
    field("%busy", "%pool", offsets.POOL_BUSY)
    + field("%stop", "%pool", offsets.POOL_STOP)
    + field("%workers", "%pool", offsets.POOL_WORKERS)
    + field("%syscall.at", "%pool", offsets.POOL_SYSCALL)
    + field("%epoch", "%pool", offsets.POOL_EPOCH)
    + field("%sleepers", "%pool", offsets.POOL_SLEEPERS)
    + field("%function", "%pool", offsets.POOL_FUNCTION)
    + field("%context", "%pool", offsets.POOL_CONTEXT)
    + field("%chunks.at", "%pool", offsets.POOL_CHUNKS)
    + field("%open", "%pool", offsets.POOL_OPEN)
    + field("%next", "%pool", offsets.POOL_NEXT)
    + field("%entered", "%pool", offsets.POOL_ENTERED)
    + field("%waiting", "%pool", offsets.POOL_WAITING)
    + field("%failure", "%pool", offsets.POOL_FAILURE)
)

# The calling thread's scratch memory begins its call's arena.
_SCRATCH: Final = field("%scratch.at", "%call", offsets.CALL_ARENA) + "  %scratch = load ptr, ptr %scratch.at\n"


def _wait_a_little(again: str) -> str:
    """Back to ``again`` until the cycle counter is too far from ``%since``, then on to ``sleep``."""
    return f"""  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %since
  %patient = icmp ult i64 %waited, {_SPIN_CYCLES}
  br i1 %patient, label %{again}, label %give.way
give.way:
  %tired = icmp ugt i64 %waited, {_YIELD_CYCLES}
  br i1 %tired, label %sleep, label %yield
yield:
  %yielded = call i64 (i64, ...) %syscall(i64 {_SCHED_YIELD})
  br label %{again}"""


# Claims and runs chunks of the pool's job. %host is null on a worker, which never polls.
CLAIM: Final = f"""
define internal void @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch) nounwind {{
{_FIELDS}
  %fn = load ptr, ptr %function
  %ctx = load ptr, ptr %context
  %chunks = load i64, ptr %chunks.at
  %polls = icmp ne ptr %host, null
  br label %look
look:
  %failed = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %failed, -1
  br i1 %sound, label %claim, label %done
claim:
  %chunk = atomicrmw add ptr %next, i64 1 monotonic
  %left = icmp slt i64 %chunk, %chunks
  br i1 %left, label %work, label %done
work:
  %code = call i32 %fn(ptr %ctx, i64 %chunk, ptr %scratch)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %note, label %after
note:
  %high = shl i64 %chunk, 32
  %low = zext i32 %code to i64
  %key = or i64 %high, %low
  %old = atomicrmw umin ptr %failure, i64 %key monotonic
  br label %look
after:
  br i1 %polls, label %poll, label %look
poll:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %interrupted = icmp ne i32 %asked, 0
  br i1 %interrupted, label %give.up, label %look
give.up:
  %first = zext i32 %asked to i64
  %older = atomicrmw umin ptr %failure, i64 %first monotonic
  br label %done
done:
  ret void
}}
"""

WORKER: Final = f"""
define i32 @jg_worker(ptr %pool) nounwind {{
start:
{_FIELDS}
  %syscall = load ptr, ptr %syscall.at
{field("%first.at", "%pool", offsets.POOL_SCRATCH)}
{field("%hired.at", "%pool", offsets.POOL_HIRED)}
  %first = load ptr, ptr %first.at
  %number = atomicrmw add ptr %hired.at, i64 1 monotonic
  %offset = mul i64 %number, {loader.SCRATCH_BYTES}
  %scratch = getelementptr i8, ptr %first, i64 %offset
  br label %again
again:
  %seen = load atomic i32, ptr %epoch seq_cst, align 4
  %told = load atomic i32, ptr %stop seq_cst, align 4
  %stopped = icmp ne i32 %told, 0
  br i1 %stopped, label %home, label %join
join:
  %inside = atomicrmw add ptr %entered, i32 1 seq_cst
  %is.open = load atomic i32, ptr %open seq_cst, align 4
  %work = icmp ne i32 %is.open, 0
  br i1 %work, label %claim, label %leave
claim:
  call void @jg_claim(ptr %pool, ptr null, ptr null, ptr %scratch)
  br label %leave
leave:
  %before = atomicrmw sub ptr %entered, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %last.out, label %rest
last.out:
  %awaited = load atomic i32, ptr %waiting seq_cst, align 4
  %wakes = icmp ne i32 %awaited, 0
  br i1 %wakes, label %wake, label %rest
wake:
  %woken = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %entered, i64 {_WAKE}, i64 1, ptr null, ptr null, i64 0)
  br label %rest
rest:
  %since = call i64 @llvm.readcyclecounter()
  br label %spin
spin:
  %now.epoch = load atomic i32, ptr %epoch seq_cst, align 4
  %new = icmp ne i32 %now.epoch, %seen
  br i1 %new, label %again, label %pause
pause:
  call void @llvm.x86.sse2.pause()
{_wait_a_little("spin")}
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %seen.64 = zext i32 %seen to i64
  %slept = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %epoch, i64 {_WAIT}, i64 %seen.64, ptr null, ptr null, i64 0)
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  br label %again
home:
  ret i32 0
}}
"""

PARALLEL_FOR: Final = f"""
define i32 @jg_parallel_for(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks) nounwind {{
start:
{field("%own.at", "%host", offsets.HOST_PARALLEL_FOR)}
  %own = load ptr, ptr %own.at
  %has.own = icmp ne ptr %own, null
  br i1 %has.own, label %delegate, label %ours
delegate:
  %theirs = call i32 %own(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks)
  ret i32 %theirs
ours:
{_SCRATCH}{field("%pool.at", "%host", offsets.HOST_POOL)}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %polled, label %with.pool
with.pool:
{_FIELDS}
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
  %syscall = load ptr, ptr %syscall.at
  store ptr %fn, ptr %function
  store ptr %ctx, ptr %context
  store i64 %chunks, ptr %chunks.at
  store atomic i64 0, ptr %next monotonic, align 8
  store atomic i64 -1, ptr %failure monotonic, align 8
  store atomic i32 1, ptr %open seq_cst, align 4
  %grown = atomicrmw add ptr %epoch, i32 1 seq_cst
  %asleep = load atomic i32, ptr %sleepers seq_cst, align 4
  %any.asleep = icmp ne i32 %asleep, 0
  br i1 %any.asleep, label %wake, label %work
wake:
  %others = sub i64 %chunks, 1
  %wanted = call i64 @llvm.smin.i64(i64 %others, i64 2147483647)
  %woken = call i64 (i64, ...) %syscall(i64 {_FUTEX}, ptr %epoch, i64 {_WAKE}, i64 %wanted, ptr null, ptr null, i64 0)
  br label %work
work:
  call void @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch)
  store atomic i32 0, ptr %open seq_cst, align 4
  %since = call i64 @llvm.readcyclecounter()
  br label %wait
wait:
  %inside = load atomic i32, ptr %entered seq_cst, align 4
  %all.out = icmp eq i32 %inside, 0
  br i1 %all.out, label %finish, label %pause
pause:
  call void @llvm.x86.sse2.pause()
{_wait_a_little("wait")}
sleep:
  store atomic i32 1, ptr %waiting seq_cst, align 4
  %inside.64 = zext i32 %inside to i64
  %slept = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr %entered, i64 {_WAIT}, i64 %inside.64, ptr null, ptr null, i64 0)
  store atomic i32 0, ptr %waiting seq_cst, align 4
  br label %wait
finish:
  %lowest = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %lowest, -1
  %low = trunc i64 %lowest to i32
  %result = select i1 %sound, i32 0, i32 %low
  store atomic i32 0, ptr %busy release, align 4
  ret i32 %result

serial:
  br label %loop
polled:
  br label %loop
loop:
  %polls = phi i1 [ false, %serial ], [ true, %polled ], [ %polls, %next.chunk ]
  %i = phi i64 [ 0, %serial ], [ 0, %polled ], [ %i.next, %next.chunk ]
  %left = icmp slt i64 %i, %chunks
  br i1 %left, label %one, label %done
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
