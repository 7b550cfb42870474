"""Plain data about Python numbers that vary: where they are read at a call, what must be true of them, what is held."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tracing.source import Slot, Source

LEAF: Final = re.compile(r"\bn(\d+)\b")


class Origin(NamedTuple):
    """Where a number is read at each call: at ``slot``, or as the leaf ``leaf`` of the arguments; exactly a ``kind``.

    With an ``axis`` it is the size of that leaf on the axis. In expressions it is ``n0``, ``n1``, ... by ``number``.
    """

    number: int
    slot: Slot | None
    leaf: int
    text: str
    kind: type
    axis: int = -1


class NumberAssumption(NamedTuple):
    """An expression with the answer that the graph needs: a bool, a number, or a type for the type of the number."""

    text: str
    answer: Any
    what: str
    location: Location | None

    def condition(self) -> str:
        """The assumption as a Python condition; ``same_float`` stands for the function of ``plain.py``."""
        answer = self.answer
        if isinstance(answer, type):
            return f"type({self.text}) is {answer.__name__}"
        if isinstance(answer, bool):
            return f"({self.text})" if answer else f"not ({self.text})"
        if isinstance(answer, float):
            return f"same_float({self.text}, {literal(answer)})"
        return f"({self.text}) == {literal(answer)}"


class PinnedNumber(NamedTuple):
    """A number that was to vary and that Python needs itself: it is part of the key by its value."""

    origin: Origin
    what: str
    location: Location | None


def source_of(origin: Origin, leaves: Sequence[Source]) -> Source:
    """Where a number among the arguments, or the size of one, is found again; ``leaves`` are theirs."""
    source = leaves[origin.leaf]
    return source if origin.axis < 0 else source.then("attribute", "shape").then("item", origin.axis)


def literal(x: Any) -> str:
    """A plain number as an operand in an expression."""
    if isinstance(x, float) and not math.isfinite(x):
        return f"float('{x}')"
    return f"({x!r})" if x < 0 or (x == 0 and math.copysign(1.0, x) < 0) else repr(x)


def shown(text: str, origins: Sequence[Origin]) -> str:
    """An expression with the names that the user knows."""
    names = {origin.number: origin.text for origin in origins}
    return LEAF.sub(lambda found: names.get(int(found.group(1)), found.group(0)), text)


def shown_assumption(assumption: NumberAssumption, origins: Sequence[Origin]) -> str:
    """A assumption with its answer, for people."""
    text = shown(assumption.text, origins)
    if isinstance(assumption.answer, type):
        return f"{text} is {assumption.answer.__name__}"
    if isinstance(assumption.answer, bool):
        return text if assumption.answer else f"not {text}"
    return f"{text} == {assumption.answer!r}"
