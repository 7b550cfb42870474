"""Journal: the Python objects that the body of a staged statement makes, and the outer ones that it changes.

A graph holds no change of a Python object, so a body that makes one cannot be staged; the change is put back.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tracing.log import Log
from jitgraph.tracing.source import Place

CONTAINERS: Final = (list, dict, set, deque, bytearray)


class Journal:
    """What one body makes and changes."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._log = Log()

    def make(self, value: Any) -> None:
        """``value`` was made by the body: changing it changes nothing outside."""
        self._made[id(value)] = value

    def change(self, target: Any, attribute: str | None) -> None:
        """``target`` is about to be changed: its attribute of that name, or its contents."""
        if id(target) not in self._made:
            text = f"a {type(target).__name__}" + (f" (its attribute {attribute!r})" if attribute else "")
            place = target if attribute is None else Place("attribute", target, attribute, text)
            self._log.keep(place, text, Location.of_user())

    def undo(self) -> None:
        """Put all changes back."""
        self._log.undo()

    def settle(self) -> None:
        """Put all changes back; ScriptError at the first where there are any."""
        self.undo()
        for change in self._log:
            raise ScriptError(
                f"{change.text} from outside is changed by code that runs depending on a tensor, which no graph can do",
                location=change.location,
                hint="assign to a variable, write into a tensor (t[...] = value), or collect results with jg.scan",
            )
