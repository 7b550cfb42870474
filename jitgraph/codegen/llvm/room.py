"""Room for LLVM in a process whose memory is limited: LLVM ends the process where an allocation fails.

Under a finite RLIMIT_AS or RLIMIT_DATA each piece of work claims beforehand what it may need at most. It waits while
other threads have claimed too much for both, and is refused with a MemoryError where it alone would not fit.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from jitgraph.runtime import forks, system

_BASE_BYTES: Final = 16 << 20
_BYTES_PER_CHARACTER: Final = 256
"""What a module takes at most: measured are 2 MB for the tables of the first and 20 to 130 bytes a character."""

_PATIENCE: Final = 1.0  # seconds after which room is looked for again, as other code frees memory without a word

_claims: Final[dict[object, int]] = {}  # bytes of those at work
_changed: Final = threading.Condition(forks.lock())


def is_limited() -> bool:
    """Whether this process has a finite limit on its memory."""
    return bool(system.memory_limits())


def needed_by(llvm_ir: str) -> int:
    """The bytes that LLVM takes at most to make code of a module."""
    return _BASE_BYTES + _BYTES_PER_CHARACTER * len(llvm_ir)


def require(mapped: int, data: int, what: str) -> None:
    """Refuse ``what`` with a MemoryError where limits leave less than it maps, or less than its ``data``."""
    for limit in system.memory_limits():
        size = data if limit.name == "RLIMIT_DATA" else mapped
        if limit.free < size:
            raise MemoryError(_refusal(limit, size, what))


@contextmanager
def claimed(size: int, what: str) -> Iterator[None]:
    """Room for ``size`` bytes in the block alone, for ``what``; MemoryError where there is none."""
    if not is_limited():
        yield
        return
    claim = object()
    with _changed:
        while lacking := _lacking(size + sum(_claims.values())):
            if not _claims:
                raise MemoryError(_refusal(lacking, size, what))
            _changed.wait(_PATIENCE)
        _claims[claim] = size
    try:
        with forks.unfinished(partial(_withdraw, claim)):  # a child does not have the thread that claimed it
            yield
    finally:
        with _changed:
            _withdraw(claim)
            _changed.notify_all()


def _withdraw(claim: Any) -> None:
    _claims.pop(claim, None)


def _lacking(size: int) -> system.MemoryLimit | None:
    return next((limit for limit in system.memory_limits() if limit.free < size), None)


def _refusal(limit: system.MemoryLimit, size: int, what: str) -> str:
    return (
        f"{what} may need {_megabytes(size)} MB, and {limit.name} of {_megabytes(limit.bytes)} MB leaves "
        f"{limit.free >> 20} MB (hint: raise the limit, as `{limit.command}` shows it, or compile in a process without "
        "one: the compile cache and jg.save keep its code)"
    )


def _megabytes(size: int) -> int:
    return -(-size >> 20)
