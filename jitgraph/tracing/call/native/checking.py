"""The ops that check a plan's guards: those of the arguments first, in the order of the plan."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn

from jitgraph.eager.dispatch.program import Unsupported
from jitgraph.eager.dispatch.start import NativeRuntime
from jitgraph.eager.tape import EagerValue
from jitgraph.runtime import dispatch_records as layout
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.code import number_operand, scalar
from jitgraph.tracing.call.native.reading import Reader
from jitgraph.tracing.call.plan import CallPlan, Input
from jitgraph.tracing.guards.check_ops import size_name
from jitgraph.tracing.guards.guard import Varies
from jitgraph.tracing.guards.source import Source

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
            for op in guard.predicate.program(plan.objects):
                op.rows(self, guard.source)  # type: ignore[arg-type]
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

    # --- what the ops of predicates ask for -------------------------------------------------------------------------

    def decline(self, source: Source | None, why: str) -> NoReturn:
        """Leave such calls to Python; ``why`` is about what stands at ``source``."""
        raise Unsupported(why if source is None else f"{source.text} {why}")

    def handle(self, source: Source) -> int:
        """The register with a tensor."""
        tensor = self.reader.now(source)
        if not isinstance(tensor, Tensor) or not self.runtime.knows(type(tensor)):
            self.decline(source, f"is a {type(tensor).__name__}")
        return self.reader.find(source)

    def tensor(self, source: Source) -> None:
        """Write that any tensor stands there, or one of the class of that which does now."""
        tensor, register = self.reader.now(source), self.reader.find(source)
        if isinstance(tensor, Tensor) and not self.runtime.knows(type(tensor)):
            self.program.require_type(register, type(tensor))
        else:
            self.program.require_tensor(self.handle(source))

    def operand(self, source: Source) -> int:
        """The number of the operand that stands at a source, if it is one, where its memory goes."""
        self._written.add(source)
        return self._operands.get(source, _UNUSED_OPERAND)

    def words(self, numbers: Sequence[int]) -> int:
        """The address of an array of these words."""
        table = (ctypes.c_int64 * max(1, len(numbers)))(*numbers)
        self.program.keep.append(table)
        return ctypes.addressof(table)

    def distinct(self, sources: Sequence[Source]) -> None:
        """Write that no two sources hold one object; those that are fixed were compared when it was recorded."""
        moving = list(dict.fromkeys(self.reader.find(s) for s in sources if not self.reader.is_fixed(s)))
        fixed = list(dict.fromkeys(self.reader.find(s) for s in sources if self.reader.is_fixed(s)))
        if moving and len(moving) + len(fixed) > 1:
            numbers = [*moving, *fixed]
            self.program.op("distinct", a=self.words(numbers), number=len(moving), offset=len(numbers))


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
