"""The Python code of a call, written from its plan: the check, the conclusion, and the way into native code.

``match(p)`` looks at the bound arguments and the state: it gives the handles, the operands, and what the conclusion
needs besides, or None where a guard does not hold. ``conclude(h, i, o, n)`` makes the effects and the result from the
handles, the operands, the values of the outputs and that. Each source is read once; where a guard holds an object to
its identity, the code goes on from that object itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from jitgraph.eager import EagerValue
from jitgraph.runtime import loader
from jitgraph.tensor import Tensor
from jitgraph.tracing.guard import NAMES, Absent, Apart, Distinct, Guard, Is, Layout, Same, Varies
from jitgraph.tracing.log import OPERATIONS
from jitgraph.tracing.operands import array_operand, number_operand, operand, readable, scalar
from jitgraph.tracing.plan import CallPlan, Computed, Effect, Input, Leaf, Template
from jitgraph.tracing.source import EXPECTED_ERRORS, STEP_NAMES, STEPS, Ref, Source, World

Match: TypeAlias = "tuple[tuple[Any, ...], list[EagerValue], tuple[Any, ...]]"

_ERRORS = (ArithmeticError, *EXPECTED_ERRORS)
_UNKNOWN = object()


class CallCode(NamedTuple):
    """The functions of a call."""

    match: Callable[[tuple[Any, ...]], Match | None]
    conclude: Callable[[Sequence[Any], Sequence[EagerValue], Sequence[EagerValue], Sequence[Any]], Any]


def call_code(plan: CallPlan, function: Any) -> CallCode:
    """The functions of a plan for the function that was traced."""
    code = _Code()
    check = _Check(code, plan, World(function, (), plan.objects))
    check.write()
    _Conclusion(code, plan, check).write()
    names = code.compiled()
    return CallCode(names["match"], names["conclude"])


def first_failing(plan: CallPlan, function: Any, arguments: tuple[Any, ...]) -> Guard | None:
    """The first guard that does not hold for bound arguments and the state now; None where all do."""
    code = _Code()
    _Check(code, plan, World(function, (), plan.objects), explains=True).write()
    number: int = code.compiled()["match"](arguments)
    return plan.guards[number] if number >= 0 else None


class _Code:
    """Text of functions, and the objects that they use by name."""

    def __init__(self) -> None:
        self.functions: list[str] = []
        self.names: dict[str, Any] = {
            **NAMES,
            "Tensor": Tensor,
            "array_operand": array_operand,
            "errors": _ERRORS,
            "int": int,
            "float": float,
            **STEP_NAMES,
            "is_absent": _is_absent,
            "math": math,
            "new_handle": Tensor._of,
            "number_operand": number_operand,
            "operand": operand,
            "readable": readable,
            "scalar": scalar,
        }
        self._constants: dict[int, str] = {}
        self._variables = 0

    def constant(self, value: Any) -> str:
        """The name of an object."""
        found = self._constants.get(id(value))
        if found is None:
            found = self._constants[id(value)] = f"k{len(self._constants)}"
            self.names[found] = value
        return found

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


def _is_absent(owner: Any, kind: Any, key: Any) -> bool:
    try:
        STEPS[kind].read(owner, key)
    except EXPECTED_ERRORS:
        return True
    return False


class _Check:
    """Writes ``match``; one that ``explains`` gives the number of the guard that does not hold, -1 where all do."""

    def __init__(self, code: _Code, plan: CallPlan, world: World, *, explains: bool = False) -> None:
        self.code = code
        self.plan = plan
        self.objects: Sequence[Any] = plan.objects
        self.explains = explains
        self.lines: list[str] = []
        self._world = world
        self._identities = {g.source: g.predicate.number for g in plan.guards if isinstance(g.predicate, Is)}
        self._fixed: dict[Source, Any] = {}
        self._found: dict[Source, str] = {}
        self._operands: dict[str, str] = {}
        self._sizes: set[str] = set()
        self._uses: Counter[Source] = Counter()
        self.extra: dict[Source, str] = {}  # owners of effects that each call finds anew: their names in ``conclude``
        self.names_of_extra: list[str] = []

    # --- what predicates ask for ------------------------------------------------------------------------------------

    def constant(self, value: Any) -> str:
        return self.code.constant(value)

    def variable(self) -> str:
        return self.code.variable()

    def line(self, text: str) -> None:
        self.lines.append(text)

    def require(self, condition: str, indent: int = 0) -> None:
        self.lines.append(f"{'    ' * indent}if not ({condition}): return {'at' if self.explains else None}")

    def operand_of(self, x: str) -> str:
        return self._operands.setdefault(x, self.variable())

    def is_tensor(self, x: str) -> bool:
        return isinstance(self.code.names.get(x), Tensor)

    def binds(self, name: str) -> bool:
        known = name in self._sizes
        self._sizes.add(name)
        return not known

    def found(self, source: Source) -> str:
        """What stands at a source: the name of an object or a variable, or an expression that nobody else needs."""
        known = self._found.get(source)
        if known is not None:
            return known
        fixed = self.fixed(source)
        if fixed is not _UNKNOWN:
            found = self._found[source] = self.constant(fixed)
            return found
        text = self._expression(source)
        if self._uses[source] < 2:
            return text
        variable = self._found[source] = self.variable()
        self.line(f"{variable} = {text}")
        return variable

    def _expression(self, source: Source) -> str:
        """The code that reads a source from its owner."""
        if not source.steps:
            return f"p[{source.key}]" if source.kind == "argument" else self.constant(self._world.root(source))
        step = source.steps[-1]
        return STEPS[step.kind].expression(self.found(source.owner), self._world.key(step), self.constant)

    # --- what stays the same ----------------------------------------------------------------------------------------

    def fixed(self, source: Source) -> Any:
        """The object that stands at a source wherever the guards hold, or _UNKNOWN."""
        if source not in self._fixed:
            self._fixed[source] = self._fixed_at(source)
        return self._fixed[source]

    def _fixed_at(self, source: Source) -> Any:
        number = self._identities.get(source)
        if number is not None:
            return self.objects[number]
        if not source.steps:
            return _UNKNOWN if source.kind == "argument" else self._world.root(source)
        owner, step = self.fixed(source.owner), source.steps[-1]
        if owner is _UNKNOWN or not (STEPS[step.kind].fixed or (step.kind == "item" and type(owner) is tuple)):
            return _UNKNOWN
        return STEPS[step.kind].read(owner, self._world.key(step))

    # --- the check --------------------------------------------------------------------------------------------------

    def write(self) -> None:
        """Write the function."""
        plan = self.plan
        owners = [*map(effect_owner, plan.effects), *_given_out(plan)]
        handles = {handle.source for handle in plan.handles}
        self._count(handles, owners)
        for number, guard in enumerate(plan.guards):
            if self.explains:
                self.line(f"at = {number}")
            self._guard(guard)
        shown = "".join(f"{self.found(handle.source)}, " for handle in plan.handles)
        operands = [self._operand(source) for source in plan.inputs]
        numbers = [g.predicate.number for g in plan.guards if isinstance(g.predicate, Varies)]
        extra = {f"n{number}": f"n{number}" for number in numbers}
        for owner in dict.fromkeys(owners):
            if owner not in handles and self.fixed(owner) is _UNKNOWN:
                name = self.extra[owner] = f"b{len(self.extra)}"
                extra[name] = self.found(owner)
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
            if isinstance(guard.predicate, Distinct | Apart):
                needed += guard.predicate.sources * 2
            if isinstance(guard.predicate, Same):
                needed.append(guard.predicate.other)
        needed += [given.at for given in self.plan.inputs if given.kind in ("array", "float") for _ in range(2)]
        seen: set[Source] = set()
        for source in needed:
            self._uses[source] += 1
            while source.steps and source not in seen:
                seen.add(source)
                source = source.owner
                self._uses[source] += 1

    def _guard(self, guard: Guard) -> None:
        source, predicate = guard.source, guard.predicate
        if source is None:
            predicate.emit(self, "")
        elif isinstance(predicate, Absent):
            step = source.steps[-1]
            key = self.constant(self._world.key(step))
            self.require(f"is_absent({self.found(source.owner)}, {step.kind!r}, {key})")
        elif isinstance(predicate, Is):
            predicate.emit(self, self._expression(source))
        else:
            predicate.emit(self, self.found(source))

    def _operand(self, given: Input) -> str:
        match given.kind:
            case "handle":
                return self._operands[self.found(self.plan.handles[given.at].source)]
            case "array":
                found = self.found(given.at)
                return self._operands.get(found, f"array_operand({found})")
            case "float":
                return self._float(self.found(given.at))
        variable, (text, dtype) = self.variable(), given.at
        self.line(f"{variable} = number_operand({text}, {self.constant(dtype)})")
        return variable

    def _float(self, found: str) -> str:
        """The operand for a float; that of the last call serves again while the float is the same object."""
        last, value = self.constant([(None, None)]), self.variable()
        self.line(f"seen, {value} = {last}[0]")
        self.line(f"if seen is not {found}:")
        self.line(f"    {value} = scalar({found})")
        self.line(f"    {last}[0] = ({found}, {value})")
        return value


def effect_owner(effect: Effect) -> Source:
    """The source of the object that an effect changes."""
    return effect.source.owner if effect.operation in ("set", "delete") else effect.source


def _given_out(plan: CallPlan) -> list[Source]:
    """The sources of the arguments that a result or an effect has in it."""
    values = [plan.result, *plan.shared, *(effect.value for effect in plan.effects)]
    leaves = [leaf for value in values if isinstance(value, Template) for leaf in value.leaves]
    return [leaf.at for leaf in leaves if isinstance(leaf.at, Source)]


class _Conclusion:
    """Writes ``conclude``. Values that it needs are read before anything is written."""

    def __init__(self, code: _Code, plan: CallPlan, check: _Check) -> None:
        self.code = code
        self.plan = plan
        self.check = check
        self.lines: list[str] = []
        self._handles = plan.numbers
        self._values: dict[Computed, str] = {}
        self._copies: dict[int, str] = {}
        self._shared: dict[int, str] = {}
        self._taped = {value.number for value in plan.computed if value.kind == "output" and value.differentiable}

    def write(self) -> None:
        """Write the function."""
        if self.check.names_of_extra:
            self.lines.append(f"{', '.join(self.check.names_of_extra)}, = n")
        for number, fresh in enumerate(self.plan.fresh):
            self.lines.append(f"f{number} = new_handle({self._value(fresh.value)}, {fresh.requires_grad})")
            if fresh.weak:
                self.lines.append(f"f{number}._weak = True")
        for _, value in self.plan.rebound:
            self._value(value)
        for effect in self.plan.effects:
            self.lines.append(self._effect(effect))
        self.lines.append(f"return {self._template(self.plan.result)}")
        self.code.define("conclude(h, i, o, n)", self.lines)

    def _value(self, value: Computed) -> str:
        """The expression for a value: an output, or what an input's handle held before anything is written."""
        if value.kind == "output" and (value.differentiable or value.number not in self._taped):
            return f"o[{value.number}]"
        if value not in self._values:
            variable = self._values[value] = f"v{len(self._values)}"
            handle = self.plan.inputs[value.number].at if value.kind == "input" else None
            found = f"o[{value.number}]" if handle is None else f"h[{handle}].value"
            self.lines.append(f"{variable} = {found if value.differentiable else found + '.recorded(None)'}")
        return self._values[value]

    def _effect(self, effect: Effect) -> str:
        """What does again what the function did to Python state."""
        value = effect.value
        if isinstance(value, Computed):
            text = self._value(value)
        else:
            text = self._template(value) if isinstance(value, Template) else str(value)
        owner = self._owner(effect_owner(effect))
        if effect.operation not in ("set", "delete"):
            return OPERATIONS[effect.operation].format(owner=owner, value=text)
        step = effect.source.steps[-1]
        key = self.plan.objects[step.key.number] if isinstance(step.key, Ref) else step.key
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
            case "argument":
                return self._owner(at)
            case "shared":
                return self._once(at)
            case "copy":
                return self._copy(at)
        return f"f{at}._value.array.item()" if self.plan.fresh[at].weak else f"f{at}"

    def _once(self, number: int) -> str:
        """The variable with a container that stands in several places."""
        found = self._shared.get(number)
        if found is None:
            text = self._template(self.plan.shared[number])
            found = self._shared[number] = f"s{number}"
            self.lines.append(f"{found} = {text}")
        return found

    def _copy(self, number: int) -> str:
        """The variable with this call's own copy of an object that the function made."""
        found = self._copies.get(number)
        if found is None:
            found = self._copies[number] = f"c{len(self._copies)}"
            self.lines.append(f"{found} = {self.code.constant(self.plan.objects[number].again)}()")
        return found


class EntryCode(NamedTuple):
    """Two loops that each call of native code takes, written out."""

    enter: Callable[[loader.Plan, Sequence[EagerValue], Sequence[EagerValue]], None]
    assemble: Callable[[loader.Plan, Sequence[EagerValue]], list[EagerValue]]


def entry_code(
    entry: loader.Entry, takes: Sequence[Callable[[loader.Plan], EagerValue]], taken_over: Sequence[int]
) -> EntryCode:
    """``enter`` gives the addresses of operands and results to the code. ``assemble`` makes the results: those numbered
    in ``taken_over`` come from the state, the others from ``takes``."""
    inputs = [f"i{n}" for n in range(len(entry.signature.parameters))]
    given = [f"o{n}" for n in range(len(takes))]
    addresses = ", ".join(f"{name}.address" for name in (*inputs, *given))
    made = [f"t[{taken_over.index(n)}]" if n in taken_over else f"take{n}(plan)" for n in range(len(takes))]
    code = _Code()
    code.names = {"call": entry.call, "pack": entry.pack, **{f"take{n}": take for n, take in enumerate(takes)}}
    code.define(
        "enter(plan, operands, results)",
        [
            f"[{', '.join(inputs)}] = operands",
            f"[{', '.join(given)}] = results",
            f"call(plan, pack({addresses}))",
        ],
    )
    code.define("assemble(plan, t)", [f"return [{', '.join(made)}]"])
    names = code.compiled()
    return EntryCode(names["enter"], names["assemble"])
