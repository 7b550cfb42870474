"""ATen's operators by name and overload: each is a function of ATen's signature over jitgraph's public ones.

Every function in the modules that ``_SUBJECTS`` lists is an operator. ``aten::NAME.OVERLOAD`` is ``NAME_OVERLOAD`` of
one of them, or ``NAME``, which then serves every overload that has no function of its own. The names and the order of
the arguments are ATen's, so that graphs pass what they hold; a test compares each with PyTorch's schema. Arguments of
types that say nothing here (``layout``, ``pin_memory``, ``memory_format``, ``device``) are taken and not used: a value
is where its operands are.

The functions take plain ``jg.Tensor`` values, numbers, lists, ``jg`` dtypes, and give new values: an in-place operator
is the function without the trailing underscore, and whoever runs a graph writes its result; what aliases what is known
to them alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, Final

from jitgraph.runtime import imports

_SUBJECTS: Final = (
    "pointwise",
    "reductions",
    "movement",
    "indexing",
    "products",
    "layers",
    "losses",
    "creation",
    "draws",
    "spectral",
    "attention",
    "backwards",
    "special_functions",
)
_PACKAGE: Final = "jitgraph.torch.aten_ops"


@functools.cache
def table() -> dict[str, Callable[..., Any]]:
    """Every operator by ``NAME`` or ``NAME_OVERLOAD``."""
    operators: dict[str, Callable[..., Any]] = {}
    for subject in _SUBJECTS:
        defined = vars(imports.module(f"{_PACKAGE}.{subject}"))
        operators |= {name: value for name, value in defined.items() if isinstance(value, FunctionType)}
    return operators


def lookup(name: str, overload: str = "") -> Callable[..., Any] | None:
    """The function of ``aten::name.overload``; None where there is none. "default" and "" are the same overload."""
    base = name.removeprefix("aten::")
    operators = table()
    return operators.get(f"{base}_{overload or 'default'}") or operators.get(base)


def in_place(name: str) -> str | None:
    """The name of the operator of which ``name`` writes the result to its first argument; None for other operators."""
    base = name.removeprefix("aten::")
    if not base.endswith("_") or base.endswith("__"):
        return None
    return base[:-1]


def names() -> Iterator[str]:
    """The keys of the table, in alphabetical order."""
    return iter(sorted(table()))
