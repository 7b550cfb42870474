"""Trace: records one call of a function into a Program."""

from __future__ import annotations

import enum
import functools
import inspect
import re
import types
from array import array
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes, lifting, ops, tree
from jitgraph.eager import EagerValue
from jitgraph.errors import TraceError
from jitgraph.ir.constant import Constant
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import TensorType, Type
from jitgraph.location import Location
from jitgraph.tensor import Tensor
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.capture.kinds import MISSING
from jitgraph.tracing.capture.state import Write
from jitgraph.tracing.guards import Place
from jitgraph.tracing.program import Fresh, Input, Leaf, Program, Remade, Slot, Source, Template
from jitgraph.tracing.record.argument_mutation import Box, Change, aliases, changes, moved
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.symbolic.number import Numbers, Origin, SymbolicNumber, plain_of
from jitgraph.tracing.symbolic.sizes import SymbolicDim, TraceConstraints
from jitgraph.tree import TreeDef

_MUTABLE = frozenset({set, bytearray, deque, array, Counter, defaultdict})
_LARGEST_CONSTANT = 64 << 10  # bytes: a larger array becomes an input, so that the graph stays small


class Trace(Recorder):
    """The recorder of a whole call. ``capture`` watches the Python state beside it."""

    def __init__(
        self,
        name: str,
        capture: Capture | None = None,
        sizes: Mapping[str, int] | None = None,
        declared: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(name, TraceConstraints(sizes, declared))
        self.capture = capture
        self.numbers = Numbers(self)
        self.slots: list[Slot] = []
        self.inputs: list[Input] = []
        self._arguments: dict[int, tuple[int, str, TensorType]] = {}  # by id of the handle: leaf, text, type
        self._input_numbers: dict[Value, int] = {}
        self._slot_of: dict[int, int] = {}
        self._grad_owner: dict[int, int] = {}  # id of a grad handle -> slot of its owner
        self._borrowed: dict[int, Tensor] = {}
        self._flags: dict[int, tuple[Tensor, bool]] = {}
        self._arrays: dict[int, tuple[Any, TracedValue]] = {}
        self._host_floats: dict[tuple[int, Any], Tensor] = {}
        self._numbers: dict[tuple[str, Any], TracedValue] = {}
        self._released: set[Value] = set()
        self._fresh: list[Fresh] = []
        self._fresh_of: dict[int, int] = {}
        self._outputs: dict[Value, int] = {}
        self._names: set[str] = set()
        self._remade_of: dict[int, Remade | None] = {}
        self._kept: list[Any] = []

    # --- inputs -----------------------------------------------------------------------------------------------------

    def argument_handle(self, handle: Tensor, leaf: int, text: str, type: TensorType) -> None:
        """Announce a tensor argument, so that its input stands in the order of the arguments."""
        if id(handle) not in self._arguments:
            self._arguments[id(handle)] = (leaf, text, type)
            self.read(handle)

    def argument_array(self, leaf: int, text: str, type: TensorType) -> Tensor:
        """A handle for a NumPy argument, borrowed for the call."""
        handle = self._input_handle(Input("argument array", leaf), text, type)
        self._borrowed[id(handle)] = handle
        return handle

    def spec_handle(self, leaf: int, text: str, type: TensorType) -> Tensor:
        """A handle for an argument that is known by its type alone."""
        return self._input_handle(Input("argument array", leaf), text, type)

    def argument_float(self, leaf: int, text: str) -> Tensor:
        """A weak handle for a Python float among the arguments."""
        handle = self._input_handle(Input("float", leaf), text, TensorType(dtypes.float64, ()))
        handle._weak = True
        return handle

    def _input_handle(self, source: Input, text: str, type: TensorType) -> Tensor:
        value = self._new_input(source, type, text)
        handle = lifting.wrap(TracedValue(value, False, self, None))
        self._kept.append(handle)
        return handle

    def _new_input(self, source: Input, type: Type, text: str) -> Value:
        ir = self.builder.input(type, self._name(text))
        self._input_numbers[ir] = len(self.inputs)
        self.inputs.append(source)
        return ir

    def _name(self, text: str) -> str:
        name = re.sub(r"\W+", "_", text).strip("_") or "input"
        name = name if not name[0].isdigit() else f"_{name}"
        found, count = name, 1
        while found in self._names:
            count += 1
            found = f"{name}_{count}"
        self._names.add(found)
        return found

    def slot_of(self, handle: Tensor) -> int:
        """The slot of a handle from outside."""
        found = self._slot_of.get(id(handle))
        if found is None:
            found = self._slot_of[id(handle)] = len(self.slots)
            self.slots.append(self._locate(handle))
            self._kept.append(handle)
        return found

    def _locate(self, handle: Tensor) -> Slot:
        requires_grad = handle._requires_grad or getattr(handle._value, "record", None) is not None
        if id(handle) in self._arguments:
            leaf, text, _ = self._arguments[id(handle)]
            return Slot("argument", leaf, text, None, requires_grad)
        if id(handle) in self._grad_owner:
            owner = self._grad_owner[id(handle)]
            return Slot("grad", owner, f"{self.slots[owner].text}.grad", None, requires_grad)
        return Slot("handle", handle, "captured", None, requires_grad)  # a place is filled in when the trace ends

    def adopt(self, handle: Tensor) -> TracedValue:
        """Lift a handle from outside to an input."""
        value = handle._value
        if isinstance(value, TracedValue):
            raise value.leaked()
        slot = self.slot_of(handle)
        known = self._arguments.get(id(handle))
        type = known[2] if known is not None else value.type
        text = known[1] if known is not None else self._text_of(handle, slot)
        ir = self._new_input(Input("slot", slot), type, text)
        old = self.slots[slot]
        self.slots[slot] = Slot(old.kind, old.at, text, type, old.requires_grad)
        if handle._requires_grad:
            self.leaves[ir] = handle
        elif old.requires_grad:
            self.foreign[ir] = handle
        return self.wrap(ir, old.requires_grad, None)

    def _text_of(self, handle: Tensor, slot: int) -> str:
        place = self._place_of(handle)
        return place.text if place is not None else self.slots[slot].text

    def _place_of(self, handle: Tensor) -> Place | None:
        return None if self.capture is None else self.capture.sources().get(id(handle))

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value that no handle names: a constant."""
        if value.record is not None:
            raise TraceError("a value with a gradient from before the trace is used inside it", hint="x.detach()")
        return self._constant(value.array)

    def _constant(self, array: Any) -> TracedValue:
        (value,) = self._record(ops.constant, [], {"value": Constant(array)}, (), False)
        return value

    def lift(self, array: Any) -> TracedValue:
        """A NumPy array: an input that is read again at each call where it is the user's, else a constant."""
        native = (
            array
            if array.dtype.isnative and array.flags.aligned
            else np.array(array, dtype=array.dtype.newbyteorder("="))
        )
        steady = self.capture is not None and self.capture.is_steady(array)
        if not steady and native.nbytes <= _LARGEST_CONSTANT and array.base is None:
            return self._constant(native)
        if native is not array:
            return self._constant(native)
        known = self._arrays.get(id(array))
        if known is None:
            ir = self._new_input(Input("array", array), TensorType(array.dtype, array.shape), "array")
            known = self._arrays[id(array)] = (array, self.wrap(ir, False, None))
        return known[1]

    def host_float(self, mapping: Any, key: Any) -> Any:
        """``mapping[key]`` as a weak 0-d input that is read again at each call; its value is no guard.

        One that the function itself has set, or that stands for a number that varies, is what stands there now.
        """
        place = Place("item", mapping, key, str(key))
        if type(mapping[key]) is SymbolicNumber or (self.capture is not None and place.identity in self.capture.writes):
            return plain_of(mapping[key])
        found = self._host_floats.get((id(mapping), key))
        if found is None:
            self._kept.append(mapping)
            found = self._input_handle(Input("host float", (mapping, key)), str(key), TensorType(dtypes.float64, ()))
            found._weak = True
            self._host_floats[id(mapping), key] = found
            if self.capture is not None:
                self.capture.release(mapping, key)
        return found

    def number_value(self, text: str, dtype: Any) -> TracedValue:
        """An expression over Python numbers that vary, as a 0-d input."""
        found = self._numbers.get((text, dtype))
        if found is None:
            ir = self._new_input(Input("number", (text, dtype)), TensorType(dtype, ()), self.numbers.shown(text))
            found = self._numbers[text, dtype] = self.wrap(ir, False, None)
        return found

    def write(self, handle: Tensor, value: Any) -> None:
        """Rebind a handle; a NumPy argument is borrowed and cannot be."""
        if id(handle) in self._borrowed:
            raise TraceError(
                "a NumPy argument is written in place; it is only borrowed for the call",
                hint="pass jg.asarray(array), or work on a copy: x = x + 1",
            )
        super().write(handle, value)
        if not self._is_own(handle):
            self.slot_of(handle)

    def note_flag(self, handle: Tensor) -> None:
        """Keep the flag with which a handle came, to be put back when the trace ends."""
        self._flags.setdefault(id(handle), (handle, handle._requires_grad))

    def put_back_flags(self) -> None:
        """Give all handles the ``requires_grad`` with which they came."""
        for handle, flag in self._flags.values():
            handle._requires_grad = flag

    def outer_grad(self, handle: Tensor) -> Tensor | None:
        """The ``.grad`` of a handle from outside; whether there is one becomes an assumption of the trace."""
        slot = self.slot_of(handle)
        if handle._grad is not None:
            self._grad_owner[id(handle._grad)] = slot
        return handle._grad

    def write_grad(self, handle: Tensor, grad: Tensor | None) -> None:
        """Set ``.grad`` in the shadow."""
        super().write_grad(handle, grad)
        if not self._is_own(handle):
            self.slot_of(handle)

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """As the base class; what the gradient passed through is no longer on the caller's tape."""
        super().backward(loss, gradient, retain_graph=retain_graph)
        if not retain_graph:
            self._released |= self._reached([self.read(loss).ir])

    def uses_float(self, handle: Tensor) -> bool:
        """Whether a value was computed from a Python float that is an input."""
        pending, seen = [self.read(handle).ir], set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            number = self._input_numbers.get(value)
            if number is not None and self.inputs[number].kind in ("float", "host float"):
                return True
            node = self.producers.get(value)
            pending += node.inputs if node is not None else ()
        return False

    # --- the end ----------------------------------------------------------------------------------------------------

    def finish(self, result: Any, boxes: Sequence[Box] = ()) -> Program:
        """The program, for what the function returned and what it did to containers of the arguments."""
        guards = self.capture.guards({id(array) for array, _ in self._arrays.values()}) if self.capture else []
        effects = self.capture.effects() if self.capture else []
        template = self._template(result, "the result")
        writes, grad_writes, grads_present = [], [], []
        for state in self.states.values():
            slot = self._slot_of.get(id(state.handle))
            if slot is None:
                continue
            if state.written and state.value is not state.initial:
                assert state.value is not None
                writes.append((slot, self._source(state.value)))
            if state.grad_read:
                grads_present.append((slot, None if state.initial_grad is None else self.slot_of(state.initial_grad)))
            if state.grad_written and not (state.grad_read and state.grad is state.initial_grad):
                grad_writes.append((slot, None if state.grad is None else self._leaf(state.grad, "a gradient")))
        set_again = tuple(self._effect(write, after) for write, after in effects)
        changed = tuple((change, self._changed(change, boxes)) for change in changes(boxes))
        sources = self.capture.sources() if self.capture else {}
        turned = [handle for handle, before in self._flags.values() if handle._requires_grad != before]
        slots = tuple(self._settled(slot, sources) for slot in self.slots)
        found = {slot.at.identity: number for number, slot in enumerate(slots) if slot.kind == "place"}
        ties = []
        for place, handle in self.capture.tensor_places() if self.capture else ():
            number = self._slot_of.get(id(handle))
            if number is not None and found.get(place.identity) != number:
                ties.append((place, number))
        checked = {place.identity for place, _ in ties} | found.keys()
        guards = [guard for guard in guards if guard.kind != "tensor" or guard.place.identity not in checked]
        pins = tuple(self.constraints.pins)
        sizes = dict(self.constraints.sizes or {})
        self.ended = True
        unguarded = self.capture.unguarded if self.capture else {}
        numbers = {id(box.value): box.number for box in boxes}
        read = self.capture.attributes.values() if self.capture else ()
        return Program(
            graph=self._graph(),
            slots=slots,
            inputs=tuple(self.inputs),
            fresh=tuple(self._fresh),
            result=template,
            writes=tuple(writes),
            grad_writes=tuple(grad_writes),
            effects=set_again,
            changes=changed,
            flags=tuple((self.slot_of(handle), handle._requires_grad) for handle in turned),
            aliases=aliases(boxes),
            attributes=tuple((numbers[id(owner)], guard) for owner, guard in read if id(owner) in numbers),
            grads_present=tuple(grads_present),
            ties=tuple(ties),
            guards=tuple(guards),
            unguarded=tuple(f"{what} ({location})" for what, location in unguarded.items()),
            pins=pins,
            numbers=self._varying(),
            questions=tuple(self.numbers.questions.values()),
            held=tuple(self.numbers.held.values()),
            sizes=sizes,
        )

    def _varying(self) -> tuple[Origin, ...]:
        """The numbers that the program depends on."""
        read = self.capture.reads if self.capture else {}
        return tuple(
            origin
            for origin in self.numbers.origins
            if origin.place is None or origin.number in self.numbers.used or origin.place.identity in read
        )

    def _graph(self) -> Graph:
        return self.builder.graph(list(self._outputs), self.name)

    def _settled(self, slot: Slot, sources: Mapping[int, Place]) -> Slot:
        """The slot of a captured handle by the place where it stands, so that another handle put there is seen."""
        if slot.kind == "handle" and id(slot.at) in sources:
            place = sources[id(slot.at)]
            if self.capture is not None and place.identity in self.capture.writes:
                write = self.capture.writes[place.identity]
                if write.before is not slot.at:
                    return slot
            return Slot("place", place, place.text, slot.type, slot.requires_grad)
        return slot

    def _effect(self, write: Write, after: Any) -> tuple[Place, Template | None]:
        return write.place, None if after is MISSING else self._template(
            after, write.place.text, write.location, stays=True
        )

    def _changed(self, change: Change, boxes: Sequence[Box]) -> Template | None:
        if change.action in ("no item", "no attribute", "shorten"):
            return None
        if (box := moved(change.value, boxes)) is not None:
            raise TraceError(
                f"{change.text} is set to {box.text}, a container among the arguments, which no later call repeats",
                hint="return the new value instead, or set it to a copy",
            )
        return self._template(change.value, change.text, stays=True)

    def _template(self, value: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Template:
        leaves: list[Any] = []
        structure = self._flattened(value, leaves)
        return Template(structure, tuple(self._leaf(leaf, what, location, stays=stays) for leaf in leaves))

    def _flattened(self, value: Any, leaves: list[Any]) -> TreeDef:
        """As ``tree.flatten``, with containers from outside as leaves: they are given out as they are."""
        container = tree.container_of(value)
        if container is None or self._is_outside(value):
            leaves.append(value)
            return tree.LEAF
        parts = container.take_apart(value)
        children = tuple([self._flattened(child, leaves) for child in parts.children])
        return TreeDef(type(value), parts.steps, children, parts.data)

    def _is_outside(self, value: Any) -> bool:
        """Whether a list, dict or dataclass is an object from outside, and no argument."""
        return self.capture is not None and not isinstance(value, tuple | None) and self.capture.is_outside(value)

    def _leaf(self, leaf: Any, what: str, location: Location | None = None, *, stays: bool = False) -> Leaf:
        if isinstance(leaf, TracedValue):
            leaf = lifting.wrap(leaf)
        if isinstance(leaf, SymbolicDim):
            leaf = int(leaf)
        if type(leaf) is SymbolicNumber and leaf.is_live:
            self.numbers.use(leaf.text)
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
            if (remade := self._remade(leaf)) is not None:
                return Leaf("copy", remade)
            if stays and not _is_plain(leaf) and not self._is_outside(leaf):
                raise TraceError(
                    f"{what} is set to a new {type(leaf).__name__}, which a compiled call cannot make again",
                    location=location,
                    hint="set it outside of the traced function, or keep tensors and Python numbers in it",
                )
            return Leaf("python", leaf)
        if not self._is_own(leaf):
            if isinstance(leaf._value, TracedValue):
                raise leaf._value.leaked()
            return Leaf("slot", self.slot_of(leaf))
        return Leaf("fresh", self._fresh_handle(leaf))

    def _remade(self, leaf: Any) -> Remade | None:
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
        known = self._remade_of.get(id(leaf))
        if known is None:
            self._kept.append(leaf)
            known = self._remade_of[id(leaf)] = self._copied(leaf, self.capture)
        return known

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
            return id(value) in self._arguments or isinstance(value._value, TracedValue)
        if depth == 0 or (self.capture is not None and self.capture.is_steady(value)):
            return False
        return any(self._hides_tensor(element, depth - 1) for element in _inside(value))

    def _fresh_handle(self, handle: Tensor) -> int:
        found = self._fresh_of.get(id(handle))
        if found is None:
            self._kept.append(handle)
            found = self._fresh_of[id(handle)] = len(self._fresh)
            source = self._source(self.read(handle))
            self._fresh.append(Fresh(source, handle._requires_grad, handle._weak))
        return found

    def _source(self, value: TracedValue) -> Source:
        """Where a value is found after the call; values that are no inputs become outputs of the graph."""
        reached = self._reached([value.ir]) if value.requires_grad else set()
        differentiable = any(ir in self._input_numbers for ir in reached) and value.ir not in self._released
        number = self._input_numbers.get(value.ir)
        if number is not None and self.inputs[number].kind == "slot":
            return Source("input", number, differentiable)
        if value.ir not in self._outputs:
            self._outputs[value.ir] = len(self._outputs)
        return Source("output", self._outputs[value.ir], differentiable)


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
