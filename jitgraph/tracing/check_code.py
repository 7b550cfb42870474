"""The code of a call's check, ``match``, written from its plan.

Each source is read once; where a guard holds an object to its identity, the code goes on from that object itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph.eager.device_value import DeviceValue
from jitgraph.eager.native import readable
from jitgraph.errors import HostAccessError
from jitgraph.tensor import Tensor
from jitgraph.tracing.check_ops import NAMES
from jitgraph.tracing.fixed import UNKNOWN, FixedSources
from jitgraph.tracing.operands import argument_array, array_operand, number_operand, operand, scalar
from jitgraph.tracing.plan import CallPlan, Input, Template
from jitgraph.tracing.predicate import Layout, Varies
from jitgraph.tracing.python_code import PythonCode
from jitgraph.tracing.source import STEP_NAMES, STEPS, Source, World
from jitgraph.tracing.storage import EXPECTED_ERRORS


def _is_absent(owner: Any, kind: Any, key: Any) -> bool:
    try:
        STEPS[kind].read(owner, key)
    except EXPECTED_ERRORS:
        return True
    return False


CHECK_NAMES: Final[dict[str, Any]] = {
    **NAMES,
    **STEP_NAMES,
    "DeviceValue": DeviceValue,
    "argument_array": argument_array,
    "array_operand": array_operand,
    "errors": (ArithmeticError, HostAccessError, *EXPECTED_ERRORS),
    "is_absent": _is_absent,
    "math": math,
    "number_operand": number_operand,
    "operand": operand,
    "readable": readable,
    "scalar": scalar,
}
"""What the code of a check may use."""


class CheckWriter:
    """Writes ``match``; one that ``explains`` gives the number of the guard that does not hold, -1 where all do."""

    def __init__(self, code: PythonCode, plan: CallPlan, world: World, *, explains: bool = False) -> None:
        self.code = code
        self.plan = plan
        self.objects: Sequence[Any] = plan.objects
        self.explains = explains
        self.lines: list[str] = []
        self.world = world
        self._fixed = FixedSources(plan, world)
        self._found: dict[Source, str] = {}
        self._operands: dict[str, str] = {}
        self._arrays: dict[str, str] = {}
        self._arguments = set(plan.arguments)
        self._sizes: set[str] = set()
        self._uses: Counter[Source] = Counter()
        self.extra: dict[Source, str] = {}  # owners of effects that each call finds anew: their names in ``epilogue``
        self.names_of_extra: list[str] = []
        self.sources_of_extra: list[Source] = []

    # --- what the ops of predicates ask for -------------------------------------------------------------------------

    def constant(self, value: Any) -> str:
        """The name of an object."""
        return self.code.constant(value)

    def variable(self) -> str:
        """The name of a new variable."""
        return self.code.variable()

    def line(self, text: str) -> None:
        """Write a statement."""
        self.lines.append(text)

    def require(self, condition: str, indent: int = 0) -> None:
        """Write that the check fails where the condition is false."""
        self.lines.append(f"{'    ' * indent}if not ({condition}): return {'at' if self.explains else None}")

    def array_at(self, source: Source, dtype: np.dtype[Any]) -> str:
        """The variable with what stands there as an array of ``dtype``; the check fails where it is none."""
        x, known = self.value_at(source), self.constant(dtype)
        if source not in self._arguments:
            self.require(f"type({x}) in plain_arrays and {x}.dtype == {known}")
            return x
        array = self._arrays[x] = self.variable()
        self.line(f"{array} = {x}")
        self.line(f"if type({x}) not in plain_arrays or {x}.dtype is not {known}:")
        self.line(f"    {array} = argument_array({x}, {known})")
        self.require(f"{array} is not None", indent=1)
        return array

    def operand_of(self, x: str) -> str:
        """The variable that is to hold the value of a handle as an operand."""
        return self._operands.setdefault(x, self.variable())

    def is_tensor(self, x: str) -> bool:
        """Whether ``x`` is a name for one tensor."""
        return isinstance(self.code.names.get(x), Tensor)

    def binds(self, name: str) -> bool:
        """Whether a size is met for the first time, so that it gets its name here."""
        known = name in self._sizes
        self._sizes.add(name)
        return not known

    def read_once(self, source: Source) -> None:
        """Read a source into a variable, as several questions are about what stands there."""
        self._uses[source] += 1

    def value_at(self, source: Source) -> str:
        """What stands at a source: the name of an object or a variable, or an expression that is used once."""
        known = self._found.get(source)
        if known is not None:
            return known
        fixed = self.fixed(source)
        if fixed is not UNKNOWN:
            found = self._found[source] = self.constant(fixed)
            return found
        text = self.read_anew(source)
        if self._uses[source] < 2:
            return text
        variable = self._found[source] = self.variable()
        self.line(f"{variable} = {text}")
        return variable

    def read_anew(self, source: Source) -> str:
        """The code that reads a source from its owner, though guards say what stands there."""
        if not source.steps:
            return f"p[{source.key}]" if source.kind == "argument" else self.constant(self.world.root(source))
        step = source.steps[-1]
        return STEPS[step.kind].expression(self.value_at(source.owner), self.world.key(step), self.constant)

    def fixed(self, source: Source) -> Any:
        """The object that stands at a source wherever the guards hold, or UNKNOWN."""
        return self._fixed.find(source)

    # --- the check --------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the function."""
        plan = self.plan
        owners = [*(effect.owner for effect in plan.effects), *_exposed_sources(plan)]
        handles = {handle.source for handle in plan.handles}
        self._count(handles, owners)
        for number, guard in enumerate(plan.guards):
            if self.explains:
                self.line(f"at = {number}")
            guard.predicate.emit(self, guard.source)
        shown = "".join(f"{self.value_at(handle.source)}, " for handle in plan.handles)
        operands = [self._operand(source) for source in plan.inputs]
        extra: dict[str, str] = {}
        for guard in plan.guards:
            if isinstance(guard.predicate, Varies) and guard.source is not None:
                name = f"n{guard.predicate.number}"
                extra[name] = name
                self.sources_of_extra.append(guard.source)
        for owner in dict.fromkeys(owners):
            if owner not in handles and self.fixed(owner) is UNKNOWN:
                name = self.extra[owner] = f"b{len(self.extra)}"
                extra[name] = self.value_at(owner)
                self.sources_of_extra.append(owner)
        self.names_of_extra = list(extra)
        end = (
            "-1"
            if self.explains
            else f"({shown}), [{', '.join(operands)}], ({''.join(f'{x}, ' for x in extra.values())})"
        )
        self.line(f"return {end}")
        self.code.define(
            "match(p)",
            [
                *(["at = -1"] if self.explains else []),
                "try:",
                *[f"    {line}" for line in self.lines],
                "except errors:",
                f"    return {'at' if self.explains else None}",
            ],
        )

    def _count(self, handles: set[Source], owners: Sequence[Source]) -> None:
        """How often each source is needed: as itself, and as the owner of others."""
        needed: list[Source] = [*handles, *handles, *owners]
        for guard in self.plan.guards:
            if guard.source is not None:
                needed += [guard.source] * (2 if isinstance(guard.predicate, Layout | Varies) else 1)
            needed += guard.predicate.sources * (1 if guard.source is not None else 2)
        needed += [
            plan_input.at for plan_input in self.plan.inputs if plan_input.kind in ("array", "float") for _ in range(2)
        ]
        seen: set[Source] = set()
        for source in needed:
            self._uses[source] += 1
            while source.steps and source not in seen:
                seen.add(source)
                source = source.owner
                self._uses[source] += 1

    def absence(self, source: Source) -> str:
        """The code that says whether nothing stands at a source."""
        step, owner = source.steps[-1], self.value_at(source.owner)
        key = self.world.key(step)
        text = STEPS[step.kind].absence(owner, self.fixed(source.owner), key, self.constant)
        return text or f"is_absent({owner}, {step.kind!r}, {self.constant(key)})"

    def _operand(self, plan_input: Input) -> str:
        match plan_input.kind:
            case "handle":
                return self._operands[self.value_at(self.plan.handles[plan_input.at].source)]
            case "array":
                array_name = self.value_at(plan_input.at)
                return self._operands.get(array_name, f"array_operand({self._arrays.get(array_name, array_name)})")
            case "float":
                return self._float(self.value_at(plan_input.at))
        variable, (text, dtype) = self.variable(), plan_input.at
        self.line(f"{variable} = number_operand({text}, {self.constant(dtype)})")
        return variable

    def _float(self, name: str) -> str:
        """The operand for a float; that of the last call serves again while the float is the same object."""
        last, value = self.constant([(None, None)]), self.variable()
        self.line(f"seen, {value} = {last}[0]")
        self.line(f"if seen is not {name}:")
        self.line(f"    {value} = scalar({name})")
        self.line(f"    {last}[0] = ({name}, {value})")
        return value


def _exposed_sources(plan: CallPlan) -> list[Source]:
    """The sources of the arguments that a result or an effect has in it."""
    values = [plan.result, *plan.shared_templates, *(effect.value for effect in plan.effects)]
    leaves = [leaf for value in values if isinstance(value, Template) for leaf in value.leaves]
    return [leaf.at for leaf in leaves if isinstance(leaf.at, Source)]
