"""The op table: every primitive and composite by its name, as ``ops/__init__.pyi`` lists them by family."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import GraphError
from jitgraph.ir.op import Op
from jitgraph.runtime import imports, stubs

_PACKAGE: Final = "jitgraph.ops"

if TYPE_CHECKING:
    OPS: Final[dict[str, Op]] = {}


def op_named(name: str) -> Op | None:
    """The op of this name, whose family alone is loaded; None where there is none."""
    attribute = _attribute(name)
    op = None if attribute is None else getattr(imports.module(_PACKAGE), attribute)
    return op if isinstance(op, Op) else None


def has_name(name: str) -> bool:
    """Whether the table has something of this name; no family is loaded."""
    return _attribute(name) is not None


def _attribute(name: str) -> str | None:
    homes = stubs.of(_PACKAGE).homes  # ops whose names mean something else in Python end in _
    return next((known for known in (name, f"{name}_") if known in homes), None)


def every_op() -> dict[str, Op]:
    """The ops of all families by their names; GraphError for a name that two different ops share."""
    by_name: dict[str, Op] = {}
    families = dict.fromkeys(module for module, _ in stubs.of(_PACKAGE).homes.values())
    for family in families:
        for op in vars(imports.module(family)).values():
            if isinstance(op, Op) and by_name.setdefault(op.name, op) is not op:
                raise GraphError(f"two ops are named {op.name!r}")
    return by_name


def __getattr__(name: str) -> Any:
    if name != "OPS":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = ops = every_op()
    return ops
