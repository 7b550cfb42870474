"""The formats of ``jg.debug.print``: those of ``str.format``, for values that are known only when the graph runs."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.tracing.symbolic.number import SymbolicNumber
from jitgraph.tracing.symbolic.staged_number import StagedNumber

if TYPE_CHECKING:
    from jitgraph.tracing.record.printing import PrintText


class Formatter(string.Formatter):
    """As ``str.format``; a tensor that is converted leaves the padding to the print, as its text is not known yet."""

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        """The text of a value by ``!r``, ``!s`` or ``!a``."""
        trace = context.current().trace
        if conversion and trace is not None and isinstance(value, Tensor | SymbolicNumber | StagedNumber):
            return _Converted(value, trace.text)
        return super().convert_field(value, conversion)

    def get_value(self, key: int | str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """The argument of a number or a name; TypeError where the format mentions one that is not given."""
        values: Any = args if isinstance(key, int) else kwargs
        if (key >= len(args)) if isinstance(key, int) else key not in kwargs:
            names = ", ".join(kwargs) or "none"
            raise TypeError(
                f"the format mentions the argument {key!r}; given are {len(args)} by position, and by name {names}"
            )
        return values[key]

    def check_unused_args(self, used: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """TypeError for an argument that the format does not mention."""
        unused: list[Any] = [*({*range(len(args))} - used), *(kwargs.keys() - used)]
        if unused:
            raise TypeError(f"the format does not mention the argument {unused[0]!r}; write {{}} where it is to stand")


class _Converted:
    """What is traced, in braces with a conversion."""

    def __init__(self, value: Any, text: PrintText) -> None:
        self._value = value
        self._text = text

    def __format__(self, form: str) -> str:
        return self._text.mark(self._value, "r", form)
