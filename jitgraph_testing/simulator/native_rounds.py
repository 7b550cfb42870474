"""LLVM IR of a round: all warps of a block run, each until it waits, as long as they meet at one barrier."""

from __future__ import annotations

from typing import Final

ROUNDS: Final = """
; Each warp runs once, in the order given. 0: all threads wait at one barrier of the block; 1: one is at fault; 2: some
; warp stopped otherwise, and <L.warps_run> have run; 3: all threads have ended.
define hidden i64 @round(i64 %orders, i64 %warps.at, i64 %warps, i64 %threads, i64 %clocks.at) nounwind {
entry:
  %list = inttoptr i64 %warps.at to ptr
  %clocks = inttoptr i64 %clocks.at to ptr
  br label %warp
warp:
  %i = phi i64 [ 0, %entry ], [ %i.next, %after ]
  %ended = phi i64 [ 0, %entry ], [ %ended.next, %after ]
  %w.at = getelementptr i32, ptr %list, i64 %i
  %w.short = load i32, ptr %w.at
  %w = zext i32 %w.short to i64
  %first = mul i64 %w, 32
  %left = sub i64 %threads, %first
  %whole = icmp ugt i64 %left, 32
  %count = select i1 %whole, i64 32, i64 %left
  %clock.at = getelementptr i32, ptr %clocks, i64 %w
  %clock = load i32, ptr %clock.at
  store i32 %clock, ptr <L.clock>
  %row = mul i64 %w, 128
  %order = add i64 %orders, %row
  %fault = call i64 @run(i64 %order, i64 %count)
  %clock.now = load i32, ptr <L.clock>
  store i32 %clock.now, ptr %clock.at
  %i.next = add i64 %i, 1
  store i64 %i.next, ptr <L.warps_run>
  %bad = icmp ne i64 %fault, 0
  br i1 %bad, label %faulty, label %look
faulty:
  ret i64 1
look:
  %order.at = inttoptr i64 %order to ptr
  %lead = call ptr @fiber.at(ptr %order.at, i64 0)
  %kind.at = getelementptr i8, ptr %lead, i64 <F.kind>
  %kind = load i32, ptr %kind.at
  %site.at = getelementptr i8, ptr %lead, i64 <F.site>
  %site = load i32, ptr %site.at
  %number.at = getelementptr i8, ptr %lead, i64 <F.arguments>
  %number = load i32, ptr %number.at
  %done = icmp eq i32 %kind, <N.DONE>
  %waits = icmp eq i32 %kind, <N.BLOCK_BARRIER>
  %either = or i1 %done, %waits
  br i1 %either, label %lane, label %other
other:
  ret i64 2
lane:
  %k = phi i64 [ 0, %look ], [ %k.next, %lane.same ]
  %o = call ptr @fiber.at(ptr %order.at, i64 %k)
  %o.kind.at = getelementptr i8, ptr %o, i64 <F.kind>
  %o.kind = load i32, ptr %o.kind.at
  %o.site.at = getelementptr i8, ptr %o, i64 <F.site>
  %o.site = load i32, ptr %o.site.at
  %o.number.at = getelementptr i8, ptr %o, i64 <F.arguments>
  %o.number = load i32, ptr %o.number.at
  %same.kind = icmp eq i32 %o.kind, %kind
  %same.site = icmp eq i32 %o.site, %site
  %same.number = icmp eq i32 %o.number, %number
  %same.place = and i1 %same.site, %same.number
  %place.or.done = or i1 %same.place, %done
  %same = and i1 %same.kind, %place.or.done
  br i1 %same, label %lane.same, label %other
lane.same:
  %k.next = add i64 %k, 1
  %k.more = icmp ult i64 %k.next, %count
  br i1 %k.more, label %lane, label %agreed
agreed:
  %one = zext i1 %done to i64
  %ended.next = add i64 %ended, %one
  %is.first = icmp eq i64 %i, 0
  br i1 %is.first, label %keep, label %compare
keep:
  store i32 %number, ptr <L.barrier>
  br label %after
compare:
  %barrier = load i32, ptr <L.barrier>
  %same.barrier = icmp eq i32 %barrier, %number
  %fits = or i1 %same.barrier, %done
  br i1 %fits, label %after, label %other
after:
  %more = icmp ult i64 %i.next, %warps
  br i1 %more, label %warp, label %finish
finish:
  %none = icmp eq i64 %ended.next, 0
  %all = icmp eq i64 %ended.next, %warps
  %all.code = select i1 %all, i64 3, i64 2
  %code = select i1 %none, i64 0, i64 %all.code
  ret i64 %code
}
"""
