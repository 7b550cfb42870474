"""LLVM IR that runs the lanes of a warp, on through the shuffles, votes and warp barriers in which all of them meet.

Source: PTX ISA 9.0, "shfl.sync" and "vote.sync".
"""

from __future__ import annotations

from typing import Final

WARPS: Final = """
; 0: the lanes wait for what Python decides; 1: one of them is at fault.
define hidden i64 @run(i64 %order.at, i64 %count) nounwind {
entry:
  %order = inttoptr i64 %order.at to ptr
  %values = alloca [32 x i32], align 16
  %short.count = trunc i64 %count to i32
  br label %again
again:
  br label %lane
lane:
  %i = phi i64 [ 0, %again ], [ %i.next, %lane.next ]
  %fiber = call ptr @fiber.at(ptr %order, i64 %i)
  store ptr %fiber, ptr <L.current>
  store i64 <N.PATIENCE>, ptr <L.patience>
  call void @switch(ptr <L.host>, ptr %fiber)
  %fault = load i64, ptr <L.fault>
  %bad = icmp ne i64 %fault, 0
  br i1 %bad, label %faulty, label %lane.next
faulty:
  ret i64 1
lane.next:
  %i.next = add i64 %i, 1
  %i.more = icmp ult i64 %i.next, %count
  br i1 %i.more, label %lane, label %meet
meet:
  %first = call ptr @fiber.at(ptr %order, i64 0)
  %kind.at = getelementptr i8, ptr %first, i64 <F.kind>
  %kind = load i32, ptr %kind.at
  %from.one = sub i32 %kind, 1
  %native = icmp ult i32 %from.one, 9
  br i1 %native, label %masked, label %rare
rare:
  ret i64 0
masked:
  %mask.at = getelementptr i8, ptr %first, i64 <F.arguments>
  %mask = load i32, ptr %mask.at
  %named = call i32 @llvm.ctpop.i32(i32 %mask)
  %all = icmp eq i32 %named, %short.count
  br i1 %all, label %other, label %rare
other:
  %k = phi i64 [ 0, %masked ], [ %k.next, %other.same ]
  %ballot = phi i32 [ 0, %masked ], [ %ballot.next, %other.same ]
  %o = call ptr @fiber.at(ptr %order, i64 %k)
  %o.kind.at = getelementptr i8, ptr %o, i64 <F.kind>
  %o.kind = load i32, ptr %o.kind.at
  %o.mask.at = getelementptr i8, ptr %o, i64 <F.arguments>
  %o.mask = load i32, ptr %o.mask.at
  %o.lane.at = getelementptr i8, ptr %o, i64 <F.lane>
  %o.lane = load i32, ptr %o.lane.at
  %o.value.at = getelementptr i8, ptr %o.mask.at, i64 16
  %o.value = load i32, ptr %o.value.at
  %same.kind = icmp eq i32 %o.kind, %kind
  %same.mask = icmp eq i32 %o.mask, %mask
  %same = and i1 %same.kind, %same.mask
  %o.bit = shl i32 1, %o.lane
  %o.named = and i32 %mask, %o.bit
  %in.mask = icmp ne i32 %o.named, 0
  %meets = and i1 %same, %in.mask
  %o.true = and i32 %o.value, 1
  %o.vote = shl i32 %o.true, %o.lane
  %ballot.next = or i32 %ballot, %o.vote
  br i1 %meets, label %other.same, label %rare
other.same:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %other, label %which
which:
  %votes = icmp ugt i32 %kind, <N.WARP_BARRIER>
  br i1 %votes, label %vote, label %no.vote
no.vote:
  %barrier = icmp eq i32 %kind, <N.WARP_BARRIER>
  br i1 %barrier, label %tick, label %clear
tick:
  %clock = load i32, ptr <L.clock>
  %clock.next = add i32 %clock, 1
  store i32 %clock.next, ptr <L.clock>
  br label %again
vote:
  %none = icmp eq i32 %ballot.next, 0
  %every = icmp eq i32 %ballot.next, %mask
  %some = xor i1 %none, true
  %uniform = or i1 %none, %every
  %some.i = zext i1 %some to i32
  %every.i = zext i1 %every to i32
  %uniform.i = zext i1 %uniform to i32
  %is.any = icmp eq i32 %kind, 7
  %is.all = icmp eq i32 %kind, 8
  %is.uni = icmp eq i32 %kind, 9
  %r0 = select i1 %is.any, i32 %some.i, i32 %ballot.next
  %r1 = select i1 %is.all, i32 %every.i, i32 %r0
  %r2 = select i1 %is.uni, i32 %uniform.i, i32 %r1
  br label %voted
voted:
  %v = phi i64 [ 0, %vote ], [ %v.next, %voted ]
  %v.fiber = call ptr @fiber.at(ptr %order, i64 %v)
  %v.result = getelementptr i8, ptr %v.fiber, i64 <F.result>
  store i32 %r2, ptr %v.result
  %v.next = add i64 %v, 1
  %v.more = icmp ult i64 %v.next, %count
  br i1 %v.more, label %voted, label %again
clear:
  %c = phi i64 [ 0, %no.vote ], [ %c.next, %clear ]
  %c.at = getelementptr i32, ptr %values, i64 %c
  store i32 -559038737, ptr %c.at
  %c.next = add i64 %c, 1
  %c.more = icmp ult i64 %c.next, 32
  br i1 %c.more, label %clear, label %collect
collect:
  %g = phi i64 [ 0, %clear ], [ %g.next, %collect ]
  %g.fiber = call ptr @fiber.at(ptr %order, i64 %g)
  %g.lane.at = getelementptr i8, ptr %g.fiber, i64 <F.lane>
  %g.lane = load i32, ptr %g.lane.at
  %g.value.at = getelementptr i8, ptr %g.fiber, i64 <F.arguments>
  %g.value.from = getelementptr i8, ptr %g.value.at, i64 16
  %g.value = load i32, ptr %g.value.from
  %g.to = getelementptr i32, ptr %values, i32 %g.lane
  store i32 %g.value, ptr %g.to
  %g.next = add i64 %g, 1
  %g.more = icmp ult i64 %g.next, %count
  br i1 %g.more, label %collect, label %give
give:
  %s = phi i64 [ 0, %collect ], [ %s.next, %give ]
  %s.fiber = call ptr @fiber.at(ptr %order, i64 %s)
  call void @shuffled(ptr %s.fiber, i32 %kind, ptr %values)
  %s.next = add i64 %s, 1
  %s.more = icmp ult i64 %s.next, %count
  br i1 %s.more, label %give, label %again
}

define hidden ptr @fiber.at(ptr %order, i64 %i) alwaysinline nounwind {
  %thread.at = getelementptr i32, ptr %order, i64 %i
  %thread = load i32, ptr %thread.at
  %wide = zext i32 %thread to i64
  %place = mul i64 %wide, <F.size_of>
  %address = add i64 %place, <N.fibers>
  %fiber = inttoptr i64 %address to ptr
  ret ptr %fiber
}

define hidden void @shuffled(ptr %fiber, i32 %kind, ptr %values) nounwind {
  %arguments = getelementptr i8, ptr %fiber, i64 <F.arguments>
  %b.at = getelementptr i8, ptr %arguments, i64 32
  %b.whole = load i32, ptr %b.at
  %b = and i32 %b.whole, 31
  %c.at = getelementptr i8, ptr %arguments, i64 48
  %c = load i32, ptr %c.at
  %lane.at = getelementptr i8, ptr %fiber, i64 <F.lane>
  %lane = load i32, ptr %lane.at
  %clamp = and i32 %c, 31
  %c.high = lshr i32 %c, 8
  %segments = and i32 %c.high, 31
  %inverse = xor i32 %segments, 31
  %least = and i32 %lane, %segments
  %clamp.in = and i32 %clamp, %inverse
  %most = or i32 %least, %clamp.in
  %b.in = and i32 %b, %inverse
  %idx = or i32 %least, %b.in
  %up = sub i32 %lane, %b
  %down = add i32 %lane, %b
  %bfly = xor i32 %lane, %b
  %is.idx = icmp eq i32 %kind, 1
  %is.up = icmp eq i32 %kind, 2
  %is.down = icmp eq i32 %kind, 3
  %j0 = select i1 %is.down, i32 %down, i32 %bfly
  %j1 = select i1 %is.up, i32 %up, i32 %j0
  %j = select i1 %is.idx, i32 %idx, i32 %j1
  %not.below = icmp sge i32 %j, %most
  %not.above = icmp sle i32 %j, %most
  %valid = select i1 %is.up, i1 %not.below, i1 %not.above
  %source = select i1 %valid, i32 %j, i32 %lane
  %value.at = getelementptr i32, ptr %values, i32 %source
  %value = load i32, ptr %value.at
  %result = getelementptr i8, ptr %fiber, i64 <F.result>
  store i32 %value, ptr %result
  %valid.at = getelementptr i8, ptr %result, i64 4
  %valid.byte = zext i1 %valid to i8
  store i8 %valid.byte, ptr %valid.at
  ret void
}

declare i32 @llvm.ctpop.i32(i32)
"""
