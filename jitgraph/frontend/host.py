"""Python floats that a traced function reads again at each call, such as learning rates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jitgraph.ir import context


def host_float(mapping: Mapping[Any, Any], key: Any) -> Any:
    """``mapping[key]``, a Python float: as it is, or inside a trace as a weak 0-d tensor that is read at each call."""
    trace = context.current().trace
    return mapping[key] if trace is None else trace.host_float(mapping, key)
