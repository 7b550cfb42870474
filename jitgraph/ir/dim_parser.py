"""Dims from their text."""

from __future__ import annotations

import ast

from jitgraph.errors import GraphError
from jitgraph.ir.dims import Dim, DimLike, divide


def parse_dim(text: str) -> DimLike:
    """The dim that ``str(dim)`` printed; GraphError for anything but names, ints and ``+ - * // %``."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise GraphError(f"{text!r} is not a size") from None
    return _from_ast(tree, text)


def _from_ast(tree: ast.expr, text: str) -> DimLike:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return Dim.name(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_from_ast(operand, text)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _from_ast(left, text), _from_ast(right, text)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return divide(a, b)[0]
                case ast.Mod():
                    return divide(a, b)[1]
    raise GraphError(f"{text!r} is not a size: only names, ints and + - * // % may stand in one")
