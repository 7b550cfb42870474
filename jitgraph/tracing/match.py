"""The check before a compiled call: do the arguments and the captured state fit, and which arrays go in.

A specialisation is described by plain data (keys of leaves, slots, inputs, guards); here it becomes one Python
function, which gives the handles in the slots, the operands for the inputs and the numbers that vary, or None where
anything differs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph import foreign
from jitgraph.eager import EagerValue
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.tensor import Tensor
from jitgraph.tracing.arguments import LeafKey, Static
from jitgraph.tracing.guards import Guard, Place, compile_guards, found_at, same_float
from jitgraph.tracing.operands import array_operand, native_type, number_operand, operand, readable, scalar
from jitgraph.tracing.program import Program, Slot, changed_boxes
from jitgraph.tree import TreeDef

Match: TypeAlias = "tuple[tuple[Any, ...], list[EagerValue], tuple[Any, ...]]"
Matcher: TypeAlias = Callable[[tuple[Any, ...]], "Match | None"]

_ERRORS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def build_matcher(structure: TreeDef, keys: Sequence[LeafKey], program: Program) -> Matcher:
    """The function that checks bound arguments against all that the program assumes."""
    writer = _Writer(program)
    writer.arguments(structure, keys)
    writer.state()
    return writer.function()


class _Writer:
    """Writes the source of one matcher; constants go into its namespace."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.names: dict[str, Any] = {
            "Tensor": Tensor,
            "Static": Static,
            "arrays": foreign.PLAIN,
            "operand": operand,
            "readable": readable,
            "array_operand": array_operand,
            "scalar": scalar,
            "number_operand": number_operand,
            "same_float": same_float,
            "fits": Guard.fits,
            "math": math,
            "errors": _ERRORS,
        }
        self.sizes: set[str] = set()
        self.boxes: list[str] = []
        self.leaves: list[str] = []
        self.slot_variables: list[str] = []
        self.values: dict[str, str] = {}  # handle variable -> variable of its value as an operand
        self.count = 0

    def constant(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def variable(self) -> str:
        self.count += 1
        return f"x{self.count}"

    def require(self, condition: str) -> None:
        self.lines.append(f"if not ({condition}): return None")

    # --- arguments --------------------------------------------------------------------------------------------------

    def arguments(self, structure: TreeDef, keys: Sequence[LeafKey]) -> None:
        places: list[str] = []
        for i, child in enumerate(structure.children):
            self.walk(f"p[{i}]", child, places)
        for place, key in zip(places, keys, strict=True):
            self.leaf(place, key)

    def walk(self, place: str, structure: TreeDef, leaves: list[str]) -> None:
        if structure.kind is None:
            leaves.append(place)
            return
        if structure.kind is type(None):
            self.require(f"{place} is None")
            return
        variable = self.variable()
        self.boxes.append(variable)
        self.lines.append(f"{variable} = {place}")
        self.require(f"type({variable}) is {self.constant(structure.kind)}")
        if issubclass(structure.kind, dict):
            self.require(f"tuple({variable}) == {self.constant(tuple(step[0] for step in structure.steps))}")
        elif issubclass(structure.kind, tuple | list):
            self.require(f"len({variable}) == {len(structure.steps)}")
        for step, child in zip(structure.steps, structure.children, strict=True):
            by_name = type(step).__name__ == "Attribute"
            inner = f"{variable}.{step[0]}" if by_name else f"{variable}[{self.constant(step[0])}]"
            self.walk(inner, child, leaves)

    def leaf(self, place: str, key: LeafKey) -> None:
        number, variable = len(self.leaves), self.variable()
        self.leaves.append(variable)
        self.lines.append(f"{variable} = {place}")
        match key.kind:
            case "tensor":
                if key.first != number:
                    self.require(f"{variable} is {self.leaves[key.first]}")
                    return
                self.require(f"isinstance({variable}, Tensor)")
                self.tensor(variable, key.dtype, key.shape, key.requires_grad)
            case "array":
                self.require(f"type({variable}) in arrays")
                self.array(variable, key.dtype, key.shape)
            case "float":
                self.require(f"type({variable}) is float")
            case "number":
                self.require(f"type({variable}) is int")
            case "identity":
                self.require(f"{variable} is {self.constant(key.value)}")
            case _:
                self.static(variable, key)

    def static(self, variable: str, key: LeafKey) -> None:
        self.lines.append(f"{variable} = {variable}.value if type({variable}) is Static else {variable}")
        if key.kind == "static float":
            self.require(f"same_float({variable}, {self.constant(key.value)})")
        else:
            kind = self.constant(type(key.value))
            self.require(f"type({variable}) is {kind} and {variable} == {self.constant(key.value)}")

    def tensor(self, variable: str, dtype: Any, shape: Sequence[DimLike], requires_grad: bool) -> None:
        """The checks of a handle's value; as an operand it gets a variable."""
        value = self.variable()
        self.lines.append(f"{value} = {variable}._value")
        self.values[variable] = value
        negation = "" if requires_grad else "not "
        self.require(f"{negation}({variable}._requires_grad or {value}.record is not None)")
        fixed = tuple(size for size in shape if isinstance(size, int))
        if len(fixed) == len(shape):
            known = self.constant(native_type(dtype, fixed))
            self.lines.append(f"if {value}.native is not {known}:")
            self.lines.append(f"    {value} = operand({value}, {known})")
            self.lines.append(f"    if {value} is None: return None")
            return
        self.lines.append(f"{value} = readable({value})")
        array = self.variable()
        self.lines.append(f"{array} = {value}.array")
        self.array(array, dtype, shape)

    def array(self, variable: str, dtype: Any, shape: Sequence[DimLike]) -> None:
        known = self.constant(dtype)
        self.require(f"{variable}.dtype is {known} or {variable}.dtype == {known}")
        if all(isinstance(size, int) for size in shape):
            self.require(f"{variable}.shape == {tuple(shape)!r}")
            return
        sizes = self.variable()
        self.lines.append(f"{sizes} = {variable}.shape")
        self.require(f"len({sizes}) == {len(shape)}")
        for axis, size in enumerate(shape):
            name = size.as_name if isinstance(size, Dim) else None
            if name is not None and name not in self.sizes:
                self.sizes.add(name)
                self.lines.append(f"n_{name} = {sizes}[{axis}]")
            else:
                self.require(f"{sizes}[{axis}] == {_size_text(size)}")

    # --- captured state ---------------------------------------------------------------------------------------------

    def state(self) -> None:
        program = self.program
        for constraint in program.graph.constraints:
            self.require(f"{_size_text(constraint.left)} {constraint.relation} {_size_text(constraint.right)}")
        if program.guards:
            self.require(f"{self.constant(compile_guards(program.guards))}()")
        for number, guard in program.attributes:
            found = f"getattr({self.boxes[number]}, {self.constant(guard.place.key)})"
            self.require(f"fits({self.constant(guard)}, {found})")
        self.numbers()
        handles = [self.slot(slot) for slot in program.slots]
        for number, grad in program.grads_present:
            expected = "None" if grad is None else self.slot_variables[grad]
            self.require(f"{self.slot_variables[number]}._grad is {expected}")
        for place, number in program.ties:
            self.require(f"{self.found_at(place)} is {self.slot_variables[number]}")
        distinct = list(dict.fromkeys(handles))
        if len(distinct) > 1:
            ids = ", ".join(f"id({variable})" for variable in distinct)
            self.require(f"len({{{ids}}}) == {len(distinct)}")
        operands = [self.operand(source.kind, source.at) for source in program.inputs]
        shown = f"({', '.join(handles)},)" if handles else "()"
        numbers = "".join(f"n{origin.number}, " for origin in program.numbers) + self.changed()
        self.lines.append(f"return {shown}, [{', '.join(operands)}], ({numbers})")

    def changed(self) -> str:
        """The containers of the arguments that the call changes; which of them are one object is assumed then."""
        program = self.program
        if not program.changes:
            return ""
        boxes = dict(enumerate(self.boxes))
        for number, first in enumerate(program.aliases):
            if first != number:
                self.require(f"{boxes.pop(number)} is {boxes[first]}")
        self.require(f"len({{{', '.join(f'id({box})' for box in boxes.values())}}}) == {len(boxes)}")
        return "".join(f"{self.boxes[number]}, " for number in changed_boxes(program))

    def numbers(self) -> None:
        """The Python numbers that vary, and what must be true of them."""
        for origin in self.program.numbers:
            found = self.leaves[origin.leaf] if origin.place is None else self.found_at(origin.place)
            self.lines.append(f"n{origin.number} = {found}")
            self.require(f"type(n{origin.number}) is {origin.kind.__name__}")
        for question in self.program.questions:
            self.require(question.condition())

    def slot(self, slot: Slot) -> str:
        if slot.kind == "argument":
            variable: str = self.leaves[slot.at]
            self.slot_variables.append(variable)
            return variable
        variable = self.variable()
        self.slot_variables.append(variable)
        if slot.kind == "handle":
            found = self.constant(slot.at)
        elif slot.kind == "grad":
            found = f"{self.slot_variables[slot.at]}._grad"
        else:
            found = self.found_at(slot.at)
        self.lines.append(f"{variable} = {found}")
        if slot.kind != "handle":
            self.require(f"isinstance({variable}, Tensor)")
        if slot.type is not None:
            self.tensor(variable, slot.type.dtype, slot.type.shape, slot.requires_grad)
        return variable

    def found_at(self, place: Place) -> str:
        """The expression for what stands at a place."""
        return found_at(place, self.constant(None), self.constant(None), self.names)

    def operand(self, kind: str, at: Any) -> str:
        match kind:
            case "slot":
                return self.values[self.slot_variables[at]]
            case "argument array":
                leaf = self.leaves[at]
                return self.values.get(leaf, f"array_operand({leaf})")
            case "float":
                return self.number(self.leaves[at])
            case "host float":
                variable, (mapping, key) = self.variable(), at
                self.lines.append(f"{variable} = {self.constant(mapping)}[{self.constant(key)}]")
                self.require(f"type({variable}) is float")
                return self.number(variable)
            case "number":
                variable, (text, dtype) = self.variable(), at
                self.lines.append(f"{variable} = number_operand({text}, {self.constant(dtype)})")
                return variable
        variable, known = self.constant(at), at
        self.array(variable, known.dtype, known.shape)
        return f"array_operand({variable})"

    def number(self, variable: str) -> str:
        """The operand for a float; that of the last call serves again while the float is the same object."""
        last, value = self.constant([(None, None)]), self.variable()
        self.lines.append(f"seen, {value} = {last}[0]")
        self.lines.append(f"if seen is not {variable}:")
        self.lines.append(f"    {value} = scalar({variable})")
        self.lines.append(f"    {last}[0] = ({variable}, {value})")
        return value

    def function(self) -> Matcher:
        body = "\n        ".join(self.lines)
        source = f"def match(p):\n    try:\n        {body}\n    except errors:\n        return None\n"
        exec(compile(source, "<jitgraph matcher>", "exec"), self.names)
        matcher: Matcher = self.names["match"]
        return matcher


def _size_text(size: DimLike) -> str:
    if isinstance(size, int):
        return str(size)
    renamed = dims.transform(size, lambda name: Dim.name(f"n_{name}"))
    return f"({renamed})"
