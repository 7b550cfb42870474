"""The readers as processes that are asked file by file; one that dies or hangs is noticed and replaced."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

HERE: Final = Path(__file__).parent
PATIENCE: Final = 10.0  # seconds of the processor for one file
WALL: Final = 6 * PATIENCE  # of the clock, on a machine that does much else, or where a reader waits for ever
LIFETIME: Final = 400  # files to a process: what it gathers must not count against its limit of memory

_ENVIRONMENT: Final = {
    **os.environ, "JITGRAPH_NUM_THREADS": "2", "JITGRAPH_TARGET_CPU": "", "PYTHONPATH": str(HERE.parent.parent),
    "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=1024:hard_rss_limit_mb=1500:detect_leaks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}  # fmt: skip


class Answer(NamedTuple):
    """What a reader made of a file. What begins with FAILED must not be."""

    outcome: str
    detail: str = ""
    called: bool = False

    @property
    def failed(self) -> bool:
        return self.outcome.startswith("FAILED")


class Reader:
    """A process that answers a line with a line."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self.command = list(command)
        self.process: subprocess.Popen[bytes] | None = None
        self.asked = 0
        self.complaints = ""
        self.errors: IO[bytes] | None = None
        self.pending = b""

    def start(self) -> subprocess.Popen[bytes]:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        self.pending, self.asked = b"", 0
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, env=_ENVIRONMENT
        )
        ready = self.line(60.0)
        assert ready == b"ready", (self.name, ready)
        return self.process

    def send(self, line: str) -> None:
        """Ask; ``answer`` waits for what it says."""
        if self.process is not None and self.asked >= LIFETIME:
            self.close()
        process = self.process or self.start()
        self.asked += 1
        assert process.stdin is not None
        try:
            process.stdin.write(line.encode() + b"\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # it died after its last answer, as a check for leaks does; ``answer`` says so

    def answer(self) -> Answer:
        line = self.line(PATIENCE)
        if line is not None and line:
            return self.understood(line)
        assert self.process is not None
        if line is None:
            self.process.kill()
        code = self.process.wait()
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.stdout.close()
        what = (
            f"FAILED: it took more than {PATIENCE:.0f} s of the processor, or {WALL:.0f} s"
            if line is None
            else f"FAILED: it ended with {code}"
        )
        detail = self.report()
        self.process = None
        return Answer(what, detail)

    def understood(self, line: bytes) -> Answer:
        if line.startswith(b"{"):
            loaded: dict[str, Any] = json.loads(line)
            return Answer(loaded["outcome"], loaded["detail"], loaded["called"])
        return Answer(line.decode())

    def line(self, seconds: float) -> bytes | None:
        """The next line; None where it does not come, empty where the process ended."""
        assert self.process is not None and self.process.stdout is not None
        handle = self.process.stdout.fileno()
        start, begun = time.monotonic(), self.processor_seconds()
        while b"\n" not in self.pending:
            if not select.select([handle], [], [], 0.5)[0]:
                busy = self.processor_seconds() - begun
                if busy > seconds or time.monotonic() - start > WALL:
                    return None
                continue
            data = os.read(handle, 1 << 16)
            if not data:
                return b""
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line

    def processor_seconds(self) -> float:
        """What the process has used, by the system's count."""
        assert self.process is not None
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def report(self) -> str:
        """What the process wrote to its standard error, which is over with this."""
        errors, self.errors = self.errors, None
        assert errors is not None
        with errors:
            errors.seek(0)
            return errors.read().decode(errors="replace")[-6000:]

    def close(self) -> str:
        """End the process; what it complained of where it did not end well (leaks are found at the end)."""
        process, self.process = self.process, None
        if process is None:
            return self.complaints
        assert process.stdin is not None and process.stdout is not None
        process.stdin.close()
        code = process.wait(60)
        process.stdout.close()
        complaint = self.report()
        self.complaints += complaint if code else ""
        return self.complaints


def driver(folder: Path) -> str:
    """The library that stands in for CUDA's driver, compiled in ``folder``."""
    result = folder / "libfuzzdriver.so"
    command = ["gcc", "-std=c11", "-O1", "-shared", "-fPIC", str(HERE / "driver.c"), "-o", str(result)]
    subprocess.run(command, check=True)
    return str(result)


def compiled(folder: Path, library: str) -> str:
    """The reader in C, with the written loader of ``folder`` and sanitizers of addresses and undefined behaviour."""
    program = folder / "reader"
    flags = ["-std=c11", "-g", "-O1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all", f"-I{folder}"]
    flags.append(f'-DJG_CUDA_LIBRARY="{library}"')
    sources = [str(HERE / "reader.c"), str(folder / "loader.c")]
    subprocess.run(["gcc", *flags, *sources, "-lpthread", "-o", str(program)], check=True)
    return str(program)


def python(*words: str) -> list[str]:
    return [sys.executable, "-X", "faulthandler", *words]
