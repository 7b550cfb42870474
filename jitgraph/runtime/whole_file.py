"""Files that appear whole or not at all, and of which nothing stays behind when the process is killed.

Where the system and the file system can (Linux's O_TMPFILE), a file is written without a name, so that it is gone with
the process; it gets a name for the moment in which it replaces its target. Elsewhere it is written under that name. A
name that a killed process left is removed by the next save to the same target: its writer holds a lock on the file,
which ends with the process, wherever that runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from typing import BinaryIO, Final

_SUFFIX: Final = ".part"
_NEW: Final = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_MODE: Final = 0o666  # less the umask, as for any new file


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which replaces what stands at ``path`` when the block ends, and only then; OSError as ``open``.

    After an error in the block what stood there is as it was.
    """
    target = os.path.abspath(os.fspath(path))
    _remove_leftovers(target)
    unnamed = _unnamed(os.path.dirname(target))
    if unnamed is None:
        with _named(target) as (file, part):
            yield file
            _publish(file, part, target)
        return
    with unnamed as file:
        yield file
        file.flush()
        os.fsync(file.fileno())
        _lock(file)
        part = _part_of(target)
        if not _link(file, part):
            with _named(target) as (copy, part):
                file.seek(0)
                shutil.copyfileobj(file, copy, 1 << 20)
                _publish(copy, part, target)
            return
        try:
            os.replace(part, target)
        except BaseException:
            os.unlink(part)
            raise


def _publish(file: BinaryIO, part: str, target: str) -> None:
    file.flush()
    os.fsync(file.fileno())
    os.replace(part, target)


def _prefix(target: str) -> str:
    """How the parts of a target are called: short, whatever the target's name."""
    return f".jg-{hashlib.sha256(os.path.basename(target).encode(errors='surrogateescape')).hexdigest()[:16]}-"


def _part_of(target: str) -> str:
    return os.path.join(os.path.dirname(target), f"{_prefix(target)}{secrets.token_hex(8)}{_SUFFIX}")


def _unnamed(folder: str) -> BinaryIO | None:
    """A file in ``folder`` that has no name; None where there is no such thing."""
    flag = getattr(os, "O_TMPFILE", 0)
    if not flag:
        return None
    try:
        return open(os.open(folder, flag | os.O_RDWR | os.O_CLOEXEC, _MODE), "w+b")
    except OSError:  # each file system refuses in its own way; a named file says what is wrong otherwise
        return None


def _link(file: BinaryIO, part: str) -> bool:
    """Give an unnamed file a name; False where the system cannot."""
    folder = os.open(os.path.dirname(part), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # With a folder given, Python calls linkat and so follows the link that /proc has for the file.
        os.link(f"/proc/self/fd/{file.fileno()}", os.path.basename(part), dst_dir_fd=folder, follow_symlinks=True)
    except OSError:  # no /proc, or a file system that gives no second name
        return False
    finally:
        os.close(folder)
    return True


@contextlib.contextmanager
def _named(target: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file under a name of its own beside the target, locked; without the name after an error."""
    part = _part_of(target)
    with open(os.open(part, _NEW, _MODE), "w+b") as file:
        _lock(file)
        if not os.path.exists(part):  # another process took it for a leftover, between its name and its lock
            with _named(target) as other:
                yield other
            return
        try:
            yield file, part
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # it was renamed already
                os.unlink(part)
            raise


def _lock(file: BinaryIO) -> None:
    """Mark a file as one that a living process writes."""
    with contextlib.suppress(OSError):  # without locks nothing is ever taken for a leftover
        fcntl.flock(file, fcntl.LOCK_EX)


def _remove_leftovers(target: str) -> None:
    """Remove the parts of ``target`` that no living process holds."""
    prefix = _prefix(target)
    with contextlib.suppress(OSError), os.scandir(os.path.dirname(target)) as found:
        for entry in found:
            if not (entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)):
                continue
            with contextlib.suppress(OSError):  # locked by its writer, gone meanwhile, or another user's
                handle = os.open(entry.path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    os.unlink(entry.path)
                finally:
                    os.close(handle)
