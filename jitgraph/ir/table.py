"""The op table as the parser finds it: ops are defined on a higher layer, which says how each is found."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final

from jitgraph.errors import GraphError

if TYPE_CHECKING:
    from jitgraph.ir.op import Op

Find = Callable[[str], "Op | None"]
Every = Callable[[], "Mapping[str, Op]"]

_registered: Final[list[tuple[Find, Every]]] = []


def register(find: Find, every: Every) -> None:
    """Make ops known. Called once, by ``jitgraph.ops``: ``find`` gives an op by its name, ``every`` the whole table."""
    _registered.append((find, every))


def named(name: str) -> Op | None:
    """The op of this name, or None; only its own family is loaded."""
    return next((op for find, _ in _registered if (op := find(name)) is not None), None)


def has(op: Op) -> bool:
    """Whether an op is of the table; only its own family is loaded."""
    return named(op.name) is op


@cache
def all_ops() -> Mapping[str, Op]:
    """Every op by its name and by those that it has in older files; GraphError for a name that two ops share."""
    table: dict[str, Op] = {}
    for _, every in _registered:
        for name, op in every().items():
            for known in (name, *op.formerly):
                if table.setdefault(known, op) is not op:
                    raise GraphError(f"two ops are, or were, named {known!r}")
    return table
