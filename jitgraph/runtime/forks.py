"""What a fork must not cut in two: locks, work in native libraries, and state that is yet to be put back.

A child has one thread, the one that forked. What the other threads of its parent held stays held, and what they were
about to finish stays half made. So

- every lock of the package is a ``lock()``: in the child it is free again unless the forking thread holds it itself;
- a fork waits for what the child could not do without: locks that are ``awaited``, and ``whole()`` blocks, in which a
  thread imports modules or is inside a native library whose own locks nobody else can renew; and for imports of any
  other kind;
- ``unfinished(put_back)`` says how the child undoes what another thread has begun.

Locks may be entered again by their own thread, since a signal handler or a finaliser may run while one is held.
"""

from __future__ import annotations

import importlib
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from jitgraph.runtime import system

try:
    import _imp
except ImportError:  # pragma: no cover - an interpreter without CPython's import system
    _imp = None  # type: ignore[assignment]

PATIENCE: Final = 1.0
"""Seconds that a fork waits for awaited locks: a thread may be in a native loop that never ends."""

PATIENCE_FOR_LIBRARIES: Final = 60.0
"""Seconds that a fork waits for ``whole`` blocks, which end by themselves."""

PATIENCE_FOR_IMPORTS: Final = 1.0
"""Seconds that a fork waits for imports of modules other than ours and those that ours need."""


class Living:
    """Objects for as long as they live; what is done to it is one step for other threads, as it has no lock.

    An object that goes is forgotten by a call that runs no Python code (its second argument, the reference, is the
    default of ``dict.pop``): where a signal handler ran inside it, what the handler raises would be lost.
    """

    def __init__(self) -> None:
        self._references: dict[int, weakref.ref[Any]] = {}

    def add(self, member: Any) -> None:
        """Note an object; nothing is kept alive."""
        number = id(member)
        self._references[number] = weakref.ref(member, partial(self._references.pop, number))

    def members(self) -> list[Any]:
        """Those that live now."""
        return [member for reference in list(self._references.values()) if (member := reference()) is not None]


_renewed: Final = Living()
_awaited: Final = Living()
_whole: Final = Living()
_unfinished: Final[dict[int, tuple[int, Callable[[], None]]]] = {}
_in_child: Final[list[Callable[[], None]]] = []
_taken: Final[list[Any]] = []  # by the thread that forks


def lock(*, awaited: bool = False) -> Any:
    """A reentrant lock that is free in a child unless the forking thread holds it; a fork waits for an awaited one."""
    rlock = threading.RLock()
    _renewed.add(rlock)
    if awaited:
        _awaited.add(rlock)
    return rlock


def renew(foreign: Any) -> None:
    """Free a lock of another library in a child, unless the forking thread holds it; None is no lock.

    A lock that does not know its owner is taken to be another thread's: for libraries that never fork inside of it.
    """
    if foreign is not None and not getattr(foreign, "_is_owned", bool)():
        foreign._at_fork_reinit()


def in_child(action: Callable[[], None]) -> None:
    """Run ``action`` in every child, for as long as the process lives."""
    _in_child.append(action)


@contextmanager
def unfinished(put_back: Callable[[], None]) -> Iterator[None]:
    """In a child that another thread forks while this one is in the block, ``put_back`` runs before anything else."""
    entry = (threading.get_ident(), put_back)
    _unfinished[id(entry)] = entry
    try:
        yield
    finally:
        del _unfinished[id(entry)]


@contextmanager
def whole() -> Iterator[None]:
    """A block that no fork of another thread cuts in two."""
    own = _own.lock
    if own._is_owned():  # a fork that waits for this thread already keeps the gate shut
        with own:
            yield
        return
    with _gate:
        pass
    with own:
        yield


class _Own(threading.local):
    """The lock of each thread that says whether it is inside a ``whole`` block."""

    def __init__(self) -> None:
        self.lock: Any = threading.RLock()
        _renewed.add(self.lock)
        _whole.add(self.lock)


_own: Final = _Own()
_gate: Final = lock()  # held by a fork: nobody enters a ``whole`` block
_forking: Final = lock()


# ----------------------------------------------------------------------
# The locks of Python's import system.
#
# Each module has a lock while a thread imports it. In a child that another thread forks meanwhile the lock stays taken
# and the module half made: whoever imports it there waits for ever. So a fork waits until no other thread imports, and
# has the lock under which locks of modules are made until it is done. A module whose import does not end (a program
# that runs as an import) is not waited for twice.

_OURS: Final = ("jitgraph", "llvmlite", "networkx", "numpy", "ml_dtypes", "safetensors")
_endless: Final[dict[int, Any]] = {}  # by identity, locks that were waited for in vain
_since: Final[dict[int, float]] = {}  # when the fork that is under way first saw a lock taken


def _hold_imports() -> bool:
    """Let no thread begin an import; False, and nothing is taken, while one that is worth the wait is under way."""
    if _imp is None:
        return True
    _imp.acquire_lock()
    now, waits = time.monotonic(), False
    for name, lock in _of_other_threads():
        key = id(lock)
        if _endless.get(key) is lock:
            continue
        begun = _since.setdefault(key, now)
        if now - begun > (PATIENCE_FOR_LIBRARIES if name.partition(".")[0] in _OURS else PATIENCE_FOR_IMPORTS):
            _endless[key] = lock
        else:
            waits = True
    if waits:
        _imp.release_lock()
        return False
    _since.clear()
    return True


def _release_imports() -> None:
    """Let imports go on; in the child, too."""
    if _imp is not None:
        _imp.release_lock()


def _of_other_threads() -> list[tuple[str, Any]]:
    """Names and locks of the modules that other threads are importing."""
    locks: dict[str, Any] = getattr(getattr(importlib, "_bootstrap", None), "_module_locks", {})
    me, others = threading.get_ident(), []
    for name, reference in list(locks.items()):
        lock = reference()
        if getattr(lock, "owner", None) not in (None, me):
            others.append((name, lock))
    return others


# ----------------------------------------------------------------------
# What happens around a fork.


def _before() -> None:
    _forking.acquire()
    while True:
        _take(_awaited.members(), PATIENCE)
        _take([_gate], PATIENCE_FOR_LIBRARIES)
        _take(_whole.members(), PATIENCE_FOR_LIBRARIES)
        if _hold_imports():
            return
        _give_back()  # what is imported may need these
        time.sleep(0.001)


def _take(locks: list[Any], patience: float) -> None:
    deadline = time.monotonic() + patience
    for one in locks:
        if one.acquire(timeout=max(0.0, deadline - time.monotonic())):
            _taken.append(one)


def _give_back() -> None:
    while _taken:
        _taken.pop().release()


def _after() -> None:
    _release_imports()
    _give_back()
    _forking.release()


def _after_in_child() -> None:
    _after()
    for one in _renewed.members():
        renew(one)
    me = threading.get_ident()
    for number, (thread, put_back) in reversed(list(_unfinished.items())):
        if thread != me:
            del _unfinished[number]
            put_back()
    for action in _in_child:
        action()


system.at_fork(_before, _after, _after_in_child)
