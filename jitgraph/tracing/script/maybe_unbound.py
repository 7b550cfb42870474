"""Variables that have a value only where tensors say so: that of a ``for`` which may have no steps, that of ``:=`` in
an operand which may not be evaluated. Reading one is checked when the graph runs, as Python does.
"""

from __future__ import annotations

from typing import Any

from jitgraph.records import NamedTuple
from jitgraph.tensor import lifting
from jitgraph.tracing.staged.checks import require


class MaybeUnbound(NamedTuple):
    """A value, and whether the variable has it: a bool, or a 0-d tensor."""

    value: Any
    defined: Any

    @staticmethod
    def of(value: Any) -> MaybeUnbound:
        """``value`` as one that may be missing."""
        return value if isinstance(value, MaybeUnbound) else MaybeUnbound(value, True)


def sure(value: Any, name: str) -> Any:
    """The value of a variable that is read; where it has none, the graph raises UnboundLocalError."""
    if not isinstance(value, MaybeUnbound):
        return value
    if value.defined is True:
        return value.value
    message = f"cannot access local variable '{name}' where it is not associated with a value"
    require(lifting.value_of(value.defined), "UnboundLocalError", message)
    return value.value
