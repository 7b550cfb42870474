"""Python numbers that a traced function reads again at each call, such as learning rates."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from jitgraph.ir import context


def host_float(mapping: Mapping[Any, Any], key: Any) -> Any:
    """``mapping[key]``, a Python float: as it is, or inside a trace as a weak 0-d tensor that is read at each call."""
    trace = context.current().trace
    return mapping[key] if trace is None else trace.host_float(mapping, key)


def as_float(x: Any) -> Any:
    """``float(x)``, also for a number that varies in a trace, which stays one."""
    return x * 1.0 if hasattr(type(x), "through") else float(x)


def host_math(name: str, x: Any) -> Any:
    """``math.<name>(x)``, also for a number that varies in a trace, which stays one."""
    through = getattr(type(x), "through", None)
    return getattr(math, name)(x) if through is None else through(x, name)


def host_formula(text: str, **numbers: Any) -> Any:
    """The value of an expression over numbers by their names; one that varies in a trace is one there.

    ``text`` may compare and choose (``a if x > y else b``), call ``min``, ``max`` and functions of ``math``. It is
    worked out whole at each call, so no branch of it is recorded.
    """
    function = _function(text, tuple(numbers))
    varying = next((x for x in numbers.values() if hasattr(type(x), "formula")), None)
    return function(*numbers.values()) if varying is None else varying.formula(text, function, numbers)


@lru_cache(maxsize=256)
def _function(text: str, names: tuple[str, ...]) -> Callable[..., Any]:
    """The expression as a function of its numbers; texts are those of this package."""
    function: Callable[..., Any] = eval(f"lambda {', '.join(names)}: {text}", {"math": math})
    return function
