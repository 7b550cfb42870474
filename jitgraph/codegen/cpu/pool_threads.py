"""The threads of the pool, as LLVM IR: ``jg_worker``, which each of them runs.

A worker joins a job by adding 1 to ``entered`` and then looking at ``open``; the caller ends a job by clearing ``open``
and then waiting for ``entered`` to be 0. Both are sequentially consistent, so a worker that comes late either sees the
job closed or is waited for, and no worker reads the fields of a job while they change. Of those that join, as many as
the job has ``seats`` take part. The caller waits for no thread that has not joined.

After its last work a worker stays awake for ``spin`` cycles (``pool_waking.py``), at first reading ``epoch`` alone,
then giving way to any other thread between two looks. It sleeps on ``epoch`` afterwards, and at once where another
thread had its processor meanwhile.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import POOL_FIELDS, field, futex_wait, futex_wake, yield_processor
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

SPIN_CYCLES: Final = 50_000
"""About 20 us, for which a thread that waits keeps its processor to itself."""

_DEPRIVED_CYCLES: Final = 250_000  # about 100 us between two looks: another thread had the processor

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
{yield_processor("%yielded")}
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
