"""Sizes of exported programs: SymPy's expressions in the form of ``srepr``, as files have them."""

from __future__ import annotations

import ast
from typing import Any, Final

from jitgraph.errors import LoadError

_SIGNS: Final = {"Add": "+", "Mul": "*"}
_LONGEST: Final = 10_000


def text_of(expression: str) -> str:
    """The expression in plain notation, such as ``2*s0``; the name alone for a symbol. LoadError for what is none."""
    if not isinstance(expression, str) or len(expression) > _LONGEST:
        raise LoadError("a size of the program is no expression")
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LoadError(f"a size of the program is no expression: {expression[:80]!r}") from None
    return _text(tree)


def _text(tree: Any) -> str:
    match tree:
        case ast.Name(id=name):
            return name
        case ast.Constant(value=int(number)):
            return str(number)
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str(name))]) if name.isidentifier():
            return name
        case ast.Call(func=ast.Name(id="Integer"), args=[ast.Constant(value=int(number))]):
            return str(number)
        case ast.Call(func=ast.Name(id="Integer"), args=[ast.UnaryOp(op=ast.USub(), operand=operand)]):
            return f"-{_text(operand)}"
        case ast.Call(func=ast.Name(id=("Add" | "Mul") as name), args=parts):
            return "(" + _SIGNS[name].join(map(_text, parts)) + ")"
        case ast.Call(func=ast.Name(id=name), args=parts):
            return f"{name}({', '.join(map(_text, parts))})"
        case ast.BinOp() | ast.UnaryOp() | ast.Compare():
            return ast.unparse(tree)
    raise LoadError("a size of the program is no expression")
