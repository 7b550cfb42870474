"""Python's ``sum`` as a script calls it: over a list that grew in a loop it is a loop."""

from __future__ import annotations

from collections.abc import Iterable
from types import FunctionType
from typing import Any, cast

from jitgraph.tensor import Tensor
from jitgraph.tracing.script import builtins
from jitgraph.tracing.script.iterables import steps_of
from jitgraph.tracing.script.lists import STEPS, is_growing
from jitgraph.tracing.script.loops import record_for
from jitgraph.tracing.script.variables import Cells, Site
from jitgraph.tracing.symbolic import numbers

_SITE = Site(("total",), (), ("total",), (), 0, (), (), ())


def total(values: Iterable[Any], /, start: Any = 0) -> Any:
    """``sum``: the same additions in the same order."""
    steps = steps_of(values, STEPS) if is_growing(values) else None
    if steps is None or (numbers.COMPENSATES and isinstance(steps.at(0), float)):
        return builtins.total(values, start)
    return _added(steps, start)


def _added(steps: Any, total: Any) -> Any:
    def body(item: Any) -> None:
        nonlocal total
        total = total + item

    known = type(steps.length) is int
    if known and not isinstance(total, Tensor):  # 0 + x has the shape of x, which a carry has from its start
        total = total + steps.at(0)
        steps = steps.behind_first()
    cells = Cells.of(cast("FunctionType", body), _SITE.names)
    record_for(_SITE, cells, steps, body, lambda: False)
    return total
