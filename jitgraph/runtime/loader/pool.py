"""Threads that run the chunks of parallel loops, as many as processors and control groups leave this process."""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from jitgraph.runtime.loader.abi import POOL_EPOCH, SCRATCH_BYTES, WORKER_TYPE, PoolState, function_address, libc
from jitgraph.runtime.loader.errors import ArgumentError
from jitgraph.runtime.loader.image import MACHINE_AARCH64, MACHINE_X86_64, Image, machine_here
from jitgraph.runtime.loader.memory import allocator

# ----------------------------------------------------------------------
# How much processor time the control groups of Linux leave this process, as containers limit it.
#
# A group of version 2 says so in ``cpu.max`` (a quota of microseconds, or ``max``, and a period), one of version 1 in
# ``cpu.cfs_quota_us`` (negative for none) and ``cpu.cfs_period_us``. A limit holds for all groups below, so each group
# from the process's own to the topmost is asked, where systems mount them. A container may see its own group as the
# topmost one, under a name that is known outside alone. What cannot be read or understood limits nothing.

ReadText = Callable[[str], "str | None"]
"""The text of a file, None where there is none to read."""

_MOUNTS: Final[Mapping[str, tuple[str, str]]] = {
    "": ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"),
    "cpu": ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"),
}
"""Where the groups of version 2 are found, and those of version 1 that have the processors."""


def file_text(path: str) -> str | None:
    """The text of a file of the system; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def processor_quota(read: ReadText = file_text) -> float | None:
    """How many processors' time this process may use, as the files of ``read`` say; None where nothing limits it."""
    folders = _folders(read("/proc/self/cgroup") or "")
    return min((limit for folder in folders if (limit := _limit(read, folder)) is not None), default=None)


def _folders(text: str) -> Iterator[str]:
    """The folders of the groups that this process is in, and of those above them, from ``/proc/self/cgroup``."""
    for line in text.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        version = "" if number == "0" and not controllers else "cpu" if "cpu" in controllers.split(",") else None
        for mount in _MOUNTS[version] if version is not None else ():
            group = "" if ".." in path else path.rstrip("/")
            while group:
                yield mount + group
                group = group.rpartition("/")[0]
            yield mount


def _limit(read: ReadText, folder: str) -> float | None:
    """The processors that one group allows; None for no limit."""
    words = (read(f"{folder}/cpu.max") or "").split()
    if not words:
        words = [(read(f"{folder}/{name}") or "").strip() for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")]
    if len(words) != 2 or not (words[0].isdecimal() and words[1].isdecimal()):
        return None
    quota, period = map(int, words)
    return quota / period if quota and period else None


# ----------------------------------------------------------------------
# Threads that run the chunks of parallel loops.


def thread_count() -> int:
    """Threads to use, the caller included: JITGRAPH_NUM_THREADS, else the processors that this process may use."""
    text = os.environ.get("JITGRAPH_NUM_THREADS", "").strip()
    if text:
        if not (text.isdecimal() and 1 <= int(text) <= 4096):
            raise ArgumentError(f"JITGRAPH_NUM_THREADS={text!r} is not a number from 1 to 4096")
        return int(text)
    return processors()


def processors() -> int:
    """How many processors this process may use; a part of one counts as one."""
    return math.ceil(processor_time())


def processor_time() -> float:
    """How many processors' time this process may use: those it may run on, or less where a quota says so."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return allowed if quota is None else min(allowed, quota)


def patience(threads: int) -> int:
    """Cycles that each of so many threads may stay awake for the next job: none where they have to share processors."""
    return PATIENCE if threads <= processor_time() else 0


PATIENCE: Final = 1 << 21
"""Cycles, about 1 ms, that a thread at most stays awake for the next job."""

_FUTEX_NUMBERS: Final[Mapping[int, int]] = {MACHINE_X86_64: 202, MACHINE_AARCH64: 98}
_FUTEX_WAKE_PRIVATE: Final = 129


def _work(image: Image, memory: ctypes.Array[ctypes.c_char], _: ctypes.Array[ctypes.c_char]) -> None:
    """The body of a pool thread; its arguments keep the code and the state alive while it runs."""
    WORKER_TYPE(image.export("worker"))(ctypes.addressof(memory))


def can_start(thread: threading.Thread) -> bool:
    """Start a thread, unless the system has none to give, as under a limit of memory or of processes."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


class Pool:
    """Daemon threads that sit in the image's ``worker`` function, parked on a futex between jobs."""

    def __init__(self, image: Image, workers: int) -> None:
        """Start up to ``workers`` threads, as many as the system gives; calls work, alone, before they are up."""
        self._memory = allocator.lease(ctypes.sizeof(PoolState))
        ctypes.memset(self._memory, 0, ctypes.sizeof(PoolState))
        self.state = PoolState.from_buffer(self._memory)
        self.state.syscall = function_address(libc.syscall)
        self.state.failure = 2**64 - 1
        self.state.patience = patience(workers + 1)
        self.address = ctypes.addressof(self._memory)
        scratch = allocator.lease(workers * SCRATCH_BYTES)
        self.state.scratch = ctypes.addressof(scratch)
        arguments = (image, self._memory, scratch)
        self._threads = [
            threading.Thread(target=_work, args=arguments, name=f"jitgraph-{i + 1}", daemon=True)
            for i in range(workers)
        ]
        started = next((i for i, thread in enumerate(self._threads) if not can_start(thread)), workers)
        del self._threads[started:]
        self.state.workers = started

    def dismiss(self) -> None:
        """Tell the threads to go home, without waiting; chunks that run are finished."""
        self.state.workers = 0
        self.state.stop = 1
        self.state.epoch += 1
        epoch = ctypes.c_void_p(self.address + POOL_EPOCH)
        libc.syscall(
            ctypes.c_long(_FUTEX_NUMBERS[machine_here()]), epoch, ctypes.c_long(_FUTEX_WAKE_PRIVATE),
            ctypes.c_long(2**31 - 1), None, None, ctypes.c_long(0),
        )  # fmt: skip

    def stop(self) -> None:
        """Send the threads home and wait for them."""
        self.dismiss()
        for thread in self._threads:
            thread.join(timeout=2.0)
