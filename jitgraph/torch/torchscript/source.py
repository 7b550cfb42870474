"""The text of a TorchScript archive: parsed by ``ast``, checked against the kinds of node that PyTorch writes.

An archive has a file for each Python module whose code was compiled, under ``code/``, with classes
and functions. A class lists the types of its attributes, the names of its parameters and buffers, and its methods. The
text is never compiled or run as Python: ``evaluator.py`` goes along the checked nodes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from jitgraph.errors import LoadError

_DEEPEST: Final = 200  # nodes inside one another
_LARGEST: Final = 1 << 24  # characters of one file
_ROOT: Final = "__torch__."
_OPERATOR: Final = re.compile(r"(?<![\w.])(?:torch|ops)\.([\w.]+)\(")

STATEMENTS: Final = (
    ast.Assign, ast.AnnAssign, ast.Expr, ast.If, ast.While, ast.For, ast.Return, ast.Pass, ast.With, ast.FunctionDef,
)  # fmt: skip
"""What a method's body may consist of."""

EXPRESSIONS: Final = (
    ast.Name, ast.Attribute, ast.Call, ast.Constant, ast.Subscript, ast.Tuple, ast.List, ast.Dict, ast.UnaryOp,
)  # fmt: skip
"""What an expression may consist of."""

_OTHER: Final = (
    ast.Module, ast.ClassDef, ast.arguments, ast.arg, ast.keyword, ast.Load, ast.Store, ast.USub, ast.withitem,
)  # fmt: skip
_ALLOWED: Final = (*STATEMENTS, *EXPRESSIONS, *_OTHER)
_CONSTANTS: Final = (bool, int, float, complex, str, type(None))


class ParameterSource(NamedTuple):
    """A parameter of a function; ``default`` is its expression, or None."""

    name: str
    type: ast.expr | None
    default: ast.expr | None


class FunctionSource(NamedTuple):
    """A function or method."""

    name: str
    file: str
    parameters: tuple[ParameterSource, ...]
    body: list[ast.stmt]
    returns: ast.expr | None


class ClassSource:
    """A class: what it derives from, its attributes with their types, constants, and methods."""

    def __init__(self, qualified: str, base: str, file: str) -> None:
        self.qualified = qualified
        self.name = qualified.rpartition(".")[2]
        self.base = base
        self.file = file
        self.parameters: list[str] = []
        self.buffers: list[str] = []
        self.types: dict[str, ast.expr] = {}
        self.values: dict[str, ast.expr] = {}
        """What is assigned in the class: constants, and the members of an enum."""
        self.methods: dict[str, FunctionSource] = {}

    @property
    def is_module(self) -> bool:
        """Whether instances are modules."""
        return self.base == "Module"


class Sources:
    """The code of an archive, parsed file by file when a name in it is asked for."""

    def __init__(self, members: Mapping[str, str], name: str) -> None:
        """``members`` has the text of each file, by its path behind ``code/``."""
        self._members = members
        self._name = name
        self._files: dict[str, dict[str, ClassSource | FunctionSource]] = {}

    def find(self, qualified: str) -> ClassSource | FunctionSource | None:
        """What a name such as ``__torch__.package.Name`` is; None where the archive has no such name."""
        module, _, last = qualified.rpartition(".")
        path = f"{module.replace('.', '/')}.py"
        if not qualified.startswith(_ROOT) or path not in self._members:
            return None
        if path not in self._files:
            self._files[path] = self._parsed(path, module)
        return self._files[path].get(last)

    def operators(self) -> set[str]:
        """The names of the operators that stand in the code, with those of other spaces as ``space.name``."""
        return {name for text in self._members.values() for name in _OPERATOR.findall(text)}

    def every(self) -> Iterator[ClassSource | FunctionSource]:
        """All classes and functions."""
        for path in self._members:
            if path.startswith(_ROOT[:-1]) and path.endswith(".py"):
                module = path.removesuffix(".py").replace("/", ".")
                if path not in self._files:
                    self._files[path] = self._parsed(path, module)
                yield from self._files[path].values()

    def _parsed(self, path: str, module: str) -> dict[str, ClassSource | FunctionSource]:
        text = self._members[path]
        if len(text) > _LARGEST:
            raise LoadError(f"{self._name}: code/{path} has {len(text)} characters")
        tree = parsed(text, f"{self._name}: code/{path}")
        defined: dict[str, ClassSource | FunctionSource] = {}
        for node in tree.body:
            match node:
                case ast.ClassDef():
                    defined[node.name] = _class(node, f"{module}.{node.name}", path)
                case ast.FunctionDef():
                    defined[node.name] = _function(node, path)
                case ast.Expr(value=ast.Constant()):
                    pass
                case _:
                    raise refused(node, path)
        return defined


def parsed(text: str, where: str) -> ast.Module:
    """The checked nodes of a text; LoadError where it is no Python, is nested too deep, or has other nodes."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise LoadError(f"{where}: the text cannot be parsed: {error or type(error).__name__}") from None
    pending: list[tuple[ast.AST, int]] = [(tree, 0)]
    while pending:
        node, depth = pending.pop()
        if depth > _DEEPEST:
            raise LoadError(f"{where}: the text is nested deeper than {_DEEPEST} nodes")
        if not isinstance(node, _ALLOWED) or (
            isinstance(node, ast.Constant) and not isinstance(node.value, _CONSTANTS)
        ):
            raise refused(node, where)
        pending += [(child, depth + 1) for child in ast.iter_child_nodes(node)]
    return tree


def refused(node: ast.AST, where: str) -> LoadError:
    """The error for a node that no archive of PyTorch's has there."""
    line = getattr(node, "lineno", 0)
    return LoadError(f"{where}, line {line}: {type(node).__name__} is no part of TorchScript there")


def _class(node: ast.ClassDef, qualified: str, file: str) -> ClassSource:
    base = node.bases[0].id if len(node.bases) == 1 and isinstance(node.bases[0], ast.Name) else ""
    made = ClassSource(qualified, base, file)
    for part in node.body:
        match part:
            case ast.Assign(
                targets=[ast.Name(id="__parameters__" | "__buffers__" as name)], value=ast.List(elts=names)
            ):
                listed = [x.value for x in names if isinstance(x, ast.Constant) and isinstance(x.value, str)]
                setattr(made, name.strip("_"), listed)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                made.values[name] = value
            case ast.Assign(
                targets=[ast.Subscript(value=ast.Name(id="__annotations__"), slice=ast.Constant(value=str(name)))],
                value=value,
            ):
                made.types[name] = value
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                made.types[name] = annotation
                if value is not None:
                    made.values[name] = value
            case ast.FunctionDef():
                made.methods[part.name] = _function(part, file)
            case ast.Pass() | ast.Expr(value=ast.Constant()):
                pass
            case _:
                raise refused(part, file)
    return made


def _function(node: ast.FunctionDef, file: str) -> FunctionSource:
    args = node.args
    if args.vararg or args.kwarg or args.posonlyargs or node.decorator_list:
        raise refused(node, file)
    defaults: list[ast.expr | None] = [None] * (len(args.args) - len(args.defaults))
    pairs = [
        *zip(args.args, [*defaults, *args.defaults], strict=True),
        *zip(args.kwonlyargs, args.kw_defaults, strict=True),
    ]
    parameters = tuple(ParameterSource(arg.arg, arg.annotation, default) for arg, default in pairs)
    return FunctionSource(node.name, file, parameters, node.body, node.returns)


def function_of(node: ast.FunctionDef, file: str) -> FunctionSource:
    """A function that stands in another one."""
    return _function(node, file)


def dotted(node: ast.expr) -> str | None:
    """``a.b.c`` as text; None for an expression that is no such path."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    return ".".join([node.id, *reversed(names)])


def unparsed(node: Any) -> str:
    """The text of a node, shortened, for an error message."""
    text = ast.unparse(node).partition("\n")[0]
    return text if len(text) < 120 else f"{text[:117]}..."
