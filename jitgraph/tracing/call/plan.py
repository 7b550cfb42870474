"""CallPlan: all that a call needs, as plain data: guards, inputs of the graph, effects and the result."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import field
from typing import Annotated, Any, Final, Literal, TypeAlias

import numpy as np

from jitgraph.eager.handle import Api
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing.guards.guard import Expression, Guard, Is, Relation
from jitgraph.tracing.guards.plain import Plain
from jitgraph.tracing.guards.source import STEPS, ObjectNumber, Source, World
from jitgraph.tree import TreeDef

# ----------------------------------------------------------------------
# CallPlan: all that a call needs, as plain data: guards, inputs of the graph, effects and the result.
#
# The check and the epilogue of a call (``call_code``), ``explain``, the ledger's reasons and ``save`` read this table.


@dataclass(frozen=True, slots=True)
class Handle:
    """A tensor handle from outside: where it is found, and what people call it.

    ``type`` is None where only the handle, and not its value, is used.
    """

    source: Source
    text: str
    type: TensorType | None
    requires_grad: bool
    device: Annotated[str, "device"] = CPU
    api: Api = ""


_HandleNumber: TypeAlias = Annotated[int, "handles"]
_FROM: Final = {
    "handle": _HandleNumber,
    "array": Source,
    "float": Source,
    "number": tuple[Expression, np.dtype[Any]],
}
_COMPUTED: Final = {"output": int, "input": Annotated[int, "inputs"]}
_LEAVES: Final = {
    "handle": _HandleNumber,
    "fresh": Annotated[int, "fresh"],
    "plain": Plain,
    "object": ObjectNumber,
    "copy": int,
    "made": Annotated[int, "shared_templates"],
    "view": int,
    "argument": Source,
    "number": Expression,
}


class Input(NamedTuple):
    """Where an input of the graph comes from: the value of the handle of this number, the array or the float at a
    source, or an expression over numbers that vary, in a dtype (``(code, dtype)``)."""

    kind: Literal["handle", "array", "float", "number"]
    at: Annotated[Any, _FROM]


class Computed(NamedTuple):
    """A value after the call: an output of the graph, or an unchanged input. ``differentiable`` values are on
    the tape of the caller."""

    kind: Literal["output", "input"]
    number: Annotated[int, _COMPUTED]
    differentiable: bool


class Fresh(NamedTuple):
    """A handle that each call makes anew."""

    value: Computed
    requires_grad: bool
    weak: bool
    api: Api = ""


class Leaf(NamedTuple):
    """A leaf of a result: the handle of this number, a fresh handle, a plain value, an object of the table, the copy of
    this number (``CallPlan.copied``), the container of this number (``CallPlan.shared_templates``), the view of this
    number (``CallPlan.views``), a container of the arguments, or the value of an expression over numbers that vary."""

    kind: Literal["handle", "fresh", "plain", "object", "copy", "made", "view", "argument", "number"]
    at: Annotated[int | str | Plain | Source, _LEAVES]


class ViewOf(NamedTuple):
    """A view that each call makes of a tensor: by the function of this number in the table, of the handle at ``root``.

    Where the function needs the elements, ``value`` is the number of the fresh handle that has them, else -1.
    """

    root: Leaf
    make: ObjectNumber
    value: int


class Copied(NamedTuple):
    """The Python objects that the function made, of which each call gets copies; ``outside`` stays as it is."""

    values: tuple[Any, ...]
    outside: tuple[Any, ...] = ()

    def copies(self) -> list[Any]:
        """A copy of each; what several of them hold is one object in the copies, too."""
        known = {id(x): x for x in self.outside}
        return [copy_of(value, known) for value in self.values]


def copy_of(value: Any, known: dict[int, Any]) -> Any:
    """A deep copy, as of ``copy.deepcopy``; ``known`` has the copies that there are, by the ids of what they are of."""
    if type(value) is np.ndarray and not value.dtype.hasobject and id(value) not in known:
        copy = known[id(value)] = value.copy(order="K")
        return copy
    return deepcopy(value, known)


class Template(NamedTuple):
    """A pytree of leaves, rebuilt at each call."""

    structure: TreeDef
    leaves: tuple[Leaf, ...]

    @property
    def fault(self) -> str:
        """What is wrong with a template that was read from a file, "" where nothing is."""
        same = self.structure.leaves == len(self.leaves)
        return "" if same else "a template has another number of leaves than its structure"


Operation: TypeAlias = Literal["set", "delete", "append", "clear", "truncate", "add", "discard"]


@dataclass(frozen=True, slots=True)
class Effect:
    """What each call does to Python state after its graph has run without an error.

    ``set`` and ``delete`` are about what stands at ``source``, the others about the container there: ``append`` and
    ``add`` put ``value`` in, ``discard`` takes it out, ``truncate`` leaves as many elements as ``value`` says and
    ``clear`` none.
    """

    source: Source
    operation: Operation
    value: Template | Computed | int | None = None
    location: Location | None = None

    @property
    def owner(self) -> Source:
        """Where the object stands that is changed."""
        return self.source.owner if self.operation in ("set", "delete") else self.source

    @property
    def text(self) -> str:
        """What is changed, as people would write it."""
        return self.source.text


class PinnedSource(NamedTuple):
    """A number that was to vary and that Python needs itself: it is held to its value. ``source`` says which."""

    source: Source
    what: str
    location: Location | None


@dataclass(frozen=True, slots=True)
class CallPlan:
    """What one recorded call gave.

    ``objects`` is the one part that is no plain data: what Refs and numbers stand for. ``arguments`` are the leaves of
    the arguments. ``guards`` hold in this order, the arguments' first. ``unguarded`` says what no guard can see,
    ``bound`` what another process may answer otherwise though all guards hold there,
    ``device`` is where the graph runs,
    ``sizes`` what the names of sizes stood for, ``pinned`` which numbers could not vary. ``copied`` is the number of
    the table's ``Copied``, where there is one. ``shared_templates`` are containers that stand at several places and are
    made once, ``views`` the tensors that share elements with others from outside or among the results.
    """

    graph: Graph
    arguments: tuple[Source, ...]
    guards: tuple[Guard, ...]
    handles: tuple[Handle, ...]
    inputs: tuple[Input, ...]
    fresh: tuple[Fresh, ...]
    result: Template
    effects: tuple[Effect, ...]
    unguarded: tuple[str, ...] = ()
    bound: tuple[str, ...] = ()
    pinned: tuple[PinnedSource, ...] = ()
    copied: ObjectNumber | None = None
    shared_templates: tuple[Template, ...] = ()
    views: tuple[ViewOf, ...] = ()
    sizes: dict[str, int] = field(default_factory=dict)
    objects: tuple[Any, ...] = ()
    device: str = CPU

    @property
    def name(self) -> str:
        """The name of the graph."""
        return self.graph.name

    @property
    def output_count(self) -> int:
        """How many outputs the graph has."""
        return len(self.graph.outputs)

    @property
    def handle_numbers(self) -> dict[Source, int]:
        """The numbers of the handles by source."""
        return {handle.source: number for number, handle in enumerate(self.handles)}

    @property
    def rebound(self) -> tuple[tuple[int, Computed], ...]:
        """The numbers of the handles that get a new value, each with that."""
        numbers = self.handle_numbers
        return tuple(
            (numbers[effect.source.owner], effect.value)
            for effect in self.effects
            if isinstance(effect.value, Computed)
        )

    @property
    def state_effects(self) -> list[Effect]:
        """The effects on Python state besides the values and gradients of tensors."""
        steps = [(effect, effect.source.steps[-1:]) for effect in self.effects]
        return [effect for effect, last in steps if not (last and last[0].kind in ("value", "grad"))]

    @property
    def computed(self) -> list[Computed]:
        """The values that fresh handles and rebound ones get."""
        return [fresh.value for fresh in self.fresh] + [value for _, value in self.rebound]

    @property
    def differentiable(self) -> bool:
        """Whether a result is on the tape of the caller."""
        return any(value.differentiable and value.kind == "output" for value in self.computed)

    def relations(self, about: Literal["sizes", "numbers"]) -> list[tuple[Relation, Location | None]]:
        """What sizes, or numbers that vary, have to do with each other, with the lines that need it."""
        pairs = [(guard.predicate, guard.location) for guard in self.guards]
        return [(p, location) for p, location in pairs if isinstance(p, Relation) and p.about == about]


# ----------------------------------------------------------------------
# The sources at which the same object stands wherever the guards of a plan hold.

UNKNOWN: Final = object()


class FixedSources:
    """What stands at the sources of a plan that guards or the way there hold to one object."""

    def __init__(self, plan: CallPlan, world: World) -> None:
        self._objects = plan.objects
        self._world = world
        self._identities = {g.source: g.predicate.number for g in plan.guards if isinstance(g.predicate, Is)}
        self._known: dict[Source, Any] = {}

    def find(self, source: Source) -> Any:
        """The object, or UNKNOWN."""
        if source not in self._known:
            self._known[source] = self._find(source)
        return self._known[source]

    def _find(self, source: Source) -> Any:
        number = self._identities.get(source)
        if number is not None:
            return self._objects[number]
        if not source.steps:
            return UNKNOWN if source.kind == "argument" else self._world.root(source)
        owner, step = self.find(source.owner), source.steps[-1]
        if owner is UNKNOWN or not (STEPS[step.kind].fixed or (step.kind == "item" and type(owner) is tuple)):
            return UNKNOWN
        return STEPS[step.kind].read(owner, self._world.key(step))
