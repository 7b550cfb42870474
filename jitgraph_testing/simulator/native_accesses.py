"""LLVM IR that checks the memory accesses of threads, and logs them where that is asked for.

An address is in order where it lies on the thread's own stack or within one piece of live memory. What a site found is
kept for it, so that it looks here again for another piece alone.
"""

from __future__ import annotations

from typing import Final

ACCESSES: Final = """
define hidden i64 @look(i64 %address, i64 %size, i64 %alignment, i64 %kind, i64 %bounds) nounwind {
entry:
  %end = add i64 %address, %size
  %below = sub i64 %alignment, 1
  %low = and i64 %address, %below
  %odd = icmp ne i64 %low, 0
  br i1 %odd, label %misaligned, label %own
misaligned:
  ret i64 <N.MISALIGNED>
own:
  %fiber = load ptr, ptr <L.current>
  %begin.at = getelementptr i8, ptr %fiber, i64 <F.stack_begin>
  %stack.begin = load i64, ptr %begin.at
  %end.at = getelementptr i8, ptr %fiber, i64 <F.stack_end>
  %stack.end = load i64, ptr %end.at
  %above = icmp uge i64 %address, %stack.begin
  %under = icmp ule i64 %end, %stack.end
  %mine = and i1 %above, %under
  br i1 %mine, label %fine, label %search
search:
  %table = load ptr, ptr <L.table>
  %length = load i64, ptr <L.table_length>
  br label %loop
loop:
  %lo = phi i64 [ 0, %search ], [ %lo.next, %step ]
  %hi = phi i64 [ %length, %search ], [ %hi.next, %step ]
  %open = icmp ult i64 %lo, %hi
  br i1 %open, label %step, label %found
step:
  %sum = add i64 %lo, %hi
  %mid = lshr i64 %sum, 1
  %mid.at = getelementptr [3 x i64], ptr %table, i64 %mid
  %mid.begin = load i64, ptr %mid.at
  %left = icmp ugt i64 %mid.begin, %address
  %mid.next = add i64 %mid, 1
  %lo.next = select i1 %left, i64 %lo, i64 %mid.next
  %hi.next = select i1 %left, i64 %mid, i64 %hi
  br label %loop
found:
  %none = icmp eq i64 %lo, 0
  br i1 %none, label %outside, label %piece
piece:
  %last = sub i64 %lo, 1
  %piece.at = getelementptr [3 x i64], ptr %table, i64 %last
  %piece.begin = load i64, ptr %piece.at
  %piece.end.at = getelementptr i8, ptr %piece.at, i64 <V.end>
  %piece.end = load i64, ptr %piece.end.at
  %piece.writable.at = getelementptr i8, ptr %piece.at, i64 <V.writable>
  %piece.writable = load i64, ptr %piece.writable.at
  %fits = icmp ule i64 %end, %piece.end
  %whole = icmp uge i64 %end, %address
  %inside = and i1 %fits, %whole
  br i1 %inside, label %allowed, label %outside
outside:
  ret i64 <N.OUTSIDE>
allowed:
  %write = and i64 %kind, <N.WRITE>
  %reads = icmp eq i64 %write, 0
  %writable = icmp ne i64 %piece.writable, 0
  %may = or i1 %reads, %writable
  br i1 %may, label %keep, label %constant
constant:
  ret i64 <N.CONSTANT>
keep:
  %keeps = icmp ne i64 %bounds, 0
  br i1 %keeps, label %kept, label %fine
kept:
  %bounds.at = inttoptr i64 %bounds to ptr
  store i64 %piece.begin, ptr %bounds.at
  %bounds.end = getelementptr i8, ptr %bounds.at, i64 8
  store i64 %piece.end, ptr %bounds.end
  br label %fine
fine:
  ret i64 0
}

define hidden void @access(i64 %address, i64 %size, i64 %alignment, i64 %kind, i64 %site, i64 %bounds) nounwind {
entry:
  %what = call i64 @look(i64 %address, i64 %size, i64 %alignment, i64 %kind, i64 %bounds)
  %bad = icmp ne i64 %what, 0
  br i1 %bad, label %wrong, label %note
wrong:
  call void @fault(i64 %what, i64 %address, i64 %size, i64 %kind, i64 %site)
  unreachable
note:
  call void @note(i64 %address, i64 %size, i64 %kind, i64 %site)
  %patient = and i64 %kind, <N.PATIENT>
  %plain = icmp eq i64 %patient, 0
  br i1 %plain, label %done, label %again
again:
  %patience = load i64, ptr <L.patience>
  %left = sub i64 %patience, 1
  store i64 %left, ptr <L.patience>
  %spins = icmp sle i64 %left, 0
  br i1 %spins, label %spinning, label %done
spinning:
  call void @fault(i64 <N.SPINNING>, i64 %address, i64 %size, i64 %kind, i64 %site)
  unreachable
done:
  ret void
}

define hidden void @check(i64 %address, i64 %record) nounwind {
entry:
  %begin.at = inttoptr i64 %record to ptr
  %begin = load i64, ptr %begin.at
  %end.at = getelementptr i8, ptr %begin.at, i64 8
  %end = load i64, ptr %end.at
  %size.at = getelementptr i8, ptr %begin.at, i64 16
  %size = load i64, ptr %size.at
  %low.at = getelementptr i8, ptr %begin.at, i64 24
  %low = load i64, ptr %low.at
  %last = sub i64 %end, %size
  %behind = icmp uge i64 %address, %begin
  %before = icmp sle i64 %address, %last
  %inside = and i1 %behind, %before
  %rest = and i64 %address, %low
  %aligned = icmp eq i64 %rest, 0
  %fine = and i1 %inside, %aligned
  br i1 %fine, label %done, label %look
look:
  call void @check_noted(i64 %address, i64 %record)
  ret void
done:
  ret void
}

define hidden void @check_noted(i64 %address, i64 %record) noinline nounwind {
  %record.at = inttoptr i64 %record to ptr
  %size.at = getelementptr i8, ptr %record.at, i64 16
  %size = load i64, ptr %size.at
  %low.at = getelementptr i8, ptr %record.at, i64 24
  %low = load i64, ptr %low.at
  %alignment = add i64 %low, 1
  %kind.at = getelementptr i8, ptr %record.at, i64 32
  %kind = load i64, ptr %kind.at
  %site.at = getelementptr i8, ptr %record.at, i64 40
  %site = load i64, ptr %site.at
  call void @access(i64 %address, i64 %size, i64 %alignment, i64 %kind, i64 %site, i64 %record)
  ret void
}

define hidden void @check_many(i64 %address, i64 %size, i64 %kind, i64 %site) noinline nounwind {
  %some = icmp ne i64 %size, 0
  br i1 %some, label %look, label %done
look:
  call void @access(i64 %address, i64 %size, i64 1, i64 %kind, i64 %site, i64 0)
  br label %done
done:
  ret void
}

; A division by zero, or one whose result does not fit, which would end the process; %least is 0 without signs.
define hidden void @divide(i64 %left, i64 %right, i64 %least, i64 %site) nounwind {
entry:
  %zero = icmp eq i64 %right, 0
  %signed = icmp ne i64 %least, 0
  %lowest = icmp eq i64 %left, %least
  %minus = icmp eq i64 %right, -1
  %both = and i1 %lowest, %minus
  %over = and i1 %both, %signed
  %bad = or i1 %zero, %over
  br i1 %bad, label %wrong, label %fine
wrong:
  call void @fault(i64 <N.DIVISION>, i64 0, i64 0, i64 0, i64 %site)
  unreachable
fine:
  ret void
}

; Rows of 16 bytes, one at each address, to or from a buffer, for the scheduler: 1 where the fault is noted.
define hidden i64 @rows(i64 %addresses.at, i64 %threads.at, i64 %count, i64 %kind, i64 %site, i64 %buffer) nounwind {
entry:
  %addresses = inttoptr i64 %addresses.at to ptr
  %threads = inttoptr i64 %threads.at to ptr
  br label %row
row:
  %i = phi i64 [ 0, %entry ], [ %next, %moved ]
  %address.at = getelementptr i64, ptr %addresses, i64 %i
  %address = load i64, ptr %address.at
  %thread.at = getelementptr i64, ptr %threads, i64 %i
  %thread = load i64, ptr %thread.at
  %place = mul i64 %thread, <F.size_of>
  %fiber.at = add i64 %place, <N.fibers>
  %fiber = inttoptr i64 %fiber.at to ptr
  store ptr %fiber, ptr <L.current>
  %what = call i64 @look(i64 %address, i64 16, i64 16, i64 %kind, i64 0)
  %bad = icmp ne i64 %what, 0
  br i1 %bad, label %wrong, label %note
wrong:
  store i64 %what, ptr <L.fault>
  store i64 %address, ptr <L.fault_address>
  store i64 16, ptr <L.fault_size>
  store i64 %kind, ptr <L.fault_kind>
  store i64 %site, ptr <L.fault_site>
  ret i64 1
note:
  call void @note(i64 %address, i64 16, i64 %kind, i64 %site)
  %offset = mul i64 %i, 16
  %held = add i64 %buffer, %offset
  %held.at = inttoptr i64 %held to ptr
  %memory.at = inttoptr i64 %address to ptr
  %writes = icmp eq i64 %kind, <N.WRITE>
  br i1 %writes, label %out, label %in
in:
  %got = load <2 x i64>, ptr %memory.at
  store <2 x i64> %got, ptr %held.at, align 1
  br label %moved
out:
  %put = load <2 x i64>, ptr %held.at, align 1
  store <2 x i64> %put, ptr %memory.at
  br label %moved
moved:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %row, label %done
done:
  ret i64 0
}

define hidden void @note(i64 %address, i64 %size, i64 %kind, i64 %site) nounwind {
entry:
  %log = load ptr, ptr <L.log>
  %silent = icmp eq ptr %log, null
  br i1 %silent, label %done, label %room
room:
  %length = load i64, ptr <L.log_length>
  %full = icmp uge i64 %length, <N.most_logged>
  br i1 %full, label %overflow, label %write
overflow:
  call void @fault(i64 <N.LOG_FULL>, i64 %address, i64 %size, i64 %kind, i64 %site)
  unreachable
write:
  %place = mul i64 %length, <E.size_of>
  %entry.at = getelementptr i8, ptr %log, i64 %place
  store i64 %address, ptr %entry.at
  %size.at = getelementptr i8, ptr %entry.at, i64 <E.size>
  %size.short = trunc i64 %size to i32
  store i32 %size.short, ptr %size.at
  %kind.at = getelementptr i8, ptr %entry.at, i64 <E.kind>
  %kind.short = trunc i64 %kind to i32
  store i32 %kind.short, ptr %kind.at
  %site.at = getelementptr i8, ptr %entry.at, i64 <E.site>
  %site.short = trunc i64 %site to i32
  store i32 %site.short, ptr %site.at
  %fiber = load ptr, ptr <L.current>
  %thread.from = getelementptr i8, ptr %fiber, i64 <F.thread>
  %thread = load i32, ptr %thread.from
  %thread.at = getelementptr i8, ptr %entry.at, i64 <E.thread>
  store i32 %thread, ptr %thread.at
  %clock = load i32, ptr <L.clock>
  %clock.at = getelementptr i8, ptr %entry.at, i64 <E.clock>
  store i32 %clock, ptr %clock.at
  %block = load i32, ptr <L.block>
  %block.at = getelementptr i8, ptr %entry.at, i64 <E.block>
  store i32 %block, ptr %block.at
  %next = add i64 %length, 1
  store i64 %next, ptr <L.log_length>
  br label %done
done:
  ret void
}

define hidden i64 @damaged(i64 %table, i64 %length) nounwind {
entry:
  %some = icmp ne i64 %length, 0
  br i1 %some, label %piece, label %sound
piece:
  %i = phi i64 [ 0, %entry ], [ %next, %after ]
  %from = inttoptr i64 %table to ptr
  %piece.at = getelementptr [3 x i64], ptr %from, i64 %i
  %begin = load i64, ptr %piece.at
  %end.at = getelementptr i8, ptr %piece.at, i64 <V.end>
  %end = load i64, ptr %end.at
  %start = sub i64 %begin, <N.GUARD_BYTES>
  br label %byte
byte:
  %j = phi i64 [ 0, %piece ], [ %j.next, %byte.next ]
  %before = add i64 %start, %j
  %before.at = inttoptr i64 %before to ptr
  %before.byte = load i64, ptr %before.at, align 1
  %behind = add i64 %end, %j
  %behind.at = inttoptr i64 %behind to ptr
  %behind.byte = load i64, ptr %behind.at, align 1
  %before.same = icmp eq i64 %before.byte, u0xA5A5A5A5A5A5A5A5
  %behind.same = icmp eq i64 %behind.byte, u0xA5A5A5A5A5A5A5A5
  %same = and i1 %before.same, %behind.same
  br i1 %same, label %byte.next, label %found
found:
  ret i64 %i
byte.next:
  %j.next = add i64 %j, 8
  %j.more = icmp ult i64 %j.next, <N.GUARD_BYTES>
  br i1 %j.more, label %byte, label %after
after:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %length
  br i1 %more, label %piece, label %sound
sound:
  ret i64 -1
}
"""
