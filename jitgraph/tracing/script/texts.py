"""Texts among the arguments of a print: f-strings, ``str()``, ``repr()``, ``format()``, ``str.format`` and their sums.

Python makes such a text before it calls ``print``, and a number that a graph computes has no text then. So the values
in it are evaluated where they stand, and the text is made of them as one of a print is: with marks, which the print
replaces by operands of its op. Only what stands in an argument itself is made so. A text that is compared, stored or
passed on is one that Python needs, and is refused.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from jitgraph.ir import context
from jitgraph.tracing.record.printing import is_printer, text_for_print
from jitgraph.tracing.script.names import copied

_MAKERS: Final = (str, repr, format)
_NAMES: Final = frozenset(maker.__name__ for maker in _MAKERS)


def text(printer: Any, makers: tuple[Any, ...], make: Callable[..., str], *values: Any) -> Any:
    """``make(*values)``, an argument of a call of ``printer``; ``makers`` are what names such as ``str`` mean there."""
    trace = context.current().trace
    if trace is None or not is_printer(printer) or any(maker not in _MAKERS for maker in makers):
        return make(*values)
    return text_for_print(trace, lambda: make(*values))


def may_print(function: ast.expr) -> bool:
    """Whether a call of this expression may be one of ``print`` or ``jg.debug.print``."""
    if isinstance(function, ast.Attribute) and function.attr == "print":
        owner = function.value
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        return isinstance(owner, ast.Name)
    return isinstance(function, ast.Name) and function.id == "print"


class TextArgument:
    """An argument that is such a text: ``function`` makes it of ``values``, calling the ``makers`` by name."""

    def __init__(self, argument: ast.expr) -> None:
        self.values: list[ast.expr] = []
        self.makers: list[ast.expr] = []
        self._is_text = False
        self._body = self._template(argument)
        self._at = argument

    @staticmethod
    def of(argument: ast.expr) -> TextArgument | None:
        """An argument as one; None where it is none."""
        text_argument = TextArgument(copied(argument))
        return text_argument if text_argument._is_text else None

    @property
    def function(self) -> ast.Lambda:
        """The function of the values."""
        args = [ast.arg(arg=_parameter(number)) for number in range(len(self.values))]
        parameters = ast.arguments(posonlyargs=[], args=args, kwonlyargs=[], kw_defaults=[], defaults=[])
        function = ast.copy_location(ast.Lambda(args=parameters, body=self._body), self._at)
        return ast.fix_missing_locations(function)

    def _value(self, node: ast.expr) -> ast.expr:
        """A parameter in the place of a value."""
        if isinstance(node, ast.Constant):
            return node
        self.values.append(node)
        return ast.copy_location(ast.Name(id=_parameter(len(self.values) - 1), ctx=ast.Load()), node)

    def _template(self, node: ast.expr) -> ast.expr:
        """A text with parameters in the places of its values."""
        match node:
            case ast.JoinedStr(values=parts):
                for part in parts:
                    if isinstance(part, ast.FormattedValue):
                        self._is_text = True
                        part.value = self._value(part.value)
                        part.format_spec = part.format_spec and self._template(part.format_spec)
            case ast.BinOp(op=ast.Add()):
                node.left, node.right = self._template(node.left), self._template(node.right)
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str()), attr="format")) if _is_plain(node):
                self._is_text = True
                node.args = [self._value(argument) for argument in node.args]
                for keyword in node.keywords:
                    keyword.value = self._value(keyword.value)
            case ast.Call(func=ast.Name(id=name) as maker) if name in _NAMES and node.args and _is_plain(node):
                self._is_text = True
                self.makers.append(maker)
                node.args = [self._value(argument) for argument in node.args]
                for keyword in node.keywords:
                    keyword.value = self._value(keyword.value)
            case _:
                return self._value(node)
        return node


def _is_plain(call: ast.Call) -> bool:
    """Whether no argument of a call is unpacked."""
    return not any(isinstance(argument, ast.Starred) for argument in call.args) and all(
        keyword.arg is not None for keyword in call.keywords
    )


def _parameter(number: int) -> str:
    return f"jg_part_{number}_"
