"""The ops of which predicates are programs: each is one question about what stands at a source.

An op says in one place how it is asked by Python, as a condition over ``{x}`` and its operands, and by the dispatcher,
as rows of its table (``eager/dispatch/program.py``; ``codegen/dispatch/`` has the code of a row). The dispatcher reads
objects as they are now: an op that cannot be asked natively, or not of the object that stands there now, declines, and
Python serves such calls.
"""

from __future__ import annotations

import itertools
import operator
import struct
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from jitgraph import foreign
from jitgraph.eager.handle import Api
from jitgraph.eager.placement import device_type
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.records import NamedTuple
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.guards.plain import Plain, are_texts, mark, marks, same_float
from jitgraph.tracing.guards.source import Source
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS, contents_of

if TYPE_CHECKING:
    from jitgraph.tracing.call.code import CheckWriter
    from jitgraph.tracing.call.native.checking import Checker

NAMES: Final[dict[str, Any]] = {
    "Tensor": Tensor,
    "contents": contents_of,
    "is_": operator.is_,
    "mark": mark,
    "marks": marks,
    "ndarray": np.ndarray,
    "plain_arrays": foreign.PLAIN,
    "same_float": same_float,
    "texts": are_texts,
}
"""What conditions may use beside ``{x}`` and their operands."""


class CheckOp(NamedTuple):
    """One question. ``rows(checker, source)`` writes it for the dispatcher; ``write(writer, source)`` writes it in
    Python where that takes more than a condition."""

    condition: str
    operands: Mapping[str, Any]
    rows: Callable[[Checker, Source], Any]
    write: Callable[[CheckWriter, Source], None] | None = None

    def holds(self, actual: Any) -> bool:
        """Whether the answer for a value is yes; one of EXPECTED_ERRORS where it has none."""
        if not self.condition:
            raise NotImplementedError("this is asked as a part of a whole check")
        return bool(_compiled(self.condition, tuple(self.operands))(actual, **self.operands))

    def emit(self, writer: CheckWriter, source: Source | None) -> None:
        """Write the question in Python."""
        if self.write is not None:
            self.write(writer, source)  # type: ignore[arg-type]
            return
        assert source is not None
        x, condition = writer.value_at(source), self.condition
        if condition.count("{x}") > 1 and not x.isidentifier():
            head, _, tail = condition.partition("{x}")
            condition = head + "(t := {x})" + tail.replace("{x}", "t")
        writer.require(condition.format(x=x, **{name: writer.constant(x) for name, x in self.operands.items()}))


@lru_cache(maxsize=256)
def _compiled(condition: str, operands: tuple[str, ...]) -> Callable[..., Any]:
    text = condition.format(x="x", **{name: name for name in operands})
    function: Callable[..., Any] = eval(f"lambda {', '.join(('x', *operands))}: {text}", dict(NAMES))
    return function


def condition(text: str, **operands: Any) -> CheckOp:
    """A condition that Python alone asks."""
    return CheckOp(text, operands, lambda checker, at: checker.decline(at, "is checked by Python alone"))


# --- one value ------------------------------------------------------------------------------------------------------


def is_object(*expected: Any) -> CheckOp:
    """One of these objects itself; natively the first of them."""
    operands = {f"object{number}": value for number, value in enumerate(expected)}
    text = " or ".join(f"{{x}} is {{{name}}}" for name in operands)
    return CheckOp(text, operands, lambda checker, at: checker.reader.identify(at, expected[0]))


def read_as(expected: Any) -> CheckOp:
    """As ``is_object``, of an object from which the code of a call goes on: the source is read for this alone."""
    return is_object(expected)._replace(
        write=lambda writer, at: writer.require(f"{writer.read_anew(at)} is {writer.constant(expected)}")
    )


def has_type(kind: type) -> CheckOp:
    """An object of exactly this class."""

    def rows(checker: Checker, at: Source) -> None:
        if not checker.reader.is_variadic(at):  # which is a tuple
            checker.program.require_type(checker.reader.find(at), kind)

    return CheckOp("type({x}) is {kind}", {"kind": kind}, rows)


def equals(value: Any) -> CheckOp:
    """A value of this type that is equal, or the object itself."""
    return CheckOp(
        "{x} is {value} or (type({x}) is {kind} and {x} == {value})",
        {"value": value, "kind": type(value)},
        lambda checker, at: checker.program.op("equal", checker.reader.find(at), a=checker.program.refer(value)),
    )


def same_bits(value: float) -> CheckOp:
    """This float: NaN equals NaN, -0.0 differs from 0.0."""
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return CheckOp(
        "{x} is {value} or same_float({x}, {value})",
        {"value": value},
        lambda checker, at: checker.program.op("float_bits", checker.reader.find(at), offset=bits),
    )


_IMMUTABLE: Final = frozenset({"complex", "range", "slice", "tuple", "frozenset", "scalar", "dtype"})
"""Plain values that stay what they are; an equal one that is another object is left to Python."""


def is_plain(plain: Plain) -> CheckOp:
    """A value with these data."""
    value = plain.value

    def rows(checker: Checker, at: Source) -> None:
        now = checker.reader.now(at)
        if plain.kind not in _IMMUTABLE or not op.holds(now):
            checker.decline(at, f"is a {plain.kind}")
        checker.reader.identify(at, now)

    op = CheckOp(
        "{x} is {value} or (type({x}) is {kind} and mark({x}) == {plain})",
        {"value": value, "kind": type(value), "plain": plain},
        rows,
    )
    return op


# --- containers -----------------------------------------------------------------------------------------------------


def _asked(by_base: bool) -> str:
    """What is asked of a container: itself, or what it holds where its class has methods of the user's."""
    return "contents({x})" if by_base else "{x}"


def length(count: int, by_base: bool) -> CheckOp:
    """A container of so many elements."""

    def rows(checker: Checker, at: Source) -> None:
        if checker.reader.is_variadic(at):
            checker.program.op("argument_count", offset=checker.reader.argument_count(count))
        else:
            checker.program.op("length", _container(checker, at), b=count)

    return CheckOp(f"len({_asked(by_base)}) == {{count}}", {"count": count}, rows)


def keys(expected: tuple[Any, ...], by_base: bool) -> CheckOp:
    """A mapping with these keys, in order: by their marks where not all are texts."""

    def rows(checker: Checker, at: Source) -> None:
        register = _container(checker, at)
        checker.program.op("keys", register, a=checker.program.refer(tuple(map(sys.intern, expected))))

    x = _asked(by_base)
    if all(type(key) is str for key in expected):  # what is equal to one may be of a class of its own
        text = f"tuple({x}) == {{expected}} and texts({x})"
        return CheckOp(text, {"expected": expected}, rows)
    return condition(f"marks({x}) == {{expected}}", expected=_marks_of(expected))


def _marks_of(elements: Iterable[Any]) -> tuple[Any, ...]:
    """What ``marks`` gives for these plain data and objects."""
    return tuple([each if type(each) is Plain else mark(each) for each in elements])


def _container(checker: Checker, at: Source) -> int:
    """The register with a container of a class whose instances keep their elements as the built-in one's do."""
    kind = type(checker.reader.now(at))
    if not issubclass(kind, tuple | list | dict) or issubclass(kind, OrderedDict):  # which keeps an order of its own
        checker.decline(at, f"is a {kind.__name__}")
    register = checker.reader.find(at)
    checker.program.require_type(register, kind)
    return register


def members(expected: tuple[Any, ...], by_base: bool, *, ordered: bool = False) -> CheckOp:
    """A set with these members, by their marks, or texts: equal sets may give them in different orders."""
    x = _asked(by_base)
    if ordered:
        return condition(f"marks({x}) == {{expected}}", expected=_marks_of(expected))
    if all(type(member) is str for member in expected):
        return condition(f"{x} == {{expected}} and texts({x})", expected=frozenset(expected))
    return condition(f"frozenset(marks({x})) == {{expected}}", expected=frozenset(_marks_of(expected)))


def elements(expected: tuple[Any, ...], is_mapping: bool, by_base: bool) -> CheckOp:
    """A container that holds these very objects in order."""

    def rows(checker: Checker, at: Source) -> None:
        kind = type(checker.reader.now(at))
        if kind not in (tuple, list):
            checker.decline(at, f"is a {kind.__name__}")
        register = checker.reader.find(at)
        checker.program.require_type(register, kind)
        checker.program.op("elements", register, flags=int(kind is list), a=checker.program.refer(tuple(expected)))

    x = _asked(by_base)
    values = f"{x}.values()" if is_mapping else x
    text = f"len({x}) == len({{expected}}) and all(map(is_, {values}, {{expected}}))"
    return CheckOp(text, {"expected": expected}, rows)


def absent() -> CheckOp:
    """Nothing stands there."""

    def rows(checker: Checker, at: Source) -> None:
        step, reader = at.steps[-1], checker.reader
        register, owner, key = reader.find(at.owner), reader.now(at.owner), reader.world.key(step)
        if step.kind == "own":
            reader.absent_own(register, owner, key)
        elif step.kind == "class" and reader.is_fixed(at.owner):
            checker.program.require_version(owner)
        elif step.kind in ("item", "entry") and isinstance(owner, dict):
            checker.program.require_type(register, type(owner))
            reader.absent(register, key)
        else:
            checker.decline(at, "is not there")

    return CheckOp("False", {}, rows, lambda writer, at: writer.require(writer.absence(at)))


# --- tensors and arrays ---------------------------------------------------------------------------------------------


def is_tensor() -> CheckOp:
    """Any tensor."""
    return CheckOp("isinstance({x}, Tensor)", {}, lambda checker, at: checker.tensor(at))


def array_layout(dtype: np.dtype[Any], shape: tuple[DimLike, ...]) -> CheckOp:
    """An array of this dtype and shape, whose sizes may have names: the first axis that has one says what it means."""

    def rows(checker: Checker, at: Source) -> None:
        register, obj = checker.reader.find(at), checker.reader.now(at)
        try:
            sizes = checker.words(obj.shape)
        except EXPECTED_ERRORS:
            checker.decline(at, "is no plain array")
        checker.program.op(
            "array", register, checker.operand(at), a=checker.program.refer(dtype), b=sizes, offset=len(obj.shape)
        )

    return CheckOp("", {}, rows, lambda writer, at: _write_sizes(writer, writer.array_at(at, dtype), shape))


def tensor_layout(
    dtype: np.dtype[Any], shape: tuple[DimLike, ...], requires_grad: bool, device: str = CPU, api: Api = ""
) -> CheckOp:
    """A tensor of this dtype and shape on a device, with or without a gradient."""
    fixed = tuple([size for size in shape if isinstance(size, int)])
    is_fixed = len(fixed) == len(shape)

    def write(writer: CheckWriter, at: Source) -> None:
        x = writer.value_at(at)
        if not writer.is_tensor(x):
            writer.require(f"isinstance({x}, Tensor)")
        writer.require(f"{x}._api == {api!r}")
        value = writer.operand_of(x)
        writer.line(f"{value} = {x}._value")
        negation = "" if requires_grad else "not "
        writer.require(f"{negation}({x}._requires_grad or {value}.record is not None)")
        known_dtype = writer.constant(dtype)
        if device != CPU:
            writer.require(f"isinstance({value}, DeviceValue) and {value}.buffer.device.name == {device!r}")
            if is_fixed:
                known = writer.constant(device_type(dtype, fixed))
                other = f"{value}.type.dtype == {known_dtype} and {value}.shape == {fixed!r}"
                writer.require(f"{value}.type is {known} or {other}")
                return
            writer.require(f"{value}.type.dtype == {known_dtype}")
            _write_sizes(writer, value, shape)
        elif is_fixed:
            known = writer.constant(native_type(dtype, fixed))
            writer.line(f"if {value}.native is not {known}:")
            writer.line(f"    {value} = operand({value}, {known})")
            writer.require(f"{value} is not None", indent=1)
        else:
            writer.line(f"{value} = readable({value})")
            array = writer.variable()
            writer.line(f"{array} = {value}.array")
            writer.require(f"{array}.dtype is {known_dtype} or {array}.dtype == {known_dtype}")
            _write_sizes(writer, array, shape)

    def rows(checker: Checker, at: Source) -> None:
        if device != CPU:
            checker.decline(at, "is on a GPU")
        operand, register, value = checker.operand(at), checker.handle(at), checker.reader.now(at)._value
        if not isinstance(value, EagerValue):
            checker.decline(at, "is in use")
        refer = checker.program.refer
        checker.program.tensor(
            register, operand, flags=int(requires_grad) + 2 * bool(api),
            a=refer(native_type(dtype, tuple(value.shape))),
            b=checker.words(value.shape), offset=len(value.shape), expected=refer(dtype),
        )  # fmt: skip

    return CheckOp("", {}, rows, write)


def _write_sizes(writer: CheckWriter, x: str, shape: tuple[DimLike, ...]) -> None:
    if all(isinstance(size, int) for size in shape):
        writer.require(f"{x}.shape == {tuple(shape)!r}")
        return
    sizes = writer.variable()
    writer.line(f"{sizes} = {x}.shape")
    writer.require(f"len({sizes}) == {len(shape)}")
    for axis, size in enumerate(shape):
        name = size.as_name if isinstance(size, Dim) else None
        if name is not None and writer.binds(name):
            writer.line(f"{size_name(name)} = {sizes}[{axis}]")
        else:
            writer.require(f"{sizes}[{axis}] == {size_text(size)}")


def size_name(name: str) -> str:
    """The variable for a size in conditions."""
    return f"n_{name}"


def size_text(size: DimLike) -> str:
    """A size in conditions."""
    if isinstance(size, int):
        return str(size)
    return f"({dims.transform(size, lambda name: Dim.name(size_name(name)))})"


# --- numbers that vary, and several sources -------------------------------------------------------------------------


def number(kind: Literal["int", "float"], index: int) -> CheckOp:
    """A number of exactly this kind, which relations call ``n<index>``."""

    def write(writer: CheckWriter, at: Source) -> None:
        writer.line(f"n{index} = {writer.value_at(at)}")
        writer.require(f"type(n{index}) is {kind}")

    return has_type(int if kind == "int" else float)._replace(write=write)


def relation(about: Literal["sizes", "numbers"], code: str) -> CheckOp:
    """A condition over numbers and sizes that were bound before; natively sizes are what they are now."""

    def rows(checker: Checker, at: Source) -> None:
        if about == "numbers":
            checker.decline(None, "numbers that vary are compared")

    return CheckOp("", {}, rows, lambda writer, at: writer.require(code))


def same_as(other: Source) -> CheckOp:
    """The same object as at another source."""
    return CheckOp(
        "",
        {},
        lambda checker, at: checker.program.op("same", checker.reader.find(at), checker.reader.find(other)),
        lambda writer, at: writer.require(f"{writer.value_at(at)} is {writer.value_at(other)}"),
    )


def distinct(sources: tuple[Source, ...]) -> CheckOp:
    """No two of these sources hold the same object."""

    def write(writer: CheckWriter, at: Source) -> None:
        variables = list(dict.fromkeys(writer.value_at(source) for source in sources))
        if len(variables) > 1:
            writer.require(f"len({{{', '.join(f'id({variable})' for variable in variables)}}}) == {len(variables)}")

    return CheckOp("", {}, lambda checker, at: checker.distinct(sources), write)


def unshared(written: tuple[Source, ...], others: tuple[Source, ...]) -> CheckOp:
    """The tensors at ``written`` have bases that no other one has, of these and of ``others``.

    Native code reads no views, so it has nothing to check.
    """

    def write(writer: CheckWriter, at: Source) -> None:
        own, rest = (
            dict.fromkeys(f"id({writer.value_at(source)}._root)" for source in side) for side in (written, others)
        )
        rest = dict.fromkeys(base for base in rest if base not in own)
        writer.require(f"len({{{', '.join(own)}}}) == {len(own)}")
        if rest:
            writer.require(f"{{{', '.join(own)}}}.isdisjoint(({', '.join(rest)},))")

    return CheckOp("", {}, lambda checker, at: None, write)


def disjoint(left: tuple[Source, ...], right: tuple[Source, ...]) -> CheckOp:
    """None of the first sources holds the same object as one of the others."""

    def write(writer: CheckWriter, at: Source) -> None:
        one, two = (
            ", ".join(dict.fromkeys(f"id({writer.value_at(source)})" for source in side)) for side in (left, right)
        )
        writer.require(f"{{{one}}}.isdisjoint({{{two}}})" if "," in one + two else f"{one} != {two}")

    def rows(checker: Checker, at: Source) -> None:
        for pair in itertools.product(left, right):
            checker.distinct(pair)

    return CheckOp("", {}, rows, write)
