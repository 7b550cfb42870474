"""Sizes that depend on the call, and conditions on them: ``2*batch + 1``, ``n >= 3``, read with suspicion."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from typing import Final

from jitgraph.runtime.loader.errors import ArgumentError, LoadError

INT64_MAX: Final = 2**63 - 1
_MAX_EXPRESSION: Final = 4096
_MAX_DEPTH: Final = 256  # of a size as a tree; what evaluates it recurses
MAX_RANK: Final = 64  # NumPy's own limit

_COMPARISONS: Final[Mapping[type[ast.cmpop], Callable[[int, int], bool]]] = {
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
}


def _in_int64(value: int, text: str) -> int:
    if not -INT64_MAX - 1 <= value <= INT64_MAX:
        raise ArgumentError(f"the size {text[:80]!r} leaves 64 bits ({value.bit_length()} bits); use smaller arguments")
    return value


def _in_any(value: int, text: str) -> int:
    return value


class Expression:
    """A size such as ``2*batch + 1`` or ``(n + 1)//2``: ints, names and ``+ - * // %``, in 64 bits throughout."""

    __slots__ = ("names", "text", "tree")

    def __init__(self, text: str) -> None:
        """Parse ``text``; LoadError where anything else stands in it."""
        self.text = text
        self.tree = _parse_expression(text)
        self.names = frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        _verify_size(self.tree, text)

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """The value for these sizes; ArgumentError where it leaves 64 bits or divides by zero."""
        return _evaluate(self.tree, dims, self.text)


class Constraint(Expression):
    """A comparison of two sizes, such as ``batch >= 2``, in as many bits as they need.

    ``evaluate`` gives 1 where it holds, else 0.
    """

    __slots__ = ()

    def __init__(self, text: str) -> None:
        """Parse ``text``; LoadError where it is not one comparison of two sizes."""
        self.text = text
        self.tree = _parse_expression(text)
        self.names = frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        tree = self.tree
        if not (isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _COMPARISONS):
            raise LoadError(f"{text[:80]!r} is not a constraint; expected one comparison, such as 'a == b'")
        _verify_size(tree.left, text)
        _verify_size(tree.comparators[0], text)

    def evaluate(self, dims: Mapping[str, int]) -> int:
        """Whether it holds for these sizes; ArgumentError where something is divided by zero."""
        return _evaluate(self.tree, dims, self.text, _in_any)


def _parse_expression(text: str) -> ast.expr:
    if len(text) > _MAX_EXPRESSION:
        raise LoadError(f"a size of {len(text)} characters; at most {_MAX_EXPRESSION} are allowed")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise LoadError(f"{text[:80]!r} is not a size; expected names, ints and + - * // %") from None
    level: list[ast.AST] = [tree]
    for _ in range(_MAX_DEPTH):
        level = [inner for node in level for inner in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise LoadError(f"{text[:80]!r} is not a size: it is nested more than {_MAX_DEPTH} deep")


def _verify_size(node: ast.expr, text: str) -> None:
    for inner in ast.walk(node):
        match inner:
            case ast.Name() | ast.Load() | ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod() | ast.USub():
                pass
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.FloorDiv() | ast.Mod()):
                pass
            case ast.UnaryOp(op=ast.USub()):
                pass
            case ast.Constant(value=value) if type(value) is int:
                pass
            case _:
                raise LoadError(f"{text[:80]!r} is not a size: only names, ints and + - * // % may stand in one")


def _evaluate(node: ast.expr, dims: Mapping[str, int], text: str, within: Callable[[int, str], int] = _in_int64) -> int:
    match node:
        case ast.Constant(value=int(value)):
            return within(value, text)
        case ast.Name(id=name):
            return dims[name]
        case ast.UnaryOp(operand=operand):
            return within(-_evaluate(operand, dims, text, within), text)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return int(
                _COMPARISONS[type(op)](_evaluate(left, dims, text, within), _evaluate(right, dims, text, within))
            )
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _evaluate(left, dims, text, within), _evaluate(right, dims, text, within)
            match op:
                case ast.Add():
                    return within(a + b, text)
                case ast.Sub():
                    return within(a - b, text)
                case ast.Mult():
                    return within(a * b, text)
            if b == 0:
                raise ArgumentError(f"the size {text[:80]!r} divides by zero")
            return within(a // b if isinstance(op, ast.FloorDiv) else a % b, text)
    raise LoadError(f"{text[:80]!r} is not a size")
