"""Calls of compiled functions from C: the code that stands between a C caller and an entry, compiled once.

A ``NATIVE`` record says what an entry needs beside the caller's buffers. ``call`` puts the buffers in order, finds a
workspace, runs the entry and gives everything back; the other functions have the signatures of callbacks that libraries
take, with the record as their data. Nothing of it enters Python or takes a lock: a workspace is taken out of the
record's ``arenas`` by one exchange, and put back by another.
"""

from __future__ import annotations

from functools import cache
from typing import Final

from jitgraph.codegen.cpu.linker import link
from jitgraph.codegen.cpu.objects import ObjectStore
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.machine import Unit
from jitgraph.ir.target import Target
from jitgraph.runtime import native_records as layout
from jitgraph.runtime.loader import abi

FUNCTIONS: Final = layout.FUNCTIONS
TARGET: Final = Target.named("x86-64-v2")
"""It uses nothing that only some processors have."""

_TEXT: Final = """
target triple = "{triple}"

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare ptr @llvm.stacksave.p0()
declare void @llvm.stackrestore.p0(ptr)

; A workspace aligned to 64 bytes, or null; the word before it says where its memory begins.
define internal ptr @take_arena(ptr %f, i64 %bytes) noinline nounwind "no-builtins" {{
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %empty ]
  %slots = getelementptr i8, ptr %f, i64 {arenas}
  %slot = getelementptr ptr, ptr %slots, i64 %i
  %old = atomicrmw xchg ptr %slot, ptr null acquire
  %has = icmp ne ptr %old, null
  br i1 %has, label %found, label %empty
found:
  ret ptr %old
empty:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {arena_count}
  br i1 %more, label %look, label %make
make:
  %host.at = getelementptr i8, ptr %f, i64 {host}
  %host = load ptr, ptr %host.at
  %alloc.at = getelementptr i8, ptr %host, i64 {host_alloc}
  %alloc = load ptr, ptr %alloc.at
  %room = add i64 %bytes, 128
  %base = call ptr %alloc(i64 %room)
  %none = icmp eq ptr %base, null
  br i1 %none, label %failed, label %aligned
failed:
  ret ptr null
aligned:
  %number = ptrtoint ptr %base to i64
  %behind = add i64 %number, 127
  %start = and i64 %behind, -64
  %arena = inttoptr i64 %start to ptr
  %word = getelementptr i8, ptr %arena, i64 -8
  store ptr %base, ptr %word
  ret ptr %arena
}}

define internal void @give_arena(ptr %f, ptr %arena) noinline nounwind "no-builtins" {{
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %taken ]
  %slots = getelementptr i8, ptr %f, i64 {arenas}
  %slot = getelementptr ptr, ptr %slots, i64 %i
  %pair = cmpxchg ptr %slot, ptr null, ptr %arena release monotonic
  %done = extractvalue {{ ptr, i1 }} %pair, 1
  br i1 %done, label %end, label %taken
taken:
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {arena_count}
  br i1 %more, label %look, label %free
free:
  %host.at = getelementptr i8, ptr %f, i64 {host}
  %host = load ptr, ptr %host.at
  %free.at = getelementptr i8, ptr %host, i64 {host_free}
  %release = load ptr, ptr %free.at
  %word = getelementptr i8, ptr %arena, i64 -8
  %base = load ptr, ptr %word
  call void %release(ptr %base)
  br label %end
end:
  ret void
}}

; Copies count addresses.
define internal void @copy_addresses(ptr %to, ptr %from, i64 %count) alwaysinline nounwind "no-builtins" {{
entry:
  %none = icmp eq i64 %count, 0
  br i1 %none, label %end, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %source = getelementptr ptr, ptr %from, i64 %i
  %target = getelementptr ptr, ptr %to, i64 %i
  %value = load ptr, ptr %source
  store ptr %value, ptr %target
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %end
end:
  ret void
}}

define hidden i32 @call(ptr %f, ptr %inputs, ptr %outputs, ptr %error) noinline nounwind "no-builtins" {{
entry:
  %record = alloca [{call_bytes} x i8], align 64
  call void @llvm.memset.p0.i64(ptr align 64 %record, i8 0, i64 {call_bytes}, i1 false)
  %inputs.at = getelementptr i8, ptr %f, i64 {input_count}
  %input.count = load i64, ptr %inputs.at
  %states.at = getelementptr i8, ptr %f, i64 {state_count}
  %state.count = load i64, ptr %states.at
  %outputs.at = getelementptr i8, ptr %f, i64 {output_count}
  %output.count = load i64, ptr %outputs.at
  %state.at = getelementptr i8, ptr %f, i64 {state}
  %state = load ptr, ptr %state.at
  %parameters = add i64 %input.count, %state.count
  %all = add i64 %parameters, %output.count
  %buffers = alloca ptr, i64 %all, align 16
  call void @copy_addresses(ptr %buffers, ptr %inputs, i64 %input.count)
  %state.buffers = getelementptr ptr, ptr %buffers, i64 %input.count
  call void @copy_addresses(ptr %state.buffers, ptr %state, i64 %state.count)
  %output.buffers = getelementptr ptr, ptr %buffers, i64 %parameters
  %arena.at = getelementptr i8, ptr %f, i64 {arena_bytes}
  %arena.bytes = load i64, ptr %arena.at
  %room.at = getelementptr i8, ptr %f, i64 {room_bytes}
  %room.bytes = load i64, ptr %room.at
  %room = add i64 %arena.bytes, %room.bytes
  br label %alignment
alignment:
  %k = phi i64 [ 0, %entry ], [ %k.next, %alignment.next ]
  %bits = phi i64 [ 0, %entry ], [ %bits.next, %alignment.next ]
  %k.more = icmp ult i64 %k, %output.count
  br i1 %k.more, label %alignment.next, label %workspace
alignment.next:
  %k.at = getelementptr ptr, ptr %outputs, i64 %k
  %k.address = load ptr, ptr %k.at
  %k.number = ptrtoint ptr %k.address to i64
  %bits.next = or i64 %bits, %k.number
  %k.next = add i64 %k, 1
  br label %alignment
workspace:
  %low = and i64 %bits, 63
  %unaligned = icmp ne i64 %low, 0
  %needs = icmp ne i64 %arena.bytes, 0
  %wants = or i1 %unaligned, %needs
  br i1 %wants, label %take, label %place
take:
  %taken = call ptr @take_arena(ptr %f, i64 %room)
  %failed = icmp eq ptr %taken, null
  br i1 %failed, label %no.memory, label %place
no.memory:
  %failure = phi i32 [ {out_of_memory}, %take ]
  br label %report
place:
  %arena = phi ptr [ null, %workspace ], [ %taken, %take ]
  br label %outputs.loop
outputs.loop:
  %o = phi i64 [ 0, %place ], [ %o.next, %outputs.body ]
  %o.more = icmp ult i64 %o, %output.count
  br i1 %o.more, label %outputs.body, label %run
outputs.body:
  %o.at = getelementptr ptr, ptr %outputs, i64 %o
  %o.address = load ptr, ptr %o.at
  %o.offset.at.base = getelementptr i8, ptr %f, i64 {offsets}
  %o.offsets = load ptr, ptr %o.offset.at.base
  %o.offset.at = getelementptr i64, ptr %o.offsets, i64 %o
  %o.offset = load i64, ptr %o.offset.at
  %o.number = ptrtoint ptr %o.address to i64
  %o.low = and i64 %o.number, 63
  %o.fits = icmp eq i64 %o.low, 0
  %o.behind = add i64 %arena.bytes, %o.offset
  %o.own = getelementptr i8, ptr %arena, i64 %o.behind
  %o.chosen = select i1 %o.fits, ptr %o.address, ptr %o.own
  %o.target = getelementptr ptr, ptr %output.buffers, i64 %o
  store ptr %o.chosen, ptr %o.target
  %o.next = add i64 %o, 1
  br label %outputs.loop
run:
  %record.arena = getelementptr i8, ptr %record, i64 {call_arena}
  store ptr %arena, ptr %record.arena
  %record.bytes = getelementptr i8, ptr %record, i64 {call_arena_bytes}
  store i64 %arena.bytes, ptr %record.bytes
  %record.threads = getelementptr i8, ptr %record, i64 {call_threads}
  store i64 1, ptr %record.threads
  %entry.at = getelementptr i8, ptr %f, i64 {entry}
  %entry.function = load ptr, ptr %entry.at
  %host.at = getelementptr i8, ptr %f, i64 {host}
  %host = load ptr, ptr %host.at
  %dims.at = getelementptr i8, ptr %f, i64 {dims}
  %dims = load ptr, ptr %dims.at
  %code = call i32 %entry.function(ptr %host, ptr %record, ptr %buffers, ptr %dims)
  %blocks.at = getelementptr i8, ptr %record, i64 {call_blocks}
  %first = load ptr, ptr %blocks.at
  br label %blocks
blocks:
  %block = phi ptr [ %first, %run ], [ %following, %free.block ]
  %no.block = icmp eq ptr %block, null
  br i1 %no.block, label %deliver, label %free.block
free.block:
  %following.at = getelementptr i8, ptr %block, i64 {block_next}
  %following = load ptr, ptr %following.at
  %base.at = getelementptr i8, ptr %block, i64 {block_base}
  %base = load ptr, ptr %base.at
  %free.at = getelementptr i8, ptr %host, i64 {host_free}
  %free = load ptr, ptr %free.at
  call void %free(ptr %base)
  br label %blocks
deliver:
  %good = icmp eq i32 %code, 0
  %copies = and i1 %good, %unaligned
  br i1 %copies, label %copy.loop, label %return.arena
copy.loop:
  %c = phi i64 [ 0, %deliver ], [ %c.next, %copy.next ]
  %c.more = icmp ult i64 %c, %output.count
  br i1 %c.more, label %copy.body, label %return.arena
copy.body:
  %c.at = getelementptr ptr, ptr %outputs, i64 %c
  %c.address = load ptr, ptr %c.at
  %c.own.at = getelementptr ptr, ptr %output.buffers, i64 %c
  %c.own = load ptr, ptr %c.own.at
  %c.same = icmp eq ptr %c.own, %c.address
  br i1 %c.same, label %copy.next, label %copy
copy:
  %sizes.at = getelementptr i8, ptr %f, i64 {sizes}
  %sizes = load ptr, ptr %sizes.at
  %size.at = getelementptr i64, ptr %sizes, i64 %c
  %size = load i64, ptr %size.at
  call void @llvm.memcpy.p0.p0.i64(ptr %c.address, ptr %c.own, i64 %size, i1 false)
  br label %copy.next
copy.next:
  %c.next = add i64 %c, 1
  br label %copy.loop
return.arena:
  br i1 %wants, label %give, label %report
give:
  call void @give_arena(ptr %f, ptr %arena)
  br label %report
report:
  %result = phi i32 [ %failure, %no.memory ], [ %code, %return.arena ], [ %code, %give ]
  %success = icmp eq i32 %result, 0
  %unasked = icmp eq ptr %error, null
  %silent = or i1 %success, %unasked
  br i1 %silent, label %end, label %tell
tell:
  %told.check.at = getelementptr i8, ptr %record, i64 {call_check}
  %told.check = load i32, ptr %told.check.at
  %told.index.at = getelementptr i8, ptr %record, i64 {call_index}
  %told.index = load i64, ptr %told.index.at
  %told.bound.at = getelementptr i8, ptr %record, i64 {call_bound}
  %told.bound = load i64, ptr %told.bound.at
  store i32 %result, ptr %error
  %check.at = getelementptr i8, ptr %error, i64 4
  store i32 %told.check, ptr %check.at
  %index.at = getelementptr i8, ptr %error, i64 8
  store i64 %told.index, ptr %index.at
  %bound.at = getelementptr i8, ptr %error, i64 16
  store i64 %told.bound, ptr %bound.at
  br label %end
end:
  ret i32 %result
}}

; double f(double x, void *data)
define hidden double @of_number(double %x, ptr %f) nounwind "no-builtins" {{
  %value = alloca double
  %result = alloca double, align 64
  %inputs = alloca ptr
  %outputs = alloca ptr
  store double %x, ptr %value
  store ptr %value, ptr %inputs
  store ptr %result, ptr %outputs
  %error = getelementptr i8, ptr %f, i64 {error}
  %code = call i32 @call(ptr %f, ptr %inputs, ptr %outputs, ptr %error)
  %good = icmp eq i32 %code, 0
  %number = load double, ptr %result
  %given = select i1 %good, double %number, double 0x7FF8000000000000
  ret double %given
}}

; double f(int count, double *x, void *data): x is one vector, or one number for each input
define hidden double @of_numbers(i32 %count, ptr %x, ptr %f) nounwind "no-builtins" {{
entry:
  %error = getelementptr i8, ptr %f, i64 {error}
  %expected.at = getelementptr i8, ptr %f, i64 {numbers}
  %expected = load i64, ptr %expected.at
  %wide = sext i32 %count to i64
  %fits = icmp eq i64 %wide, %expected
  br i1 %fits, label %prepare, label %refuse
refuse:
  store i32 {sizes_refused}, ptr %error
  ret double 0x7FF8000000000000
prepare:
  %result = alloca double, align 64
  %outputs = alloca ptr
  store ptr %result, ptr %outputs
  %inputs.at = getelementptr i8, ptr %f, i64 {input_count}
  %input.count = load i64, ptr %inputs.at
  %inputs = alloca ptr, i64 %input.count
  br label %loop
loop:
  %i = phi i64 [ 0, %prepare ], [ %next, %body ]
  %more = icmp ult i64 %i, %input.count
  br i1 %more, label %body, label %run
body:
  %slot = getelementptr ptr, ptr %inputs, i64 %i
  %address = getelementptr double, ptr %x, i64 %i
  store ptr %address, ptr %slot
  %next = add i64 %i, 1
  br label %loop
run:
  %code = call i32 @call(ptr %f, ptr %inputs, ptr %outputs, ptr %error)
  %good = icmp eq i32 %code, 0
  %number = load double, ptr %result
  %given = select i1 %good, double %number, double 0x7FF8000000000000
  ret double %given
}}

; int f(double *buffer, intptr_t size, double *result, void *data)
define hidden i32 @of_window(ptr %buffer, i64 %size, ptr %result, ptr %f) nounwind "no-builtins" {{
entry:
  %error = getelementptr i8, ptr %f, i64 {error}
  %expected.at = getelementptr i8, ptr %f, i64 {numbers}
  %expected = load i64, ptr %expected.at
  %fits = icmp eq i64 %size, %expected
  br i1 %fits, label %run, label %refuse
refuse:
  store i32 {sizes_refused}, ptr %error
  ret i32 0
run:
  %inputs = alloca ptr
  %outputs = alloca ptr
  store ptr %buffer, ptr %inputs
  store ptr %result, ptr %outputs
  %code = call i32 @call(ptr %f, ptr %inputs, ptr %outputs, ptr %error)
  %good = icmp eq i32 %code, 0
  %given = zext i1 %good to i32
  ret i32 %given
}}

; int f(double *input, intptr_t input_size, double *output, intptr_t output_size, void *data)
define hidden i32 @of_line(ptr %input, i64 %size, ptr %output, i64 %written, ptr %f) nounwind "no-builtins" {{
entry:
  %error = getelementptr i8, ptr %f, i64 {error}
  %expected.at = getelementptr i8, ptr %f, i64 {numbers}
  %expected = load i64, ptr %expected.at
  %due.at = getelementptr i8, ptr %f, i64 {results}
  %due = load i64, ptr %due.at
  %input.fits = icmp eq i64 %size, %expected
  %output.fits = icmp eq i64 %written, %due
  %fits = and i1 %input.fits, %output.fits
  br i1 %fits, label %run, label %refuse
refuse:
  store i32 {sizes_refused}, ptr %error
  ret i32 0
run:
  %inputs = alloca ptr
  %outputs = alloca ptr
  store ptr %input, ptr %inputs
  store ptr %output, ptr %outputs
  %code = call i32 @call(ptr %f, ptr %inputs, ptr %outputs, ptr %error)
  %good = icmp eq i32 %code, 0
  %given = zext i1 %good to i32
  ret i32 %given
}}

define hidden ptr @export(i64 %number) nounwind "no-builtins" {{
{exports}
}}
"""


def text() -> str:
    """The LLVM IR of all functions."""
    lines, last = [], f"@{FUNCTIONS[0]}"
    for number, name in enumerate(FUNCTIONS[1:], 1):
        lines.append(f"  %is{number} = icmp eq i64 %number, {number}")
        lines.append(f"  %f{number} = select i1 %is{number}, ptr @{name}, ptr {last}")
        last = f"%f{number}"
    lines.append(f"  ret ptr {last}")
    return _TEXT.format(
        triple=machine.TRIPLE,
        **layout.NATIVE,
        arena_count=layout.ARENAS,
        call_bytes=layout.CALL_BYTES,
        host_alloc=abi.HOST_ALLOC,
        host_free=abi.HOST_FREE,
        call_arena=abi.CALL_ARENA,
        call_arena_bytes=abi.CALL_ARENA_BYTES,
        call_threads=abi.CALL_THREADS,
        call_blocks=abi.CALL_BLOCKS,
        call_check=abi.CALL_ERROR_CHECK_ID,
        call_index=abi.CALL_ERROR_INDEX,
        call_bound=abi.CALL_ERROR_BOUND,
        block_next=abi.BLOCK_NEXT,
        block_base=abi.BLOCK_BASE,
        out_of_memory=abi.OUT_OF_MEMORY,
        sizes_refused=abi.SIZES_REFUSED,
        exports="\n".join(lines),
    )


@cache
def image() -> bytes:
    """The flat image; its entry gives the addresses of ``FUNCTIONS`` by number."""
    store = ObjectStore()
    code = store.object(Unit(text(), hot=True), TARGET, "native calls")
    store.store()
    return link([code], {"entry": "export"})
