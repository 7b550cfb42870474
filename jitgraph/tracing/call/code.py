"""The Python code of a call, written from its plan: the check, the epilogue, the operands and the way into native
code.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np

from jitgraph import foreign
from jitgraph.dtypes import is_float
from jitgraph.eager.handle import ValueHandle, class_of_tensors
from jitgraph.eager.native import owned_value, readable, readable_as
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue, native_type
from jitgraph.errors import HostAccessError, JitgraphError
from jitgraph.ir.types import TensorType
from jitgraph.records import NamedTuple
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor, scalars
from jitgraph.tracing.call.plan import UNKNOWN, CallPlan, Computed, Effect, FixedSources, Input, Leaf, Template
from jitgraph.tracing.call.undo_log import OPERATION_NAMES, OPERATIONS
from jitgraph.tracing.guards.check_ops import NAMES
from jitgraph.tracing.guards.guard import Guard, Layout, Varies
from jitgraph.tracing.guards.source import STEP_NAMES, STEPS, Source, World
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS

# ----------------------------------------------------------------------
# Operands of compiled calls: what callers pass as eager values whose memory native code can read.


def operand(value: EagerValue, type: TensorType) -> EagerValue | None:
    """``value`` for native code that takes ``type``; None where it is of another."""
    array = value.array
    if (array.dtype is not type.dtype and array.dtype != type.dtype) or array.shape != type.shape:
        return None
    return readable_as(value, array, type)


def scalar(number: float) -> EagerValue:
    """A Python float as an operand."""
    array = np.array(number, "d")
    return owned_value(array, native_type(array.dtype, ()), loader.address_of(array))


def number_operand(number: int | float, dtype: np.dtype[Any]) -> EagerValue:
    """A Python number in ``dtype`` as an operand; OverflowError where ``dtype`` does not hold it."""
    scalars.require_representable(number, dtype)
    value = float(number) if is_float(dtype) else number
    with np.errstate(over="ignore"):
        array = np.array(value, dtype) if dtype.itemsize > 2 else np.full((), value, dtype)  # which round 16 bits apart
    return owned_value(array, native_type(array.dtype, ()), loader.address_of(array))


def argument_array(x: Any, dtype: np.dtype[Any]) -> Any:
    """An argument as an array of ``dtype`` that native code can be given; None where it is none, or to be refused.

    A tensor is none, though it could be read as one: its call gives out and writes handles.
    """
    if isinstance(x, ValueHandle):
        return None
    try:
        array = foreign.as_argument(x, "the argument")
    except JitgraphError:  # raised with the name of the argument where the call is found to fit nothing
        return None
    return array if isinstance(array, np.ndarray) and array.dtype == dtype else None


def array_operand(array: Any) -> EagerValue:
    """An array of the caller's as an operand."""
    return readable(EagerValue(array, access="borrowed"))


def arrays_of(operands: Sequence[EagerValue]) -> list[Any]:
    """The arrays of operands."""
    return [value.array for value in operands]


# ----------------------------------------------------------------------
# The Python code of a call, written from its plan: the check, the epilogue, and the way into native code.

# ----------------------------------------------------------------------
# PythonCode: the text of generated functions, and the objects that they use by name.


class PythonCode:
    """Text of functions, and the objects that they use by name."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self.functions: list[str] = []
        self.names = dict(names)
        self._constants: dict[int, str] = {}
        self._variables = 0

    def constant(self, value: Any) -> str:
        """The name of an object."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            self.names[name] = value
        return name

    def variable(self) -> str:
        """The name of a new variable."""
        self._variables += 1
        return f"x{self._variables}"

    def define(self, head: str, lines: Sequence[str], indent: int = 1) -> None:
        """Add a function with these lines."""
        self.functions.append(f"def {head}:\n" + "".join(f"{'    ' * indent}{line}\n" for line in lines))

    def compiled(self) -> dict[str, Any]:
        """The functions by name, among the objects that they use."""
        exec(compile("".join(self.functions), "<jitgraph call>", "exec"), self.names)
        return self.names


# ----------------------------------------------------------------------
# The code of a call's check, ``match``, written from its plan.
#
# Each source is read once; where a guard holds an object to its identity, the code goes on from that object itself.


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


# ----------------------------------------------------------------------
# The code of a call's epilogue, written from its plan: what is done and given out after the graph has run.

EPILOGUE_NAMES: Final[dict[str, Any]] = {**STEP_NAMES, **OPERATION_NAMES, "math": math, "new_handle": Tensor._of}
"""What the code of a epilogue may use."""


class Epilogue:
    """Writes ``epilogue``. Values that it needs are read before anything is written."""

    def __init__(self, code: PythonCode, plan: CallPlan, check: CheckWriter) -> None:
        self.code = code
        self.plan = plan
        self.check = check
        self.lines: list[str] = []
        self._handles = plan.handle_numbers
        self._values: dict[Computed, str] = {}
        self._containers: dict[int, str] = {}
        self._taped = {value.number for value in plan.computed if value.kind == "output" and value.differentiable}

    def write(self) -> None:
        """Write the function."""
        if self.check.names_of_extra:
            self.lines.append(f"{', '.join(self.check.names_of_extra)}, = n")
        if self.plan.copied is not None:
            self.lines.append(f"c = {self.code.constant(self.plan.objects[self.plan.copied].copies)}()")
        for number, fresh in enumerate(self.plan.fresh):
            new = f"{self.code.constant(class_of_tensors(fresh.api))}._of" if fresh.api else "new_handle"
            self.lines.append(f"f{number} = {new}({self._value(fresh.value)}, {fresh.requires_grad})")
            if fresh.weak:
                self.lines.append(f"f{number}._weak = True")
        for number, view in enumerate(self.plan.views):
            parts = self._leaf(view.root) + (f", f{view.value}" if view.value >= 0 else "")
            self.lines.append(f"w{number} = {self.code.constant(self.plan.objects[view.make])}({parts})")
        for _, value in self.plan.rebound:
            self._value(value)
        for effect in self.plan.effects:
            self.lines.append(self._effect(effect))
        for number, view in enumerate(self.plan.views):
            if view.value >= 0:
                self.lines.append(f"w{number}.steps[-1].see({self._leaf(view.root)})")
        self.lines.append(f"return {self._template(self.plan.result)}")
        self.code.define("epilogue(h, i, o, n)", self.lines)

    def _value(self, value: Computed) -> str:
        """The expression for a value: an output, or what an input's handle held before anything is written."""
        if value.kind == "output" and (value.differentiable or value.number not in self._taped):
            return f"o[{value.number}]"
        if value not in self._values:
            variable = self._values[value] = f"v{len(self._values)}"
            handle = self.plan.inputs[value.number].at if value.kind == "input" else None
            expression = f"o[{value.number}]" if handle is None else f"h[{handle}].value"
            self.lines.append(f"{variable} = {expression if value.differentiable else expression + '.recorded(None)'}")
        return self._values[value]

    def _effect(self, effect: Effect) -> str:
        """What does again what the function did to Python state."""
        value = effect.value
        if isinstance(value, Computed):
            text = self._value(value)
        else:
            text = self._template(value) if isinstance(value, Template) else str(value)
        owner = self._owner(effect.owner)
        if effect.operation not in ("set", "delete"):
            return OPERATIONS[effect.operation].format(owner=owner, value=text)
        step = effect.source.steps[-1]
        key = self.check.world.key(step)
        if effect.operation == "set":
            return STEPS[step.kind].assignment(owner, key, text, self.code.constant)
        return STEPS[step.kind].deletion(owner, key, self.code.constant)

    def _owner(self, source: Source) -> str:
        number = self._handles.get(source)
        if number is not None:
            return f"h[{number}]"
        return self.check.extra.get(source) or self.code.constant(self.check.fixed(source))

    def _template(self, template: Template) -> str:
        leaves = [self._leaf(leaf) for leaf in template.leaves]
        structure = template.structure
        if structure.kind is None:
            return leaves[0]
        if structure.kind is tuple and all(child.kind is None for child in structure.children):
            return f"({''.join(f'{leaf}, ' for leaf in leaves)})"
        return f"{self.code.constant(structure.unflatten)}([{', '.join(leaves)}])"

    def _made(self, number: int) -> str:
        """The variable with a container that stands at several places."""
        if number not in self._containers:
            text = self._template(self.plan.shared_templates[number])
            self._containers[number] = f"m{number}"
            self.lines.append(f"m{number} = {text}")
        return self._containers[number]

    def _leaf(self, leaf: Leaf) -> str:
        at: Any = leaf.at
        match leaf.kind:
            case "handle":
                return f"h[{at}]"
            case "plain":
                return self.code.constant(at.value)
            case "object":
                return self.code.constant(self.plan.objects[at])
            case "number":
                return str(at)
            case "copy":
                return f"c[{at}]"
            case "made":
                return self._made(at)
            case "view":
                return f"w{at}"
            case "argument":
                return self._owner(at)
        if not self.plan.fresh[at].weak:
            return f"f{at}"
        return f"f{at}._value.array.item()" if self.plan.device == CPU else f"f{at}.item()"


# ----------------------------------------------------------------------
# The Python code of a call, written from its plan: the check, the epilogue, and the way into native code.
#
# ``match(p)`` looks at the bound arguments and the state: it gives the handles, the operands, and what the epilogue
# needs besides, or None where a guard does not hold. ``epilogue(h, i, o, n)`` makes the effects and the result from the
# handles, the operands, the values of the outputs and that. Each source is read once; where a guard holds an object to
# its identity, the code goes on from that object itself.

Match: TypeAlias = "tuple[tuple[Any, ...], list[EagerValue], tuple[Any, ...]]"


class CallCode(NamedTuple):
    """The functions of a call."""

    match: Callable[[tuple[Any, ...]], Match | None]
    epilogue: Callable[[Sequence[Any], Sequence[EagerValue], Sequence[EagerValue], Sequence[Any]], Any]
    extra: tuple[Source, ...]
    """Where that which the epilogue needs besides is found."""


def call_code(plan: CallPlan, function: Any) -> CallCode:
    """The functions of a plan for the function that was traced."""
    code = PythonCode({**CHECK_NAMES, **EPILOGUE_NAMES})
    check = CheckWriter(code, plan, World(function, (), plan.objects))
    check.write()
    Epilogue(code, plan, check).write()
    names = code.compiled()
    return CallCode(names["match"], names["epilogue"], tuple(check.sources_of_extra))


def first_failing(plan: CallPlan, function: Any, arguments: tuple[Any, ...]) -> Guard | None:
    """The first guard that does not hold for bound arguments and the state now; None where all do."""
    code = PythonCode(CHECK_NAMES)
    CheckWriter(code, plan, World(function, (), plan.objects), explains=True).write()
    number: int = code.compiled()["match"](arguments)
    return plan.guards[number] if number >= 0 else None
