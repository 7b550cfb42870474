"""Guard: a predicate on what a call finds at a source, or on several. Plain data; objects are numbers in the plan's
table.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias

import numpy as np

from jitgraph import foreign
from jitgraph.eager.handle import Api
from jitgraph.ir.dims import DimLike
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.guards import check_ops
from jitgraph.tracing.guards.check_ops import CheckOp
from jitgraph.tracing.guards.plain import Plain, plain_of
from jitgraph.tracing.guards.source import ObjectNumber, Ref, Slot, Source
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS, MISSING, contents_of, elements_of, is_by_base

if TYPE_CHECKING:
    from jitgraph.tracing.call.code import CheckWriter

# ----------------------------------------------------------------------
# Predicate: what must be true of what stands at a source, or of several. Plain data; objects are numbers in the plan's
# table.
#
# A predicate is defined here once, by its fields, a program of ops (``guards/check_ops.py``) and a text. The Python
# code of a call's check, the dispatcher's table, the stored form and reports follow from that.

Expression: TypeAlias = Annotated[str, "expression"]
"""Arithmetic on numbers and sizes of a call, as code."""


@dataclass(frozen=True, slots=True)
class Predicate:
    """What must be true. A subclass has fields, each of a type that ``cache/codec.py`` stores, ``TEXT``, which is for
    people and formats the predicate, and ``program``."""

    TEXT: ClassVar[str] = ""
    OF_SEVERAL: ClassVar[bool] = False
    """Whether it is about several sources, or sizes and numbers, and not about what stands at one source."""
    KINDS: ClassVar[dict[str, Any]] = {}
    """The classes of predicates by name."""

    def __init_subclass__(cls) -> None:
        Predicate.KINDS[cls.__name__] = cls

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        """The questions that must all be answered by yes, in order."""
        raise NotImplementedError

    @property
    def sources(self) -> tuple[Source, ...]:
        """The other sources that it is about."""
        return ()

    def __str__(self) -> str:
        return self.TEXT.format(self)

    def mismatch(self, actual: Any) -> str:
        """In which respect a value differs, for people."""
        return f"is {brief(actual)}"

    def holds(self, actual: Any, objects: Sequence[Any] = ()) -> bool:
        """Whether the predicate, which is about one value alone, is true of it."""
        try:
            return all(op.holds(actual) for op in self.program(objects))
        except EXPECTED_ERRORS:
            return False

    def emit(self, writer: CheckWriter, source: Source | None) -> None:
        """Write the check in Python."""
        ops = self.program(writer.objects)
        if len(ops) > 1 and source is not None:
            writer.read_once(source)
        for op in ops:
            op.emit(writer, source)


# --- one value ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Is(Predicate):
    """The object of this number itself."""

    number: ObjectNumber
    shown: str
    TEXT = "is {0.shown}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.read_as(objects[self.number])]


@dataclass(frozen=True, slots=True)
class IsOrStandIn(Predicate):
    """The object of this number, or the one that stands in its place while any thread records a function."""

    number: ObjectNumber
    other: ObjectNumber
    shown: str
    TEXT = "is {0.shown}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.is_object(objects[self.number], objects[self.other])]


@dataclass(frozen=True, slots=True)
class Equals(Predicate):
    """This value, of this type."""

    plain: Plain

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        value = self.plain.value
        match self.plain.kind:
            case "constant":
                return [check_ops.is_object(value)]
            case "int" | "str" | "bytes":
                return [check_ops.equals(value)]
            case "float":
                return [check_ops.same_bits(value)]
        return [check_ops.is_plain(self.plain)]

    def __str__(self) -> str:
        return f"{'is' if self.plain.kind == 'constant' else '=='} {brief(self.plain.value)}"

    def mismatch(self, actual: Any) -> str:
        return f"is {brief(actual)}, not {brief(self.plain.value)}"


@dataclass(frozen=True, slots=True)
class EqualsObject(Predicate):
    """An object of the class of the one of this number, and equal to it."""

    number: ObjectNumber
    shown: str
    TEXT = "== {0.shown}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        expected = objects[self.number]
        return [check_ops.has_type(type(expected)), check_ops.condition("{x} == {expected}", expected=expected)]

    @property
    def unstorable(self) -> str:
        """Why no file can hold it: only this process has the object."""
        return f"a static argument that is {self.shown}"


@dataclass(frozen=True, slots=True)
class Exactly(Predicate):
    """An object of exactly this class."""

    number: ObjectNumber
    shown: str
    TEXT = "is a {0.shown}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.has_type(objects[self.number])]


@dataclass(frozen=True, slots=True)
class Extent(Predicate):
    """A container of this extent: the length of a sequence, the keys of a mapping in order, the members of a set, in
    the order in which it gives them or in any.

    Keys and members that are no plain values are numbers of objects. ``by_base`` says that the class of the container
    has methods of the user's, which are not asked.
    """

    kind: Literal["length", "keys", "members", "ordered members"]
    count: int
    elements: tuple[Plain | Ref, ...] = ()
    by_base: bool = False
    TEXT = "has these {0.count} elements"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        if self.kind == "length":
            return [check_ops.length(self.count, self.by_base)]
        known: list[Any] = [e.data for e in self.elements if isinstance(e, Plain) and e.kind == "str"]
        if len(known) < len(self.elements):
            known = [objects[e.number] if isinstance(e, Ref) else e for e in self.elements]
        if self.kind != "keys":
            return [check_ops.members(tuple(known), self.by_base, ordered=self.kind == "ordered members")]
        return [check_ops.keys(tuple(known), self.by_base)]

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
    TEXT = "has these {0.count} elements"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.elements(objects[self.number], self.is_mapping, self.by_base)]


@dataclass(frozen=True, slots=True)
class Absent(Predicate):
    """Nothing stands there."""

    TEXT = "is not there"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.absent()]


@dataclass(frozen=True, slots=True)
class IsTensor(Predicate):
    """Any tensor: where one is found, its handle is an input or has guards of its own."""

    TEXT = "is a tensor"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.is_tensor()]


@dataclass(frozen=True, slots=True)
class HasContents(Predicate):
    """An array of this dtype and shape with these bytes."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    bytes: bytes

    @staticmethod
    def of(array: Any) -> HasContents:
        """The predicate of what an array holds now."""
        return HasContents(array.dtype, array.shape, array.tobytes())

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        layout = "isinstance({x}, ndarray) and {x}.dtype == {dtype} and {x}.shape == {shape}"
        operands = {"dtype": self.dtype, "shape": self.shape, "bytes": self.bytes}
        return [check_ops.condition(layout + " and {x}.tobytes() == {bytes}", **operands)]

    def __str__(self) -> str:
        return f"is an array of {self.dtype} {list(self.shape)} with these values"


@dataclass(frozen=True, slots=True)
class Layout(Predicate):
    """A tensor or an array of this dtype and shape, whose sizes may have names.

    An argument may be an array of any library; elsewhere it is a plain NumPy array. It holds as a part of all guards,
    as it binds names of sizes.
    """

    kind: Literal["tensor", "array"]
    dtype: np.dtype[Any]
    shape: tuple[DimLike, ...]
    requires_grad: bool = False
    device: Annotated[str, "device"] = CPU
    api: Api = ""

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        if self.kind == "array":
            return [check_ops.array_layout(self.dtype, self.shape)]
        return [check_ops.tensor_layout(self.dtype, self.shape, self.requires_grad, self.device, self.api)]

    def __str__(self) -> str:
        on_device = "" if self.device == CPU else f" on {self.device}"
        return f"is {_LAYOUTS[self.kind]} of {self.dtype} {list(self.shape)}{on_device}"

    def mismatch(self, actual: Any) -> str:
        if self.kind == "array" and not isinstance(actual, Tensor):
            actual = foreign.as_argument(actual, "the argument")
        if not isinstance(actual, Tensor if self.kind == "tensor" else np.ndarray):
            return f"is {brief(actual)}, not {_LAYOUTS[self.kind]}"
        if isinstance(actual, Tensor) and actual._api != self.api:
            return f"is a tensor of {_NAMES_OF_APIS[actual._api]}, not of {_NAMES_OF_APIS[self.api]}"
        value: Any = actual._value if isinstance(actual, Tensor) else actual
        device = getattr(value, "device", CPU)
        if device != self.device:
            return f"is on {device}, not on {self.device}"
        if value.dtype != self.dtype:
            return f"has dtype {value.dtype}, not {self.dtype}"
        if len(value.shape) != len(self.shape):
            return f"has rank {len(value.shape)}, not {len(self.shape)}"
        for axis, (size, known) in enumerate(zip(value.shape, self.shape, strict=True)):
            if isinstance(known, int) and size != known:
                return f"has size {size} on axis {axis}, not {known}"
        if isinstance(actual, Tensor):
            flag = actual._requires_grad or value.record is not None
            if flag != self.requires_grad:
                return "requires a gradient" if flag else "does not require a gradient"
        sizes = ", ".join(map(str, value.shape))
        return f"has the sizes ({sizes}), not ({', '.join(map(str, self.shape))})"


_NAMES_OF_APIS: Final = {"": "jitgraph's API", "torch": "PyTorch's API"}
_LAYOUTS: Final = {"tensor": "a tensor", "array": "an array"}


@dataclass(frozen=True, slots=True)
class Varies(Predicate):
    """Any number of exactly this kind, which relations call ``n<number>``."""

    kind: Literal["int", "float"]
    number: int
    TEXT = "is a {0.kind}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.number(self.kind, self.number)]

    def mismatch(self, actual: Any) -> str:
        return f"was {self.kind}, but now it is {brief(actual)}"


# --- several sources ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Relation(Predicate):
    """A condition over numbers and sizes that were bound before. ``shown`` is for people, ``what`` says what asked."""

    about: Literal["sizes", "numbers"]
    code: Expression
    shown: str
    what: str = ""
    OF_SEVERAL = True
    TEXT = "{0.shown}"

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.relation(self.about, self.code)]


@dataclass(frozen=True, slots=True)
class Same(Predicate):
    """The same object as at another source."""

    other: Source
    TEXT = "is the same object as {0.other.text}"

    @property
    def sources(self) -> tuple[Source, ...]:
        return (self.other,)

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.same_as(self.other)]


@dataclass(frozen=True, slots=True)
class Distinct(Predicate):
    """No two of these sources hold the same object."""

    sources: tuple[Source, ...]
    OF_SEVERAL = True

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.distinct(self.sources)]

    def __str__(self) -> str:
        return f"{_texts(self.sources)} are different objects"


@dataclass(frozen=True, slots=True)
class Unshared(Predicate):
    """None of the tensors at ``written`` shares elements, as a view and its base do, with another one or with those
    at ``others``."""

    written: tuple[Source, ...]
    others: tuple[Source, ...]
    OF_SEVERAL = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.written, *self.others)

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.unshared(self.written, self.others)]

    def __str__(self) -> str:
        return f"{_texts(self.written)} share no elements with {_texts(self.others)}, nor with each other"


@dataclass(frozen=True, slots=True)
class Disjoint(Predicate):
    """None of the first sources holds the same object as one of the others."""

    left: tuple[Source, ...]
    right: tuple[Source, ...]
    OF_SEVERAL = True

    @property
    def sources(self) -> tuple[Source, ...]:
        return (*self.left, *self.right)

    def program(self, objects: Sequence[Any]) -> Sequence[CheckOp]:
        return [check_ops.disjoint(self.left, self.right)]

    def __str__(self) -> str:
        return f"{_texts(self.left)} are other objects than {_texts(self.right)}"


def _texts(sources: tuple[Source, ...]) -> str:
    return ", ".join(dict.fromkeys(source.text for source in sources if source.text))


def brief(value: Any) -> str:
    """A short text of a value for reports."""
    if isinstance(value, types.FunctionType | type | types.BuiltinFunctionType):
        return getattr(value, "__qualname__", repr(value))
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if plain_of(value) is not None or _is_enum(value):
        try:
            text = repr(value)
        except ValueError:  # Python writes no int of very many digits
            return f"a {type(value).__name__} too long to print"
        return text if len(text) <= 60 else text[:57] + "..."
    return f"this {type(value).__name__}"


def _is_enum(value: Any) -> bool:
    return hasattr(type(value), "__members__")


# ----------------------------------------------------------------------
# Objects: the table of objects that a plan is made with, and the predicates that name objects by their numbers.


class Objects:
    """The table of objects that a plan is made with: each object once."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.stand_ins: dict[int, Any] = {}  # what stands in the place of an object, by its id
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """The number of an object."""
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.values)
            self.values.append(value)
        return number

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

    def extent(self, elements: Any, container: Any = None, *, ordered: bool = False) -> Extent:
        """The predicate of the extent of a container of the user's, which holds what ``elements`` does; ``ordered``
        says that a set gives its members in this order, too."""
        by_base = is_by_base(container)
        if isinstance(elements, dict | types.MappingProxyType):
            return self.keys(elements, by_base=by_base)
        if isinstance(elements, set | frozenset):
            kind: Any = "ordered members" if ordered else "members"
            return Extent(kind, len(elements), tuple(map(self._mark, elements)), by_base)
        return Extent("length", len(elements), (), by_base)

    def elements(self, elements: Any, container: Any) -> Elements:
        """The predicate of a container of the user's that holds these very elements in order."""
        members = tuple(elements_of(elements))
        return Elements(self.number(members), len(members), isinstance(elements, dict), is_by_base(container))

    def keys(self, keys: Iterable[Any], *, by_base: bool = False) -> Extent:
        """The predicate of a mapping with these keys, in order."""
        marks = tuple(map(self._mark, keys))
        return Extent("keys", len(marks), marks, by_base)

    def _mark(self, value: Any) -> Plain | Ref:
        return plain_of(value) or Ref(self.number(value))


# ----------------------------------------------------------------------
# Guard: a predicate on what a call finds at a source, or on several. Plain data.


@dataclass(frozen=True, slots=True)
class Guard:
    """``predicate`` must be true of what stands at ``source``; ``location`` is the line that read it.

    ``source`` is None for what several sources have to do with each other.
    """

    source: Source | None
    predicate: Predicate
    location: Location | None = None

    @property
    def fault(self) -> str:
        """What is wrong with a guard that was read from a file, "" where nothing is."""
        return "" if (self.source is None) == self.predicate.OF_SEVERAL else "a guard is about nothing"

    def __str__(self) -> str:
        return str(self.predicate) if self.source is None else f"{self.source.text} {self.predicate}"


class Assumption(NamedTuple):
    """``predicate`` must be true of what stands at ``slot``, where the function is recorded."""

    slot: Slot
    predicate: Predicate
    location: Location | None

    def holds(self, objects: Sequence[Any]) -> bool:
        """Whether it is true now."""
        value = self.slot.get_or(MISSING)
        if value is MISSING or isinstance(self.predicate, Absent):
            return value is MISSING and isinstance(self.predicate, Absent)
        return self.predicate.holds(value, objects)
