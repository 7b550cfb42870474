"""What a call does after its graph has run: write back, set gradients, build the result. One generated function.

``Program`` says it as plain data; here it becomes ``epilogue(h, i, o, n)``, of the handles in the slots, the operands,
the values of the outputs and the numbers that vary. Values that it needs are read before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from jitgraph.eager import EagerValue
from jitgraph.tensor import Tensor
from jitgraph.tracing.program import Leaf, Program, Remade, Source, Template, changed_boxes
from jitgraph.tracing.record.argument_mutation import Change

Epilogue: TypeAlias = Callable[[Sequence[Any], Sequence[EagerValue], Sequence[EagerValue], Sequence[Any]], Any]


def build_epilogue(program: Program) -> Epilogue:
    """The function that makes the result of a call and all of its effects."""
    return _Writer(program).function()


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"of": Tensor._of, "math": math}
        self.variables: dict[Source, str] = {}
        self.copies: dict[int, str] = {}
        sources = [fresh.source for fresh in program.fresh] + [source for _, source in program.writes]
        self.taped = {s.number for s in sources if s.kind == "output" and s.differentiable}

    def constant(self, value: Any) -> str:
        name = f"k{len(self.names)}"
        self.names[name] = value
        return name

    def value(self, source: Source) -> str:
        """The expression for a value: an output, or what an input's handle held before anything is written."""
        if source.kind == "output" and (source.differentiable or source.number not in self.taped):
            return f"o[{source.number}]"
        if source not in self.variables:
            variable = self.variables[source] = f"v{len(self.variables)}"
            slot = self.program.inputs[source.number].at
            found = f"h[{slot}].value" if source.kind == "input" else f"o[{source.number}]"
            self.lines.append(f"{variable} = {found if source.differentiable else found + '.recorded(None)'}")
        return self.variables[source]

    def leaf(self, leaf: Leaf) -> str:
        if leaf.kind == "slot":
            return f"h[{leaf.at}]"
        if leaf.kind == "python":
            return self.constant(leaf.at)
        if leaf.kind == "number":
            return str(leaf.at)
        if leaf.kind == "copy":
            return self.copy(leaf.at)
        return f"f{leaf.at}._value.array.item()" if self.program.fresh[leaf.at].weak else f"f{leaf.at}"

    def copy(self, remade: Remade) -> str:
        """The variable with this call's own copy of an object that the function made."""
        found = self.copies.get(id(remade.value))
        if found is None:
            found = self.copies[id(remade.value)] = f"c{len(self.copies)}"
            self.lines.append(f"{found} = {self.constant(remade.again)}()")
        return found

    def template(self, template: Template) -> str:
        leaves = [self.leaf(leaf) for leaf in template.leaves]
        structure = template.structure
        if structure.kind is None:
            return leaves[0]
        if structure.kind is tuple and all(child.kind is None for child in structure.children):
            return f"({''.join(f'{leaf}, ' for leaf in leaves)})"
        return f"{self.constant(structure.unflatten)}([{', '.join(leaves)}])"

    def change(self, change: Change, value: str) -> str:
        """What does again to a container of the arguments what the function did."""
        box, key = f"b{change.box.number}", self.constant(change.key)
        match change.action:
            case "attribute":
                return f"setattr({box}, {key}, {value})"
            case "no attribute":
                return f"delattr({box}, {key})"
            case "item":
                return f"{box}[{key}] = {value}"
            case "no item":
                return f"del {box}[{key}]"
            case "append":
                return f"{box}.append({value})"
        return f"del {box}[{key}:]"

    def function(self) -> Epilogue:
        program = self.program
        extra = [f"n{origin.number}" for origin in program.numbers] + [f"b{box}" for box in changed_boxes(program)]
        if extra:
            self.lines.append(f"{', '.join(extra)}, = n")
        for number, fresh in enumerate(program.fresh):
            self.lines.append(f"f{number} = of({self.value(fresh.source)}, {fresh.requires_grad})")
            if fresh.weak:
                self.lines.append(f"f{number}._weak = True")
        writes = [f"h[{slot}]._value = {self.value(source)}" for slot, source in program.writes]
        for place, template in program.effects:
            if template is None:
                self.lines.append(f"{self.constant(place.remove)}()")
            else:
                self.lines.append(f"{self.constant(place.set)}({self.template(template)})")
        for change, template in program.changes:
            self.lines.append(self.change(change, "" if template is None else self.template(template)))
        self.lines += writes
        for slot, leaf in program.grad_writes:
            self.lines.append(f"h[{slot}]._grad = {'None' if leaf is None else self.leaf(leaf)}")
        result = self.template(program.result)
        self.lines += [f"h[{slot}].requires_grad_({flag})" for slot, flag in program.flags]
        self.lines.append(f"return {result}")
        source = "def epilogue(h, i, o, n):\n    " + "\n    ".join(self.lines) + "\n"
        exec(compile(source, "<jitgraph epilogue>", "exec"), self.names)
        epilogue: Epilogue = self.names["epilogue"]
        return epilogue
