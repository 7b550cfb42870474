"""How much processor time the control groups of Linux leave this process, as containers limit it.

A group of version 2 says so in ``cpu.max`` (a quota of microseconds, or ``max``, and a period), one of version 1 in
``cpu.cfs_quota_us`` (negative for none) and ``cpu.cfs_period_us``. A limit holds for all groups below, so each group
from the process's own to the topmost that is mounted is asked. What cannot be read or understood limits nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

ReadText = Callable[[str], "str | None"]
"""The text of a file, None where there is none to read."""


def file_text(path: str) -> str | None:
    """The text of a file of the system; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def processor_quota(read: ReadText = file_text) -> float | None:
    """How many processors' time this process may use, as the files of ``read`` say; None where nothing limits it."""
    groups = _groups(read("/proc/self/cgroup") or "")
    limits = [
        limit
        for controller, root, point in _mounts(read("/proc/self/mountinfo") or "")
        if controller in groups
        for folder in _folders(groups[controller], root, point)
        if (limit := _limit(read, folder, unified=not controller)) is not None
    ]
    return min(limits, default=None)


def _groups(text: str) -> dict[str, str]:
    """The groups of the process by their controller: ``"cpu"`` of version 1, ``""`` of version 2."""
    found = {}
    for line in text.splitlines():
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0" and not controllers:
            found[""] = path
        elif "cpu" in controllers.split(","):
            found["cpu"] = path
    return found


def _mounts(text: str) -> Iterator[tuple[str, str, str]]:
    """Of each hierarchy that may limit processors: its controller, the group that is mounted, and where."""
    for line in text.splitlines():
        place, _, source = line.partition(" - ")
        places, sources = place.split(" "), source.split(" ")
        if len(places) < 5 or len(sources) < 3:
            continue
        root, point = _plain(places[3]), _plain(places[4])
        if sources[0] == "cgroup2":
            yield "", root, point
        elif sources[0] == "cgroup" and "cpu" in sources[2].split(","):
            yield "cpu", root, point


def _plain(path: str) -> str:
    """A path with its spaces, which stand in octal."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)


def _folders(group: str, root: str, point: str) -> Iterator[str]:
    """The folders of a group and of those above it, up to where ``root`` is mounted; that alone for one outside."""
    below = group if root == "/" else group.removeprefix(root) if f"{group}/".startswith(f"{root}/") else ""
    below = "" if ".." in below.split("/") else below.rstrip("/")
    while below:
        yield point + below
        below = below.rpartition("/")[0]
    yield point


def _limit(read: ReadText, folder: str, *, unified: bool) -> float | None:
    """The processors that one group allows; None for no limit."""
    names = ("cpu.max",) if unified else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    words = " ".join(read(f"{folder}/{name}") or "" for name in names).split()
    if len(words) != 2 or not (words[0].isdecimal() and words[1].isdecimal()) or "0" in words:
        return None
    return int(words[0]) / int(words[1])
