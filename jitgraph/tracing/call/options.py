"""What ``@jg.trace(...)`` is given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import TraceError
from jitgraph.records import dataclass

_UNITS: Final = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}


if TYPE_CHECKING:
    from typing import TypedDict

    class OptionKwargs(TypedDict, total=False):
        """The options as users write them."""

        dynamic_shapes: Mapping[str, Any] | None
        static_argnames: Sequence[str]
        static_argnums: Sequence[int]
        fastmath: bool
        device: str | None
        strict: bool
        verify: bool
        threads: int | None
        max_bytes: int | str | None

else:
    OptionKwargs = dict


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a traced function, in one form."""

    dynamic_shapes: Mapping[str, Mapping[int, str]]
    strict: bool
    verify: bool
    threads: int | None
    max_bytes: int | None
    fastmath: bool
    shapes_are_hints: bool = False
    """Whether a name of ``dynamic_shapes`` is given up where the function needs the value of the size, as the names are
    that a trace chooses itself; else that is an error."""


def bytes_of(text: int | str | None) -> int | None:
    """A number of bytes from an int or a text such as "64MB"."""
    if text is None or isinstance(text, int):
        return text
    match = re.fullmatch(r"\s*(\d+)\s*([KMG]?B?)\s*", text, re.IGNORECASE)
    unit = match.group(2).upper() if match else ""
    if match is None or (unit and unit not in _UNITS):
        raise TraceError(f"max_bytes={text!r} is no number of bytes", hint='such as "64MB"')
    return int(match.group(1)) * _UNITS[unit]
