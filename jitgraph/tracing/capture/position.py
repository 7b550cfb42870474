"""Where the recorded function is: the frame that runs, and the instruction that it is about to run."""

from __future__ import annotations

from typing import Any

from jitgraph.location import Location
from jitgraph.tracing.capture.events import Activation, InstructionSite
from jitgraph.tracing.capture.followed import PACKAGE


class Position:
    """The instruction that is being looked at, for the lines of errors and for what depends on who reads.

    Invariant: ``view`` and ``site`` are those of the last instruction that was looked at, and None before the first
    and after the last.
    """

    def __init__(self) -> None:
        self.view: Activation | None = None
        self.site: InstructionSite | None = None
        self.for_package = False  # what is read now is read on behalf of this package

    def move(self, view: Activation | None, site: InstructionSite | None) -> None:
        """The function is at ``site`` of the frame of ``view``."""
        self.view, self.site = view, site

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
    def in_package(self) -> bool:
        """Whether the code being run is this package's own."""
        return self.view is not None and self.view.in_package

    @property
    def by_user(self) -> bool:
        """Whether what is read now is read by code outside of this package."""
        return not (self.in_package or self.for_package)

    def local_name(self, value: Any) -> str | None:
        """The local variable of the frame that holds an object."""
        names = self.view.frame.f_locals if self.view is not None else {}
        return next((name for name, local in names.items() if local is value), None)
