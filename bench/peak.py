"""The measured peak of fused multiply-adds on one core: independent chains in registers, nothing else."""

from __future__ import annotations

import ctypes
import time

from jitgraph.codegen.cpu import linker
from jitgraph.codegen.llvm import machine
from jitgraph.ir.target import Target
from jitgraph.runtime import loader

CHAINS, STEPS = 24, 200_000


def fma_flops(rounds: int = 15) -> float:
    """The best of several rounds, in float32 operations per second (a multiply-add counts two)."""
    target = Target.host()
    lanes = target.lanes(4)
    chains = min(CHAINS, target.registers - 4)
    vector = f"<{lanes} x float>"
    factor = "splat (float 0x3FEFFFFFC0000000)"
    phis = "\n".join(
        f"  %a{i} = phi {vector} [ splat (float {i + 1}.0), %start ], [ %b{i}, %loop ]" for i in range(chains)
    )
    steps = "\n".join(
        f"  %b{i} = call {vector} @llvm.fma.v{lanes}f32({vector} %a{i}, {vector} {factor}, {vector} {factor})"
        for i in range(chains)
    )
    sums = "\n".join(
        f"  %s{i} = fadd {vector} {'%s' + str(i - 1) if i else 'zeroinitializer'}, %b{i}" for i in range(chains)
    )
    text = f"""
declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})
define i32 @entry(ptr %host, ptr %call, ptr %buffers, ptr %dims) {{
start:
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
{phis}
{steps}
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, {STEPS}
  br i1 %more, label %loop, label %done
done:
{sums}
  %out = load ptr, ptr %buffers
  store {vector} %s{chains - 1}, ptr %out, align 4
  ret i32 0
}}
"""
    image = loader.Image(linker.link([machine.assemble(text, target)], {"entry": "entry"}))
    run = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)(image.export("entry"))
    out = (ctypes.c_float * lanes)()
    buffers = (ctypes.c_void_p * 1)(ctypes.addressof(out))
    best = float("inf")
    for _ in range(rounds):
        started = time.thread_time()
        run(None, None, buffers, None)
        best = min(best, time.thread_time() - started)
    return 2.0 * lanes * chains * STEPS / best
