"""What limits a recording: what no guard sees, and what another process may answer otherwise."""

from __future__ import annotations

from typing import Any

from jitgraph.location import Location
from jitgraph.tracing.capture.events import FAILED, Activation, Finish
from jitgraph.tracing.capture.position import Position


class Limits:
    """Why a recording serves one call alone, or one process alone.

    Invariant: each reason has the line that gave it first. Where ``unguarded`` is empty, the guards say all that the
    recording depends on; where ``bound`` is empty, they do so in any process.
    """

    def __init__(self, position: Position) -> None:
        self.unguarded: dict[str, Location] = {}
        self.bound: dict[str, Location] = {}
        self._position = position

    def cannot_guard(self, what: str, location: Location | None = None) -> None:
        """No guard sees ``what``, on the line being run or at ``location``: the recording serves this call alone."""
        self.unguarded.setdefault(what, location or self._position.line)

    def bind_to_process(self, why: str) -> None:
        """Another process may answer otherwise, where ``why`` says that: the trace is not stored on disk."""
        if why and not self._position.in_package:
            self.bound.setdefault(why, self._position.line)

    def expect(self, value: Any) -> Finish:
        """Compares what was found by storage with what Python finds; where they differ, nothing is known."""
        site = self._position.site
        name = site.value if site is not None else "a value"
        what = f"{name}, which is found in another way than by storage"

        def finish(after: Activation | None) -> None:
            if after is FAILED:
                return
            if after.at(-1) is not value and after.at(-2) is not value:
                self.cannot_guard(what)

        return finish
