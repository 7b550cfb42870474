"""From a recorded program to an entry of a file: one closed graph, its state by name, and the shape of its result.

The inputs of a file's graph are the user's arguments in order, then the state: every tensor that the function reached
by itself. Its outputs are the leaves of the result, then the new values of the state that the function rebinds.
"""

from __future__ import annotations

import inspect
import keyword
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from jitgraph import dtypes, ops
from jitgraph.eager.placement import DeviceValue
from jitgraph.errors import JitgraphError
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import TensorType
from jitgraph.passes.autodiff import expand_grads
from jitgraph.passes.rewriter import Rewriter
from jitgraph.runtime.loader.structures import Argument
from jitgraph.saved.state import StateKeys, unique
from jitgraph.tracing.call.arguments import Static
from jitgraph.tracing.call.plan import Computed, Effect, Handle, Leaf, Template
from jitgraph.tracing.guards.plain import Plain
from jitgraph.tracing.guards.source import World
from jitgraph.tracing.guards.storage import EXPECTED_ERRORS
from jitgraph.tracing.report.lowered import Lowered
from jitgraph.tree import Item, TreeDef

_MOST_SHOWN: Final = 3  # changes that an error names


class FileState(NamedTuple):
    """A tensor that the file brings along: its key among the weights, its value now, and what stands for it."""

    key: str
    array: NDArray[Any]
    value: Value


class FileEntry(NamedTuple):
    """One entry of a file before it is compiled. ``defaults`` are for arguments that may be left out.

    ``names`` are those of the outputs: a dict's key, ``out0``, ``out1``, ... in a tuple or list, joined by dots where
    results nest, and the key of the state that an output is written back to.
    """

    graph: Graph
    defaults: tuple[float | None, ...]
    state: tuple[FileState, ...]
    writes: tuple[tuple[int, int], ...]
    structure: Any
    names: tuple[str, ...]
    arguments: tuple[Argument, ...] | None = None
    input_names: tuple[str, ...] = ()


def options_last(entry: FileEntry) -> FileEntry:
    """The entry with no argument that may be left out before one that may not, as in Python."""
    if entry.arguments is None:
        return entry
    defaults, arguments = list(entry.defaults), []
    may_be_left_out = True
    for argument in reversed(entry.arguments):
        number = argument.structure if type(argument.structure) is int else None
        may_be_left_out = may_be_left_out and (
            argument.optional if number is None else entry.defaults[number] is not None
        )
        if number is not None and not may_be_left_out:
            defaults[number] = None
        arguments.append(argument.but_with(optional=argument.optional and may_be_left_out))
    return entry._replace(defaults=tuple(defaults), arguments=tuple(reversed(arguments)))


def entry_of(lowered: Lowered, keys: StateKeys, *, from_file: bool = False) -> FileEntry:
    """The entry for a lowered call; JitgraphError for what a file cannot hold.

    ``keys`` gives the state its keys. What is ``from_file`` calls the graph of that file, which the entry then has
    itself, so that a graph stays as large as it was however often it is saved.
    """
    entry = _Assembly(lowered, keys).entry()
    return entry._replace(graph=_without_calls(entry.graph)) if from_file else entry


def _without_calls(graph: Graph) -> Graph:
    """``graph`` with the graphs that it calls in place of the calls."""
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        if node.op is not ops.call:
            rewriter.copy(node)
            continue
        results = rewriter.inline(node.regions[0], [rewriter.value(value) for value in node.inputs])
        for old, new in zip(node.outputs, results, strict=True):
            rewriter.replace(old, new)
    return rewriter.finish()


class _Assembly:
    def __init__(self, lowered: Lowered, keys: StateKeys) -> None:
        self.lowered = lowered
        self.keys = keys
        self.plan = lowered.plan
        self.graph = lowered.plan.graph
        self.leaves = {source: number for number, source in enumerate(self.plan.arguments)}
        self.world = World(lowered.function.__wrapped__, lowered.values, self.plan.objects)
        self.defaults: list[float | None] = []
        self.numbers: dict[int, int] = {}  # of inputs by those of leaves
        self.input_names: dict[str, int] = {}
        self.arguments: list[Value] = []
        self.state: dict[Any, FileState] = {}
        self.outputs: list[Value] = []
        self.output_names: dict[str, int] = {}  # each with its output, in their order
        self.name = lowered.function.__name__
        if effects := [effect for effect in self.plan.state_effects if not self._is_unchanged(effect)]:
            self._refuse_effects(effects)

    def _is_unchanged(self, effect: Effect) -> bool:
        """Whether a call sets what is set already, as where ``model.train()`` ends what ``model.eval()`` began."""
        if effect.operation != "set" or not isinstance(effect.value, Template) or effect.value.structure.kind:
            return False
        (leaf,) = effect.value.leaves
        if not isinstance(leaf.at, Plain) or leaf.at.kind != "constant":
            return False
        try:
            now = self.world.find(effect.source)
        except EXPECTED_ERRORS:
            return False
        return type(now) is type(leaf.at.data) and repr(now) == repr(leaf.at.data)  # tells -0.0 from 0.0

    def _refuse_effects(self, effects: Sequence[Effect]) -> None:
        """A file has no Python: JitgraphError that names what would be changed there, each with its line."""
        changed: dict[str, None] = {}
        for effect in effects:
            line = "" if effect.location is None else f" ({effect.location})"
            changed[effect.source.text + line] = None
        shown = [*list(changed)[:_MOST_SHOWN], *(["..."] if len(changed) > _MOST_SHOWN else [])]
        if any(effect.source.text.endswith(".training") for effect in effects):
            hint = (
                "call eval() or train() before the function is saved; or, where other entries of the file use the "
                "other mode, let it restore the mode before it returns: model.eval(); y = model(x); model.train()"
            )
        elif any(effect.operation != "set" for effect in effects):
            hint = "return what is put into the container, and let the caller keep it"
        else:
            hint = (
                "keep that state in tensors, which a file holds, and change them in place: "
                'self.register_buffer("n", jg.asarray(0)) for self.n = 0, and self.n += 1 for self.n = self.n + 1'
            )
        self._refuse(f"it changes Python state besides tensors: {', '.join(shown)}", hint)

    def _refuse(self, reason: str, hint: str) -> None:
        raise JitgraphError(f"{self.name} cannot be saved: {reason}\n  hint: {hint}")

    def entry(self) -> FileEntry:
        self._take_arguments()
        self._take_state()
        structure = self._structure(self.plan.result.structure, iter(self.plan.result.leaves), ())
        writes = tuple(self._write(handle, value) for handle, value in self.plan.rebound)
        order = list(self.state.values())
        inputs = (*self.arguments, *(state.value for state in order))
        graph = Graph(inputs, self.graph.nodes, tuple(self.outputs), self.graph.constraints, self.name)
        for output, state in writes:
            self._require_same_type(order[state], self.outputs[output])
        return FileEntry(
            expand_grads(graph),
            tuple(self.defaults),
            tuple(order),
            writes,
            structure,
            tuple(self.output_names),
            self._structured(),
            tuple(self.input_names),
        )

    def _require_same_type(self, state: FileState, value: Value) -> None:
        """JitgraphError where a call would give state another shape or dtype: each entry is made for one."""
        if state.value.type != value.type:
            self._refuse(
                f"it changes the state {state.key!r} from {state.value.type} to {value.type}",
                "state keeps its shape and dtype in a file: write into a buffer that is large enough, x[:n] = value",
            )

    def _take_arguments(self) -> None:
        """One input for each tensor, array or float among the arguments, used or not."""
        used: dict[int, Value] = {}
        for plan_input, value in zip(self.plan.inputs, self.graph.inputs, strict=True):
            source = self.plan.handles[plan_input.at].source if plan_input.kind == "handle" else plan_input.at
            if source in self.leaves:
                used[self.leaves[source]] = value
        names = self.input_names
        leaf_names = _leaf_names(self.lowered)
        for number, key in enumerate(self.lowered.keys):
            if key.kind not in ("tensor", "array", "float"):
                continue
            self.numbers[number] = len(self.arguments)
            if key.kind == "tensor" and key.first != number:
                self._refuse("an example input is given twice", "give each argument a tensor of its own")
            type = TensorType(dtypes.float64, ()) if key.kind == "float" else TensorType(key.dtype, key.shape)
            used_value = used.get(number)
            name = unique(leaf_names[number], names)
            self.arguments.append(self._named(used_value, type, name))
            self.defaults.append(
                self._default_of(self.lowered.arguments.texts[number]) if key.kind == "float" else None
            )
        for number in reversed(range(len(self.defaults) - 1)):  # as in Python, what has a default comes last
            if self.defaults[number + 1] is None:
                self.defaults[number] = None
        for plan_input, value in zip(self.plan.inputs, self.graph.inputs, strict=True):
            if plan_input.kind == "float" and plan_input.at not in self.leaves:
                name = _argument_name(str(plan_input.at.steps[-1].key))
                self.arguments.append(self._named(value, value.tensor, unique(name, names)))
                self.defaults.append(float(self.world.find(plan_input.at)))

    def _default_of(self, text: str) -> float | None:
        """The default of a parameter of the function, where it is a float."""
        parameter = inspect.signature(self.lowered.function.recording.binder.function).parameters.get(text)
        return parameter.default if parameter is not None and type(parameter.default) is float else None

    def _named(self, value: Value | None, type: TensorType, name: str) -> Value:
        """An input called ``name``: the graph's own value renamed, or a new one that is not read."""
        fresh = Value(type, name.replace(".", "_"))
        if value is not None:
            self.graph = _replaced(self.graph, value, fresh)
        return fresh

    def _structured(self) -> tuple[Argument, ...] | None:
        """The arguments with their structures; None where each is an input of its own."""
        parts = list(_parts_of(self.lowered))
        if all(structure.kind is None and leaf in self.numbers for _, structure, leaf, _ in parts):
            return None
        result = []
        for name, structure, leaf, default in parts:
            if structure.kind is None and self._is_fixed(leaf):  # such as a function: the file has nothing like it
                continue
            template = self._argument(structure, iter(range(leaf, leaf + structure.leaves)), name)
            result.append(Argument(name, template, _is_default(template, default)))
        if all(type(argument.structure) is int for argument in result):
            return None
        extra = [name for number, name in enumerate(self.input_names) if number >= len(self.numbers)]
        return (*result, *(Argument(name, len(self.numbers) + at) for at, name in enumerate(extra)))

    def _is_fixed(self, leaf: int) -> bool:
        return leaf not in self.numbers and not isinstance(self._static(leaf), bool | int | float | str)

    def _static(self, leaf: int) -> Any:
        value = self.lowered.arguments.leaves[leaf]
        return value.value if isinstance(value, Static) else value

    def _argument(self, structure: TreeDef, leaves: Iterator[int], path: str) -> Any:
        """The structure of an argument in a file."""
        if structure.kind is None:
            return self._argument_leaf(next(leaves), path)
        if structure.kind is type(None):
            return None
        names = [step[0] for step in structure.steps]
        children = [
            self._argument(child, leaves, f"{path}.{name}")
            for name, child in zip(names, structure.children, strict=True)
        ]
        if issubclass(structure.kind, dict):
            if strange := [name for name in names if not isinstance(name, str) or "\0" in name]:
                self._refuse(
                    f"its argument {path} is a dict with the key {strange[0]!r}, and in a file keys are names",
                    "pass a tuple or a list, or {str(key): value for key, value in batch.items()}",
                )
            return {"dict": dict(zip(names, children, strict=True))}
        fields: tuple[str, ...] | None = getattr(structure.kind, "_fields", None)
        if issubclass(structure.kind, tuple):
            return {"tuple": children} if fields is None else {"tuple": children, "fields": [*fields]}
        if issubclass(structure.kind, list):
            return {"list": children}
        return {"object": {str(name): child for name, child in zip(names, children, strict=True)}}

    def _argument_leaf(self, leaf: int, path: str) -> Any:
        if leaf in self.numbers:
            return self.numbers[leaf]
        value = self._static(leaf)
        finite = not isinstance(value, float) or math.isfinite(value)
        if type(value) in (bool, int, float, str) and finite and "\0" not in str(value):
            return {"value": value}
        self._refuse(
            f"its argument {path} is {value!r:.60}, which a file cannot compare with what a caller passes",
            "pass tensors, None, bools, finite numbers and strings, and let a closure have the rest",
        )
        return None

    def _take_state(self) -> None:
        for number, (plan_input, value) in enumerate(zip(self.plan.inputs, self.graph.inputs, strict=True)):
            if plan_input.kind == "array" and plan_input.at not in self.leaves:
                found = self.world.find(plan_input.at)
                self._keep(("array", number), self.keys.key_of(found, "constant"), np.asarray(found), value)
            elif plan_input.kind == "handle" and self.plan.handles[plan_input.at].source not in self.leaves:
                handle = self.plan.handles[plan_input.at]
                self._keep(("handle", plan_input.at), self._key(handle), self._array(handle), value)
        for at, _ in self.plan.rebound:
            handle = self.plan.handles[at]
            if handle.source in self.leaves:
                self._refuse(f"it rebinds its argument {handle.text}", "return the new value instead")
            if ("handle", at) not in self.state:
                array = self._array(handle)
                fresh = Value(TensorType(array.dtype, array.shape))
                self._keep(("handle", at), self._key(handle), array, fresh)

    def _keep(self, at: Any, key: str, array: NDArray[Any], value: Value) -> None:
        fresh = Value(value.type, key.replace(".", "_"))
        self.graph = _replaced(self.graph, value, fresh)
        self.state[at] = FileState(key, array, fresh)

    def _key(self, handle: Handle) -> str:
        return self.keys.key_of(self.world.find(handle.source), handle.text)

    def _array(self, handle: Handle) -> NDArray[Any]:
        value = self.world.find(handle.source)._value
        return value.fetched() if isinstance(value, DeviceValue) else value.array

    # --- results ---

    def _output(self, computed: Computed, name: str) -> int:
        """The number of the file's output that is this value."""
        values: tuple[Value, ...] = self.graph.outputs if computed.kind == "output" else self.graph.inputs
        self.outputs.append(values[computed.number])
        unique(name, self.output_names)
        return len(self.outputs) - 1

    def _write(self, handle: int, value: Computed) -> tuple[int, int]:
        state = self.state["handle", handle]
        return self._output(value, state.key), list(self.state).index(("handle", handle))

    def _structure(self, structure: TreeDef, leaves: Any, path: tuple[str, ...]) -> Any:
        """The template of a result at ``path``, whose leaves become outputs."""
        if structure.kind is None:
            return self._leaf(next(leaves), ".".join(path) or "out0")
        if structure.kind is type(None):
            return None
        is_dict = structure.kind is dict and all(
            isinstance(s, Item) and isinstance(s.key, str) for s in structure.steps
        )
        fields: tuple[str, ...] | None = getattr(structure.kind, "_fields", None)  # a named tuple, in a file a tuple
        if not is_dict and fields is None and structure.kind not in (tuple, list):
            self._refuse_container(structure, structure.kind)
        steps = [step[0] if is_dict else f"{i}" if path else f"out{i}" for i, step in enumerate(structure.steps)]
        steps = steps if fields is None else [*fields]
        children = [
            self._structure(child, leaves, (*path, step)) for step, child in zip(steps, structure.children, strict=True)
        ]
        return (
            {"dict": dict(zip(steps, children, strict=True))}
            if is_dict
            else {"list" if structure.kind is list else "tuple": children}
        )

    def _refuse_container(self, structure: TreeDef, kind: type) -> None:
        keys = [step.key for step in structure.steps if isinstance(step, Item) and not isinstance(step.key, str)]
        if kind is dict and keys:
            self._refuse(
                f"it returns a dict with the key {keys[0]!r}, and in a file keys are names",
                "return a tuple or a list, or {str(key): value for key, value in result.items()}",
            )
        self._refuse(f"it returns a {kind.__name__}", "return tensors in tuples, lists or dicts of names")

    def _leaf(self, leaf: Leaf, name: str) -> Any:
        at: Any = leaf.at
        if leaf.kind == "fresh":
            return self._output(self.plan.fresh[at].value, name)
        if leaf.kind == "handle":
            return self._output(self._value_after(at), name)
        returned = at.value if leaf.kind == "plain" else at if leaf.kind == "number" else self.plan.objects[at]
        if isinstance(returned, float) and not math.isfinite(returned):
            self._refuse(f"it returns the number {returned}, which a file does not hold", "return jg.asarray(value)")
        if isinstance(returned, bool | int | float | str):
            return {"value": returned}
        returned = returned.value if leaf.kind == "copy" else returned
        self._refuse(f"it returns a {type(returned).__name__}", "return tensors and plain numbers")
        return None

    def _value_after(self, handle: int) -> Computed:
        for written, value in self.plan.rebound:
            if written == handle:
                return value
        for number, plan_input in enumerate(self.plan.inputs):
            if plan_input.kind == "handle" and plan_input.at == handle:
                return Computed("input", number, False)
        self._refuse("it returns a tensor that it does not read", "return x + 0, or read it outside")
        raise AssertionError


def _replaced(graph: Graph, old: Value, new: Value) -> Graph:
    """``graph`` with one of its inputs replaced by a value of the same type."""

    def swap(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(new if value is old else value for value in values)

    nodes = tuple(replace(node, inputs=swap(node.inputs)) if old in node.inputs else node for node in graph.nodes)
    return Graph(swap(graph.inputs), nodes, swap(graph.outputs), graph.constraints, graph.name)


def _argument_name(text: str) -> str:
    """``text`` as the name of an argument in Python."""
    name = re.sub(r"\W+", "_", text).strip("_")
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"x_{name}".rstrip("_")


class FileArgument(NamedTuple):
    """An argument of a file: a parameter, or one of those that ``*args`` and ``**kwargs`` stand for."""

    name: str
    structure: TreeDef
    first: int  # of its leaves
    default: Any  # of the parameter, inspect.Parameter.empty where it has none


def _parts_of(lowered: Lowered) -> Iterator[FileArgument]:
    """The arguments of a call in their order."""
    leaf = 0
    empty = inspect.Parameter.empty
    structures = lowered.arguments.structure.children
    for parameter, structure in zip(lowered.function.recording.binder.parameters, structures, strict=True):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            for step, child in zip(structure.steps, structure.children, strict=True):
                text = step[0] if parameter.kind is parameter.VAR_KEYWORD else f"{parameter.name}_{step[0]}"
                yield FileArgument(text, child, leaf, empty)
                leaf += child.leaves
        else:
            yield FileArgument(parameter.name, structure, leaf, parameter.default)
            leaf += structure.leaves


def _leaf_names(lowered: Lowered) -> list[str]:
    """The name of each leaf of the arguments: ``x``, ``batch.image``, ``pair.0``."""
    names: list[str] = []

    def visit(structure: TreeDef, path: str) -> None:
        if structure.kind is None:
            names.append(path)
        for step, child in zip(structure.steps, structure.children, strict=True):
            visit(child, f"{path}.{step[0]}")

    for name, structure, _, _ in _parts_of(lowered):
        visit(structure, _argument_name(name))
    return names


def _is_default(template: Any, default: Any) -> bool:
    """Whether a parameter that is left out has the value that this structure says."""
    if template is None:
        return default is None
    value = template.get("value") if isinstance(template, dict) else None
    return type(value) is type(default) and value is not None and value == default
