"""Growable stacks, as functions that the entry calls: what loops leave for their gradients."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.llvm.builder import Definition
from jitgraph.runtime import loader

STACK_TYPE: Final = "{ ptr, i64, i64 }"
"""A growable stack: its memory, the bytes in use, and its capacity."""

PUSH: Final = Definition(
    "jg_push",
    "i32 @jg_push(ptr %host, ptr %call, ptr %stack, ptr %from, i64 %bytes)",
    f"""
start:
  %used.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 1
  %capacity.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 2
  %used = load i64, ptr %used.at
  %capacity = load i64, ptr %capacity.at
  %room = sub i64 %capacity, %used
  %fits = icmp uge i64 %room, %bytes
  br i1 %fits, label %copy, label %grow
grow:
  %needed = call {{ i64, i1 }} @llvm.sadd.with.overflow.i64(i64 %used, i64 %bytes)
  %least = extractvalue {{ i64, i1 }} %needed, 0
  %over = extractvalue {{ i64, i1 }} %needed, 1
  %least.doubled = call i64 @llvm.sshl.sat.i64(i64 %least, i64 1)
  %wanted = call i64 @llvm.smax.i64(i64 %least.doubled, i64 4096)
  br i1 %over, label %refuse, label %ask
ask:
  %block = call ptr @jg_block(ptr %host, ptr %call, i64 %wanted)
  %none = icmp eq ptr %block, null
  br i1 %none, label %refuse, label %move
move:
  %old = load ptr, ptr %stack
  call void @llvm.memcpy.p0.p0.i64(ptr %block, ptr %old, i64 %used, i1 false)
  store ptr %block, ptr %stack
  store i64 %wanted, ptr %capacity.at
  br label %copy
copy:
  %data = load ptr, ptr %stack
  %to = getelementptr i8, ptr %data, i64 %used
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  %more = add i64 %used, %bytes
  store i64 %more, ptr %used.at
  ret i32 0
refuse:
  ret i32 {loader.OUT_OF_MEMORY}""",
    inlined=False,
    hot=False,
    uses={"jg_block": 1},
)

POP: Final = Definition(
    "jg_pop",
    "i32 @jg_pop(ptr %stack, ptr %to, i64 %bytes)",
    f"""
start:
  %used.at = getelementptr {STACK_TYPE}, ptr %stack, i64 0, i32 1
  %used = load i64, ptr %used.at
  %left = sub i64 %used, %bytes
  %empty = icmp slt i64 %left, 0
  br i1 %empty, label %refuse, label %copy
copy:
  %data = load ptr, ptr %stack
  %from = getelementptr i8, ptr %data, i64 %left
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %bytes, i1 false)
  store i64 %left, ptr %used.at
  ret i32 0
refuse:
  ret i32 {loader.SIZE_OVERFLOW}""",
    inlined=False,
    hot=False,
)
