"""LLVM IR of asynchronous copies into shared memory, which land as late as the waits for their groups allow."""

from __future__ import annotations

from typing import Final

COPIES: Final = """
define hidden void @copy(i64 %target, i64 %source, i64 %size, i64 %read, i64 %site) nounwind {
entry:
  %fiber = load ptr, ptr <L.current>
  %target.bad = call i64 @look(i64 %target, i64 %size, i64 %size, i64 <N.WRITE>, i64 0)
  %target.wrong = icmp ne i64 %target.bad, 0
  br i1 %target.wrong, label %bad.target, label %target.fine
bad.target:
  call void @fault(i64 %target.bad, i64 %target, i64 %size, i64 <N.WRITE>, i64 %site)
  unreachable
target.fine:
  %too.much = icmp ugt i64 %read, %size
  %shorter = select i1 %too.much, i64 %size, i64 %read
  %reads = icmp ne i64 %shorter, 0
  br i1 %reads, label %source.check, label %room
source.check:
  call void @access(i64 %source, i64 %shorter, i64 %size, i64 <N.READ>, i64 %site, i64 0)
  br label %room
room:
  %end.at = getelementptr i8, ptr %fiber, i64 <F.copies_end>
  %end = load i32, ptr %end.at
  %full = icmp uge i32 %end, <N.most_copies>
  br i1 %full, label %overflow, label %write
overflow:
  call void @fault(i64 <N.TOO_MANY_COPIES>, i64 %target, i64 %size, i64 <N.WRITE>, i64 %site)
  unreachable
write:
  %end.next = add i32 %end, 1
  store i32 %end.next, ptr %end.at
  %entry.at = call ptr @copy.at(ptr %fiber, i32 %end)
  store i64 %target, ptr %entry.at
  %source.at = getelementptr i8, ptr %entry.at, i64 <C.source>
  store i64 %source, ptr %source.at
  %size.at = getelementptr i8, ptr %entry.at, i64 <C.size>
  %size.short = trunc i64 %size to i32
  store i32 %size.short, ptr %size.at
  %read.at = getelementptr i8, ptr %entry.at, i64 <C.read>
  %read.short = trunc i64 %shorter to i32
  store i32 %read.short, ptr %read.at
  %group.from = getelementptr i8, ptr %fiber, i64 <F.copies_group>
  %group = load i64, ptr %group.from
  %group.at = getelementptr i8, ptr %entry.at, i64 <C.group>
  store i64 %group, ptr %group.at
  %site.at = getelementptr i8, ptr %entry.at, i64 <C.site>
  store i64 %site, ptr %site.at
  ret void
}

define hidden ptr @copy.at(ptr %fiber, i32 %number) alwaysinline nounwind {
  %thread.at = getelementptr i8, ptr %fiber, i64 <F.thread>
  %thread = load i32, ptr %thread.at
  %row = mul i32 %thread, <N.most_copies>
  %index = add i32 %row, %number
  %wide = zext i32 %index to i64
  %place = mul i64 %wide, <C.size_of>
  %address = add i64 %place, <N.copies>
  %at = inttoptr i64 %address to ptr
  ret ptr %at
}

define hidden void @commit() nounwind {
  %fiber = load ptr, ptr <L.current>
  %group.at = getelementptr i8, ptr %fiber, i64 <F.copies_group>
  %group = load i64, ptr %group.at
  %next = add i64 %group, 1
  store i64 %next, ptr %group.at
  ret void
}

; Copies of all groups but the last %spared committed ones land; -1: those that were not committed, too.
define hidden void @land(i64 %spared) nounwind {
entry:
  %fiber = load ptr, ptr <L.current>
  %group.at = getelementptr i8, ptr %fiber, i64 <F.copies_group>
  %group = load i64, ptr %group.at
  %limit = sub i64 %group, %spared
  %begin.at = getelementptr i8, ptr %fiber, i64 <F.copies_begin>
  %end.at = getelementptr i8, ptr %fiber, i64 <F.copies_end>
  br label %loop
loop:
  %begin = load i32, ptr %begin.at
  %end = load i32, ptr %end.at
  %more = icmp ult i32 %begin, %end
  br i1 %more, label %consider, label %empty
consider:
  %entry.at = call ptr @copy.at(ptr %fiber, i32 %begin)
  %its.group.at = getelementptr i8, ptr %entry.at, i64 <C.group>
  %its.group = load i64, ptr %its.group.at
  %due = icmp slt i64 %its.group, %limit
  br i1 %due, label %move, label %done
move:
  %target = load i64, ptr %entry.at
  %source.at = getelementptr i8, ptr %entry.at, i64 <C.source>
  %source = load i64, ptr %source.at
  %size.at = getelementptr i8, ptr %entry.at, i64 <C.size>
  %size = load i32, ptr %size.at
  %read.at = getelementptr i8, ptr %entry.at, i64 <C.read>
  %read = load i32, ptr %read.at
  %site.at = getelementptr i8, ptr %entry.at, i64 <C.site>
  %site = load i64, ptr %site.at
  %size.wide = zext i32 %size to i64
  %read.wide = zext i32 %read to i64
  call void @note(i64 %target, i64 %size.wide, i64 <N.WRITE>, i64 %site)
  br label %byte
byte:
  %j = phi i64 [ 0, %move ], [ %j.next, %put ]
  %taken = icmp ult i64 %j, %read.wide
  br i1 %taken, label %get, label %put
get:
  %byte.from = add i64 %source, %j
  %byte.from.at = inttoptr i64 %byte.from to ptr
  %got = load i8, ptr %byte.from.at
  br label %put
put:
  %value = phi i8 [ 0, %byte ], [ %got, %get ]
  %byte.to = add i64 %target, %j
  %byte.to.at = inttoptr i64 %byte.to to ptr
  store i8 %value, ptr %byte.to.at
  %j.next = add i64 %j, 1
  %j.more = icmp ult i64 %j.next, %size.wide
  br i1 %j.more, label %byte, label %moved
moved:
  %begin.next = add i32 %begin, 1
  store i32 %begin.next, ptr %begin.at
  br label %loop
empty:
  store i32 0, ptr %begin.at
  store i32 0, ptr %end.at
  br label %done
done:
  ret void
}
"""
