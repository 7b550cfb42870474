"""The locks of Python's import system, as a fork sees them.

Each module has a lock while a thread imports it. In a child that another thread forks meanwhile the lock stays taken
and the module half made: whoever imports it there waits for ever. So a fork waits until no other thread imports, and
has the lock under which locks of modules are made until it is done. A module whose import does not end (a program
that runs as an import) is not waited for twice.
"""

from __future__ import annotations

import importlib
import threading
import time
from typing import Any, Final

try:
    import _imp
except ImportError:  # pragma: no cover - an interpreter without CPython's import system
    _imp = None  # type: ignore[assignment]

PATIENCE: Final = 1.0
"""Seconds that a fork waits for imports of modules other than ours and those that ours need."""

_OURS: Final = ("jitgraph", "llvmlite", "networkx", "numpy", "ml_dtypes", "safetensors")
_endless: Final[dict[int, Any]] = {}  # by identity, locks that were waited for in vain
_since: Final[dict[int, float]] = {}  # when the fork that is under way first saw a lock taken


def take() -> bool:
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
        if now - begun > (60 * PATIENCE if name.partition(".")[0] in _OURS else PATIENCE):
            _endless[key] = lock
        else:
            waits = True
    if waits:
        _imp.release_lock()
        return False
    _since.clear()
    return True


def release() -> None:
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
