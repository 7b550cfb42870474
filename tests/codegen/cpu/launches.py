"""Launches of parallel loops by hand-written code that notes when each chunk ran, and in whose memory."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from jitgraph.runtime import loader
from tests.runtime.handwritten import ENTRY, buffer, entry, image, spec

Numbers = NDArray[np.int64]

# Launches n loops of so many chunks, so many turns of an empty loop each, so many cycles after each other. A row of the
# result has the cycle counter before and after the launch, and of each chunk its begin, its end and its memory.
LAUNCHES = f"""
declare i64 @llvm.readcyclecounter()
define internal i32 @chunk(ptr %ctx, i64 %c, ptr %scratch) nounwind {{
  %begin = call i64 @llvm.readcyclecounter()
  %turns = load i64, ptr %ctx
  %row.at = getelementptr ptr, ptr %ctx, i64 1
  %row = load ptr, ptr %row.at
  br label %loop
loop:
  %i = phi i64 [ 0, %0 ], [ %j, %loop ]
  %j = add i64 %i, 1
  call void asm sideeffect "", "~{{memory}}"()
  %more = icmp slt i64 %j, %turns
  br i1 %more, label %loop, label %done
done:
  %at = mul i64 %c, 3
  %begin.at = getelementptr i64, ptr %row, i64 %at
  store i64 %begin, ptr %begin.at
  %end.at = getelementptr i64, ptr %begin.at, i64 1
  %end = call i64 @llvm.readcyclecounter()
  store i64 %end, ptr %end.at
  %whose.at = getelementptr i64, ptr %begin.at, i64 2
  %whose = ptrtoint ptr %scratch to i64
  store i64 %whose, ptr %whose.at
  ret i32 0
}}
{ENTRY} {{
  %ctx = alloca [2 x ptr], align 8
{buffer("%numbers", 0)}{buffer("%out", 3)}
  %m.at = getelementptr i64, ptr %dims, i64 1
  %n = load i64, ptr %dims
  %m = load i64, ptr %m.at
  %chunks = load i64, ptr %numbers
  %turns.at = getelementptr i64, ptr %numbers, i64 1
  %turns = load i64, ptr %turns.at
  %gap.at = getelementptr i64, ptr %numbers, i64 2
  %gap = load i64, ptr %gap.at
  store i64 %turns, ptr %ctx
  %row.at = getelementptr ptr, ptr %ctx, i64 1
  br label %next
next:
  %i = phi i64 [ 0, %0 ], [ %j, %wait ]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %launch, label %done
launch:
  %at = mul i64 %i, %m
  %row = getelementptr i64, ptr %out, i64 %at
  %chunk.row = getelementptr i64, ptr %row, i64 2
  store ptr %chunk.row, ptr %row.at
  %before = call i64 @llvm.readcyclecounter()
  store i64 %before, ptr %row
  %code = call i32 @jg_parallel_for(ptr %host, ptr %call, ptr @chunk, ptr %ctx, i64 %chunks)
  %after = call i64 @llvm.readcyclecounter()
  %after.at = getelementptr i64, ptr %row, i64 1
  store i64 %after, ptr %after.at
  %j = add i64 %i, 1
  br label %wait
wait:
  %now = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %now, %after
  %early = icmp slt i64 %passed, %gap
  br i1 %early, label %wait, label %next
done:
  ret i32 0
}}
"""


@cache
def launches_image() -> bytes:
    return image(LAUNCHES, runtime=True)


class Launches:
    """Runs launches on a runtime of so many threads, or on the one given, and gives their notes.

    ``limit`` is how many threads take part at most, 0 for no limit.
    """

    def __init__(self, threads: int, limit: int = 0, runtime: loader.Runtime | None = None) -> None:
        self.runtime = runtime or loader.Runtime(threads)
        numbers, rows, columns = spec("numbers", "int64", 3), spec("a", "bool", "n"), spec("b", "bool", "m")
        out = spec("out", "int64", "n", "m")
        self.entry = entry(
            launches_image(), [numbers, rows, columns], [out], runtime=self.runtime, threads=limit, dims=("n", "m")
        )

    def __call__(self, launches: int, chunks: int, turns: int, gap: int) -> Numbers:
        numbers = np.array([chunks, turns, gap], np.int64)
        out: Numbers = self.entry(numbers, np.zeros(launches, bool), np.zeros(2 + 3 * chunks, bool))
        return out

    @property
    def state(self) -> loader.PoolState:
        """The state of the pool, once a call has started it."""
        assert self.runtime._pool is not None
        return self.runtime._pool.state


def memories(notes: Numbers) -> set[int]:
    """Whose memory the chunks of all launches had: one for each thread that took part."""
    return set(notes[:, 4::3].ravel().tolist())
