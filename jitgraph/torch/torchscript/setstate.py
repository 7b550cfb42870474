"""What ``__setstate__`` of an archive may do, which runs while the archive is loaded: nothing that takes long."""

from __future__ import annotations

import ast
from typing import Final

from jitgraph.errors import LoadError
from jitgraph.torch.torchscript.source import ClassSource, FunctionSource, Sources, dotted, unparsed

_OPERATORS: Final = frozenset(
    {
        *("__getitem__", "__is__", "__isnot__", "__not__", "__contains__", "eq", "ne", "lt", "le", "gt", "ge", "len"),
        *("size", "dim", "format", "list", "append", "add", "sub", "device", "to", "detach", "requires_grad_"),
    }
)
_FUNCTIONS: Final = frozenset(
    {"annotate", "unchecked_cast", "uninitialized", "getattr", "isinstance", "int", "float", "bool", "str", "len"}
)
_PRIM: Final = frozenset({"RaiseException", "dtype", "device", "requires_grad", "unchecked_unwrap_optional"})


def require_harmless(function: FunctionSource, sources: Sources) -> None:
    """LoadError where a function, or a method that it may call, has a loop, or calls more than a few operators."""
    methods: dict[str, list[FunctionSource]] = {}
    for source in sources.every():
        if isinstance(source, ClassSource):
            for name, method in source.methods.items():
                methods.setdefault(name, []).append(method)
    pending, seen = [function], set[int]()
    while pending:
        current = pending.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        for node in (inner for statement in current.body for inner in ast.walk(statement)):
            if isinstance(node, ast.While | ast.For | ast.FunctionDef | ast.With):
                raise _refused(node, current)
            if isinstance(node, ast.Call):
                pending += _called(node, current, methods)


def _called(node: ast.Call, function: FunctionSource, methods: dict[str, list[FunctionSource]]) -> list[FunctionSource]:
    """The methods that a call may run; LoadError where it runs something else than what is allowed."""
    path = dotted(node.func) or ""
    root, _, rest = path.partition(".")
    if path in _FUNCTIONS or (root == "torch" and rest in _OPERATORS):
        return []
    if root == "ops" and (rest.removeprefix("prim.") in _PRIM or rest.endswith(("_prepack", "_prepack_fp16"))):
        return []
    if isinstance(node.func, ast.Attribute) and root not in ("torch", "ops", "__torch__") and node.func.attr in methods:
        return methods[node.func.attr]
    raise _refused(node, function)


def _refused(node: ast.stmt | ast.expr, function: FunctionSource) -> LoadError:
    where = f"{function.file}, line {node.lineno}"
    return LoadError(f"{where}: {unparsed(node)} would run while the archive is loaded")
