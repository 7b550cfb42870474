"""The code of a call's epilogue, written from its plan: what is done and given out after the graph has run."""

from __future__ import annotations

import math
from typing import Any, Final

from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.check_code import CheckWriter
from jitgraph.tracing.plan import CallPlan, Computed, Effect, Leaf, Template
from jitgraph.tracing.python_code import PythonCode
from jitgraph.tracing.source import STEP_NAMES, STEPS, Source
from jitgraph.tracing.undo_log import OPERATION_NAMES, OPERATIONS

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
            self.lines.append(f"f{number} = new_handle({self._value(fresh.value)}, {fresh.requires_grad})")
            if fresh.weak:
                self.lines.append(f"f{number}._weak = True")
        for _, value in self.plan.rebound:
            self._value(value)
        for effect in self.plan.effects:
            self.lines.append(self._effect(effect))
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
            case "argument":
                return self._owner(at)
        if not self.plan.fresh[at].weak:
            return f"f{at}"
        return f"f{at}._value.array.item()" if self.plan.device == CPU else f"f{at}.item()"
