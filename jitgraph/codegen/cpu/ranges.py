"""Cutting a range into chunks for the thread pool: a function that images carry, as LLVM IR.

``i32 jg_range(host, call, fn, ptr range, i64 count, double work)`` runs ``i32 fn(range, i64 chunk, scratch)`` for
chunks that together make ``0 .. count``. ``work`` estimates one iteration, in vector instructions (about half a
nanosecond each). The first two slots of ``range``, int64 each, receive ``count`` and the iterations of a chunk; chunk c
begins at ``c * slot 1``. The cut follows from the arguments alone, never from the number of threads.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu import pool
from jitgraph.codegen.llvm import machine
from jitgraph.codegen.llvm.builder import LlvmModule
from jitgraph.ir.target import Target
from jitgraph.runtime.loader import offsets

CHUNK_WORK: Final = 40_000.0
"""Work of one chunk, about 20 us: well above the microsecond or two of handing it over."""

SLOTS: Final = 2

DECLARATION: Final = "declare i32 @jg_range(ptr, ptr, ptr, ptr, i64, double) nounwind"

# The quotient is below 2**62 for any work from 1 on, so the conversions are defined; minnum drops a NaN.
IR: Final = (
    pool.DECLARATIONS
    + f"""
declare double @llvm.maxnum.f64(double, double)
declare i64 @llvm.smax.i64(i64, i64)
define i32 @jg_range(ptr %host, ptr %call, ptr %fn, ptr %range, i64 %count, double %work) nounwind {{
start:
  %least = call double @llvm.maxnum.f64(double %work, double 1.0)
  %quotient = fdiv double {CHUNK_WORK!r}, %least
  %whole = fptosi double %quotient to i64
  %per = call i64 @llvm.smax.i64(i64 %whole, i64 1)
  %per.at = getelementptr i64, ptr %range, i64 1
  store i64 %count, ptr %range
  store i64 %per, ptr %per.at
  %up = add i64 %per, -1
  %more = add i64 %count, %up
  %chunks = sdiv i64 %more, %per
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %run, label %none
run:
  %several = icmp sgt i64 %chunks, 1
  br i1 %several, label %share, label %alone
share:
  %turns = sitofp i64 %per to double
  %cost = fmul double %turns, %least
  %shared = call i32 @jg_share(ptr %host, ptr %call, ptr %fn, ptr %range, i64 %chunks, double %cost)
  ret i32 %shared
alone:
  %scratch.at = getelementptr i8, ptr %call, i64 {offsets.CALL_ARENA}
  %scratch = load ptr, ptr %scratch.at
  %code = call i32 %fn(ptr %range, i64 0, ptr %scratch)
  ret i32 %code
none:
  ret i32 0
}}
"""
)


def range_module(target: Target) -> LlvmModule:
    """The function, to link with emitted code."""
    return LlvmModule(machine.TRIPLE, IR)
