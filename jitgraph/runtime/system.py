"""What operating systems do in different ways, or not at all, is asked here and nowhere else in the package.

The standalone loader, which imports nothing of the package, asks what native code needs by itself (``loader.lacking``).
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
import time
from collections.abc import Callable
from typing import BinaryIO, Final

from jitgraph.records import NamedTuple

if sys.platform != "win32":
    import fcntl

RENAMES_OPEN_FILES: Final = sys.platform != "win32"
"""Whether a file that is open may get another name or take the place of another file."""

_MODE: Final = 0o666  # less the umask, as for any new file


def at_fork(
    before: Callable[[], None], after_in_parent: Callable[[], None], after_in_child: Callable[[], None]
) -> None:
    """Run these around each fork; nothing where processes do not fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=before, after_in_parent=after_in_parent, after_in_child=after_in_child)


def unnamed_file(folder: str) -> BinaryIO | None:
    """A new file in ``folder`` that has no name, and is gone with the process; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return open(os.open(folder, os.O_TMPFILE | os.O_RDWR, _MODE), "w+b")
    except OSError:  # each file system refuses in its own way; a named file says what is wrong otherwise
        return None


def name_file(file: BinaryIO, path: str) -> bool:
    """Give an ``unnamed_file`` a name that nothing has; False where the system cannot."""
    if sys.platform != "linux":
        return False
    folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
    try:
        # With a folder given, Python calls linkat and so follows the link that /proc has for the file.
        os.link(f"/proc/self/fd/{file.fileno()}", os.path.basename(path), dst_dir_fd=folder, follow_symlinks=True)
    except OSError:  # no /proc, or a file system that gives no second name
        return False
    finally:
        os.close(folder)
    return True


def is_special(path: str) -> bool:
    """Whether something stands at ``path`` that is neither a plain file nor a folder: a device, a pipe, a socket."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def take_mode(file: BinaryIO, path: str) -> None:
    """Give an open file the permissions of what stands at ``path``; nothing where nothing does, or on Windows."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            os.fchmod(file.fileno(), stat.S_IMODE(os.stat(path).st_mode))


def private_folder(path: str) -> str:
    """Make the folder ``path`` for its owner alone, where nothing is there; why it is no such folder, or nothing.

    OSError where it cannot be made or looked at. Links are followed: what they lead to is looked at.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError:
        os.makedirs(path, 0o700, exist_ok=True)
        status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return "it is no folder"
    if sys.platform == "win32":  # where a user's own folders are the user's
        return ""
    if status.st_uid != os.geteuid():
        return f"it belongs to the user {status.st_uid}, and this process runs as {os.geteuid()}"
    if others := stat.S_IMODE(status.st_mode) & 0o077:
        return f"others may enter it or look into it: its mode has {others:03o} for group and others"
    return ""


def open_own(path: str) -> BinaryIO | None:
    """A file to read; None where it is a link, no plain file, or another user's. OSError as ``open``."""
    if sys.platform == "win32":
        return open(path, "rb")
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise
    status = os.fstat(handle)
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        os.close(handle)
        return None
    return open(handle, "rb")


def read_file(path: str, size: int) -> bytes:
    """A file of so many bytes, by one call each to open, read and close it; OSError where it has another size by now.

    A file object would ask for its kind, position and size too, which is a third of the time of a small file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        content = os.read(handle, size + 1)
    finally:
        os.close(handle)
    if len(content) != size:
        raise OSError(f"{path} changed while it was read")
    return content


def size_and_age(file: BinaryIO) -> tuple[int, float]:
    """Bytes of an open file, and seconds since it was written or ``touch``ed."""
    status = os.fstat(file.fileno())
    return status.st_size, time.time() - status.st_mtime


def touch(file: BinaryIO) -> None:
    """Give an open file the time of now; nothing where the system or a medium that is read alone does not allow it."""
    if os.utime in os.supports_fd:
        with contextlib.suppress(OSError):
            os.utime(file.fileno())


def lock_file(file: BinaryIO) -> None:
    """Mark an open file as one that a living process writes; nothing where the system or file system has no locks."""
    if sys.platform != "win32":
        with contextlib.suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)


def remove_unless_locked(path: str) -> None:
    """Remove a file that no living process has locked; OSError where one has, or it cannot be removed.

    Where the system has no locks nothing is removed, as nobody knows who writes.
    """
    if sys.platform != "win32":
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.unlink(path)
        finally:
            os.close(handle)


class MemoryLimit(NamedTuple):
    """A finite limit on the memory of this process: its bytes, how many are free, and the command that shows it."""

    name: str
    bytes: int
    free: int
    command: str


_STATUS: Final = "/proc/self/statm"
_LIMITS: Final = {"RLIMIT_AS": (0, "ulimit -v"), "RLIMIT_DATA": (5, "ulimit -d")}
"""By name: which number of ``_STATUS`` counts against it, and the command of a shell that shows it."""


def resident_bytes() -> int:
    """The bytes of this process that are in memory; 0 where the system does not tell."""
    try:
        with open(_STATUS, encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def memory_limits() -> list[MemoryLimit]:
    """The finite limits on the memory of this process; none where the system tells of none, or not what is used."""
    if sys.platform == "win32":
        return []
    import resource  # here: most processes compile nothing

    most = {name: resource.getrlimit(getattr(resource, name))[0] for name in _LIMITS}
    finite = [name for name in most if most[name] != resource.RLIM_INFINITY]
    if not finite:
        return []
    try:
        with open(_STATUS, encoding="ascii") as file:
            pages = [int(text) for text in file.read().split()]
    except OSError:
        return []
    page = os.sysconf("SC_PAGE_SIZE")
    return [
        MemoryLimit(name, most[name], max(0, most[name] - page * pages[number]), command)
        for name, (number, command) in _LIMITS.items()
        if name in finite
    ]
