"""Guard: what a call has to find at a source. Plain data; objects are numbers in the plan's table of objects.

A predicate is defined once, as a condition over ``{x}``, what was found, and its operands. ``holds`` evaluates that
condition, and ``call_code`` writes the same one into the check of a call. A layout, a number that varies and relations
among several sources also bind names, which later conditions use.
"""

from __future__ import annotations

import operator
import types
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Final, Literal, NamedTuple, Protocol

import numpy as np

from jitgraph import foreign
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor
from jitgraph.tracing.operands import native_type
from jitgraph.tracing.source import EXPECTED_ERRORS, Place, Ref, Source
from jitgraph.tracing.values import Plain, mark, marks, plain_of, same_float

NAMES: Final[dict[str, Any]] = {
    "Tensor": Tensor,
    "is_": operator.is_,
    "mark": mark,
    "marks": marks,
    "ndarray": np.ndarray,
    "plain_arrays": foreign.PLAIN,
    "same_float": same_float,
}
"""What conditions may use beside ``{x}`` and their operands."""
_NOTHING: Final = object()


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

    def found(self, source: Source) -> str:
        """A variable with what stands at a source."""
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

    @property
    def condition(self) -> str:
        """The condition over ``{x}`` and the names of the operands."""
        return self.CONDITION

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        """What the condition compares with."""
        return {}

    def __str__(self) -> str:
        raise NotImplementedError

    def difference(self, found: Any) -> str:
        """In which respect a value differs, for people."""
        return f"is {brief(found)}"

    def holds(self, found: Any, objects: Sequence[Any] = ()) -> bool:
        """Whether the predicate is true of a value."""
        operands = self.operands(objects)
        try:
            return bool(_compiled(self.condition, tuple(operands))(found, **operands))
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
    made: Callable[..., Any] = eval(f"lambda {', '.join(('x', *operands))}: {text}", dict(NAMES))
    return made


@dataclass(frozen=True, slots=True)
class Is(Predicate):
    """The object of this number itself."""

    number: int
    shown: str
    CONDITION = "{x} is {expected}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"expected": objects[self.number]}

    def __str__(self) -> str:
        return f"is {self.shown}"


@dataclass(frozen=True, slots=True)
class IsOrStandIn(Predicate):
    """The object of this number, or the one that stands in its place while any thread records a function."""

    number: int
    other: int
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
        given = {"expected": value, "kind": type(value), "plain": self.plain}
        return {name: given[name] for name in given if f"{{{name}}}" in self.condition}

    def __str__(self) -> str:
        value = self.plain.value
        return f"{'is' if self.plain.kind == 'constant' else '=='} {brief(value)}"

    def difference(self, found: Any) -> str:
        return f"is {brief(found)}, not {brief(self.plain.value)}"


@dataclass(frozen=True, slots=True)
class EqualsObject(Predicate):
    """An object of the class of the one of this number, and equal to it."""

    number: int
    shown: str
    CONDITION = "type({x}) is {kind} and {x} == {expected}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        expected = objects[self.number]
        return {"kind": type(expected), "expected": expected}

    def __str__(self) -> str:
        return f"== {self.shown}"


@dataclass(frozen=True, slots=True)
class Exactly(Predicate):
    """An object of exactly this class."""

    number: int
    shown: str
    CONDITION = "type({x}) is {kind}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"kind": objects[self.number]}

    def __str__(self) -> str:
        return f"is a {self.shown}"


@dataclass(frozen=True, slots=True)
class Extent(Predicate):
    """A container of this extent: the length of a sequence, the keys of a mapping in order, the members of a set.

    Keys and members that are no plain values are numbers of objects.
    """

    kind: Literal["length", "keys", "members"]
    count: int
    elements: tuple[Plain | Ref, ...] = ()

    @property
    def condition(self) -> str:
        if self.kind == "length":
            return "len({x}) == {count}"
        if all(isinstance(element, Plain) and element.kind == "str" for element in self.elements):
            return "tuple({x}) == {values}" if self.kind == "keys" else "{x} == {values}"
        return "marks({x}) == {expected}" if self.kind == "keys" else "frozenset(marks({x})) == {expected}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        together: Any = tuple if self.kind == "keys" else frozenset
        given: dict[str, Any] = {"count": self.count}
        if "{values}" in self.condition:
            given["values"] = together([e.data for e in self.elements if isinstance(e, Plain)])
        else:
            given["expected"] = together([objects[e.number] if isinstance(e, Ref) else e for e in self.elements])
        return {name: given[name] for name in given if f"{{{name}}}" in self.condition}

    def __str__(self) -> str:
        return f"has these {self.count} elements"

    def difference(self, found: Any) -> str:
        return f"has {len(found)}" if hasattr(type(found), "__len__") else f"is {brief(found)}"


@dataclass(frozen=True, slots=True)
class Elements(Predicate):
    """A container of many elements that holds the very objects in the tuple of this number, in order."""

    number: int
    count: int
    is_mapping: bool

    @property
    def condition(self) -> str:
        found = "{x}.values()" if self.is_mapping else "{x}"
        return f"len({{x}}) == len({{elements}}) and all(map(is_, {found}, {{elements}}))"

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


@dataclass(frozen=True, slots=True)
class Layout(Predicate):
    """A tensor or a plain NumPy array of this dtype and shape, whose sizes may have names.

    The first axis at which a name is met says what it stands for.
    """

    kind: Literal["tensor", "array"]
    dtype: np.dtype[Any]
    shape: tuple[DimLike, ...]
    requires_grad: bool = False

    def __str__(self) -> str:
        return f"is {_KINDS[self.kind]} of {self.dtype} {list(self.shape)}"

    def difference(self, found: Any) -> str:
        if not isinstance(found, Tensor if self.kind == "tensor" else np.ndarray):
            return f"is {brief(found)}, not {_KINDS[self.kind]}"
        value: Any = found._value if isinstance(found, Tensor) else found
        if value.dtype != self.dtype:
            return f"has dtype {value.dtype}, not {self.dtype}"
        if len(value.shape) != len(self.shape):
            return f"has rank {len(value.shape)}, not {len(self.shape)}"
        for axis, (size, known) in enumerate(zip(value.shape, self.shape, strict=True)):
            if isinstance(known, int) and size != known:
                return f"has size {size} on axis {axis}, not {known}"
        if isinstance(found, Tensor):
            flag = found._requires_grad or value.record is not None
            if flag != self.requires_grad:
                return "requires a gradient" if flag else "does not require a gradient"
        sizes = ", ".join(map(str, value.shape))
        return f"has the sizes ({sizes}), not ({', '.join(map(str, self.shape))})"

    def holds(self, found: Any, objects: Sequence[Any] = ()) -> bool:
        raise NotImplementedError("a layout binds names of sizes, so it holds as a part of all guards")

    def emit(self, writer: Writer, x: str) -> None:
        if self.kind == "array":
            writer.require(f"type({x}) in plain_arrays")
            self._emit_array(writer, x)
            return
        if not writer.is_tensor(x):
            writer.require(f"isinstance({x}, Tensor)")
        value = writer.operand_of(x)
        writer.line(f"{value} = {x}._value")
        negation = "" if self.requires_grad else "not "
        writer.require(f"{negation}({x}._requires_grad or {value}.record is not None)")
        fixed = tuple(size for size in self.shape if isinstance(size, int))
        if len(fixed) == len(self.shape):
            known = writer.constant(native_type(self.dtype, fixed))
            writer.line(f"if {value}.native is not {known}:")
            writer.line(f"    {value} = operand({value}, {known})")
            writer.require(f"{value} is not None", indent=1)
            return
        writer.line(f"{value} = readable({value})")
        array = writer.variable()
        writer.line(f"{array} = {value}.array")
        self._emit_array(writer, array)

    def _emit_array(self, writer: Writer, x: str) -> None:
        known = writer.constant(self.dtype)
        writer.require(f"{x}.dtype is {known} or {x}.dtype == {known}")
        if all(isinstance(size, int) for size in self.shape):
            writer.require(f"{x}.shape == {tuple(self.shape)!r}")
            return
        sizes = writer.variable()
        writer.line(f"{sizes} = {x}.shape")
        writer.require(f"len({sizes}) == {len(self.shape)}")
        for axis, size in enumerate(self.shape):
            name = size.as_name if isinstance(size, Dim) else None
            if name is not None and writer.binds(name):
                writer.line(f"{size_name(name)} = {sizes}[{axis}]")
            else:
                writer.require(f"{sizes}[{axis}] == {size_text(size)}")


_KINDS: Final = {"tensor": "a tensor", "array": "a NumPy array"}


@dataclass(frozen=True, slots=True)
class Varies(Predicate):
    """Any number of exactly this kind, which conditions call ``n<number>``."""

    kind: Literal["int", "float"]
    number: int
    CONDITION = "type({x}) is {kind}"

    def operands(self, objects: Sequence[Any]) -> dict[str, Any]:
        return {"kind": int if self.kind == "int" else float}

    def __str__(self) -> str:
        return f"is a {self.kind}"

    def difference(self, found: Any) -> str:
        return f"was {self.kind}, but now it is {brief(found)}"

    def emit(self, writer: Writer, x: str) -> None:
        writer.line(f"n{self.number} = {x}")
        writer.require(f"type(n{self.number}) is {self.kind}")


@dataclass(frozen=True, slots=True)
class Relation(Predicate):
    """A condition over numbers and sizes that were bound before. ``shown`` is for people, ``what`` says what asked."""

    about: Literal["sizes", "numbers"]
    code: str
    shown: str
    what: str = ""

    def __str__(self) -> str:
        return self.shown

    def emit(self, writer: Writer, x: str) -> None:
        writer.require(self.code)


@dataclass(frozen=True, slots=True)
class Same(Predicate):
    """The same object as at another source."""

    other: Source

    def __str__(self) -> str:
        return f"is the same object as {self.other.text}"

    def emit(self, writer: Writer, x: str) -> None:
        writer.require(f"{x} is {writer.found(self.other)}")


@dataclass(frozen=True, slots=True)
class Distinct(Predicate):
    """No two of these sources hold the same object."""

    sources: tuple[Source, ...]

    def __str__(self) -> str:
        return f"{', '.join(source.text for source in self.sources)} are different objects"

    def emit(self, writer: Writer, x: str) -> None:
        found = list(dict.fromkeys(writer.found(source) for source in self.sources))
        if len(found) > 1:
            writer.require(f"len({{{', '.join(f'id({variable})' for variable in found)}}}) == {len(found)}")


@dataclass(frozen=True, slots=True)
class Guard:
    """``predicate`` must be true of what stands at ``source``; ``location`` is the line that read it.

    ``source`` is None for what several sources have to do with each other.
    """

    source: Source | None
    predicate: Predicate
    location: Location | None = None

    def __str__(self) -> str:
        return str(self.predicate) if self.source is None else f"{self.source.text} {self.predicate}"


class Assumption(NamedTuple):
    """``predicate`` must be true of what stands at ``place``, where the function is recorded."""

    place: Place
    predicate: Predicate
    location: Location | None

    def holds(self, objects: Sequence[Any]) -> bool:
        """Whether it is true now."""
        found = self.place.get_or(_NOTHING)
        if found is _NOTHING or isinstance(self.predicate, Absent):
            return found is _NOTHING and isinstance(self.predicate, Absent)
        return self.predicate.holds(found, objects)


def size_name(name: str) -> str:
    """The variable for a size in conditions."""
    return f"n_{name}"


def size_text(size: DimLike) -> str:
    """A size in conditions."""
    if isinstance(size, int):
        return str(size)
    return f"({dims.transform(size, lambda name: Dim.name(size_name(name)))})"


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


class Objects:
    """The table of objects that a plan is made with: each object once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stand_ins: dict[int, Any] = {}  # what stands in the place of an object, by its id
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """The number of an object."""
        found = self._numbers.get(id(value))
        if found is None:
            found = self._numbers[id(value)] = len(self.values)
            self.values.append(value)
        return found

    def key(self, value: Any) -> Any:
        """A key of a step: itself where it is plain, else a Ref."""
        return value if plain_of(value) is not None else Ref(self.number(value))

    def same(self, value: Any) -> Predicate:
        """The predicate that holds for this very object."""
        plain = plain_of(value)
        if plain is not None and plain.kind == "constant":
            return Equals(plain)
        if id(value) in self.stand_ins:
            return IsOrStandIn(self.number(value), self.number(self.stand_ins[id(value)]), brief(value))
        return Is(self.number(value), brief(value))

    def value(self, value: Any) -> Predicate:
        """The predicate that a value calls for that was read: its value where it has one, else its identity."""
        if isinstance(value, Tensor):
            return IsTensor()
        plain = None if type(value) is tuple else plain_of(value)
        return self.same(value) if plain is None else Equals(plain)

    def equal(self, value: Any) -> Predicate:
        """The predicate of what is equal to an object and of the same class."""
        return EqualsObject(self.number(value), brief(value))

    def kind(self, kind: type) -> Predicate:
        """The predicate of instances of exactly this class."""
        return Exactly(self.number(kind), kind.__name__)

    def extent(self, container: Any) -> Extent:
        """The predicate of the extent that a container has now."""
        if isinstance(container, dict | types.MappingProxyType):
            return self.keys(container)
        if isinstance(container, set | frozenset):
            return Extent("members", len(container), tuple(map(self._mark, container)))
        return Extent("length", len(container))

    def elements(self, container: Any) -> Elements:
        """The predicate of these very elements in order."""
        is_mapping = isinstance(container, dict)
        found = tuple(container.values() if is_mapping else container)
        return Elements(self.number(found), len(found), is_mapping)

    def keys(self, keys: Iterable[Any]) -> Extent:
        """The predicate of a mapping with these keys, in order."""
        found = tuple(map(self._mark, keys))
        return Extent("keys", len(found), found)

    def _mark(self, value: Any) -> Plain | Ref:
        return plain_of(value) or Ref(self.number(value))
