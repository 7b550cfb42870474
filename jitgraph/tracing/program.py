"""Program: a recorded graph with where its inputs come from and what becomes of its outputs. Plain data."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import field
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.records import dataclass
from jitgraph.tracing.guards import Guard, Place
from jitgraph.tracing.record.argument_mutation import Change
from jitgraph.tracing.symbolic.questions import Held, Origin, Question
from jitgraph.tracing.symbolic.sizes import Pin
from jitgraph.tree import TreeDef

SlotKind: TypeAlias = Literal["argument", "place", "handle", "grad"]


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor handle from outside, by where it is found at a call.

    argument: the leaf ``at`` of the arguments. place: what stands at the Place ``at``. handle: the handle ``at``.
    grad: ``.grad`` of the handle in slot ``at``. ``type`` is None where only the handle, and not its value, is used.
    """

    kind: SlotKind
    at: Any
    text: str
    type: TensorType | None
    requires_grad: bool


class Input(NamedTuple):
    """Where an input of the graph comes from: the value in a slot, an array by identity or as an argument's leaf, a
    float among the arguments, a float in a mapping that is read again at each call (``(mapping, key)``), or an
    expression over numbers that vary, in a dtype (``(text, dtype)``)."""

    kind: Literal["slot", "array", "argument array", "float", "host float", "number"]
    at: Any


class Source(NamedTuple):
    """A value after the call: an output of the graph, or an input that nobody changed. ``differentiable`` values are on
    the tape of the caller."""

    kind: Literal["output", "input"]
    number: int
    differentiable: bool


class Fresh(NamedTuple):
    """A handle that each call makes anew."""

    source: Source
    requires_grad: bool
    weak: bool


class Leaf(NamedTuple):
    """A leaf of a result: the handle in a slot, a fresh handle, a Python value as it is, or the value of an expression
    over numbers that vary, or a copy of a Python object that the function made."""

    kind: Literal["slot", "fresh", "python", "number", "copy"]
    at: Any


class Remade(NamedTuple):
    """A Python object that the function made, of which each call gets a copy of its own; ``outside`` stays as it is."""

    value: Any
    outside: tuple[Any, ...] = ()

    def again(self) -> Any:
        """A new copy."""
        if isinstance(self.value, np.ndarray) and not self.value.dtype.hasobject:
            return self.value.copy(order="K")
        return deepcopy(self.value, {id(x): x for x in self.outside})


class Template(NamedTuple):
    """A pytree of leaves, rebuilt at each call."""

    structure: TreeDef
    leaves: tuple[Leaf, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that one trace gave.

    ``writes`` rebind the handles in slots, ``grad_writes`` set their ``.grad`` (None clears it), ``effects`` rebind
    attributes, items and variables (a None template takes them away), ``changes`` do so in containers among the
    arguments, of which ``aliases`` says which are one object, ``flags`` set ``requires_grad`` of the handles in slots;
    all after the graph has run without an error.
    ``grads_present`` gives for slots whose ``.grad`` was looked at the slot of that, None where there was none.
    ``attributes`` are guards of attributes of the containers among the arguments, which are numbered.
    ``ties`` are further places where the handles of slots must stand. ``numbers`` are Python numbers that are read at
    each call, ``questions`` what must be true of them, and ``held`` those that could not be.
    """

    graph: Graph
    slots: tuple[Slot, ...]
    inputs: tuple[Input, ...]
    fresh: tuple[Fresh, ...]
    result: Template
    writes: tuple[tuple[int, Source], ...]
    grad_writes: tuple[tuple[int, Leaf | None], ...]
    effects: tuple[tuple[Place, Template | None], ...]
    grads_present: tuple[tuple[int, int | None], ...]
    ties: tuple[tuple[Place, int], ...]
    guards: tuple[Guard, ...]
    unguarded: tuple[str, ...]
    pins: tuple[Pin, ...] = ()
    numbers: tuple[Origin, ...] = ()
    questions: tuple[Question, ...] = ()
    held: tuple[Held, ...] = ()
    changes: tuple[tuple[Change, Template | None], ...] = ()
    aliases: tuple[int, ...] = ()
    flags: tuple[tuple[int, bool], ...] = ()
    attributes: tuple[tuple[int, Guard], ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def differentiable(self) -> bool:
        """Whether a result is on the tape of the caller."""
        sources = [fresh.source for fresh in self.fresh] + [source for _, source in self.writes]
        return any(source.differentiable and source.kind == "output" for source in sources)


def changed_boxes(program: Program) -> list[int]:
    """The numbers of the containers among the arguments that a call changes, each once."""
    return sorted({change.box.number for change, _ in program.changes})
