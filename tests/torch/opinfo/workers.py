"""Jobs in forked processes with a time limit, so that a crash or a hang costs one job alone."""

from __future__ import annotations

import json
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

Record = dict[str, Any]


def in_workers(
    jobs: Iterable[tuple[str, Callable[[Callable[[Record], None]], None]]], processes: int, seconds: float
) -> Iterator[tuple[str, Record]]:
    """Run jobs, each a name and a function of a callback that takes records, and yield the records as they come.

    A job that dies or exceeds its time yields a last record with its status "crashed" or "slow".
    """
    waiting = iter(jobs)
    running: dict[int, tuple[str, int, float, bytearray]] = {}
    selector = selectors.DefaultSelector()
    exhausted = False
    while True:
        while not exhausted and len(running) < processes:
            job = next(waiting, None)
            if job is None:
                exhausted = True
                break
            pid, pipe = _start(job[1])
            running[pipe] = (job[0], pid, time.monotonic() + seconds, bytearray())
            selector.register(pipe, selectors.EVENT_READ)
        if not running:
            return
        for key, _ in selector.select(timeout=1.0):
            name, pid, _, buffer = running[key.fd]
            data = os.read(key.fd, 1 << 16)
            buffer += data
            *lines, rest = bytes(buffer).split(b"\n")
            buffer[:] = rest
            for line in lines:
                yield name, json.loads(line)
            if not data:
                selector.unregister(key.fd)
                os.close(key.fd)
                del running[key.fd]
                _, status = os.waitpid(pid, 0)
                if os.WIFSIGNALED(status):
                    signal_name = signal.Signals(os.WTERMSIG(status)).name
                    yield name, {"status": "slow" if signal_name == "SIGKILL" else "crashed", "text": signal_name}
        for _, pid, limit, _ in list(running.values()):
            if time.monotonic() > limit:
                os.kill(pid, signal.SIGKILL)


def _start(job: Callable[[Callable[[Record], None]], None]) -> tuple[int, int]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    status = 1
    try:
        os.close(reading)
        with os.fdopen(writing, "w") as file:

            def record(values: Record) -> None:
                file.write(json.dumps(values) + "\n")
                file.flush()

            try:
                job(record)
            except BaseException as error:  # whatever it is, the parent is told
                record({"status": "crashed", "text": f"{type(error).__name__}: {error}"[:300]})
        status = 0
    finally:
        os._exit(status)
