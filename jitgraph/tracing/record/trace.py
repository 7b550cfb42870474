"""Trace: records one call of a function into a graph, and what its inputs are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal
from weakref import ref

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue, state_of_hooks
from jitgraph.errors import TraceError
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import Constant, TensorType, Type
from jitgraph.location import Location
from jitgraph.records import NamedTuple, dataclass
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.call.undo_log import UndoEntry, UndoLog
from jitgraph.tracing.capture.capture import Capture
from jitgraph.tracing.guards.source import Slot
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.symbolic.number import Origin, SymbolicNumber, resolved
from jitgraph.tracing.symbolic.numbers import Numbers
from jitgraph.tracing.symbolic.sizes import TraceConstraints

_LARGEST_CONSTANT = 64 << 10  # bytes: a larger array becomes an input, so that the graph stays small


@dataclass(slots=True)
class HandleSlot:
    """A tensor handle from outside: the leaf ``at`` of the arguments, ``.grad`` of the handle in slot ``at``, or a
    handle that the function reached by itself. ``type`` is None where its value is not used."""

    kind: Literal["argument", "grad", "handle"]
    at: int
    handle: Tensor
    text: str
    type: TensorType | None
    requires_grad: bool


class Taken(NamedTuple):
    """What an input of the graph is: the value in a slot, an array, a leaf of the arguments (an array, a float), a
    float in a mapping (``(mapping, key, its class)``), or an expression over numbers that vary (``(code, dtype)``)."""

    kind: Literal["slot", "array", "argument array", "float", "host float", "number"]
    at: Any


class Trace(Recorder):
    """The recorder of a whole call. ``capture`` watches the Python state beside it."""

    def __init__(
        self,
        name: str,
        capture: Capture | None = None,
        sizes: Mapping[str, int] | None = None,
        declared: frozenset[str] = frozenset(),
        *,
        portable: bool = False,
    ) -> None:
        super().__init__(name, TraceConstraints(sizes, declared))
        self.capture = capture
        self.numbers = Numbers(self, portable=portable)
        if capture is not None:
            capture.tell(self.numbers)
        self.slots: list[HandleSlot] = []
        self.taken: list[Taken] = []
        self._arguments: dict[int, tuple[int, str, TensorType]] = {}  # by id of the handle: leaf, text, type
        self._input_numbers: dict[Value, int] = {}
        self._slot_of: dict[int, int] = {}
        self._grad_owner: dict[int, int] = {}  # id of a grad handle -> slot of its owner
        self._borrowed: dict[int, Tensor] = {}
        self.log = capture.effects.log if capture is not None else UndoLog()
        self.hooked: dict[int, tuple[Tensor, int | None, Location | None]] = {}  # leaves whose hooks it has
        self.flags: dict[int, UndoEntry] = {}  # of handles whose requires_grad was changed
        self.arrays: dict[int, tuple[Any, TracedValue]] = {}
        self._floats: dict[int, Tensor] = {}  # by the leaf of the arguments
        self._host_floats: dict[tuple[int, Any], Tensor] = {}
        self._numbers: dict[tuple[str, Any], TracedValue] = {}
        self._released: set[Value] = set()
        self._dependent: tuple[tuple[int, ...], set[Value]] | None = None  # on inputs, in a trace of that size
        self._outputs: dict[Value, int] = {}
        self._names: set[str] = set()
        self._kept: list[Any] = []
        self.views: dict[int, list[ref[Any]]] = {}  # made here, by the ids of the tensors from outside that they are of
        self.view_states: dict[int, tuple[Tensor, Any]] = {}  # of views from outside that were used

    # --- inputs -----------------------------------------------------------------------------------------------------

    def argument_handle(self, handle: Tensor, leaf: int, text: str, type: TensorType) -> None:
        """Announce a tensor argument, so that its input stands in the order of the arguments."""
        if id(handle) not in self._arguments:
            self._arguments[id(handle)] = (leaf, text, type)
            self.read(handle)

    def argument_array(self, leaf: int, text: str, type: TensorType) -> Tensor:
        """A handle for a NumPy argument, borrowed for the call."""
        handle = self._input_handle(Taken("argument array", leaf), text, type)
        self._borrowed[id(handle)] = handle
        return handle

    def spec_handle(self, leaf: int, text: str, type: TensorType) -> Tensor:
        """A handle for an argument that is known by its type alone."""
        return self._input_handle(Taken("argument array", leaf), text, type)

    def argument_float(self, origin: Origin) -> Tensor:
        """A weak handle for a Python float among the arguments; the same one each time."""
        handle = self._floats.get(origin.leaf)
        if handle is None:
            handle = self._input_handle(Taken("float", origin.leaf), origin.text, TensorType(dtypes.float64, ()))
            handle._weak = True
            self._floats[origin.leaf] = handle
        return handle

    def number_of(self, size: Dim) -> SymbolicNumber:
        """A size that is no int as the Python number that the user sees."""
        return self.numbers.of_size(size)

    def _input_handle(self, source: Taken, text: str, type: TensorType) -> Tensor:
        value = self._new_input(source, type, text)
        handle = wrap(TracedValue(value, False, self, None))
        self._kept.append(handle)
        return handle

    def _new_input(self, source: Taken, type: Type, text: str) -> Value:
        ir = self.builder.input(type, self._name(text))
        self._input_numbers[ir] = len(self.taken)
        self.taken.append(source)
        return ir

    def _name(self, text: str) -> str:
        name = re.sub(r"\W+", "_", text).strip("_") or "input"
        name = name if not name[0].isdigit() else f"_{name}"
        unique, count = name, 1
        while unique in self._names:
            count += 1
            unique = f"{name}_{count}"
        self._names.add(unique)
        return unique

    def slot_of(self, handle: Tensor) -> int:
        """The slot of a handle from outside."""
        slot = self._slot_of.get(id(handle))
        if slot is None:
            slot = self._slot_of[id(handle)] = len(self.slots)
            self.slots.append(self._locate(handle))
            self._kept.append(handle)
        return slot

    def _locate(self, handle: Tensor) -> HandleSlot:
        requires_grad = handle._requires_grad or getattr(handle._value, "record", None) is not None
        if id(handle) in self._arguments:
            leaf, text, _ = self._arguments[id(handle)]
            return HandleSlot("argument", leaf, handle, text, None, requires_grad)
        if id(handle) in self._grad_owner:
            owner = self._grad_owner[id(handle)]
            return HandleSlot("grad", owner, handle, f"{self.slots[owner].text}.grad", None, requires_grad)
        return HandleSlot("handle", -1, handle, "captured", None, requires_grad)  # a place is found when the trace ends

    def require_recording(self, why: str, location: Location) -> None:
        if self.capture is not None:
            self.capture.limits.bound.setdefault(why, location)

    def adopt(self, handle: Tensor) -> TracedValue:
        """Lift a handle from outside to an input."""
        value = handle._value
        if isinstance(value, TracedValue):
            raise value.leaked()
        if isinstance(value, DeviceValue):
            self.require_device(value.device)
        slot = self.slot_of(handle)
        known = self._arguments.get(id(handle))
        type = known[2] if known is not None else value.type
        text = known[1] if known is not None else self._text_of(handle, slot)
        ir = self._new_input(Taken("slot", slot), type, text)
        entry = self.slots[slot]
        entry.text, entry.type = text, type
        if handle._requires_grad:
            self.gradients.leaves[ir] = handle
        elif entry.requires_grad:
            self.gradients.foreign[ir] = handle
        return self.wrap(ir, entry.requires_grad, None)

    def _text_of(self, handle: Tensor, slot: int) -> str:
        read_slot = self.read_slot(handle)
        return read_slot.text if read_slot is not None else self.slots[slot].text

    def read_slot(self, handle: Tensor) -> Slot | None:
        """The first location at which the function read a handle."""
        return None if self.capture is None else self.capture.reads.source_of(handle)

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value that no handle names: a constant."""
        if value.record is not None:
            raise TraceError("a value with a gradient from before the trace is used inside it", hint="x.detach()")
        return self._constant(value.array)

    def _constant(self, array: Any) -> TracedValue:
        (value,) = self.record_op(ops.constant, [], {"value": Constant(array)}, (), False)
        return value

    def lift(self, array: Any) -> TracedValue:
        """A NumPy array: an input that is read again at each call where it is the user's, else a constant."""
        native = (
            array
            if array.dtype.isnative and array.flags.aligned
            else np.array(array, dtype=array.dtype.newbyteorder("="))
        )
        reachable = self.capture is not None and self.capture.identities.is_reachable(array)
        if not reachable and native.nbytes <= _LARGEST_CONSTANT and array.base is None:
            return self._constant(native)
        if native is not array:
            return self._constant(native)
        known = self.arrays.get(id(array))
        if known is None:
            ir = self._new_input(Taken("array", array), TensorType(array.dtype, array.shape), "array")
            known = self.arrays[id(array)] = (array, self.wrap(ir, False, None))
        return known[1]

    def host_float(self, mapping: Any, key: Any) -> Any:
        """``mapping[key]`` as a weak 0-d input that is read again at each call; its value is no guard.

        One that the function itself has set, or that stands for a number that varies, is what stands there now.
        """
        slot = Slot("item", mapping, key, str(key))
        if type(mapping[key]) is SymbolicNumber or (self.capture is not None and self.capture.effects.is_written(slot)):
            return resolved(mapping[key])
        handle = self._host_floats.get((id(mapping), key))
        if handle is None:
            self._kept.append(mapping)
            taken = Taken("host float", (mapping, key, type(mapping[key])))  # NumPy's float64 is a float, too
            handle = self._input_handle(taken, str(key), TensorType(dtypes.float64, ()))
            handle._weak = True
            self._host_floats[id(mapping), key] = handle
            if self.capture is not None:
                self.capture.reads.release(mapping, key)
        return handle

    def number_value(self, text: str, dtype: Any) -> TracedValue:
        """An expression over Python numbers that vary, as a 0-d input."""
        value = self._numbers.get((text, dtype))
        if value is None:
            ir = self._new_input(Taken("number", (text, dtype)), TensorType(dtype, ()), self.numbers.shown(text))
            value = self._numbers[text, dtype] = self.wrap(ir, False, None)
        return value

    def rebind(self, handle: Tensor, value: Any) -> None:
        """Rebind this handle alone; a NumPy argument is borrowed and cannot be."""
        if id(handle) in self._borrowed:
            raise TraceError(
                "a NumPy argument is written in place; it is only borrowed for the call",
                hint="pass jg.asarray(array), or work on a copy: x = x + 1",
            )
        super().rebind(handle, value)
        if not self.is_own(handle):
            self.slot_of(handle)

    def note_flag(self, handle: Tensor) -> None:
        """Keep the flag with which a handle came, to be put back when the trace ends."""
        self.flags[id(handle)] = self.log.save(Slot("attribute", handle, "_requires_grad", "requires_grad"), "")

    def outer_grad(self, handle: Tensor) -> Tensor | None:
        """The ``.grad`` of a handle from outside; whether there is one becomes an assumption of the trace."""
        slot = self.slot_of(handle)
        if handle._grad is not None:
            self._grad_owner[id(handle._grad)] = slot
        return handle._grad

    def note_hooks(self, handle: Tensor) -> None:
        if id(handle) not in self.hooked:
            hooks = state_of_hooks(handle)
            location = None if hooks is None else Location.of_user()
            self.hooked[id(handle)] = handle, hooks, location
            if location is not None:
                self.require_recording("the hooks of a gradient", location)

    def write_grad(self, handle: Tensor, grad: Tensor | None) -> None:
        """Set ``.grad`` in the shadow."""
        super().write_grad(handle, grad)
        if not self.is_own(handle):
            self.slot_of(handle)

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """As the base class; what the gradient passed through is no longer on the caller's tape."""
        super().backward(loss, gradient, retain_graph=retain_graph)
        if not retain_graph:
            self._released |= self.gradients.reached([self.read(loss).ir])

    def uses_float(self, handle: Tensor) -> bool:
        """Whether a value was computed from a Python float that is an input."""
        pending, seen = [self.read(handle).ir], set()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            number = self._input_numbers.get(value)
            if number is not None and self.taken[number].kind in ("float", "host float"):
                return True
            node = self.producers.get(value)
            pending += node.inputs if node is not None else ()
        return False

    # --- the end ----------------------------------------------------------------------------------------------------

    def known_slot(self, handle: Tensor) -> int | None:
        """The number of the slot of a handle that has one."""
        return self._slot_of.get(id(handle))

    def is_argument(self, handle: Tensor) -> bool:
        """Whether the handle is an argument."""
        return id(handle) in self._arguments

    def is_argument_or_gradient(self, handle: Tensor) -> bool:
        """Whether the handle is an argument or the ``.grad`` of a tensor from outside: each call may bring another."""
        return id(handle) in self._arguments or id(handle) in self._grad_owner

    def use_view(self, handle: Tensor) -> None:
        """A view that the function read from outside has to be the same one at each call, of the same elements: its
        base stands for it."""
        if self.read_slot(handle) is not None:
            assert self.capture is not None
            self.capture.reads.use_identity(handle)
            self.view_states.setdefault(id(handle), (handle, handle._settled()))

    def input_number(self, value: Value) -> int | None:
        """Which input of the graph a value is."""
        return self._input_numbers.get(value)

    def output_number(self, value: Value) -> int:
        """Which output of the graph a value is, from now on."""
        return self._outputs.setdefault(value, len(self._outputs))

    def is_differentiable(self, value: TracedValue) -> bool:
        """Whether gradients of the caller's go through a value to an input."""
        if not value.requires_grad or value.ir in self._released:
            return False
        gradients = self.gradients
        size = (len(self.producers), len(self._input_numbers), len(gradients.differentiable), len(gradients.leaves))
        if self._dependent is None or self._dependent[0] != size:
            self._dependent = size, gradients.dependent(self._input_numbers)
        return value.ir in self._dependent[1]

    def graph(self) -> Graph:
        """The graph, with the outputs that were asked for."""
        return self.builder.graph(list(self._outputs), self.name)
