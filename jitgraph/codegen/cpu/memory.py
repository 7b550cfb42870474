"""memset, memcpy and memmove as LLVM IR: what LLVM may call on its own account, so each image brings them along.

Marked no-builtins, or LLVM would see through the loops and make each function call itself. From 2 KiB on the
processor's string instructions are as fast as vectors; below, sixteen bytes a step with an overlapping last step.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target

_COPY = """
define hidden ptr @{name}(ptr %to, ptr %from, i64 %size) #0 {{
start:
  {guard}
forward:
  %long = icmp uge i64 %size, 2048
  br i1 %long, label %string, label %short
string:
  %ignored = call {{ ptr, ptr, i64 }} asm sideeffect
    "rep movsb", "={{di}},={{si}},={{cx}},0,1,2,~{{memory}},~{{dirflag}}"(ptr %to, ptr %from, i64 %size)
  ret ptr %to
short:
  %wide = icmp uge i64 %size, 16
  br i1 %wide, label %vectors, label %bytes
vectors:
  %last = sub i64 %size, 16
  %tail.from = getelementptr i8, ptr %from, i64 %last
  %tail = load <16 x i8>, ptr %tail.from, align 1
  br label %vector
vector:
  %i = phi i64 [ 0, %vectors ], [ %i.next, %vector.step ]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %vector.step, label %vector.end
vector.step:
  %v.from = getelementptr i8, ptr %from, i64 %i
  %v = load <16 x i8>, ptr %v.from, align 1
  %v.to = getelementptr i8, ptr %to, i64 %i
  store <16 x i8> %v, ptr %v.to, align 1
  %i.next = add i64 %i, 16
  br label %vector
vector.end:
  %tail.to = getelementptr i8, ptr %to, i64 %last
  store <16 x i8> %tail, ptr %tail.to, align 1
  ret ptr %to
bytes:
  %b = phi i64 [ 0, %short ], [ %b.next, %byte.step ]
  %b.more = icmp ult i64 %b, %size
  br i1 %b.more, label %byte.step, label %done
byte.step:
  %b.from = getelementptr i8, ptr %from, i64 %b
  %byte = load i8, ptr %b.from
  %b.to = getelementptr i8, ptr %to, i64 %b
  store i8 %byte, ptr %b.to
  %b.next = add i64 %b, 1
  br label %bytes
done:
  ret ptr %to
{backward}}}
"""

# Moving up within an overlap goes from the last byte to the first.
_MOVE_GUARD = """%a = ptrtoint ptr %to to i64
  %c = ptrtoint ptr %from to i64
  %distance = sub i64 %a, %c
  %overlaps = icmp ult i64 %distance, %size
  br i1 %overlaps, label %down, label %apart
apart:
  %reverse = sub i64 %c, %a
  %near = icmp ult i64 %reverse, 16
  br i1 %near, label %bytes, label %forward"""

_MOVE_BACKWARD = """down:
  %d = phi i64 [ %size, %start ], [ %d.next, %down.step ]
  %d.more = icmp ne i64 %d, 0
  br i1 %d.more, label %down.step, label %done
down.step:
  %d.next = sub i64 %d, 1
  %d.from = getelementptr i8, ptr %from, i64 %d.next
  %d.byte = load i8, ptr %d.from
  %d.to = getelementptr i8, ptr %to, i64 %d.next
  store i8 %d.byte, ptr %d.to
  br label %down
"""

_SET = """
define hidden ptr @memset(ptr %to, i32 %value, i64 %size) #0 {
start:
  %byte = trunc i32 %value to i8
  %long = icmp uge i64 %size, 2048
  br i1 %long, label %string, label %short
string:
  %ignored = call { ptr, i64 } asm sideeffect
    "rep stosb", "={di},={cx},0,1,{al},~{memory},~{dirflag}"(ptr %to, i64 %size, i8 %byte)
  ret ptr %to
short:
  %wide = icmp uge i64 %size, 16
  br i1 %wide, label %vectors, label %bytes
vectors:
  %one = insertelement <16 x i8> poison, i8 %byte, i64 0
  %all = shufflevector <16 x i8> %one, <16 x i8> poison, <16 x i32> zeroinitializer
  %last = sub i64 %size, 16
  br label %vector
vector:
  %i = phi i64 [ 0, %vectors ], [ %i.next, %vector.step ]
  %more = icmp ult i64 %i, %last
  br i1 %more, label %vector.step, label %vector.end
vector.step:
  %v.to = getelementptr i8, ptr %to, i64 %i
  store <16 x i8> %all, ptr %v.to, align 1
  %i.next = add i64 %i, 16
  br label %vector
vector.end:
  %tail.to = getelementptr i8, ptr %to, i64 %last
  store <16 x i8> %all, ptr %tail.to, align 1
  ret ptr %to
bytes:
  %b = phi i64 [ 0, %short ], [ %b.next, %byte.step ]
  %b.more = icmp ult i64 %b, %size
  br i1 %b.more, label %byte.step, label %done
byte.step:
  %b.to = getelementptr i8, ptr %to, i64 %b
  store i8 %byte, ptr %b.to
  %b.next = add i64 %b, 1
  br label %bytes
done:
  ret ptr %to
}

attributes #0 = { nounwind "no-builtins" }
"""

IR: Final = (
    _COPY.format(name="memcpy", guard="br label %forward", backward="")
    + _COPY.format(name="memmove", guard=_MOVE_GUARD, backward=_MOVE_BACKWARD).replace(
        "%b = phi i64 [ 0, %short ],", "%b = phi i64 [ 0, %short ], [ 0, %apart ],"
    )
    + _SET
)


def memory_module(target: Target) -> LlvmModule:
    """The functions, to link with what calls them."""
    return LlvmModule(machine.TRIPLE, IR)
