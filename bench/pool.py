"""What the threads of the pool cost: ``python -m bench pool``.

Launches come from hand-written code that notes when its chunks run (``tests/codegen/cpu/launches.py``), so what is
measured is the pool alone. Between two launches the calling thread is busy for a while (the gap), as Python would be.
At the end each launch runs on two threads and on one, while other processes want both processors. Single figures of a
busy machine are worthless.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from tests.codegen.cpu.launches import Launches, Numbers


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
        full = np.median(out[:, 1] - out[:, 0]) / cycles
        print(f"  chunks of {size:4.0f} us: {full:7.1f} us, {50 * size / full:.0%} of ideal; waits {waited:.1f} us")


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
