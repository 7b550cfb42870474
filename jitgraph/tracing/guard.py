"""Guard: what a call has to find at a source, or at several. Plain data.

The predicates here bind names that later conditions use (the sizes of a layout, numbers that vary), or relate several
sources; those of one value alone are in ``predicate.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph import foreign
from jitgraph.eager.device_value import device_type
from jitgraph.eager.value import native_type
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.predicate import Absent, Predicate, Writer, brief
from jitgraph.tracing.source import Slot, Source
from jitgraph.tracing.storage import MISSING

Expression: TypeAlias = Annotated[str, "expression"]
"""Arithmetic on numbers and sizes of a call, as code."""


@dataclass(frozen=True, slots=True)
class Layout(Predicate):
    """A tensor or an array of this dtype and shape, whose sizes may have names.

    An argument may be an array of any library; elsewhere it is a plain NumPy array. The first axis at which a name is
    met says what it stands for.
    """

    kind: Literal["tensor", "array"]
    dtype: np.dtype[Any]
    shape: tuple[DimLike, ...]
    requires_grad: bool = False
    device: Annotated[str, "device"] = CPU

    def __str__(self) -> str:
        on_device = "" if self.device == CPU else f" on {self.device}"
        return f"is {_KINDS[self.kind]} of {self.dtype} {list(self.shape)}{on_device}"

    def mismatch(self, actual: Any) -> str:
        if self.kind == "array" and not isinstance(actual, Tensor):
            actual = foreign.as_argument(actual, "the argument")
        if not isinstance(actual, Tensor if self.kind == "tensor" else np.ndarray):
            return f"is {brief(actual)}, not {_KINDS[self.kind]}"
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

    def holds(self, actual: Any, objects: Sequence[Any] = ()) -> bool:
        raise NotImplementedError("a layout binds names of sizes, so it holds as a part of all guards")

    def emit(self, writer: Writer, x: str) -> None:
        if self.kind == "array":
            self._emit_sizes(writer, writer.array_of(x, self.dtype))
            return
        if not writer.is_tensor(x):
            writer.require(f"isinstance({x}, Tensor)")
        value = writer.operand_of(x)
        writer.line(f"{value} = {x}._value")
        negation = "" if self.requires_grad else "not "
        writer.require(f"{negation}({x}._requires_grad or {value}.record is not None)")
        fixed = tuple(size for size in self.shape if isinstance(size, int))
        is_fixed = len(fixed) == len(self.shape)
        if self.device != CPU:
            writer.require(f"isinstance({value}, DeviceValue) and {value}.buffer.device.name == {self.device!r}")
            dtype = writer.constant(self.dtype)
            if is_fixed:
                known = writer.constant(device_type(self.dtype, fixed))
                other = f"{value}.type.dtype == {dtype} and {value}.shape == {fixed!r}"
                writer.require(f"{value}.type is {known} or {other}")
                return
            writer.require(f"{value}.type.dtype == {dtype}")
            self._emit_sizes(writer, value)
            return
        if is_fixed:
            known = writer.constant(native_type(self.dtype, fixed))
            writer.line(f"if {value}.native is not {known}:")
            writer.line(f"    {value} = operand({value}, {known})")
            writer.require(f"{value} is not None", indent=1)
            return
        writer.line(f"{value} = readable({value})")
        array = writer.variable()
        writer.line(f"{array} = {value}.array")
        known = writer.constant(self.dtype)
        writer.require(f"{array}.dtype is {known} or {array}.dtype == {known}")
        self._emit_sizes(writer, array)

    def _emit_sizes(self, writer: Writer, x: str) -> None:
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


_KINDS: Final = {"tensor": "a tensor", "array": "an array"}


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

    def mismatch(self, actual: Any) -> str:
        return f"was {self.kind}, but now it is {brief(actual)}"

    def emit(self, writer: Writer, x: str) -> None:
        writer.line(f"n{self.number} = {x}")
        writer.require(f"type(n{self.number}) is {self.kind}")


@dataclass(frozen=True, slots=True)
class Relation(Predicate):
    """A condition over numbers and sizes that were bound before. ``shown`` is for people, ``what`` says what asked."""

    about: Literal["sizes", "numbers"]
    code: Expression
    shown: str
    what: str = ""
    OF_SEVERAL = True

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
        writer.require(f"{x} is {writer.value_at(self.other)}")


@dataclass(frozen=True, slots=True)
class Distinct(Predicate):
    """No two of these sources hold the same object."""

    sources: tuple[Source, ...]
    OF_SEVERAL = True

    def __str__(self) -> str:
        return f"{', '.join(source.text for source in self.sources)} are different objects"

    def emit(self, writer: Writer, x: str) -> None:
        variables = list(dict.fromkeys(writer.value_at(source) for source in self.sources))
        if len(variables) > 1:
            writer.require(f"len({{{', '.join(f'id({variable})' for variable in variables)}}}) == {len(variables)}")


@dataclass(frozen=True, slots=True)
class Disjoint(Predicate):
    """None of the first sources holds the same object as one of the others."""

    left: tuple[Source, ...]
    right: tuple[Source, ...]
    OF_SEVERAL = True

    @property
    def sources(self) -> tuple[Source, ...]:
        """All of them."""
        return (*self.left, *self.right)

    def __str__(self) -> str:
        left, right = (", ".join(dict.fromkeys(s.text for s in side if s.text)) for side in (self.left, self.right))
        return f"{left} are other objects than {right}"

    def emit(self, writer: Writer, x: str) -> None:
        left, right = (
            ", ".join(dict.fromkeys(f"id({writer.value_at(source)})" for source in side))
            for side in (self.left, self.right)
        )
        writer.require(f"{{{left}}}.isdisjoint({{{right}}})" if "," in left + right else f"{left} != {right}")


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


def size_name(name: str) -> str:
    """The variable for a size in conditions."""
    return f"n_{name}"


def size_text(size: DimLike) -> str:
    """A size in conditions."""
    if isinstance(size, int):
        return str(size)
    return f"({dims.transform(size, lambda name: Dim.name(size_name(name)))})"
