"""The native runtime that images carry, as LLVM IR: the thread pool and its parallel loops, polls, failure records,
stacks.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.llvm import control, machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.loader import abi

# ----------------------------------------------------------------------
# Fields of the structs that the native runtime is given, and waiting on them, as lines of LLVM IR.


def field(result: str, base: str, offset: int) -> str:
    """The line that makes ``result`` the address ``offset`` bytes behind ``base``."""
    return f"  {result} = getelementptr i8, ptr {base}, i64 {offset}\n"


POOL_FIELDS: Final = (
    field("%busy", "%pool", abi.POOL_BUSY)
    + field("%stop", "%pool", abi.POOL_STOP)
    + field("%workers", "%pool", abi.POOL_WORKERS)
    + field("%syscall.at", "%pool", abi.POOL_SYSCALL)
    + field("%patience.at", "%pool", abi.POOL_PATIENCE)
    + field("%epoch", "%pool", abi.POOL_EPOCH)
    + field("%sleepers", "%pool", abi.POOL_SLEEPERS)
    + field("%unwoken", "%pool", abi.POOL_UNWOKEN)
    + field("%spin", "%pool", abi.POOL_SPIN)
    + field("%function", "%pool", abi.POOL_FUNCTION)
    + field("%context", "%pool", abi.POOL_CONTEXT)
    + field("%chunks.at", "%pool", abi.POOL_CHUNKS)
    + field("%parts.at", "%pool", abi.POOL_PARTS)
    + field("%open", "%pool", abi.POOL_OPEN)
    + field("%next", "%pool", abi.POOL_NEXT)
    + field("%entered", "%pool", abi.POOL_ENTERED)
    + field("%waiting", "%pool", abi.POOL_WAITING)
    + field("%seats", "%pool", abi.POOL_SEATS)
    + field("%failure", "%pool", abi.POOL_FAILURE)
    + field("%ended.at", "%pool", abi.POOL_ENDED)
    + field("%gap.at", "%pool", abi.POOL_GAP)
    + field("%soon.at", "%pool", abi.POOL_SOON)
    + field("%wake.cost", "%pool", abi.POOL_WAKE_COST)
)

_FUTEX: Final = 202
_WAIT: Final = 128  # FUTEX_WAIT_PRIVATE
_WAKE: Final = 129
_SCHED_YIELD: Final = 24


def futex_wait(result: str, address: str, expected: str) -> str:
    """Sleep on ``address`` while it holds the i64 ``expected``."""
    return f"""  {result} = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr {address}, i64 {_WAIT}, i64 {expected}, ptr null, ptr null, i64 0)"""


def futex_wake(result: str, address: str, count: str) -> str:
    """Wake so many that sleep on ``address``."""
    return f"""  {result} = call i64 (i64, ...)
    %syscall(i64 {_FUTEX}, ptr {address}, i64 {_WAKE}, i64 {count}, ptr null, ptr null, i64 0)"""


def yield_processor(result: str) -> str:
    """Let any other thread that waits for this processor have it."""
    return f"  {result} = call i64 (i64, ...) %syscall(i64 {_SCHED_YIELD})"


# ----------------------------------------------------------------------
# What emitted code asks of the native runtime beside loops, as LLVM IR: polls, records of failures, memory.
#
# Only the calling thread may ask the host. ``jg_parallel_for`` polls between the caller's chunks; inside a chunk
# ``jg_poll_anywhere`` knows the calling thread by its scratch memory, and another thread stops where the caller was
# told to: what a call has written is lost then in any case.

POLL: Final = f"\n{control.POLL.text()}\n"

# A chunk that was interrupted is noted as a failure with its number above the code.
POLL_ANYWHERE: Final = f"""
define i32 @jg_poll_anywhere(ptr %host, ptr %call, ptr %scratch) nounwind {{
{field("%arena.at", "%call", abi.CALL_ARENA)}
  %arena = load ptr, ptr %arena.at
  %own = icmp eq ptr %scratch, %arena
  br i1 %own, label %caller, label %other
caller:
  %asked = call i32 @jg_poll(ptr %host, ptr %call)
  ret i32 %asked
other:
{field("%pool.at", "%host", abi.HOST_POOL)}
  %pool = load ptr, ptr %pool.at
  %alone = icmp eq ptr %pool, null
  br i1 %alone, label %go.on, label %look
look:
{field("%failure.at", "%pool", abi.POOL_FAILURE)}
  %failure = load atomic i64, ptr %failure.at monotonic, align 8
  %code = trunc i64 %failure to i32
  %stopped = icmp eq i32 %code, {loader.INTERRUPTED}
  %result = select i1 %stopped, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0
}}
"""

FAIL: Final = f"""
define i32 @jg_fail(ptr %call, i32 %check, i64 %index, i64 %bound, i64 %order) nounwind cold noinline {{
start:
{field("%code.at", "%call", abi.CALL_ERROR_CODE)}
{field("%check.at", "%call", abi.CALL_ERROR_CHECK_ID)}
{field("%index.at", "%call", abi.CALL_ERROR_INDEX)}
{field("%bound.at", "%call", abi.CALL_ERROR_BOUND)}
{field("%order.at", "%call", abi.CALL_ERROR_ORDER)}
{field("%lock", "%call", abi.CALL_ERROR_LOCK)}
  br label %try
try:
  %held = atomicrmw xchg ptr %lock, i32 1 acquire
  %got = icmp eq i32 %held, 0
  br i1 %got, label %locked, label %spin
spin:
  call void @llvm.x86.sse2.pause()
  br label %try
locked:
  %code = load i32, ptr %code.at
  %empty = icmp eq i32 %code, 0
  %best = load i64, ptr %order.at
  %earlier = icmp slt i64 %order, %best
  %wins = or i1 %empty, %earlier
  br i1 %wins, label %write, label %unlock
write:
  store i32 {loader.CHECK_FAILED}, ptr %code.at
  store i32 %check, ptr %check.at
  store i64 %index, ptr %index.at
  store i64 %bound, ptr %bound.at
  store i64 %order, ptr %order.at
  br label %unlock
unlock:
  store atomic i32 0, ptr %lock release, align 4
  ret i32 {loader.CHECK_FAILED}
}}
"""

# A block begins with its header, aligned so that the payload behind it is aligned to 64 bytes.
_HEADER_BYTES: Final = loader.ALIGNMENT
_SLACK: Final = _HEADER_BYTES + loader.ALIGNMENT - 1

BLOCK: Final = f"""
define ptr @jg_block(ptr %host, ptr %call, i64 %bytes) nounwind {{
start:
{field("%alloc.at", "%host", abi.HOST_ALLOC)}
{field("%blocks.at", "%call", abi.CALL_BLOCKS)}
  %alloc = load ptr, ptr %alloc.at
  %has = icmp ne ptr %alloc, null
  %fits = icmp ult i64 %bytes, {2**63 - 1 - _SLACK}
  %try = and i1 %has, %fits
  br i1 %try, label %ask, label %refuse
ask:
  %total = add i64 %bytes, {_SLACK}
  %base = call ptr %alloc(i64 %total)
  %got = icmp ne ptr %base, null
  br i1 %got, label %enlist, label %refuse
enlist:
  %address = ptrtoint ptr %base to i64
  %up = add i64 %address, {loader.ALIGNMENT - 1}
  %aligned = and i64 %up, {-loader.ALIGNMENT}
  %skip = sub i64 %aligned, %address
  %header = getelementptr i8, ptr %base, i64 %skip
{field("%next.at", "%header", abi.BLOCK_NEXT)}
{field("%base.at", "%header", abi.BLOCK_BASE)}
{field("%bytes.at", "%header", abi.BLOCK_BYTES)}
  %older = load ptr, ptr %blocks.at
  store ptr %older, ptr %next.at
  store ptr %base, ptr %base.at
  store i64 %bytes, ptr %bytes.at
  store ptr %header, ptr %blocks.at
  %payload = getelementptr i8, ptr %header, i64 {_HEADER_BYTES}
  ret ptr %payload
refuse:
  ret ptr null
}}
"""


# ----------------------------------------------------------------------
# How the chunks of a job are claimed, as LLVM IR: by runs, from an atomic counter.
#
# A run is one in ``parts`` of what is left, so that neighbouring chunks stay on one thread, many threads do not queue
# for the counter, and the last claims are single chunks. After a chunk fails no others are claimed, and of those that
# were, the ones below it still run; so the lowest failing chunk always runs, and its code is the result.

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


# ----------------------------------------------------------------------
# The threads of the pool, as LLVM IR: ``jg_worker``, which each of them runs.
#
# A worker joins a job by adding 1 to ``entered`` and then looking at ``open``; the caller ends a job by clearing
# ``open`` and then waiting for ``entered`` to be 0. Both are sequentially consistent, so a worker that comes late
# either sees the job closed or is waited for, and no worker reads the fields of a job while they change. Of those that
# join, as many as the job has ``seats`` take part. The caller waits for no thread that has not joined.
#
# After its last work a worker stays awake for ``spin`` cycles (``pool.py``), at first reading ``epoch`` alone,
# then giving way to any other thread between two looks. It sleeps on ``epoch`` afterwards, and at once where another
# thread had its processor meanwhile.

SPIN_CYCLES: Final = 50_000
"""About 20 us, for which a thread that waits keeps its processor to itself."""

_DEPRIVED_CYCLES: Final = 250_000  # about 100 us between two looks: another thread had the processor

WORKER: Final = f"""
define i32 @jg_worker(ptr %pool) nounwind {{
start:
{POOL_FIELDS}
  %since.at = alloca i64, align 8
  %syscall = load ptr, ptr %syscall.at
{field("%first.at", "%pool", abi.POOL_SCRATCH)}
{field("%hired.at", "%pool", abi.POOL_HIRED)}
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


# ----------------------------------------------------------------------
# When workers are woken and how long they stay awake, as LLVM IR.
#
# Callers note the gap between the end of a job and the launch of the next one. While most gaps are shorter than the
# pool's ``patience``, workers stay awake for twice as long as those of late (``spin``); otherwise they sleep at once.
# The host gives no patience where threads have to share processors.
#
# A thread wakes two others, and who is woken wakes two more of those that are ``unwoken``: a launch costs its caller
# one wake, however many threads sleep. It notes what that takes (``wake_cost``): 2 us on a plain machine, 40 us where
# processors are virtual ones and halted.

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


# ----------------------------------------------------------------------
# Launches of parallel loops, as LLVM IR: ``jg_parallel_for``, and ``jg_share``, which knows what a chunk costs.
#
# What a chunk does depends on its number alone, never on who runs it, so results do not depend on the number of
# threads. ``scratch`` is memory of the thread that runs it (``kernel_function.py``); the chunks of a loop inside a
# chunk leave it alone. The caller takes part. It owns the pool while ``busy`` is 1; whoever finds it busy (a loop
# inside a chunk, another thread's call) runs its chunks itself, in order, and so does a call that is limited to one
# thread. ``order`` of ``jg_fail`` is the chunk's number (0 outside a loop), by which the record keeps the failure of
# that same chunk.
#
# Threads that are awake join without being asked. Waking one that sleeps can cost the caller more than the job
# (``pool.py``), so sleepers are woken
#
# - at once where more jobs are likely to come soon, or where the job's estimated work is ``_SURELY`` times the cost;
# - else where the first chunk, which the caller then runs alone, shows that the others will take ``_MEASURED`` times
# it.

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
{field("%own.at", "%host", abi.HOST_PARALLEL_FOR)}
  %own = load ptr, ptr %own.at
  %has.own = icmp ne ptr %own, null
  br i1 %has.own, label %delegate, label %ours
delegate:
  %theirs = call i32 %own(ptr %host, ptr %call, ptr %fn, ptr %ctx, i64 %chunks)
  ret i32 %theirs
ours:
{field("%scratch.at", "%call", abi.CALL_ARENA)}{field("%limit.at", "%call", abi.CALL_THREADS)}
{field("%pool.at", "%host", abi.HOST_POOL)}
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


# ----------------------------------------------------------------------
# The native runtime that images carry, as LLVM IR: parallel loops, polls, failure records, growable stacks.
#
# - ``i32 jg_parallel_for(host, call, fn, ctx, i64 chunks)`` runs ``i32 fn(ctx, i64 chunk, scratch)`` for each chunk.
# - ``i32 jg_share(host, call, fn, ctx, i64 chunks, double cost)`` is the same where a chunk is estimated to take so
# many
#   vector instructions.
# - ``i32 jg_worker(pool)`` is what a thread of the pool runs until it is told to stop.
# - ``i32 jg_poll(host, call)`` gives INTERRUPTED where the user asks to stop, else 0; cheap enough for any loop.
# - ``i32 jg_poll_anywhere(host, call, scratch)`` is the same for loops that may stand in a chunk.
# - ``i32 jg_fail(call, i32 check_id, i64 index, i64 bound, i64 order)`` notes a failed check and gives CHECK_FAILED.
# - ``ptr jg_block(host, call, i64 bytes)`` gives 64-byte aligned memory until the call ends, or null.
#
# How threads share loops stands in ``pool.py`` (launches), ``pool.py`` (chunks), ``pool.py`` (the
# threads) and ``pool.py`` (how they wait and wake), all else in ``pool.py``.

EXPORTS: Final = {"worker": "jg_worker", "parallel_for": "jg_parallel_for"}
"""For ``linker.link``, beside the entry, where the runtime is among the objects."""

DECLARATIONS: Final = """
declare i32 @jg_parallel_for(ptr, ptr, ptr, ptr, i64) nounwind
declare i32 @jg_share(ptr, ptr, ptr, ptr, i64, double) nounwind
declare i32 @jg_poll(ptr, ptr) nounwind
declare i32 @jg_poll_anywhere(ptr, ptr, ptr) nounwind
declare i32 @jg_fail(ptr, i32, i64, i64, i64) nounwind
declare ptr @jg_block(ptr, ptr, i64) nounwind
"""
"""For modules that call the functions."""

REQUIRED: Final = ("runtime",)


def declare(module: LlvmModule) -> None:
    """Let ``module`` call the functions, and have them linked."""
    module.declare(DECLARATIONS)
    module.require(*REQUIRED)
    module.require("ranges")


IR: Final = (
    """
declare i64 @llvm.readcyclecounter()
declare void @llvm.x86.sse2.pause()
declare i64 @llvm.smin.i64(i64, i64)
declare i64 @llvm.smax.i64(i64, i64)
declare i64 @llvm.umin.i64(i64, i64)
declare i32 @llvm.smin.i32(i32, i32)
"""
    + CLAIM
    + LEARN
    + ROUSE
    + AWAKEN
    + WORKER
    + PARALLEL_FOR
    + SHARE
    + POLL
    + POLL_ANYWHERE
    + FAIL
    + BLOCK
)


def runtime_module(target: Target) -> LlvmModule:
    """The native runtime, to link with emitted code."""
    return LlvmModule(machine.TRIPLE, IR)
