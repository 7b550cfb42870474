"""Arithmetic on numbers that vary: which functions stay open, which may raise, and of what kind their results are."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

BINARY: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "<<": "lshift",
    ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
"""The name in Python's special methods of each operator on two numbers."""

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""What each comparison asks."""

OF_SIZES: Final = frozenset(
    [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow, operator.neg]
)
"""Functions of sizes that give a size."""

OF_GRAPHS: Final = OF_SIZES | {operator.truediv, abs}
"""Functions that a graph can compute of floats."""

DIVISIONS: Final = frozenset({operator.truediv, operator.floordiv, operator.mod})
"""Functions that raise where the second operand is 0, and there alone."""

NEVER_RAISE: Final = frozenset(
    [operator.add, operator.sub, operator.mul, operator.neg, operator.and_, operator.or_, operator.xor]
) | {abs, operator.invert}
"""Functions that give a number of the same kind for all numbers of the kinds that they take."""


def kind_of(function: Callable[..., Any], plain: Sequence[Any], kinds: Sequence[type]) -> type | None:
    """The kind of a result: an int or a float; None where types alone are traced, and the kind needs a value."""
    if float in kinds or function is operator.truediv:
        return float
    if None not in plain:
        return int
    negative = function is operator.pow and type(plain[1]) is int and plain[1] < 0
    return float if negative else None


def form_of(text: str, names: Sequence[str]) -> str:
    """A formula over numbers by their names as a form with their places: ``x + y`` is ``{0} + {1}``.

    The kind of its result is that of the first: formulas of the package give ints alone or floats alone.
    """
    fields = {name: f"{{{index}}}" for index, name in enumerate(names)}
    return _WORD.sub(lambda found: fields.get(found[0], found[0]), text)


_WORD: Final = re.compile(r"\b[a-z]\w*")
