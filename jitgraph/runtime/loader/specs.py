"""What a signature says of one tensor: its dtype, and sizes that depend on the call, read with suspicion."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph.runtime.loader.errors import ArgumentError, LoadError
from jitgraph.runtime.loader.json_objects import FrozenRecord, Json, get_typed

# ----------------------------------------------------------------------
# Sizes that depend on the call, and conditions on them: ``2*batch + 1``, ``n >= 3``, read with suspicion.

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


# ----------------------------------------------------------------------
# The dtypes of tensors by their names, in NumPy and in safetensors files.

Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"


def _bfloat16() -> np.dtype[Any]:
    """ml_dtypes' bfloat16 where that package can be imported, else uint16 holding the same bits."""
    try:
        import ml_dtypes
    except ImportError:
        return np.dtype(np.uint16)
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


_PLAIN_DTYPES: Final = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128"
)  # fmt: skip
DTYPE_NAMES: Final = (*_PLAIN_DTYPES, "bfloat16")

SAFETENSORS_DTYPES: Final[Mapping[str, str]] = {
    "BOOL": "bool", "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64", "U8": "uint8", "U16": "uint16",
    "U32": "uint32", "U64": "uint64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64", "C128": "complex128",
}  # fmt: skip


def dtype_named(name: str) -> np.dtype[Any]:
    """The NumPy dtype called ``name``; bfloat16 is uint16 with the same bits where ml_dtypes is not installed."""
    if name == "bfloat16":
        return _bfloat16()
    if name not in _PLAIN_DTYPES:
        raise LoadError(f"dtype {name!r} is not supported; one of {', '.join(DTYPE_NAMES)}")
    return np.dtype(name)


# ----------------------------------------------------------------------
# What a signature says of one tensor: of an input or output, and of the model's own state.

Size: TypeAlias = "int | str"


class ValueSpec(FrozenRecord):
    """A named tensor: ``shape`` holds ints and expression texts. ``default`` is the value of a 0-d input left out."""

    name: str
    dtype: str
    shape: tuple[Size, ...]
    default: bool | int | float | None = None

    def __str__(self) -> str:
        return f"{self.name}: {self.dtype}[{', '.join(map(str, self.shape))}]"

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        plain: dict[str, Json] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        return plain if self.default is None else {**plain, "default": self.default}

    @staticmethod
    def from_json(source: Json, where: str) -> ValueSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        name = get_typed(source, "name", str, where)
        shape = get_typed(source, "shape", list, where)
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, (int, str)):
                raise LoadError(f"{where}: {size!r:.60} is no size of {name!r}; expected an int or a text")
        default = get_typed(source, "default", (bool, int, float), where) if "default" in source else None
        dtype = get_typed(source, "dtype", str, where)
        if default is not None and dtype in DTYPE_NAMES and not _holds(dtype, default):
            raise LoadError(f"{where}: {name!r} has a default that {dtype} cannot hold")
        return ValueSpec(name, dtype, tuple(shape), default)


class StateSpec(ValueSpec):
    """A tensor of the model's own state, kept in the weights under ``key``."""

    key: str = ""

    def to_json(self) -> dict[str, Json]:
        """The JSON object that ``from_json`` reads."""
        return {**super().to_json(), "key": self.key}

    @staticmethod
    def from_json(source: Json, where: str) -> StateSpec:
        """Read what ``to_json`` gave; LoadError where it is malformed."""
        plain = ValueSpec.from_json(source, where)
        return StateSpec(plain.name, plain.dtype, plain.shape, key=get_typed(source, "key", str, where))


def _holds(dtype: str, value: bool | int | float) -> bool:
    """Whether an input of ``dtype`` can have this default: a float any number, an integer those in its range."""
    if dtype == "bool":
        return isinstance(value, bool)
    if dtype.startswith("complex"):
        return False
    if "float" in dtype:
        return abs(value) <= sys.float_info.max or not isinstance(value, int)
    bounds = np.iinfo(dtype)
    return not isinstance(value, float) and bool(bounds.min <= value <= min(bounds.max, INT64_MAX))


def default_of(spec: ValueSpec) -> Array:
    """The value of an input that has a default, as a 0-d array of its dtype, rounded where the dtype has to."""
    with np.errstate(over="ignore"):
        if spec.dtype != "bfloat16":
            return np.array(spec.default, dtype_named(spec.dtype))
        bits = int(np.array(spec.default, np.float32).view(np.uint32))
        return np.array((bits + 0x7FFF + (bits >> 16 & 1)) >> 16, np.uint16).view(dtype_named("bfloat16"))
