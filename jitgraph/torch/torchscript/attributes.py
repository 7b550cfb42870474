"""Which attributes of modules are state that a method replaces, as a recurrent layer its hidden state.

``self.h = h`` binds the attribute to another tensor. In a trace the new value is written to the tensor that is there
instead, where both have one type: so a compiled function has the state as tensors, and a saved one keeps it in its
file. What was read from the attribute before is a value of its own then. That is the same thing unless the code also
writes in place to what it read; such attributes are bound to the other tensor, as eagerly.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from jitgraph.torch.torchscript.source import ClassSource, FunctionSource, dotted

_PASSED_ON = frozenset(
    {
        *(
            "view",
            "view_as",
            "alias",
            "reshape",
            "permute",
            "transpose",
            "t",
            "expand",
            "unsqueeze",
            "squeeze",
            "flatten",
        ),
        *("select", "narrow", "slice", "unbind", "split", "chunk", "diagonal", "detach", "contiguous", "to", "dropout"),
    }
)  # operators whose results may share elements with their first argument


def replaced(functions: Iterable[FunctionSource]) -> frozenset[str]:
    """The names of the attributes that the code sets and does not write to in place."""
    assigned: set[str] = set()
    written: set[str] = set()
    writes_to_parameters = False
    passed: set[str] = set()
    for function in functions:
        scan = _Scan(function)
        assigned |= scan.assigned
        written |= scan.written
        passed |= scan.passed
        writes_to_parameters = writes_to_parameters or scan.writes_to_parameters
    return frozenset(assigned - written - (passed if writes_to_parameters else set()))


def functions_of(sources: Iterable[ClassSource | FunctionSource]) -> list[FunctionSource]:
    """All functions and methods."""
    functions: list[FunctionSource] = []
    for source in sources:
        functions += source.methods.values() if isinstance(source, ClassSource) else [source]
    return functions


class _Scan:
    """What one function does with attributes: those it sets, writes to in place, and hands to other functions."""

    def __init__(self, function: FunctionSource) -> None:
        self.assigned: set[str] = set()
        self.written: set[str] = set()
        self.passed: set[str] = set()
        self.writes_to_parameters = False
        self._parameters = {parameter.name for parameter in function.parameters}
        self._origins: dict[str, set[str]] = {}  # of variables, the attributes whose elements they may share
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        for _ in range(2):  # a loop's body may read what it binds further down
            for node in nodes:
                if isinstance(node, ast.Assign):
                    self._assign(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)

    def _assign(self, node: ast.Assign) -> None:
        origins = self._origins_of(node.value)
        for target in node.targets:
            for part in ast.walk(target):
                if isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
                    self.assigned.add(part.attr)
                elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store) and origins:
                    self._origins.setdefault(part.id, set()).update(origins)

    def _origins_of(self, node: ast.expr) -> set[str]:
        match node:
            case ast.Name(id=name):
                return self._origins.get(name, set()) | ({f" {name}"} if name in self._parameters else set())
            case ast.Attribute(attr=attr):
                return {attr}
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                return set().union(*map(self._origins_of, parts))
            case ast.Subscript(value=value):
                return self._origins_of(value)
            case ast.Call(func=func, args=[first, *rest]):
                name = (dotted(func) or "").removeprefix("torch.")
                if name in _PASSED_ON or name.endswith("_"):
                    return self._origins_of(first)
                if name in ("unchecked_cast", "annotate") and rest:
                    return self._origins_of(rest[0])
        return set()

    def _call(self, node: ast.Call) -> None:
        path = dotted(node.func) or ""
        name = path.rpartition(".")[2]
        if path.startswith("torch.") and name.endswith("_") and not name.endswith("__") and node.args:
            origins = self._origins_of(node.args[0])
            self.written |= origins
            self.writes_to_parameters = self.writes_to_parameters or any(origin[0] == " " for origin in origins)
        elif not path.startswith("torch."):
            for argument in node.args:
                self.passed |= self._origins_of(argument)
