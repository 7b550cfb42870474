"""Files that appear whole or not at all, and of which nothing stays behind when the process is killed.

Where the system and the file system can (Linux's O_TMPFILE), a file is written without a name, so that it is gone with
the process; it gets a name for the moment in which it replaces its target. Elsewhere it is written under that name. A
name that a killed process left is removed by the next save to the same target: its writer holds a lock on the file,
which ends with the process, wherever that runs.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import BinaryIO, Final

from jitgraph.runtime import digests, system

_PREFIX: Final = ".jg-"
_SUFFIX: Final = ".part"


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], *, durable: bool = True) -> Iterator[BinaryIO]:
    """A file to write, which replaces what stands at ``path`` when the block ends, and only then; OSError as ``open``.

    After an error in the block what stood there is as it was. A link is followed, and the file that is replaced passes
    its mode on. A device or pipe is written to as it is. A file that is not ``durable`` may be damaged by a power cut,
    leftovers stay until somebody calls ``remove_leftovers``, and a link is replaced: for what is checked when it is
    read, and can be made again.
    """
    target = os.path.realpath(path) if durable else os.path.abspath(os.fspath(path))
    try:
        with _replacing(target, durable) as file:
            yield file
    except OSError as error:
        if error.errno is not None and error.filename is None:  # of a write, such as to a disk that is full
            error.filename = target
        raise


@contextlib.contextmanager
def _replacing(target: str, durable: bool) -> Iterator[BinaryIO]:
    if not os.path.isdir(folder := os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to save in", folder)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "a folder stands where the file is to be", target)
    if durable and system.is_special(target):
        with open(target, "wb") as file:
            yield file
        return
    if durable:
        remove_leftovers(os.path.dirname(target), _prefix(target))
    unnamed = system.unnamed_file(os.path.dirname(target))
    if unnamed is None:
        with _named(target) as (file, part):
            yield file
            _publish(file, part, target, durable)
        return
    with unnamed as file:
        yield file
        _settle(file, target, durable)
        system.lock_file(file)
        part = _part_of(target)
        try:
            if system.name_file(file, part):
                os.replace(part, target)
                return
        except BaseException:  # an interrupt between the two, too
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
            raise
        with _named(target) as (copy, part):
            import shutil  # here: only where a file system names no unnamed file, and it loads every kind of archive

            file.seek(0)
            shutil.copyfileobj(file, copy, 1 << 20)
            _publish(copy, part, target, durable)


def _settle(file: BinaryIO, target: str, durable: bool) -> None:
    file.flush()
    if durable:
        system.take_mode(file, target)
        os.fsync(file.fileno())


def _publish(file: BinaryIO, part: str, target: str, durable: bool) -> None:
    _settle(file, target, durable)
    if not system.RENAMES_OPEN_FILES:
        file.close()
    os.replace(part, target)


def _prefix(target: str) -> str:
    """How the parts of a target are called: short, whatever the target's name."""
    name = os.path.basename(target).encode(errors="surrogateescape")
    return f"{_PREFIX}{digests.sha256_of(name).hex()[:16]}-"


def _part_of(target: str) -> str:
    return os.path.join(os.path.dirname(target), f"{_prefix(target)}{os.urandom(8).hex()}{_SUFFIX}")


@contextlib.contextmanager
def _named(target: str) -> Iterator[tuple[BinaryIO, str]]:
    """A file under a name of its own beside the target, locked; without the name after an error."""
    part = _part_of(target)
    with open(part, "x+b") as file:
        system.lock_file(file)
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


def remove_leftovers(folder: str, prefix: str = _PREFIX) -> None:
    """Remove the parts in ``folder`` that no living process holds: of all targets, or of those with this prefix."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if not (entry.name.startswith(prefix) and entry.name.endswith(_SUFFIX)):
                continue
            with contextlib.suppress(OSError):  # locked by its writer, gone meanwhile, or another user's
                system.remove_unless_locked(entry.path)
