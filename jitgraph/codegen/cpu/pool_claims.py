"""How the chunks of a job are claimed, as LLVM IR: by runs, from an atomic counter.

A run is one in ``parts`` of what is left, so that neighbouring chunks stay on one thread, many threads do not queue for
the counter, and the last claims are single chunks. After a chunk fails no others are claimed, and of those that were,
the ones below it still run; so the lowest failing chunk always runs, and its code is the result.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.pool_fields import POOL_FIELDS

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
