"""What the threads of the pool cost: ``python -m bench pool``.

Launches of parallel loops come from hand-written code that notes the cycle counter at each chunk's begin and end, so
that what is measured is the pool alone. Between two launches the calling thread is busy for a while (the gap), as Python
would be. The second part runs each launch on two threads and on one while other processes want both processors.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from jitgraph.runtime import loader
from tests.runtime.handwritten import ENTRY, buffer, entry, image, spec

Numbers = NDArray[np.int64]

# Launches n loops of %chunks chunks, %turns empty turns of a loop each, %gap cycles after each other. A row of the
# result has the cycle counter before and after the launch, and of each chunk its begin, its end, and whose memory it had.
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


class Launches:
    """Runs launches on a runtime and gives their notes."""

    def __init__(self, threads: int) -> None:
        self.runtime = loader.Runtime(threads)
        numbers, rows, columns = spec("numbers", "int64", 3), spec("a", "bool", "n"), spec("b", "bool", "m")
        data = image(LAUNCHES, runtime=True)
        out = spec("out", "int64", "n", "m")
        self.entry = entry(data, [numbers, rows, columns], [out], runtime=self.runtime, dims=("n", "m"))

    def __call__(self, launches: int, chunks: int, turns: int, gap: int) -> Numbers:
        numbers = np.array([chunks, turns, gap], np.int64)
        out: Numbers = self.entry(numbers, np.zeros(launches, bool), np.zeros(2 + 3 * chunks, bool))
        return out


def _rates(serial: Launches) -> tuple[float, float]:
    """Cycles of the counter and turns of the loop, per microsecond."""
    best = []
    for _ in range(5):
        started = time.perf_counter()
        out = serial(1, 1, 3_000_000, 0)
        best.append((time.perf_counter() - started, out[0, 1] - out[0, 0]))
    seconds, cycles = min(best)
    return float(cycles / seconds / 1e6), float(3.0 / seconds)


def _first_of_others(out: Numbers) -> NDArray[np.float64]:
    """Cycles from each launch to the first chunk that another thread begins; NaN where none did."""
    begins, whose = out[:, 2::3], out[:, 4::3]
    caller = out[:, 4]  # the first chunk is nearly always the caller's; where it is not, the launch counts as fast
    others = np.where(whose != caller[:, None], begins - out[:, :1], np.iinfo(np.int64).max)
    first = others.min(axis=1).astype(float)
    first[first > 1e15] = np.nan
    return first


def _spread(values: NDArray[np.float64]) -> str:
    known = values[~np.isnan(values)]
    if not len(known):
        return "none took part"
    part = f"{len(known) / len(values):4.0%}"
    return f"{np.median(known):7.1f} us, 9 of 10 within {np.percentile(known, 90):7.1f}, {part} shared"


GAPS = (("0", 0.0), ("20 us", 20.0), ("100 us", 100.0), ("1 ms", 1e3), ("10 ms", 1e4), ("100 ms", 1e5))


def _latency(shared: Launches, cycles: float, turns: float) -> None:
    print("from a launch to the first chunk on another thread; to the caller's first; 8 chunks of 50 us")
    for name, gap in GAPS:
        launches = int(min(300, max(12, 4e6 / (gap + 200))))
        out = shared(launches, 8, int(50 * turns), int(gap * cycles))[launches // 4 :]
        own = (out[:, 2] - out[:, 0]) / cycles
        print(f"  gap {name:>6}: {_spread(_first_of_others(out) / cycles)}; own {np.median(own):5.2f} us")


def _empty(shared: Launches, cycles: float) -> None:
    print("a launch of empty chunks")
    for name, gap in GAPS[:5]:
        for chunks in (2, 16):
            launches = int(min(2000, max(30, 1e6 / (gap + 5))))
            out = shared(launches, chunks, 0, int(gap * cycles))[launches // 4 :]
            print(f"  gap {name:>6}, {chunks:2} chunks: {np.median(out[:, 1] - out[:, 0]) / cycles:6.2f} us")


def _ends(shared: Launches, cycles: float, turns: float) -> None:
    print("what is lost at the end: 100 chunks, gap 20 us")
    for size in (2.0, 20.0):
        out = shared(200, 100, int(size * turns), int(20 * cycles))
        ends, whose = out[:, 3::3], out[:, 4::3]
        own = np.where(whose == out[:, 4:5], ends, 0).max(axis=1)
        waited = np.median(out[:, 1] - own) / cycles
        whole = np.median(out[:, 1] - out[:, 0]) / cycles
        print(f"  chunks of {size:4.0f} us: {whole:7.1f} us in all, {50 * size / whole:.0%} of ideal; waits {waited:.1f} us")


def _break_even(shared: Launches, serial: Launches, cycles: float, turns: float) -> None:
    print("two chunks on two threads, as a multiple of their time on one")
    for name, gap in (GAPS[1], GAPS[3], GAPS[4]):
        texts = []
        for size in (0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0):
            launches = int(min(400, max(25, 3e5 / (gap + 2 * size))))
            two, one = [], []
            for _ in range(4):
                for runs, times in ((shared, two), (serial, one)):
                    out = runs(launches, 2, int(size * turns), int(gap * cycles))[launches // 4 :]
                    times.append(np.median(out[:, 1] - out[:, 0]))
            texts.append(f"{size:g} us: {np.median(two) / np.median(one):.2f}")
        print(f"  gap {name:>6}: {', '.join(texts)}")


def _burn(until: float) -> None:
    while time.monotonic() < until:
        pass


@contextmanager
def _others_busy(seconds: float, processes: int = 2) -> Iterator[None]:
    """Other processes that want every processor."""
    context = multiprocessing.get_context("spawn")
    until = time.monotonic() + seconds
    burning = [context.Process(target=_burn, args=(until,)) for _ in range(processes)]
    for process in burning:
        process.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        for process in burning:
            process.join()


def _crowded(shared: Launches, serial: Launches, cycles: float, turns: float) -> None:
    print("two busy processes beside: mean time of a launch, as a multiple of its time on one thread")
    with _others_busy(14.0):
        for chunks, size in ((2, 20.0), (8, 20.0), (50, 20.0), (400, 20.0)):
            two, one = [], []
            launches = int(max(3, 30e3 / (chunks * size + 20)))
            for _ in range(16):
                for runs, times in ((shared, two), (serial, one)):
                    out = runs(launches, chunks, int(size * turns), int(20 * cycles))
                    times.append(float(np.mean(out[:, 1] - out[:, 0])) / cycles)
            each = f"{np.mean(one):8.1f} us on one"
            print(f"  {chunks:3} chunks of {size:g} us: {np.mean(two) / np.mean(one):5.2f}, {each}")


def main() -> None:
    serial, shared = Launches(1), Launches(2)
    cycles, turns = _rates(serial)
    _latency(shared, cycles, turns)
    _empty(shared, cycles)
    _ends(shared, cycles, turns)
    _break_even(shared, serial, cycles, turns)
    _crowded(shared, serial, cycles, turns)


if __name__ == "__main__":
    main()
