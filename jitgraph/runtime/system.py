"""What operating systems do in different ways, or not at all, is asked here and nowhere else in the package.

The standalone loader, which imports nothing of the package, asks what native code needs by itself (``loader.lacking``).
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from typing import BinaryIO, Final

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
