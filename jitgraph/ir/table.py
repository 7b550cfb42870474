"""The op table as the parser finds it: ops are made on a higher floor, which hands them down here when it loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

TABLE: Final[dict[str, Op]] = {}


def register(ops: Mapping[str, Op]) -> None:
    """Make ``ops`` known to the parser by name; called once, by ``jitgraph.ops``, with the whole table."""
    TABLE.update(ops)
