"""From a recorded call to its plan: where all that it met is found again, what it assumed, and what it did."""

from __future__ import annotations

import enum
import functools
import inspect
import types
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jitgraph import lifting, tree
from jitgraph.errors import TraceError
from jitgraph.location import Location
from jitgraph.tensor import Tensor
from jitgraph.tracing.arguments import Arguments, LeafKey, Static, guards_of, sources_of
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.guard import (
    Assumption,
    Distinct,
    Guard,
    IsTensor,
    Layout,
    Objects,
    Relation,
    Same,
    Varies,
    size_text,
)
from jitgraph.tracing.log import Change, Entry
from jitgraph.tracing.plan import CallPlan, Computed, Effect, Fresh, Handle, Held, Input, Leaf, Remade, Template
from jitgraph.tracing.provenance import Provenance
from jitgraph.tracing.record.aliasing import Aliasing
from jitgraph.tracing.record.argument_mutation import Box, changes, moved
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.source import MISSING, Place, Source
from jitgraph.tracing.symbolic.number import SymbolicNumber, plain_of
from jitgraph.tracing.symbolic.questions import Origin, shown_question, source_of
from jitgraph.tracing.values import plain_of as plain_data
from jitgraph.tree import TreeDef

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Taken, Trace

_PLAIN = frozenset({int, float, complex, bool, str, bytes, type(None)})
_MUTABLE = frozenset({set, bytearray, deque, array, Counter, defaultdict})


class Call(NamedTuple):
    """The call that is recorded: the function, its parameters, and its arguments with the keys that are to hold."""

    function: Any
    names: Sequence[str]
    arguments: Arguments
    keys: Sequence[LeafKey]


class Planning:
    """Makes the plan of one trace that has ended."""

    def __init__(self, trace: Trace, call: Call, boxes: Sequence[Box], given: Sequence[Box]) -> None:
        """``boxes`` stand for the containers ``given`` as arguments."""
        self.trace = trace
        self.capture = trace.capture
        self.boxes = boxes
        self.given = given
        self.call = call
        self.objects = trace.capture.objects if trace.capture is not None else Objects()
        self.sources = sources_of(call.arguments, call.names, self.objects)
        self.provenance = Provenance(call.function, self.objects)
        for leaf, key, source in zip(call.arguments.leaves, call.keys, self.sources.leaves, strict=True):
            if key.kind == "identity":
                self.provenance.reach(leaf.value if isinstance(leaf, Static) else leaf, source)
        for box, (source, _) in zip(boxes, self.sources.containers, strict=True):
            self.provenance.reach(box.value, source)
        for read in self.capture.reads.values() if self.capture is not None else ():
            source = self.provenance.at(read.place)
            self.provenance.reach(read.value, source)
        self._fresh: list[Fresh] = []
        self._fresh_of: dict[int, int] = {}
        self._remade_of: dict[int, int | None] = {}
        self._kept: list[Any] = []
        self._several: set[int] = set()  # ids of new containers that stand in several places
        self._shared: list[Template | None] = []
        self._shared_of: dict[int, int] = {}
        self._argument_sources: dict[int, Source] = {}  # by id: of containers that are given out as they are
        if not trace.numbers.portable:
            for box, (source, _) in zip(boxes, self.sources.containers, strict=True):
                if not isinstance(box.value, tuple):
                    self._argument_sources.setdefault(id(box.value), source)

    def plan(self, result: Any) -> CallPlan:
        """The plan, for what the function returned."""
        trace, capture = self.trace, self.capture
        lifted = {id(array) for array, _ in trace.arrays.values()}
        assumptions = capture.assumptions(lifted) if capture is not None else []
        written = capture.effects() if capture is not None else []
        done = capture.changes() if capture is not None else []
        of_arguments = list(changes(self.boxes, trace.log))
        every = [*(change for _, several in done for change in several), *(change for _, change in of_arguments)]
        self._find_shared([result, *(after for _, after in written), *(change.value for change in every)])
        template = self._template(result, "the result")
        rebound, grads, present = self._changed_handles()
        effects = [self._effect(write, after) for write, after in written]
        for entry, several in done:
            owner = self.provenance.of(entry.target, entry.text)
            effects += [self._change(owner, entry.text, change, entry.location) for change in several]
        for box, change in of_arguments:
            effects.append(self._change(self.sources.containers[box.number][0], box.text, change, None))
        turned = [entry.target.owner for entry in trace.flags.values() if entry.is_changed]
        flags = [(trace.slot_of(handle), self._plain(handle._requires_grad)) for handle in turned]
        handles = self._handles()
        sources = [handle.source for handle in handles]
        effects += [Effect(sources[slot].then("value"), "set", value) for slot, value in rebound]
        effects += [Effect(sources[slot].then("grad"), "set", _whole(leaf)) for slot, leaf in grads]
        effects += [Effect(sources[slot].then("requires_grad"), "set", _whole(flag)) for slot, flag in flags]
        inputs = tuple([self._input(taken) for taken in trace.taken])
        ties = self._ties(sources)
        guards = [*self._of_arguments(), *self._of_sizes(), *self._of_state(assumptions, {*sources, *ties})]
        guards += [*self._of_numbers(), *self._of_inputs(inputs), *self._of_handles(handles)]
        for slot, grad in present:
            predicate = self.objects.same(None) if grad is None else Same(sources[grad])
            guards.append(Guard(sources[slot].then("grad"), predicate))
        guards += [Guard(place, Same(source)) for place, source in ties.items()]
        guards += self._partition(sources)
        if capture is not None:
            touched = {id(write.target.owner) for write, _ in written} | {id(entry.target) for entry, _ in done}
            touched |= {id(box.value) for box, _ in of_arguments}
            aliasing = Aliasing(self.boxes, self.given, capture, self.provenance, self.objects)
            guards += aliasing.guards([source for source, _ in self.sources.containers], touched)
        trace.ended = True
        unguarded = capture.unguarded if capture is not None else {}
        return CallPlan(
            graph=trace.graph(),
            arguments=self.sources.leaves,
            guards=tuple(dict.fromkeys(guards)),
            handles=tuple(handles),
            inputs=inputs,
            fresh=tuple(self._fresh),
            result=template,
            effects=tuple(effects),
            unguarded=tuple(f"{what} ({location})" for what, location in unguarded.items()),
            held=tuple(Held(self._origin(h.origin), h.what, h.location) for h in trace.numbers.held.values()),
            sizes=dict(trace.constraints.sizes or {}),
            objects=tuple(self.objects.values),
            shared=tuple([made for made in self._shared if made is not None]),
        )

    def _find_shared(self, values: Iterable[Any]) -> None:
        """Note the new containers that stand in several places; TraceError for one that holds itself."""
        met: set[int] = set()
        around: list[int] = []

        def walk(value: Any) -> None:
            container = tree.container_of(value)
            known = id(value) in self._argument_sources
            if container is None or value is None or known or self._is_outside(value):
                return
            if id(value) in around:
                raise TraceError(
                    f"a {type(value).__name__} that the function gives out holds itself, which a compiled call cannot "
                    "make again",
                    hint="give out what it holds, or set it outside of the traced function",
                )
            if id(value) in met:
                self._several.add(id(value))
                return
            if not (isinstance(value, tuple) or self.trace.numbers.portable):
                met.add(id(value))
            around.append(id(value))
            for child in container.take_apart(value).children:
                walk(child)
            around.pop()

        for value in values:
            walk(value)

    def _changed_handles(
        self,
    ) -> tuple[list[tuple[int, Computed]], list[tuple[int, Leaf]], list[tuple[int, int | None]]]:
        """The slots of handles from outside that get new values, those that get gradients, and the gradients seen."""
        trace = self.trace
        rebound, grads, present = [], [], []
        for state in trace.states.values():
            slot = trace.known_slot(state.handle)
            if slot is None:
                continue
            if state.written and state.value is not state.initial:
                assert state.value is not None
                rebound.append((slot, self._computed(state.value)))
            if state.grad_read:
                present.append((slot, None if state.initial_grad is None else trace.slot_of(state.initial_grad)))
            if state.grad_written and not (state.grad_read and state.grad is state.initial_grad):
                grads.append((slot, self._plain(None) if state.grad is None else self._leaf(state.grad, "a gradient")))
        return rebound, grads, present

    # --- where things are found -------------------------------------------------------------------------------------

    def _handles(self) -> list[Handle]:
        """The handles from outside: each by a place where it stands, so that another handle put there is seen."""
        places = self.capture.sources() if self.capture is not None else {}
        found: list[Handle] = []
        for slot in self.trace.slots:
            text = slot.text
            if slot.kind == "argument":
                source = self.sources.leaves[slot.at]
            elif slot.kind == "grad":
                source = found[slot.at].source.then("grad")
            elif (place := places.get(id(slot.handle))) is not None and not self._is_moved(place, slot.handle):
                source, text = self.provenance.at(place), place.text
            else:
                source = Source("object", self.objects.number(slot.handle), text)
            found.append(Handle(source, text, slot.type, slot.requires_grad))
        return found

    def _is_moved(self, place: Place, handle: Tensor) -> bool:
        """Whether the function put the handle there itself."""
        assert self.capture is not None
        write = self.capture.writes.get(place.identity)
        return write is not None and write.before is not handle

    def _input(self, taken: Taken) -> Input:
        match taken.kind:
            case "slot":
                return Input("handle", taken.at)
            case "argument array":
                return Input("array", self.sources.leaves[taken.at])
            case "float":
                return Input("float", self.sources.leaves[taken.at])
            case "array":
                return Input("array", self.provenance.of(taken.at, "array"))
            case "host float":
                mapping, key = taken.at
                return Input("float", self.provenance.at(Place("item", mapping, key, str(key))))
        return Input("number", taken.at)

    def _origin(self, origin: Origin) -> Source:
        return source_of(origin, self.sources.leaves) if origin.place is None else self.provenance.at(origin.place)

    # --- what is assumed --------------------------------------------------------------------------------------------

    def _of_arguments(self) -> list[Guard]:
        known = self.trace.numbers
        leaves = [origin for origin in known.origins if origin.place is None and origin.axis < 0]
        numbers = {
            o.leaf: o.number for o in leaves if o.number in known.used or self.call.keys[o.leaf].kind == "number"
        }
        return guards_of(self.sources, self.call.keys, numbers, self.objects)

    def _of_sizes(self) -> Iterator[Guard]:
        pins = {pin.constraint: pin for pin in reversed(self.trace.constraints.pins)}
        for constraint in self.trace.builder.constraints:
            code = f"{size_text(constraint.left)} {constraint.relation} {size_text(constraint.right)}"
            pin = pins.get(constraint)
            relation = Relation("sizes", code, str(constraint), pin.what if pin is not None else "")
            yield Guard(None, relation, pin.location if pin is not None else None)

    def _of_state(self, assumptions: Sequence[Assumption], elsewhere: set[Source]) -> Iterator[Guard]:
        """What was read; tensors at the sources ``elsewhere`` have guards of their own."""
        for place, predicate, location in assumptions:
            source = self.provenance.at(place)
            if not (isinstance(predicate, IsTensor) and source in elsewhere):
                yield Guard(source, predicate, location)

    def _of_numbers(self) -> Iterator[Guard]:
        numbers = self.trace.numbers
        reads = self.capture.reads if self.capture is not None else {}
        for origin in numbers.origins:
            at_place = origin.place is not None and origin.place.identity in reads
            if at_place or (origin.number in numbers.used and (origin.place is not None or origin.axis >= 0)):
                kind: Any = origin.kind.__name__
                yield Guard(self._origin(origin), Varies(kind, origin.number))
        for question in numbers.questions.values():
            shown = shown_question(question, numbers.origins)
            yield Guard(None, Relation("numbers", question.condition(), shown, question.what), question.location)

    def _of_inputs(self, inputs: Sequence[Input]) -> Iterator[Guard]:
        """The kinds of arrays and floats from outside that are inputs; those of arguments are known."""
        for taken, given in zip(self.trace.taken, inputs, strict=True):
            if taken.kind == "array":
                yield Guard(given.at, Layout("array", taken.at.dtype, taken.at.shape))
            elif taken.kind == "host float":
                yield Guard(given.at, self.objects.kind(float))

    def _of_handles(self, handles: Sequence[Handle]) -> Iterator[Guard]:
        for slot, handle in zip(self.trace.slots, handles, strict=True):
            if slot.kind == "argument":
                continue
            if handle.type is None:
                if slot.kind != "handle" or handle.source.kind != "object" or handle.source.steps:
                    yield Guard(handle.source, IsTensor())
            else:
                shape = tuple(handle.type.shape)
                yield Guard(handle.source, Layout("tensor", handle.type.dtype, shape, handle.requires_grad))

    def _ties(self, sources: Sequence[Source]) -> dict[Source, Source]:
        """Further places where handles stood, each with the source of the handle."""
        found: dict[Source, Source] = {}
        for place, handle in self.capture.tensor_places() if self.capture is not None else ():
            number = self.trace.known_slot(handle)
            if number is not None and (source := self.provenance.at(place)) != sources[number]:
                found[source] = sources[number]
        return found

    def _partition(self, sources: Sequence[Source]) -> Iterator[Guard]:
        """Which handles are one object, and where containers of the arguments are changed, which of those are."""
        if len(sources) > 1:
            yield Guard(None, Distinct(tuple(dict.fromkeys(sources))))
        if next(changes(self.boxes, self.trace.log), None) is None:
            return
        first: dict[int, Source] = {}
        for box, (source, _) in zip(self.boxes, self.sources.containers, strict=True):
            known = first.setdefault(id(box.value), source)
            if known is not source:
                yield Guard(source, Same(known))
        yield Guard(None, Distinct(tuple(first.values())))

    # --- what was done ----------------------------------------------------------------------------------------------

    def _effect(self, write: Entry, after: Any) -> Effect:
        source = self.provenance.at(write.target)
        if after is MISSING:
            return Effect(source, "delete", None, write.location)
        template = self._template(after, write.text, write.location, stays=True)
        return Effect(source, "set", template, write.location)

    def _change(self, owner: Source, name: str, change: Change, location: Location | None) -> Effect:
        """What the function did to a container."""
        source = owner if change.step is None else owner.then(change.step.kind, self.objects.key(change.step.key))
        if change.operation == "delete":
            return Effect(source, "delete", None, location)
        if change.operation in ("truncate", "clear"):
            return Effect(source, change.operation, change.value, location)
        text = change.text(name)
        if owner.kind == "argument" and (box := moved(change.value, self.boxes)) is not None:
            raise TraceError(
                f"{text} is set to {box.text}, a container among the arguments, which no later call repeats",
                location=location,
                hint="return the new value instead, or set it to a copy",
            )
        return Effect(source, change.operation, self._template(change.value, text, location, stays=True), location)

    # --- values -----------------------------------------------------------------------------------------------------

    def _template(self, value: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Template:
        leaves: list[Any] = []
        structure = self._flattened(value, leaves)
        return Template(structure, tuple(self._leaf(leaf, what, location, stays=stays) for leaf in leaves))

    def _flattened(self, value: Any, leaves: list[Any]) -> TreeDef:
        """As ``tree.flatten``, with containers from outside as leaves: they are given out as they are."""
        container = tree.container_of(value)
        known = id(value) in self._several or id(value) in self._argument_sources
        if container is None or known or self._is_outside(value):
            leaves.append(value)
            return tree.LEAF
        return self._taken_apart(container, value, leaves)

    def _taken_apart(self, container: tree.Container, value: Any, leaves: list[Any]) -> TreeDef:
        parts = container.take_apart(value)
        children = tuple([self._flattened(child, leaves) for child in parts.children])
        return TreeDef(type(value), parts.steps, children, parts.data)

    def _is_outside(self, value: Any) -> bool:
        """Whether a list, dict or dataclass is an object from outside, and no argument."""
        return self.capture is not None and not isinstance(value, tuple | None) and self.capture.is_outside(value)

    def _leaf(self, leaf: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Leaf:
        if (source := self._argument_sources.get(id(leaf))) is not None:
            return Leaf("argument", source)
        if id(leaf) in self._several:
            return Leaf("shared", self._number_of_shared(leaf, what, location, stays=stays))
        if isinstance(leaf, TracedValue):
            leaf = lifting.wrap(leaf)
        if type(leaf) is SymbolicNumber and leaf.is_live:
            if self.trace.numbers.portable:
                return self._plain(leaf.refuse(what))
            self.trace.numbers.use(leaf.text)
            return Leaf("number", leaf.text)
        leaf = plain_of(leaf)
        if not isinstance(leaf, Tensor):
            if isinstance(leaf, Iterator) or inspect.isawaitable(leaf):
                raise TraceError(
                    f"{what} is a {type(leaf).__name__}, which would be used up after the first call",
                    location=location,
                    hint="make a list of it: list(...)",
                )
            if self._hides_tensor(leaf):
                raise TraceError(
                    f"{what} holds tensors inside a {type(leaf).__name__}, which a compiled call cannot make again",
                    location=location,
                    hint="put them into tuples, lists, dicts or dataclasses",
                )
            for number in self._hidden_numbers(leaf):
                number.refuse(f"{what}, which holds {{}} inside a {type(leaf).__name__},")
            if (remade := self._remade(leaf)) is not None:
                return Leaf("copy", remade)
            if stays and not _is_plain(leaf) and not self._is_outside(leaf):
                raise TraceError(
                    f"{what} is set to a new {type(leaf).__name__}, which a compiled call cannot make again",
                    location=location,
                    hint="set it outside of the traced function, or keep tensors and Python numbers in it",
                )
            return self._plain(leaf)
        if not self.trace.is_own(leaf):
            if isinstance(leaf._value, TracedValue):
                raise leaf._value.leaked()
            return Leaf("handle", self.trace.slot_of(leaf))
        return Leaf("fresh", self._fresh_handle(leaf))

    def _number_of_shared(self, value: Any, what: str, location: Location | None, *, stays: bool) -> int:
        found = self._shared_of.get(id(value))
        if found is None:
            found = self._shared_of[id(value)] = len(self._shared)
            self._shared.append(None)
            container = tree.container_of(value)
            assert container is not None
            leaves: list[Any] = []
            structure = self._taken_apart(container, value, leaves)
            made = tuple(self._leaf(leaf, what, location, stays=stays) for leaf in leaves)
            self._shared[found] = Template(structure, made)
        return found

    def _plain(self, value: Any) -> Leaf:
        """A Python value that is given out as it is."""
        data = plain_data(value) if type(value) in _PLAIN else None
        return Leaf("object", self.objects.number(value)) if data is None else Leaf("plain", data)

    def _remade(self, leaf: Any) -> int | None:
        """How an object that the function made is made again at each call, as somebody may change it in place."""
        if self.capture is None or self.capture.is_steady(leaf):
            return None
        if isinstance(leaf, np.ndarray):
            base: Any = leaf
            while isinstance(base, np.ndarray) and not self.capture.is_steady(base):
                base = base.base
            if base is not None or not leaf.flags.writeable:  # it shows memory from outside
                return None
        elif not (type(leaf) in _MUTABLE or self.capture.is_fresh(leaf)):
            if not callable(leaf) and hasattr(leaf, "__dict__"):
                self.capture.cannot_guard(f"a {type(leaf).__name__} that it gives out, the same one at each call")
            return None
        if id(leaf) not in self._remade_of:
            self._kept.append(leaf)
            made = self._copied(leaf, self.capture)
            self._remade_of[id(leaf)] = None if made is None else self.objects.number(made)
        return self._remade_of[id(leaf)]

    def _copied(self, leaf: Any, capture: Capture) -> Remade | None:
        made = Remade(leaf, (*capture.outside(), *self._kept[:-1]))
        try:
            return Remade(made.again(), made.outside)
        except Exception as error:
            capture.cannot_guard(f"a {type(leaf).__name__} that it gives out, of which there is no copy: {error}")
            return None

    def _hides_tensor(self, value: Any, depth: int = 3) -> bool:
        """Whether a new object (a set, a closure, an instance) holds tensors that are this call's alone."""
        if isinstance(value, Tensor):
            return self.trace.is_argument(value) or isinstance(value._value, TracedValue)
        if depth == 0 or (self.capture is not None and self.capture.is_steady(value)):
            return False
        return any(self._hides_tensor(element, depth - 1) for element in _inside(value))

    def _hidden_numbers(self, value: Any, depth: int = 3) -> list[SymbolicNumber]:
        """The numbers that vary in a new object (a set, a closure, an instance), of which each call gets the same."""
        if type(value) is SymbolicNumber:
            return [value] if value.is_live else []
        if depth == 0 or (self.capture is not None and self.capture.is_steady(value)):
            return []
        return [number for element in _inside(value) for number in self._hidden_numbers(element, depth - 1)]

    def _fresh_handle(self, handle: Tensor) -> int:
        found = self._fresh_of.get(id(handle))
        if found is None:
            self._kept.append(handle)
            found = self._fresh_of[id(handle)] = len(self._fresh)
            value = self._computed(self.trace.read(handle))
            self._fresh.append(Fresh(value, handle._requires_grad, handle._weak))
        return found

    def _computed(self, value: TracedValue) -> Computed:
        """Where a value is found after the call; values that are no inputs become outputs of the graph."""
        trace = self.trace
        differentiable = trace.is_differentiable(value)
        number = trace.input_number(value.ir)
        if number is not None and trace.taken[number].kind == "slot":
            return Computed("input", number, differentiable)
        return Computed("output", trace.output_number(value.ir), differentiable)


def _whole(leaf: Leaf) -> Template:
    return Template(tree.LEAF, (leaf,))


def _inside(value: Any) -> Iterable[Any]:
    """What an object that is no pytree holds, as far as that can be seen without running code of the user's."""
    if isinstance(value, type | types.ModuleType | int | float | str | bytes | np.ndarray):
        return ()
    if isinstance(value, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType()]
        return (*cells, *(value.__defaults__ or ()))
    if isinstance(value, types.MethodType):
        return (value.__self__,)
    if isinstance(value, functools.partial):
        return (value.func, *value.args, *value.keywords.values())
    if isinstance(value, tuple | list | set | frozenset):
        return value
    return (value if isinstance(value, dict) else getattr(value, "__dict__", {})).values()


def _is_plain(leaf: Any) -> bool:
    """Whether a value may stand in a place again and again: immutable, or an object that lives on anyway."""
    values = bool | int | float | complex | str | bytes | enum.Enum | type | np.dtype | np.generic
    return isinstance(leaf, values) or callable(leaf)
