"""Errors that the host learns of some time after it asked for the work: which buffers they concern, and their
reports.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

from jitgraph.errors import DeviceError
from jitgraph.records import NamedTuple
from jitgraph.runtime import forks
from jitgraph.runtime.cuda.driver import Driver

# ----------------------------------------------------------------------
# Deferred errors: whether the content of a buffer was computed, which the host learns some time after it asked for it.
#
# A call with checks may fail on the device, when work that uses its results has already been launched. So its outputs,
# and all that is computed from them, are pending until its error record has arrived. If it reports a failure, reading
# any of them raises from then on: memory that was not computed is never taken for a result.


class DeferredError:
    """What is not known yet of one call, and of the calls ``before`` from whose results it reads."""

    __slots__ = ("before", "error", "is_open")

    def __init__(self, before: tuple[DeferredError, ...] = (), *, is_open: bool = False) -> None:
        """``is_open``: the call's own record has not arrived."""
        self.before = before
        self.is_open = is_open
        self.error: BaseException | None = None

    def close(self, error: BaseException | None) -> None:
        """The call's own record has arrived, with this failure or with none."""
        self.is_open = False
        self.error = error
        self.settle()

    def settle(self) -> BaseException | None:
        """What has failed, as far as is known; what is known to be well is forgotten."""
        path = [(self, iter(self.before))]
        while path:
            deferred, rest = path[-1]
            for other in rest:
                if other.before and not other.is_open:  # of one that is open the record will tell
                    path.append((other, iter(other.before)))
                    break
            else:
                deferred._take_over()
                path.pop()
        return self.error

    def _take_over(self) -> None:
        """Look at those right before, each of which is settled."""
        if self.error is None:
            self.error = next((other.error for other in self.before if other.error is not None), None)
        if self.before:
            left = [y for x in self.before for y in ((x,) if x.is_open else x.before)] if self.error is None else []
            self.before = tuple(dict.fromkeys(left))

    @property
    def is_clear(self) -> bool:
        """Whether all is known, and well."""
        return self.error is None and not self.is_open and not self.before


def joined(deferred: Iterable[DeferredError]) -> DeferredError | None:
    """The deferred error of what follows from several; None for none."""
    distinct = tuple(dict.fromkeys(deferred))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return DeferredError(distinct)


def require(deferred: DeferredError, owner: Any, device: str) -> None:
    """DeviceError where what ``owner`` holds is known not to have been computed; once all is well it is settled."""
    if deferred.is_open:
        return  # its record tells of what came before as well
    error = deferred.settle() if deferred.before else deferred.error
    if error is not None:
        raise DeviceError(
            f"this tensor on {device} was not computed, as a call that it follows from failed: "
            f"{str(error).partition(chr(10))[0]}",
            hint="what such a call was to write is lost: load it again, or compute it anew",
        )
    if deferred.is_clear:
        owner.deferred_error = None


# ----------------------------------------------------------------------
# Error reports: pinned memory to which calls copy their error records, and a look at those that have arrived.
#
# A kernel cannot raise. Its call copies a record of 40 bytes (``codegen/cuda/failures.py``) to the host behind its last
# launch, and whoever waits for the device, or asks for the next call, looks whether one of them tells of a failure.

RECORD_BYTES: Final = 40
RECORD_ROOM: Final = 256
"""Bytes at the end of a call's arena that begin with its record."""
_PAGE_BYTES: Final = 4096
_PENDING: Final = -2  # as the order of a failure: no call has copied its record here yet
_NO_FAILURE: Final = -1

Describe = Callable[[int, int, int], BaseException]
"""The error for the number of a check, and the value and bound that it reports."""


class _Report(NamedTuple):
    record: ctypes.Array[ctypes.c_int64]
    stream: int
    describe: Describe
    deferred: DeferredError


class ErrorReports:
    """The records of the calls on one device; safe from several threads."""

    def __init__(self) -> None:
        self._lock = forks.lock()
        self._pages: list[int] = []
        self._nowhere = 0
        self._free: list[int] = []
        self._pending: deque[_Report] = deque()

    def take(self, driver: Driver, stream: int, describe: Describe, deferred: DeferredError) -> int:
        """The address to which a call on ``stream`` copies its record; raises what an earlier call has reported.

        ``deferred`` is that of the call's results, which ends when the record arrives.
        """
        self.look(driver)
        with self._lock:
            if not self._free:
                page = driver.allocate_host(_PAGE_BYTES)
                self._pages.append(page)
                self._free = [page + at for at in range(0, _PAGE_BYTES - RECORD_BYTES, RECORD_BYTES)]
            address = self._free.pop()
            record = (ctypes.c_int64 * 5).from_address(address)
            record[1] = _PENDING
            self._pending.append(_Report(record, stream, describe, deferred))
            return address

    def nowhere(self, driver: Driver) -> int:
        """Where a record may be copied that is not read."""
        with self._lock:
            if not self._nowhere:
                self._nowhere = driver.allocate_host(RECORD_BYTES)
                self._pages.append(self._nowhere)
            return self._nowhere

    def forget(self, address: int) -> None:
        """A call that took a record was refused, and copies nothing."""
        with self._lock:
            for report in list(self._pending):
                if ctypes.addressof(report.record) == address:
                    self._pending.remove(report)
                    self._free.append(address)

    def look(self, driver: Driver) -> None:
        """Raise the first failure among the calls that are done; of others that have failed by then, who reads results
        is told."""
        if not self._pending:
            return
        error: BaseException | None = None
        with self._lock:
            waiting: deque[_Report] = deque()
            for report in self._pending:
                order = report.record[1]
                if order == _PENDING:
                    waiting.append(report)
                    continue
                failure: BaseException | None = None
                if order != _NO_FAILURE:
                    driver.synchronize_stream(report.stream)  # the rest of the record has arrived as well
                    failure = report.describe(report.record[4], report.record[2], report.record[3])
                    error = error or failure
                report.deferred.close(failure)
                self._free.append(ctypes.addressof(report.record))
            self._pending = waiting
        if error is not None:
            raise error

    def close(self, driver: Driver) -> None:
        """Give the pinned memory back; the device has no work left."""
        with self._lock:
            self._pending.clear()
            self._free.clear()
            self._nowhere = 0
            while self._pages:
                driver.free_host(self._pages.pop())
