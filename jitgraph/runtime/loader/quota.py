"""How much processor time the control groups of Linux leave this process, as containers limit it.

A group of version 2 says so in ``cpu.max`` (a quota of microseconds, or ``max``, and a period), one of version 1 in
``cpu.cfs_quota_us`` (negative for none) and ``cpu.cfs_period_us``. A limit holds for all groups below, so each group
from the process's own to the topmost is asked, where systems mount them. A container may see its own group as the
topmost one, under a name that is known outside alone. What cannot be read or understood limits nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

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
