"""The threads of the pool, as LLVM IR: how a job's chunks are claimed, and ``jg_worker``, which a thread runs.

A worker joins a job by adding 1 to ``entered`` and then looking at ``open``; the caller ends a job by clearing ``open``
and then waiting for ``entered`` to be 0. Both are sequentially consistent, so a worker that comes late either sees the
job closed or is waited for, and no worker reads the fields of a job while they change. Of those that join, as many as
the job has ``seats`` take part. The caller waits for no thread that has not joined.

Chunks are claimed in runs, by an atomic counter: one in ``parts`` of what is left, so that neighbouring chunks stay on
one thread, many threads do not queue for the counter, and the last claims are single chunks. After a chunk fails nothing
further is claimed, and of what was claimed the chunks below it still run; so the lowest failing chunk always runs, and
its code is the result.

After its last work a worker stays awake for ``spin`` cycles, which callers set by the gaps between jobs of late
(``pool_launch.py``), at first reading ``epoch`` alone, then giving way to any other thread between two looks. It sleeps
on ``epoch`` afterwards, and at once where another thread had its processor meanwhile. Who is woken wakes two others of
those that are ``unwoken``: a launch costs its caller one wake, however many threads sleep.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import POOL_FIELDS, field, futex_wait, futex_wake, give_way
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

SPIN_CYCLES: Final = 50_000
"""About 20 us, for which a thread that waits keeps its processor to itself."""

_DEPRIVED_CYCLES: Final = 250_000  # about 100 us between two looks: another thread had the processor
_BROOD: Final = 2  # how many a thread wakes

# Claims and runs chunks of the pool's job, one of them alone where %single; gives how many. %host is null on a worker,
# which never polls.
CLAIM: Final = f"""
define internal i64 @jg_claim(ptr %pool, ptr %host, ptr %call, ptr %scratch, i1 %single) nounwind {{
start:
{POOL_FIELDS}
  %fn = load ptr, ptr %function
  %ctx = load ptr, ptr %context
  %chunks = load i64, ptr %chunks.at
  %parts = load i64, ptr %parts.at
  %polls = icmp ne ptr %host, null
  br label %look
look:
  %ran = phi i64 [ 0, %start ], [ %ran.now, %claimed ]
  %failed.so.far = load atomic i64, ptr %failure monotonic, align 8
  %sound = icmp eq i64 %failed.so.far, -1
  br i1 %sound, label %reckon, label %done
reckon:
  %taken = load atomic i64, ptr %next monotonic, align 8
  %left = sub i64 %chunks, %taken
  %any = icmp sgt i64 %left, 0
  br i1 %any, label %claim, label %done
claim:
  %part = udiv i64 %left, %parts
  %some = call i64 @llvm.smax.i64(i64 %part, i64 1)
  %many = select i1 %single, i64 1, i64 %some
  %first = atomicrmw add ptr %next, i64 %many monotonic
  %stop.at = add i64 %first, %many
  %end = call i64 @llvm.smin.i64(i64 %stop.at, i64 %chunks)
  br label %turn
turn:
  %chunk = phi i64 [ %first, %claim ], [ %after, %go.on ]
  %more = icmp slt i64 %chunk, %end
  br i1 %more, label %work, label %claimed
work:
  %code = call i32 %fn(ptr %ctx, i64 %chunk, ptr %scratch)
  %after = add i64 %chunk, 1
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %note, label %ask
note:
  %high = shl i64 %chunk, 32
  %low = zext i32 %code to i64
  %key = or i64 %high, %low
  %old = atomicrmw umin ptr %failure, i64 %key monotonic
  br label %ended
ask:
  br i1 %polls, label %poll, label %others
poll:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  %interrupted = icmp ne i32 %asked, 0
  br i1 %interrupted, label %give.up, label %others
give.up:
  %code.64 = zext i32 %asked to i64
  %older = atomicrmw umin ptr %failure, i64 %code.64 monotonic
  br label %ended
others:
  %lowest = load atomic i64, ptr %failure monotonic, align 8
  %lowest.chunk = lshr i64 %lowest, 32
  %above = icmp ugt i64 %after, %lowest.chunk
  br i1 %above, label %ended, label %go.on
go.on:
  br label %turn
claimed:
  %count = sub i64 %chunk, %first
  %kept = call i64 @llvm.smax.i64(i64 %count, i64 0)
  %ran.now = add i64 %ran, %kept
  br i1 %single, label %done, label %look
ended:
  %here = sub i64 %after, %first
  %ran.here = add i64 %ran, %here
  ret i64 %ran.here
done:
  %ran.all = phi i64 [ %ran, %look ], [ %ran, %reckon ], [ %ran.now, %claimed ]
  ret i64 %ran.all
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

WORKER: Final = f"""
define i32 @jg_worker(ptr %pool) nounwind {{
start:
{POOL_FIELDS}
  %since.at = alloca i64, align 8
  %syscall = load ptr, ptr %syscall.at
{field("%first.at", "%pool", offsets.POOL_SCRATCH)}
{field("%hired.at", "%pool", offsets.POOL_HIRED)}
  %first = load ptr, ptr %first.at
  %number = atomicrmw add ptr %hired.at, i64 1 monotonic
  %offset = mul i64 %number, {loader.SCRATCH_BYTES}
  %scratch = getelementptr i8, ptr %first, i64 %offset
  br label %awake
awake:
  %began = call i64 @llvm.readcyclecounter()
  store i64 %began, ptr %since.at
  br label %again
again:
  %seen = load atomic i32, ptr %epoch seq_cst, align 4
  %told = load atomic i32, ptr %stop seq_cst, align 4
  %stopped = icmp ne i32 %told, 0
  br i1 %stopped, label %home, label %glance
glance:
  %maybe = load atomic i32, ptr %open seq_cst, align 4
  %may = icmp ne i32 %maybe, 0
  br i1 %may, label %join, label %rest
join:
  %inside = atomicrmw add ptr %entered, i32 1 seq_cst
  %is.open = load atomic i32, ptr %open seq_cst, align 4
  %work = icmp ne i32 %is.open, 0
  br i1 %work, label %sit, label %leave
sit:
  %seat = atomicrmw sub ptr %seats, i64 1 monotonic
  %has.seat = icmp sgt i64 %seat, 0
  br i1 %has.seat, label %claim, label %leave
claim:
  %ran = call i64 @jg_claim(ptr %pool, ptr null, ptr null, ptr %scratch, i1 false)
  br label %leave
leave:
  %did = phi i64 [ 0, %join ], [ 0, %sit ], [ %ran, %claim ]
  %before = atomicrmw sub ptr %entered, i32 1 seq_cst
  %last = icmp eq i32 %before, 1
  br i1 %last, label %last.out, label %note
last.out:
  %awaited = load atomic i32, ptr %waiting seq_cst, align 4
  %wakes = icmp ne i32 %awaited, 0
  br i1 %wakes, label %wake, label %note
wake:
{futex_wake("%woken", "%entered", "1")}
  br label %note
note:
  %useful = icmp sgt i64 %did, 0
  br i1 %useful, label %worked, label %rest
worked:
  %finished = call i64 @llvm.readcyclecounter()
  store i64 %finished, ptr %since.at
  br label %rest

rest:
  %since = load i64, ptr %since.at
  %budget = load atomic i64, ptr %spin monotonic, align 8
  %start.rest = call i64 @llvm.readcyclecounter()
  br label %watch
watch:
  %earlier = phi i64 [ %start.rest, %rest ], [ %now, %patient ], [ %now, %yield ]
  %now.epoch = load atomic i32, ptr %epoch seq_cst, align 4
  %new = icmp ne i32 %now.epoch, %seen
  br i1 %new, label %again, label %pause
pause:
  call void @llvm.x86.sse2.pause()
  %now = call i64 @llvm.readcyclecounter()
  %waited = sub i64 %now, %since
  %step = sub i64 %now, %earlier
  %tired = icmp uge i64 %waited, %budget
  %deprived = icmp ugt i64 %step, {_DEPRIVED_CYCLES}
  %enough = or i1 %tired, %deprived
  br i1 %enough, label %sleep, label %patient
patient:
  %fresh = icmp ult i64 %waited, {SPIN_CYCLES}
  br i1 %fresh, label %watch, label %yield
yield:
{give_way("%yielded")}
  br label %watch
sleep:
  %more = atomicrmw add ptr %sleepers, i32 1 seq_cst
  %seen.64 = zext i32 %seen to i64
{futex_wait("%slept", "%epoch", "%seen.64")}
  %fewer = atomicrmw sub ptr %sleepers, i32 1 seq_cst
  call void @jg_rouse(ptr %pool)
  br label %awake
home:
  ret i32 0
}}
"""
