"""Values of TorchScript's code: what its syntax and builtin functions do with Python's values, tensors, and numbers
that only a graph knows.
"""

from __future__ import annotations

import ast
import builtins
import enum
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from jitgraph.errors import LoadError
from jitgraph.tensor import Tensor, scalars
from jitgraph.tensor.functions.creation import asarray
from jitgraph.torch.torchscript.source import dotted, refused
from jitgraph.tracing.script import staging
from jitgraph.tracing.symbolic.number import SymbolicNumber
from jitgraph.tracing.symbolic.staged_number import StagedNumber


def element(container: Any, key: Any) -> Any:
    """``container[key]``, where the key may be a number that only the graph knows."""
    if type(key) is StagedNumber:
        return staging.item(container, key)
    return container[key]


def unpacked(value: Any, count: int) -> Any:
    """The elements of a tuple or list; ValueError where there are more or fewer."""
    items = [*value]
    if len(items) != count:
        raise ValueError(f"Expected {count} elements in a list but found {len(items)}")
    return items


_RESERVED: Final = frozenset(
    {
        *("_persistence", "_hooks", "_modules", "_parameters", "_buffers", "_state_hooks", "_deferred", "qualified"),
        *("script_methods", "script_children"),
    }
)


def is_free(name: str) -> bool:
    """Whether an archive may have an attribute of this name: not those that modules need for themselves."""
    return not name.startswith("__") and name not in _RESERVED


def with_attributes(owner: Any) -> Any:
    """A module, object or member of an enum, whose attributes the code reads; LoadError for any other value."""
    if hasattr(type(owner), "script_methods") or isinstance(owner, enum.Enum):
        return owner
    raise LoadError(f"the code of a TorchScript archive asks for an attribute of a {type(owner).__name__}")


def method(target: Any, name: str) -> Callable[..., Any]:
    """The method of an object that the archive's code calls, as a function of the object and the arguments."""
    methods = getattr(type(target), "script_methods", None)
    found = None if methods is None else methods.get(name)
    if found is None:
        raise LoadError(f"a {type(target).__name__} of a TorchScript archive has no method {name}")
    if name == "forward" and getattr(target, "_hooks", None):
        return lambda owner, *args, **kwargs: owner(*args, **kwargs)
    return found  # type: ignore[no-any-return]


def as_tensor_result(value: Any) -> Any:
    """A number that a traced function gives, as the tensor that it has as its type."""
    if type(value) is StagedNumber:
        return value.as_tensor()
    return asarray(value) if isinstance(value, int | float) or scalars.is_named_size(value) else value


def converter(annotation: ast.expr | None) -> Callable[[Any], Any] | None:
    """What makes an argument of a parameter's type of what a caller gives: arrays of other libraries as tensors."""
    path = None if annotation is None else dotted(annotation)
    if path == "Tensor":
        return _as_tensor
    if path == "float":
        return lambda value: float(value) if type(value) is int else value
    return None


def _as_tensor(value: Any) -> Any:
    return asarray(value) if hasattr(value, "__array__") and not isinstance(value, Tensor) else value


_STANDARD: Final = {
    name: kind
    for name, kind in vars(builtins).items()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, Warning)
}


def raise_exception(message: Callable[[], Any], kind: str) -> None:
    """``raise`` of an exception that the code names ``builtins.ValueError`` or the like; RuntimeError for others."""
    name = kind.rpartition(".")[2]

    def make() -> Exception:
        text = message()
        if not kind and isinstance(text, str) and text.startswith("AssertionError"):
            return AssertionError(text.partition(": ")[2])
        return _STANDARD.get(name, RuntimeError)(text)

    staging.raising(make)
    raise make()


# ----------------------------------------------------------------------
# isinstance


def instance_test(node: ast.expr, program: Any) -> Callable[[Any], bool]:
    """Whether a value is of the types that are written as the second argument of ``isinstance``."""
    if isinstance(node, ast.Tuple | ast.List):
        tests = [instance_test(part, program) for part in node.elts]
        return lambda value: any(test(value) for test in tests)
    return _type_test(node, program)


def _type_test(node: ast.expr, program: Any) -> Callable[[Any], bool]:
    match node:
        case ast.Name(id=name) if name in _SIMPLE:
            return _SIMPLE[name]
        case ast.Constant(value=None):
            return lambda value: value is None
        case ast.Subscript(value=ast.Name(id="List"), slice=inner):
            test = _type_test(inner, program)
            return lambda value: isinstance(value, list) and all(map(test, value))
        case ast.Subscript(value=ast.Name(id="Optional"), slice=inner):
            test = _type_test(inner, program)
            return lambda value: value is None or test(value)
        case ast.Subscript(value=ast.Name(id="Union"), slice=ast.Tuple(elts=parts)):
            tests = [_type_test(part, program) for part in parts]
            return lambda value: any(test(value) for test in tests)
        case ast.Subscript(value=ast.Name(id="Tuple"), slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            tests = [_type_test(part, program) for part in parts]
            return lambda value: (
                isinstance(value, tuple)
                and len(value) == len(tests)
                and all(test(part) for test, part in zip(tests, value, strict=True))
            )
        case ast.Subscript(value=ast.Name(id="Dict"), slice=ast.Tuple(elts=[key, item])):
            of_key, of_item = _type_test(key, program), _type_test(item, program)
            return lambda value: isinstance(value, dict) and all(of_key(k) and of_item(v) for k, v in value.items())
        case ast.Attribute() if (path := dotted(node)) is not None and path.startswith("__torch__."):
            return lambda value: getattr(type(value), "qualified", None) == path
    raise refused(node, "isinstance")


def _is_int(value: Any) -> bool:
    return isinstance(value, int | StagedNumber) and not _is_bool(value) and not _is_float(value)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or (type(value) is StagedNumber and value.kind is bool)


def _is_float(value: Any) -> bool:
    return isinstance(value, float) or (type(value) is StagedNumber and value.kind is float)


_SIMPLE: Final[Mapping[str, Callable[[Any], bool]]] = {
    "Tensor": lambda value: isinstance(value, Tensor),
    "int": _is_int,
    "float": _is_float,
    "bool": _is_bool,
    "complex": lambda value: isinstance(value, complex),
    "number": lambda value: _is_int(value) or _is_float(value) or isinstance(value, complex),
    "Scalar": lambda value: _is_int(value) or _is_float(value) or isinstance(value, complex),
    "str": lambda value: isinstance(value, str),
    "NoneType": lambda value: value is None,
    "Any": lambda value: True,
}


# ----------------------------------------------------------------------
# Builtin functions


def shown(value: Any) -> str:
    """A value as TorchScript writes it: floats without digits behind the point end with it."""
    if isinstance(value, float) and not isinstance(value, np.generic):
        if value == value and abs(value) < 1e10 and value == int(value):
            return f"{value:.0f}."
        return f"{value:.17g}"
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    return str(value)


def _converted(kind: Any) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if type(value) is kind or (isinstance(value, SymbolicNumber) and isinstance(value, kind)):
            return value
        if kind is float and isinstance(value, SymbolicNumber):
            return operator.mul(value, 1.0)
        if isinstance(value, Tensor) and value.ndim:
            value = value.reshape(())
        return staging.callee(kind)(value)

    return convert


def _range(*bounds: Any) -> Any:
    return staging.callee(range)(*bounds)


def _sorted(values: Any, reverse: bool = False) -> Any:
    return staging.growing(sorted(values, reverse=reverse))


def _printed(*parts: Any) -> None:
    staging.callee(print)(*parts)


def _length(value: Any) -> Any:
    return staging.callee(len)(value)


BUILTINS: Final[Mapping[str, Callable[..., Any]]] = {
    "bool": _converted(bool),
    "int": _converted(int),
    "float": _converted(float),
    "complex": complex,
    "str": shown,
    "range": _range,
    "sorted": _sorted,
    "len": _length,
    "print": _printed,
    "ord": ord,
    "chr": chr,
    "hex": hex,
    "oct": oct,
    "bin": bin,
    "abs": abs,
    "unwrap_optional": lambda value: value,
}
"""The functions that the code calls by names of their own."""
