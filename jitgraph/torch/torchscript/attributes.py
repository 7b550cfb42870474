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
    """The names of the attributes that the code sets and does not write to in place, there or in what it calls."""
    scans = [_Scan(function) for function in functions]
    writers = {(scan.name, position) for scan in scans for position in scan.positions(scan.written)}
    while True:
        for scan in scans:
            for callee, origins in scan.passed:
                if callee in writers:
                    scan.written |= origins
        more = {(scan.name, position) for scan in scans for position in scan.positions(scan.written)}
        if more == writers:
            break
        writers = more
    return frozenset(set().union(*(scan.assigned for scan in scans)) - set().union(*(scan.written for scan in scans)))


def functions_of(sources: Iterable[ClassSource | FunctionSource]) -> list[FunctionSource]:
    """All functions and methods."""
    functions: list[FunctionSource] = []
    for source in sources:
        functions += source.methods.values() if isinstance(source, ClassSource) else [source]
    return functions


class _Scan:
    """What one function does with attributes: those it sets, writes to in place, and hands to other functions.

    An origin is the name of an attribute, or that of a parameter behind a space.
    """

    def __init__(self, function: FunctionSource) -> None:
        self.name = function.name
        self.assigned: set[str] = set()
        self.written: set[str] = set()
        self.passed: list[tuple[tuple[str, int], set[str]]] = []
        names = [parameter.name for parameter in function.parameters]
        self._parameters = names[1:] if names[:1] == ["self"] else names
        self._origins: dict[str, set[str]] = {}  # of variables, the attributes whose elements they may share
        self._functions: dict[str, str] = {}  # of variables that hold functions, the functions' names
        nodes = [node for statement in function.body for node in ast.walk(statement)]
        for _ in range(2):  # a loop's body may read what it binds further down
            for node in nodes:
                if isinstance(node, ast.Assign):
                    self._assign(node)
        for node in nodes:
            if isinstance(node, ast.Call):
                self._call(node)

    def positions(self, origins: Iterable[str]) -> list[int]:
        """The positions of the parameters among some origins."""
        return [self._parameters.index(origin[1:]) for origin in origins if origin[:1] == " "]

    def _assign(self, node: ast.Assign) -> None:
        origins = self._origins_of(node.value)
        path = dotted(node.value) or ""
        if path.startswith("__torch__.") and isinstance(node.targets[0], ast.Name):
            self._functions[node.targets[0].id] = path.rpartition(".")[2]
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
        name = node.func.attr if isinstance(node.func, ast.Attribute) else self._functions.get(path, path)
        if path.startswith("torch."):
            if name.endswith("_") and not name.endswith("__") and node.args:
                self.written |= self._origins_of(node.args[0])
            return
        for position, argument in enumerate(node.args):
            if origins := self._origins_of(argument):
                self.passed.append(((name, position), origins))
