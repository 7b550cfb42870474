"""Expressions over numbers and sizes as a plan holds them, checked before they become code of a call."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final

from jitgraph.runtime.loader import LoadError

_LETTERS: Final = r"[A-Za-z0-9_ .,'()<>=!+\-*/%&|^~]*"  # no comment and no second line
_SIMPLE: Final = r"n[0-9]{1,6}"
_NAME: Final = r"n(_[A-Za-z][A-Za-z0-9_]*|[0-9]{1,6})"
_FUNCTIONS: Final = frozenset(
    ["abs", "bool", "divmod", "float", "int", "max", "min", "pow", "round", "same_float", "type"]
)
_KINDS: Final = frozenset(["float", "int"])
_LONGEST: Final = 1 << 16


@lru_cache(maxsize=1024)
def checked(text: str) -> str:
    """``text`` where it is arithmetic on numbers of a call and nothing else; LoadError otherwise."""
    if not isinstance(text, str) or len(text) > _LONGEST or not re.fullmatch(_LETTERS, text):
        raise LoadError("an expression is malformed")
    if not re.fullmatch(_SIMPLE, text):
        import ast  # here: few plans have more than single numbers

        try:
            _check(ast.parse(text, mode="eval").body, ast)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise LoadError(f"{text[:80]!r} is no expression") from None
    return text


def _check(tree: Any, ast: Any) -> None:
    match tree:
        case ast.Constant(value=value) if type(value) in (int, float, bool, complex):
            return
        case ast.Constant(value=str(text)) if text in ("inf", "-inf", "nan"):
            return
        case ast.Name(id=name) if re.fullmatch(_NAME, name) or name in _KINDS:
            return
        case ast.Call(func=ast.Name(id=name), args=parts, keywords=[]) if name in _FUNCTIONS:
            pass
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"), attr=name), args=parts, keywords=[]):
            if name.startswith("_"):
                raise LoadError(f"math.{name} is no function of numbers")
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts):
            pass
        case ast.Compare(left=left, comparators=others):
            parts = [left, *others]
        case ast.IfExp(test=test, body=body, orelse=other):
            parts = [test, body, other]
        case _:
            raise LoadError(f"an expression holds a {type(tree).__name__}")
    for part in parts:
        _check(part, ast)
