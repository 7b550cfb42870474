"""Chains of native tables, as the dispatcher follows them."""

from __future__ import annotations

from typing import Any

from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.cpython.api import word


def tables_of(function: Any) -> list[int]:
    """The addresses of a function's tables in the order in which they are asked; no circle."""
    seen: list[int] = []
    at = word(id(function) + layout.FUNCTION["table"])
    while at:
        assert at not in seen
        seen.append(at)
        at = word(at + layout.TABLE["next"])
    return seen
