"""Python's min, max, any and all as a script calls them: what they ask of tensors is staged, element by element."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from jitgraph import ops
from jitgraph.errors import ScriptError
from jitgraph.ir import context
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.script.branches import cannot_fail, choose_value, truth
from jitgraph.tracing.script.variables import Cells, is_staged
from jitgraph.tracing.staged.number import StagedNumber


def least(*values: Any, **options: Any) -> Any:
    """``min``: the first of the least."""
    return _extreme(min, operator.lt, values, options)


def greatest(*values: Any, **options: Any) -> Any:
    """``max``: the first of the greatest."""
    return _extreme(max, operator.gt, values, options)


def _extreme(
    function: Callable[..., Any],
    is_better: Callable[[Any, Any], Any],
    values: tuple[Any, ...],
    options: dict[str, Any],
) -> Any:
    if len(values) == 1:
        values = (list(values[0]),)
    items = values[0] if len(values) == 1 else values
    if options or not any(map(is_staged, items)):
        return function(*values, **options)
    best = items[0]
    for item in items[1:]:
        best = _chosen(is_better(item, best), item, best, function.__name__)
    return best


def _chosen(test: Any, item: Any, best: Any, name: str) -> Any:
    if not is_staged(test):
        return item if test else best
    return choose_value(test, (lambda: item, lambda: best), Cells({}), f"the value of {name}()")


def some(iterable: Iterable[Any], /) -> Any:
    """``any``: a Python bool, or the 0-d tensor that stands for one."""
    return _fold(iterable, conjunction=False)


def every(iterable: Iterable[Any], /) -> Any:
    """``all``: a Python bool, or the 0-d tensor that stands for one."""
    return _fold(iterable, conjunction=True)


def _fold(iterable: Iterable[Any], *, conjunction: bool) -> Any:
    """Behind an element that is a tensor, an iterator gives all others, too, where Python may stop at that element."""
    folded: Tensor | None = None
    nodes = context.current().trace.builder.nodes
    settled = len(nodes)
    for element in iterable:
        if folded is not None and isinstance(iterable, Iterator) and not all(map(cannot_fail, nodes[settled:])):
            name = "all" if conjunction else "any"
            raise ScriptError(
                f"{name}() of elements of which one prints or may fail, behind one that is a tensor, "
                "cannot be captured",
                hint=f"{name}([...]) of a list, which is computed whole, or a for loop with a break",
            )
        if not is_staged(element):
            if bool(element) is not conjunction:
                return not conjunction
            continue
        test = truth(element)
        if folded is not None:
            op = ops.logical_and if conjunction else ops.logical_or
            test = wrap(op(folded.value, test.value))
        folded, settled = test, len(nodes)
    if folded is None:
        return conjunction
    return StagedNumber(folded.value)
