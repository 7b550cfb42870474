"""From a recorded call to its plan: sources of the objects that it used, guards for what it assumed, its effects."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph import dtypes, tree
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import state_of_hooks
from jitgraph.errors import DeviceError, TraceError
from jitgraph.ir.graph import Graph
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.arguments import Arguments, LeafKey, Static, guards_of, sources_of
from jitgraph.tracing.call.plan import CallPlan, Computed, Effect, Handle, Input, Leaf, PinnedSource, Template
from jitgraph.tracing.call.undo_log import Change, UndoEntry
from jitgraph.tracing.guards.check_ops import size_text
from jitgraph.tracing.guards.guard import (
    Assumption,
    Distinct,
    Guard,
    IsTensor,
    Layout,
    Objects,
    Relation,
    Same,
    Unshared,
    Varies,
)
from jitgraph.tracing.guards.source import Slot, Source
from jitgraph.tracing.guards.storage import MISSING
from jitgraph.tracing.record.argument_mutation import Aliasing, ArgumentContainer, changes, moved
from jitgraph.tracing.record.provenance import Provenance
from jitgraph.tracing.record.results import Results
from jitgraph.tracing.symbolic.number import Origin, shown_assumption, source_of

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Taken, Trace

# ----------------------------------------------------------------------
# Where the inputs of a recorded call lie, and whether one device can compute on all of them.

GENERATOR: Final = TensorType(dtypes.uint64, (2,))
"""The state of a generator of random numbers, which stays on the CPU whichever device draws from it."""


def device_of(value: Any) -> str:
    """Where a value from outside of the trace lies."""
    return value.device if isinstance(value, DeviceValue) else CPU


def require_one_device(device: str, graph: Graph, inputs: Sequence[Input], handles: Sequence[Handle]) -> None:
    """DeviceError, which names both, where a graph that runs on the GPU ``device`` reads a tensor that lies elsewhere.

    Numbers (0-d tensors and arrays) and the state of generators may lie on the CPU.
    """
    if device == CPU:
        return
    there = next((handle for handle in handles if handle.device == device), None)
    first = f"{there.text} ({there.type}) on {device}" if there is not None else f"what is made on {device}"
    for plan_input, value in zip(inputs, graph.inputs, strict=True):
        handle = handles[plan_input.at] if plan_input.kind == "handle" else None
        actual = CPU if handle is None else handle.device
        is_number = isinstance(value.type, TensorType) and not value.type.shape
        is_state = handle is not None and value.type == GENERATOR
        if actual == device or (actual == CPU and (is_number or is_state)):
            continue
        text = handle.text if handle is not None else value.hint or "an array"
        fix = (
            f'x.to("{device}") brings x' if handle is not None else f'jg.asarray(x, device="{device}") brings an array'
        )
        raise DeviceError(
            f"{graph.name} of tensors on different devices: {first} and {text} ({value.type}) on {actual}",
            hint=f"{fix} to the other",
        )


# ----------------------------------------------------------------------
# From a recorded call to its plan: sources of the objects that it used, guards for what it assumed, its effects.


class RecordedCall(NamedTuple):
    """The call that is recorded: the function, its parameters, and its arguments with the keys that are to hold."""

    function: Any
    names: Sequence[str]
    arguments: Arguments
    keys: Sequence[LeafKey]


class Planning:
    """Makes the plan of one trace that has ended."""

    def __init__(
        self,
        trace: Trace,
        call: RecordedCall,
        containers: Sequence[ArgumentContainer],
        originals: Sequence[ArgumentContainer],
    ) -> None:
        """``containers`` stand for the containers ``originals`` as arguments."""
        self.trace = trace
        self.capture = trace.capture
        self.containers = containers
        self.given = originals
        self.call = call
        self.objects = trace.capture.objects if trace.capture is not None else Objects()
        self.sources = sources_of(call.arguments, call.names, self.objects)
        self.provenance = Provenance(call.function, self.objects)
        for leaf, key, source in zip(call.arguments.leaves, call.keys, self.sources.leaves, strict=True):
            if key.kind == "identity":
                self.provenance.reach(leaf.value if isinstance(leaf, Static) else leaf, source)
        given_out: dict[int, Source] = {}
        for container, (source, _) in zip(containers, self.sources.containers, strict=True):
            self.provenance.reach(container.value, source)
            if not (trace.numbers.portable or isinstance(container.value, tuple)):
                given_out.setdefault(id(container.value), source)
        for read in self.capture.reads if self.capture is not None else ():
            source = self.provenance.at(read.slot)
            self.provenance.reach(read.value, source)
        self.results = Results(trace, self.objects, given_out)

    def plan(self, result: Any) -> CallPlan:
        """The plan, for what the function returned."""
        trace, capture = self.trace, self.capture
        lifted = {id(array) for array, _ in trace.arrays.values()}
        assumptions = capture.assumptions(lifted) if capture is not None else []
        written = capture.effects.assigned() if capture is not None else []
        changed = capture.effects.changes() if capture is not None else []
        done = [(entry, change) for entry, entry_changes in changed for change in entry_changes]
        to_arguments = list(changes(self.containers, trace.log))
        if not trace.numbers.portable:
            put_in = [change.value for _, change in (*done, *to_arguments)]
            self.results.share(result, [*(after for _, after in written), *put_in])
        template = self.results.template(result, "the result")
        rebound, grads, present = self._changed_handles()
        effects = self._effects(written, done, to_arguments)
        turned = [entry.target.owner for entry in trace.flags.values() if entry.is_changed]
        flags = [(trace.slot_of(handle), self.results.plain(handle._requires_grad)) for handle in turned]
        handles = self._handles()
        sources = [handle.source for handle in handles]
        effects += [Effect(sources[slot].then("value"), "set", value) for slot, value in rebound]
        effects += [Effect(sources[slot].then("grad"), "set", _whole(leaf)) for slot, leaf in grads]
        effects += [Effect(sources[slot].then("requires_grad"), "set", _whole(flag)) for slot, flag in flags]
        inputs = tuple([self._input(taken) for taken in trace.taken])
        ties = self._ties(sources)
        guards = [*self._of_arguments(), *self._of_sizes(), *self._of_state(assumptions, {*sources, *ties})]
        guards += [*self._of_views(), *self._of_numbers(), *self._of_inputs(inputs), *self._of_handles(handles)]
        for slot, grad in present:
            predicate = self.objects.same(None) if grad is None else Same(sources[grad])
            guards.append(Guard(sources[slot].then("grad"), predicate))
        guards += self._of_hooks(sources)
        guards += [Guard(tied, Same(source)) for tied, source in ties.items()]
        guards += self._partition(sources)
        if rebound:
            guards += self._unshared(handles, {slot for slot, _ in rebound})
        if capture is not None and self.containers:
            touched = {id(write.target.owner) for write, _ in written} | {id(entry.target) for entry, _ in done}
            touched |= {id(container.value) for container, _ in to_arguments}
            aliasing = Aliasing(self.containers, self.given, capture, self.provenance, self.objects)
            guards += aliasing.guards([source for source, _ in self.sources.containers], touched)
        copied = self.results.copied()
        trace.ended = True
        unguarded = capture.limits.unguarded if capture is not None else {}
        graph = trace.graph()
        require_one_device(trace.device, graph, inputs, handles)
        return CallPlan(
            graph=graph,
            arguments=self.sources.leaves,
            guards=tuple(dict.fromkeys(guards)),
            handles=tuple(handles),
            inputs=inputs,
            fresh=tuple(self.results.fresh),
            result=template,
            effects=tuple(effects),
            unguarded=_with_lines(unguarded),
            bound=_with_lines(capture.limits.bound if capture is not None else {}),
            copied=copied,
            shared_templates=tuple(self.results.made),
            views=tuple(self.results.views),
            pinned=tuple(PinnedSource(self._origin(h.origin), h.what, h.location) for h in trace.numbers.held.values()),
            sizes=dict(trace.constraints.sizes or {}),
            objects=tuple(self.objects.values),
            device=trace.device,
        )

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
                rebound.append((slot, self.results.computed(state.value)))
            if state.grad_read:
                present.append((slot, None if state.initial_grad is None else trace.slot_of(state.initial_grad)))
            if state.grad_written and not (state.grad_read and state.grad is state.initial_grad):
                grads.append((slot, self.results.leaf(state.grad, "a gradient")))
        return rebound, grads, present

    # --- where things are found -------------------------------------------------------------------------------------

    def _handles(self) -> list[Handle]:
        """The handles from outside: each by a place where it stands, so that another handle put there is seen."""
        handles: list[Handle] = []
        for slot in self.trace.slots:
            text = slot.text
            if slot.kind == "argument":
                source = self.sources.leaves[slot.at]
            elif slot.kind == "grad":
                source = handles[slot.at].source.then("grad")
            elif (read_slot := self.trace.read_slot(slot.handle)) is not None and not self._is_moved(
                read_slot, slot.handle
            ):
                source, text = self.provenance.at(read_slot), read_slot.text
            else:
                source = Source("object", self.objects.number(slot.handle), text)
            handles.append(
                Handle(source, text, slot.type, slot.requires_grad, device_of(slot.handle._value), slot.handle._api)
            )
        return handles

    def _is_moved(self, slot: Slot, handle: Tensor) -> bool:
        """Whether the function put the handle there itself."""
        assert self.capture is not None
        write = self.capture.effects.writes.get(slot.identity)
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
                mapping, key, _ = taken.at
                return Input("float", self.provenance.at(Slot("item", mapping, key, str(key))))
        return Input("number", taken.at)

    def _origin(self, origin: Origin) -> Source:
        return source_of(origin, self.sources.leaves) if origin.slot is None else self.provenance.at(origin.slot)

    # --- what is assumed --------------------------------------------------------------------------------------------

    def _of_arguments(self) -> list[Guard]:
        known = self.trace.numbers
        leaves = [origin for origin in known.origins if origin.slot is None and origin.axis < 0]
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
        for slot, predicate, location in assumptions:
            source = self.provenance.at(slot)
            if not (isinstance(predicate, IsTensor) and source in elsewhere):
                yield Guard(source, predicate, location)

    def _of_views(self) -> Iterator[Guard]:
        """That views from outside are of the same elements, that their base has those still, and what leaves are."""
        for view, state in self.trace.view_states.values():
            slot = self.trace.read_slot(view)
            assert slot is not None
            source = self.provenance.at(slot).then("view")
            yield Guard(source, self.objects.same(state))
            yield Guard(source.then("attribute", "storage").then("attribute", "moved"), self.objects.same(None))
            yield Guard(source.owner.then("requires_grad"), self.objects.same(view._requires_grad))

    def _of_numbers(self) -> Iterator[Guard]:
        numbers = self.trace.numbers
        reads = self.capture.reads if self.capture is not None else None
        for origin in numbers.origins:
            at_place = reads is not None and origin.slot is not None and reads.first(origin.slot) is not None
            if at_place or (origin.number in numbers.used and (origin.slot is not None or origin.axis >= 0)):
                kind: Any = origin.kind.__name__
                yield Guard(self._origin(origin), Varies(kind, origin.number))
        for assumption in numbers.assumptions.values():
            shown = shown_assumption(assumption, numbers.origins)
            yield Guard(None, Relation("numbers", assumption.condition(), shown, assumption.what), assumption.location)

    def _of_inputs(self, inputs: Sequence[Input]) -> Iterator[Guard]:
        """The kinds of arrays and floats from outside that are inputs; those of arguments are known."""
        for taken, plan_input in zip(self.trace.taken, inputs, strict=True):
            if taken.kind == "array":
                yield Guard(plan_input.at, Layout("array", taken.at.dtype, taken.at.shape))
            elif taken.kind == "host float":
                yield Guard(plan_input.at, self.objects.kind(taken.at[2]))

    def _of_handles(self, handles: Sequence[Handle]) -> Iterator[Guard]:
        for slot, handle in zip(self.trace.slots, handles, strict=True):
            if slot.kind == "argument":
                continue
            if handle.type is None:
                if slot.kind != "handle" or handle.source.kind != "object" or handle.source.steps:
                    yield Guard(handle.source, IsTensor())
            else:
                shape = tuple(handle.type.shape)
                yield Guard(
                    handle.source,
                    Layout("tensor", handle.type.dtype, shape, handle.requires_grad, handle.device, handle.api),
                )

    def _of_hooks(self, sources: Sequence[Source]) -> Iterator[Guard]:
        """The hooks of leaves from outside, which the graph contains."""
        for handle, hooks, location in self.trace.hooked.values():
            slot = self.trace.known_slot(handle)
            if slot is None:
                continue
            if hooks == state_of_hooks(handle):
                yield Guard(sources[slot].then("hooks"), self.objects.value(hooks))
            elif self.capture is not None:
                what = f"the hooks of {self.trace.slots[slot].text}, which the function changes"
                self.capture.limits.cannot_guard(what, location)

    def _ties(self, sources: Sequence[Source]) -> dict[Source, Source]:
        """Further places where handles stood, each with the source of the handle."""
        ties: dict[Source, Source] = {}
        for slot, handle in self.capture.reads.tensors if self.capture is not None else ():
            number = self.trace.known_slot(handle)
            if number is not None and (source := self.provenance.at(slot)) != sources[number]:
                ties[source] = sources[number]
        return ties

    def _partition(self, sources: Sequence[Source]) -> Iterator[Guard]:
        """Which handles are one object, and where containers of the arguments are changed, which of those are."""
        if len(sources) > 1:
            yield Guard(None, Distinct(tuple(dict.fromkeys(sources))))
        if next(changes(self.containers, self.trace.log), None) is None:
            return
        first: dict[int, Source] = {}
        for container, (source, _) in zip(self.containers, self.sources.containers, strict=True):
            known = first.setdefault(id(container.value), source)
            if known is not source:
                yield Guard(source, Same(known))
        yield Guard(None, Distinct(tuple(first.values())))

    def _unshared(self, handles: Sequence[Handle], written: Collection[int]) -> Iterator[Guard]:
        """That no handle that is written, by its slot, is a view of another one, its base, or a view of the same.

        Views that the function reads from outside have no values of their own there, but what their base has.
        """
        bases: dict[int, int] = {}
        slots = self.trace.slots
        own = [i for i, slot in enumerate(slots) if slot.kind != "handle" or not slot.handle._is_from_outside]
        for number in sorted(own, key=lambda slot: slot not in written):
            first = bases.setdefault(id(slots[number].handle._root), number)
            if first != number and first in written:
                one, other = (handles[slot].text for slot in sorted((first, number)))
                raise TraceError(
                    f"{one} and {other} share elements, and the function writes to one of them",
                    hint=f"pass {other}.clone(), or {one} alone, and take the view of it in the function",
                )
        if len(own) > 1 and any(handle.api for handle in handles):
            sides = [
                tuple(dict.fromkeys(handles[slot].source for slot in own if (slot in written) is flag))
                for flag in (True, False)
            ]
            yield Guard(None, Unshared(*sides))

    # --- what was done ----------------------------------------------------------------------------------------------

    def _effects(
        self,
        written: Sequence[tuple[UndoEntry, Any]],
        done: Sequence[tuple[UndoEntry, Change]],
        to_arguments: Sequence[tuple[ArgumentContainer, Change]],
    ) -> list[Effect]:
        """Assignments, then what was done to containers from outside, then to those among the arguments."""
        effects = [self._effect(write, after) for write, after in written]
        for entry, change in done:
            owner = self.provenance.of(entry.target, entry.text)
            effects.append(self._change(owner, entry.text, change, entry.location))
        for container, change in to_arguments:
            effects.append(self._change(self.sources.containers[container.number][0], container.text, change, None))
        return effects

    def _effect(self, write: UndoEntry, after: Any) -> Effect:
        source = self.provenance.at(write.target)
        self.results.require_lasting(write.target.key, write.text, write.location)
        if after is MISSING:
            return Effect(source, "delete", None, write.location)
        template = self.results.template(after, write.text, write.location, stays=True)
        return Effect(source, "set", template, write.location)

    def _change(self, owner: Source, name: str, change: Change, location: Location | None) -> Effect:
        """What the function did to a container."""
        if change.step is not None:
            self.results.require_lasting(change.step.key, change.text(name), location)
        source = owner if change.step is None else owner.then(change.step.kind, self.objects.key(change.step.key))
        if change.operation == "delete":
            return Effect(source, "delete", None, location)
        if change.operation in ("truncate", "clear"):
            return Effect(source, change.operation, change.value, location)
        text = change.text(name)
        if owner.kind == "argument" and (container := moved(change.value, self.containers)) is not None:
            raise TraceError(
                f"{text} is set to {container.text}, a container among the arguments, which no later call repeats",
                location=location,
                hint="return the new value instead, or set it to a copy",
            )
        template = self.results.template(change.value, text, location, stays=True)
        return Effect(source, change.operation, template, location)


def _whole(leaf: Leaf) -> Template:
    return Template(tree.LEAF, (leaf,))


def _with_lines(reasons: Mapping[str, Location | None]) -> tuple[str, ...]:
    """Reasons with the lines that gave them; some there are before the first line runs."""
    return tuple([what if location is None else f"{what} ({location})" for what, location in reasons.items()])
