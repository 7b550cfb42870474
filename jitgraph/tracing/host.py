"""Python numbers that a traced function reads again at each call, such as learning rates."""

from __future__ import annotations

import math
from collections.abc import Mapping
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
