"""The ops that check a plan's guards: those of the arguments first, in the order of the plan."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.runtime import NativeRuntime
from jitgraph.eager.value import EagerValue, native_type
from jitgraph.runtime import dispatch_records as layout
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.cpython import layout as cpython
from jitgraph.tensor import Tensor
from jitgraph.tracing.guard import Disjoint, Distinct, Guard, Layout, Relation, Same, Varies, size_name
from jitgraph.tracing.native.reading import Reader
from jitgraph.tracing.operands import number_operand, scalar
from jitgraph.tracing.plain import Plain
from jitgraph.tracing.plan import CallPlan, Input
from jitgraph.tracing.predicate import Absent, Elements, Equals, Exactly, Extent, Is, IsOrStandIn, IsTensor
from jitgraph.tracing.source import Source
from jitgraph.tracing.storage import EXPECTED_ERRORS

_IMMUTABLE: Final = frozenset({"complex", "range", "slice", "tuple", "frozenset", "scalar", "dtype"})
"""Plain values that stay what they are; an equal one that is another object is left to Python."""
_UNUSED_OPERAND: Final = layout.MOST_INPUTS - 1
"""Where the memory of a tensor goes that is checked and no operand."""


class Checker:
    """Writes the checks of a plan."""

    def __init__(self, reader: Reader, plan: CallPlan, runtime: NativeRuntime, sizes: Mapping[str, int]) -> None:
        """``sizes`` are what the names of sizes stand for."""
        self._sizes = {size_name(name): size for name, size in sizes.items()}
        self.reader = reader
        self.program = reader.program
        self.plan = plan
        self.runtime = runtime
        self._operands = {
            plan.handles[plan_input.at].source if plan_input.kind == "handle" else plan_input.at: number
            for number, plan_input in enumerate(plan.inputs)
        }
        self._written: set[Source] = set()

    def write(self) -> None:
        """Write all checks, and what finds the operands."""
        plan = self.plan
        if len(plan.inputs) >= _UNUSED_OPERAND:
            raise Unsupported(f"it has {len(plan.inputs)} inputs")
        for guard in plan.guards:
            self._guard(guard)
        for number, plan_input in enumerate(plan.inputs):
            if plan_input.kind == "float":
                self.program.op("float", self.reader.find(plan_input.at), number)
            elif plan_input.kind == "number":
                self._number(number, *plan_input.at)
            elif (
                plan.handles[plan_input.at].source if plan_input.kind == "handle" else plan_input.at
            ) not in self._written:
                raise Unsupported("an operand has no guard of its own")

    def _number(self, number: int, text: str, dtype: Any) -> None:
        """Write the operand for an expression over numbers that vary and sizes, such as one number alone."""
        varying = {f"n{g.predicate.number}": g.source for g in self.plan.guards if isinstance(g.predicate, Varies)}
        source = varying.get(text)
        if source is not None and dtype.name in layout.NUMBER_DTYPES:
            self.program.op("number", self.reader.find(source), number, flags=layout.NUMBER_DTYPES[dtype.name])
            return
        try:
            value = number_operand(eval(text, {"math": math}, self._sizes), dtype)
        except NameError:
            raise Unsupported("an operand is computed from numbers that vary") from None
        self.program.op("operand", 0, number, a=value.address, b=self.program.refer(value))

    def _guard(self, guard: Guard) -> None:
        source, predicate = guard.source, guard.predicate
        match predicate:
            case Distinct():
                self._distinct(predicate.sources)
                return
            case Disjoint():
                for left, right in itertools.product(predicate.left, predicate.right):
                    self._distinct((left, right))
                return
            case Relation():
                if predicate.about == "numbers":
                    raise Unsupported("numbers that vary are compared")
                return  # of sizes, which are as they are now
        assert source is not None
        if self.reader.is_variadic(source) and isinstance(predicate, Exactly | Extent):
            if isinstance(predicate, Extent):
                self.program.op("argument_count", offset=self.reader.argument_count(predicate.count))
            return
        match predicate:
            case Is() | IsOrStandIn():
                self.reader.identify(source, self.plan.objects[predicate.number])
            case Equals():
                self._equals(source, predicate.plain)
            case Exactly():
                self.program.require_type(self.reader.find(source), self.plan.objects[predicate.number])
            case Extent():
                self._extent(source, predicate)
            case Elements():
                self._elements(source, predicate)
            case Absent():
                self._absent(source)
            case IsTensor():
                self.program.op("is_tensor", self._handle(source))
            case Layout():
                self._layout(source, predicate)
            case Varies():
                kind = int if predicate.kind == "int" else float
                self.program.require_type(self.reader.find(source), kind)
            case Same():
                self.program.op("same", self.reader.find(source), self.reader.find(predicate.other))
            case _:
                raise Unsupported(f"{source.text} {predicate}")

    def _handle(self, source: Source) -> int:
        tensor = self.reader.now(source)
        if not isinstance(tensor, Tensor) or not self.runtime.knows(type(tensor)):
            raise Unsupported(f"{source.text} is a {type(tensor).__name__}")
        return self.reader.find(source)

    def _equals(self, source: Source, plain: Plain) -> None:
        if plain.kind == "constant":
            self.reader.identify(source, plain.value)
            return
        if plain.kind == "float":
            bits = ctypes.c_int64.from_buffer_copy(ctypes.c_double(plain.value)).value
            self.program.op("float_bits", self.reader.find(source), offset=bits)
        elif plain.kind in ("int", "str", "bytes"):
            self.program.op("equal", self.reader.find(source), a=self.program.refer(plain.value))
        elif plain.kind in _IMMUTABLE and Equals(plain).holds(obj := self.reader.now(source)):
            self.reader.identify(source, obj)
        else:
            raise Unsupported(f"{source.text} is a {plain.kind}")

    def _extent(self, source: Source, predicate: Extent) -> None:
        container, register = self.reader.now(source), self.reader.find(source)
        kind = type(container)
        if not isinstance(container, tuple | list | dict) or isinstance(
            container, OrderedDict
        ):  # which keeps an order apart
            raise Unsupported(f"{source.text} is a {kind.__name__}")
        self.program.require_type(register, kind)
        if predicate.kind == "length":
            self.program.op("length", register, offset=cpython.SIZE, b=predicate.count)
            return
        if predicate.kind == "members" or not all(isinstance(e, Plain) and e.kind == "str" for e in predicate.elements):
            raise Unsupported(f"{source.text} has keys that are no texts")
        keys = tuple([sys.intern(element.data) for element in predicate.elements if isinstance(element, Plain)])
        self.program.op("keys", register, a=self.program.refer(keys))

    def _elements(self, source: Source, predicate: Elements) -> None:
        kind = type(self.reader.now(source))
        if kind not in (tuple, list):
            raise Unsupported(f"{source.text} is a {kind.__name__}")
        register = self.reader.find(source)
        self.program.require_type(register, kind)
        expected = self.program.refer(tuple(self.plan.objects[predicate.number]))
        self.program.op("elements", register, flags=int(kind is list), a=expected)

    def _absent(self, source: Source) -> None:
        step, reader = source.steps[-1], self.reader
        owner, owner_obj = reader.find(source.owner), reader.now(source.owner)
        key = reader.world.key(step)
        if step.kind == "own":
            reader.absent_own(owner, owner_obj, key)
        elif step.kind == "class" and reader.is_fixed(source.owner):
            self.program.require_version(owner_obj)
        elif step.kind in ("item", "entry") and isinstance(owner_obj, dict):
            self.program.require_type(owner, type(owner_obj))
            reader.absent(owner, key)
        else:
            raise Unsupported(f"{source.text} is not there")

    def _layout(self, source: Source, predicate: Layout) -> None:
        self._written.add(source)
        number = self._operands.get(source, _UNUSED_OPERAND)
        obj: Any = self.reader.now(source)
        if predicate.device != CPU:
            raise Unsupported(f"{source.text} is on a GPU")
        if predicate.kind == "tensor":
            register = self._handle(source)
            if not isinstance(obj._value, EagerValue):
                raise Unsupported(f"{source.text} is in use")
            shape = obj._value.shape
        else:
            register = self.reader.find(source)
            try:
                shape = obj.shape
            except EXPECTED_ERRORS as error:
                raise Unsupported(f"{source.text} is no plain array") from error
        sizes = (ctypes.c_int64 * max(1, len(shape)))(*shape)
        self.program.keep.append(sizes)
        dtype, sizes_addr = self.program.refer(predicate.dtype), ctypes.addressof(sizes)
        if predicate.kind == "array":
            self.program.op("array", register, number, a=dtype, b=sizes_addr, offset=len(shape))
            return
        known = self.program.refer(native_type(predicate.dtype, tuple(shape)))
        self.program.op(
            "tensor", register, number, flags=int(predicate.requires_grad), a=known, b=sizes_addr, offset=len(shape),
            expected=dtype,
        )  # fmt: skip

    def _distinct(self, sources: Sequence[Source]) -> None:
        """Write that no two sources hold one object; those that are fixed were compared when it was recorded."""
        moving = list(dict.fromkeys(self.reader.find(s) for s in sources if not self.reader.is_fixed(s)))
        fixed = list(dict.fromkeys(self.reader.find(s) for s in sources if self.reader.is_fixed(s)))
        if moving and len(moving) + len(fixed) > 1:
            numbers = [*moving, *fixed]
            table = (ctypes.c_int64 * len(numbers))(*numbers)
            self.program.keep.append(table)
            self.program.op("distinct", a=ctypes.addressof(table), number=len(moving), offset=len(numbers))


def operands_of(plan: CallPlan, objects: Sequence[Any]) -> list[EagerValue]:
    """The operands of a call as values, from the objects that the dispatcher held."""
    return [
        x if isinstance(x, EagerValue) else _operand_of(plan_input, x)
        for plan_input, x in zip(plan.inputs, objects, strict=True)
    ]


def _operand_of(plan_input: Input, obj: Any) -> EagerValue:
    if plan_input.kind == "number":
        return number_operand(obj, plan_input.at[1])
    return scalar(obj) if plan_input.kind == "float" else EagerValue(obj, access="borrowed")
