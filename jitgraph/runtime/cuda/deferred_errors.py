"""Doubts: whether the content of a buffer was computed, which the host learns some time after it asked for the work.

A call with checks may fail on the device, and what followed from its results was asked for by then. So its outputs, and
all that is computed from them, are in doubt until its error record has arrived (``reports.py``). Where it tells of a
failure, whoever reads one of them meets an error for good: nothing that was not computed is ever taken for a result.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from jitgraph.errors import DeviceError


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
    """The doubt of what follows from several; None for none."""
    distinct = tuple(dict.fromkeys(deferred))
    if len(distinct) < 2:
        return distinct[0] if distinct else None
    return DeferredError(distinct)


def require(deferred: DeferredError, owner: Any, device: str) -> None:
    """DeviceError where what ``owner`` holds is known not to have been computed; its doubt goes once all is well."""
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
