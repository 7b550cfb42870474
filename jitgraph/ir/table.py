"""The op table as the parser finds it: ops are made on a higher floor, which hands them down here when it loads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from jitgraph.errors import GraphError

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

TABLE: Final[dict[str, Op]] = {}


def register(ops: Mapping[str, Op]) -> None:
    """Make ``ops`` known to the parser by name, and by the names that they have in older files.

    Called once, by ``jitgraph.ops``, with the whole table; GraphError for a name that two ops share.
    """
    for name, op in ops.items():
        for known in (name, *op.formerly):
            if TABLE.setdefault(known, op) is not op:
                raise GraphError(f"two ops are, or were, named {known!r}")
