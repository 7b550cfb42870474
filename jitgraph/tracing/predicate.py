"""Predicate: a condition on the value at a source. Plain data; objects are numbers in the plan's table.

A predicate is defined once, as a condition over ``{x}``, what was found, and its operands. ``holds`` evaluates that
condition, and ``emit`` writes the same one into the check of a call.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, Protocol

import numpy as np

from jitgraph import foreign
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor
from jitgraph.tracing.plain import Plain, mark, marks, plain_of, same_float
from jitgraph.tracing.source import ObjectNumber, Ref, Source
from jitgraph.tracing.storage import EXPECTED_ERRORS, contents_of

NAMES: Final[dict[str, Any]] = {
    "Tensor": Tensor,
    "held": contents_of,
    "is_": operator.is_,
    "mark": mark,
    "marks": marks,
    "ndarray": np.ndarray,
    "plain_arrays": foreign.PLAIN,
    "same_float": same_float,
}
"""What conditions may use beside ``{x}`` and their operands."""


class Writer(Protocol):
    """What writes the code of a check."""

    objects: Sequence[Any]

    def constant(self, value: Any) -> str:
        """The name of an object."""
        ...

    def variable(self) -> str:
        """The name of a new variable."""
        ...

    def line(self, text: str) -> None:
        """Write a statement."""
        ...

    def require(self, condition: str, indent: int = 0) -> None:
        """Write that the check fails where the condition is false."""
        ...

    def value_at(self, source: Source) -> str:
        """A variable with what stands at a source."""
        ...

    def array_of(self, x: str, dtype: np.dtype[Any]) -> str:
        """The variable that holds ``x`` as an array of ``dtype``; the check fails where it is none."""
        ...

    def operand_of(self, x: str) -> str:
        """The variable that is to hold the value of a handle as an operand."""
        ...

    def is_tensor(self, x: str) -> bool:
        """Whether ``x`` is a name for one tensor."""
        ...

    def binds(self, name: str) -> bool:
        """Whether a size is met for the first time, so that it gets its name here."""
        ...


@dataclass(frozen=True, slots=True)
class Predicate:
    """What must be true of a value. Subclasses say it as ``CONDITION``."""

    CONDITION: ClassVar[str] = ""
    OF_SEVERAL: ClassVar[bool] = False
    """Whether it is about several sources, or sizes and numbers, and not about what stands at one source."""
    KINDS: ClassVar[dict[str, Any]] = {}
    """The classes of predicates by name."""

    def __init_subclass__(cls) -> None:
        Predicate.KINDS[cls.__name__] = cls

    @property
    def condition(self) -> str:
        """The condition over ``{x}`` and the names of the operands."""
        return self.CONDITION

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        """What the condition compares with."""
        return {}

    def __str__(self) -> str:
        raise NotImplementedError

    def mismatch(self, actual: Any) -> str:
        """In which respect a value differs, for people."""
        return f"is {brief(actual)}"

    def holds(self, actual: Any, objects: Sequence[Any] = ()) -> bool:
        """Whether the predicate is true of a value."""
        operands = self.operands(objects)
        try:
            return bool(_compiled(self.condition, tuple(operands))(actual, **operands))
        except EXPECTED_ERRORS:
            return False

    def emit(self, writer: Writer, x: str) -> None:
        """Write the check of the expression ``x``."""
        names = {name: writer.constant(value) for name, value in self.operands(writer.objects).items()}
        condition = self.condition
        if condition.count("{x}") > 1 and not x.isidentifier():
            head, _, tail = condition.partition("{x}")
            condition = head + "(t := {x})" + tail.replace("{x}", "t")
        writer.require(condition.format(x=x, **names))


@lru_cache(maxsize=256)
def _compiled(condition: str, operands: tuple[str, ...]) -> Callable[..., Any]:
    text = condition.format(x="x", **{name: name for name in operands})
    function: Callable[..., Any] = eval(f"lambda {', '.join(('x', *operands))}: {text}", dict(NAMES))
    return function


@dataclass(frozen=True, slots=True)
class Is(Predicate):
    """The object of this number itself."""

    number: ObjectNumber
    shown: str
    CONDITION = "{x} is {expected}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"expected": objects[self.number]}

    def __str__(self) -> str:
        return f"is {self.shown}"


@dataclass(frozen=True, slots=True)
class IsOrStandIn(Predicate):
    """The object of this number, or the one that stands in its place while any thread records a function."""

    number: ObjectNumber
    other: ObjectNumber
    shown: str
    CONDITION = "{x} is {expected} or {x} is {stand_in}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"expected": objects[self.number], "stand_in": objects[self.other]}

    def __str__(self) -> str:
        return f"is {self.shown}"


@dataclass(frozen=True, slots=True)
class Equals(Predicate):
    """This value, of this type."""

    plain: Plain

    @property
    def condition(self) -> str:
        match self.plain.kind:
            case "constant":
                return "{x} is {expected}"
            case "int" | "str" | "bytes" | "dtype":
                return "{x} is {expected} or (type({x}) is {kind} and {x} == {expected})"
            case "float":
                return "{x} is {expected} or same_float({x}, {expected})"
        return "type({x}) is {kind} and mark({x}) == {plain}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        value = self.plain.value
        operands = {"expected": value, "kind": type(value), "plain": self.plain}
        return {name: operands[name] for name in operands if f"{{{name}}}" in self.condition}

    def __str__(self) -> str:
        value = self.plain.value
        return f"{'is' if self.plain.kind == 'constant' else '=='} {brief(value)}"

    def mismatch(self, actual: Any) -> str:
        return f"is {brief(actual)}, not {brief(self.plain.value)}"


@dataclass(frozen=True, slots=True)
class EqualsObject(Predicate):
    """An object of the class of the one of this number, and equal to it."""

    number: ObjectNumber
    shown: str
    CONDITION = "type({x}) is {kind} and {x} == {expected}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        expected = objects[self.number]
        return {"kind": type(expected), "expected": expected}

    @property
    def unstorable(self) -> str:
        """Why no file can hold it: only this process has the object."""
        return f"a static argument that is {self.shown}"

    def __str__(self) -> str:
        return f"== {self.shown}"


@dataclass(frozen=True, slots=True)
class Exactly(Predicate):
    """An object of exactly this class."""

    number: ObjectNumber
    shown: str
    CONDITION = "type({x}) is {kind}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"kind": objects[self.number]}

    def __str__(self) -> str:
        return f"is a {self.shown}"


def _lookup_source(by_base: bool) -> str:
    """The code of a container that was found, or of what it holds whatever methods of the user's it has."""
    return "held({x})" if by_base else "{x}"


@dataclass(frozen=True, slots=True)
class Extent(Predicate):
    """A container of this extent: the length of a sequence, the keys of a mapping in order, the members of a set.

    Keys and members that are no plain values are numbers of objects. ``by_base`` says that the class of the container
    has methods of the user's, which are not asked.
    """

    kind: Literal["length", "keys", "members"]
    count: int
    elements: tuple[Plain | Ref, ...] = ()
    by_base: bool = False

    @property
    def condition(self) -> str:
        x = _lookup_source(self.by_base)
        if self.kind == "length":
            return f"len({x}) == {{count}}"
        if all(isinstance(element, Plain) and element.kind == "str" for element in self.elements):
            return f"tuple({x}) == {{values}}" if self.kind == "keys" else f"{x} == {{values}}"
        return f"marks({x}) == {{expected}}" if self.kind == "keys" else f"frozenset(marks({x})) == {{expected}}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        together: Any = tuple if self.kind == "keys" else frozenset
        operands: dict[str, Any] = {"count": self.count}
        if "{values}" in self.condition:
            operands["values"] = together([e.data for e in self.elements if isinstance(e, Plain)])
        else:
            operands["expected"] = together([objects[e.number] if isinstance(e, Ref) else e for e in self.elements])
        return {name: operands[name] for name in operands if f"{{{name}}}" in self.condition}

    def __str__(self) -> str:
        return f"has these {self.count} elements"

    def mismatch(self, actual: Any) -> str:
        return f"has {len(contents_of(actual))}" if hasattr(type(actual), "__len__") else f"is {brief(actual)}"


@dataclass(frozen=True, slots=True)
class Elements(Predicate):
    """A container of many elements that holds the very objects in the tuple of this number, in order.

    ``by_base`` says that the class of the container has methods of the user's, which are not asked.
    """

    number: ObjectNumber
    count: int
    is_mapping: bool
    by_base: bool = False

    @property
    def condition(self) -> str:
        x = _lookup_source(self.by_base)
        values = f"{x}.values()" if self.is_mapping else x
        return f"len({x}) == len({{elements}}) and all(map(is_, {values}, {{elements}}))"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"elements": objects[self.number]}

    def __str__(self) -> str:
        return f"has these {self.count} elements"


@dataclass(frozen=True, slots=True)
class Absent(Predicate):
    """Nothing stands there."""

    CONDITION = "False"

    def __str__(self) -> str:
        return "is not there"


@dataclass(frozen=True, slots=True)
class IsTensor(Predicate):
    """Any tensor: where one is found, its handle is an input or has guards of its own."""

    CONDITION = "isinstance({x}, Tensor)"

    def __str__(self) -> str:
        return "is a tensor"


@dataclass(frozen=True, slots=True)
class HasContents(Predicate):
    """An array of this dtype and shape with these bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: bytes
    CONDITION = (
        "isinstance({x}, ndarray) and {x}.dtype == {dtype} and {x}.shape == {shape} and {x}.tobytes() == {bytes}"
    )

    @staticmethod
    def of(array: Any) -> HasContents:
        """The predicate of what an array holds now."""
        return HasContents(array.dtype, array.shape, array.tobytes())

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"dtype": self.dtype, "shape": self.shape, "bytes": self.bytes}

    def __str__(self) -> str:
        return f"is an array of {self.dtype} {list(self.shape)} with these values"


def brief(value: Any) -> str:
    """A short text of a value for reports."""
    if isinstance(value, types.FunctionType | type | types.BuiltinFunctionType):
        return getattr(value, "__qualname__", repr(value))
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if plain_of(value) is not None or _is_enum(value):
        text = repr(value)
        return text if len(text) <= 60 else text[:57] + "..."
    return f"this {type(value).__name__}"


def _is_enum(value: Any) -> bool:
    return hasattr(type(value), "__members__")
