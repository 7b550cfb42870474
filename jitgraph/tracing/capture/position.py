"""Where the recorded function is, and what limits the recording there: what no guard sees, or one process alone."""

from __future__ import annotations

from typing import Any

from jitgraph.location import Location
from jitgraph.tracing.capture.events import FAILED, Activation, Finish, InstructionSite
from jitgraph.tracing.capture.followed import PACKAGE


class Position:
    """The instruction that is being looked at, for the lines of errors and for what depends on who reads.

    Invariant: ``view`` and ``site`` are those of the last instruction that was looked at, and None before the first
    and after the last.
    """

    def __init__(self) -> None:
        self.view: Activation | None = None
        self.site: InstructionSite | None = None
        self.in_package = False  # the code being run is this package's own
        self.for_package = False  # what is read now is read on behalf of this package

    def move(self, view: Activation | None, site: InstructionSite | None) -> None:
        """The function is at ``site`` of the frame of ``view``; at none before it begins and after it has ended."""
        self.view, self.site = view, site
        self.in_package = view is not None and view.in_package

    @property
    def line(self) -> Location:
        """The line of the user's code that is being run."""
        if self.view is None or self.site is None:
            return Location("", 0)
        if not self.view.in_package:
            return Location(self.view.frame.f_code.co_filename, self.site.line)
        frame = self.view.frame.f_back
        while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
            frame = frame.f_back
        if frame is None:
            return Location(self.view.frame.f_code.co_filename, self.site.line)
        return Location(frame.f_code.co_filename, frame.f_lineno)

    @property
    def by_user(self) -> bool:
        """Whether what is read now is read by code outside of this package."""
        return not (self.in_package or self.for_package)

    def local_name(self, value: Any) -> str | None:
        """The local variable of the frame that holds an object."""
        names = self.view.frame.f_locals if self.view is not None else {}
        return next((name for name, local in names.items() if local is value), None)


class RecordingLimits:
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
