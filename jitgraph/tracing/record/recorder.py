"""Recorder: the emitter and handle store of a trace, and of the body of a control-flow op inside one."""

from __future__ import annotations

import dis
import itertools
import linecache
import re
import sys
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import CellType, FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitgraph import dtypes, ops
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import DeviceError, JitgraphError, TraceError, withdraw
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.op import Op
from jitgraph.ir.types import is_inexact_tensor
from jitgraph.location import MODULE_CALLS, Location, user_location
from jitgraph.own_code import PACKAGE
from jitgraph.records import dataclass
from jitgraph.runtime import imports
from jitgraph.runtime.buffer import CPU
from jitgraph.tensor import Tensor, wrap
from jitgraph.tracing.capture.events import run_watched
from jitgraph.tracing.record.gradients import Gradients
from jitgraph.tracing.record.stand_ins import StandIns
from jitgraph.tracing.record.values import Aliases, GrownElement, TracedValue, aliases_of, chosen, unknown_write
from jitgraph.tracing.symbolic.number import to_dim, without_numbers
from jitgraph.tracing.symbolic.sizes import TraceConstraints

if TYPE_CHECKING:
    from jitgraph.tracing.capture.capture import Capture
    from jitgraph.tracing.record.printing import PrintText
    from jitgraph.tracing.record.region import WriteLog

# ----------------------------------------------------------------------
# Where an op is recorded: the user's line, and the modules in whose calls it stands, by their names in the model.

_OUTSIDE: Final = run_watched.__code__  # what calls the function that is recorded
_DEPTH: Final = 3  # of containers that are not called, such as lists of lists of modules


class ModulePaths:
    """The places of one recording. A module's attributes are read as they lie in its dict, by no code of the user's."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int], tuple[Any, str]] = {}

    def here(self) -> Location | None:
        """The user's line; its modules are the class of the outermost one, and the names of those inside of it."""
        location = Location.of_user()
        if location is None or not MODULE_CALLS:
            return location
        modules = self._modules()
        return replace(location, modules=modules) if modules else location

    def _modules(self) -> tuple[str, ...]:
        modules = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_code is not _OUTSIDE:
            if id(frame.f_code) in MODULE_CALLS:
                modules.append(frame.f_locals["self"])
            frame = frame.f_back
        if not modules:
            return ()
        modules.reverse()
        inner = (self._name(outer, module) for outer, module in itertools.pairwise(modules))
        return (type(modules[0]).__name__, *inner)

    def _name(self, outer: Any, module: Any) -> str:
        key = (id(outer), id(module))
        known = self._names.get(key)
        if known is not None and known[0]() is module:
            return known[1]
        name = next(_paths(_attributes(outer), module, _DEPTH), type(module).__name__)
        self._names[key] = weakref.ref(module), name
        return name


def _attributes(module: Any) -> Mapping[str, Any]:
    attributes: Mapping[str, Any] = object.__getattribute__(module, "__dict__")
    return attributes


def _is_module(value: Any) -> bool:
    called = (vars(kind)["__call__"] for kind in type(value).__mro__ if "__call__" in vars(kind))
    return id(getattr(next(called, None), "__code__", None)) in MODULE_CALLS


def _paths(attributes: Mapping[str, Any], module: Any, depth: int) -> Iterator[str]:
    """The names of a module among these attributes, and in containers among them."""
    for name, value in attributes.items():
        if value is module:
            yield name
    if depth:
        for name, value in attributes.items():
            if _is_module(value) and value is not module:
                yield from (f"{name}.{inner}" for inner in _paths(_attributes(value), module, depth - 1))


# ----------------------------------------------------------------------
# The way out of an operation of Python or NumPy that needs the value of a traced tensor, by the user's line.

OF_TRUTH: Final = "use @jg.script for an if or while on tensors, or jg.where"
"""For the truth of a tensor in a function that is no script."""

_OF_NUMBERS: Final = "write jg.exp for math.exp and the like, and compute with the tensor; call item() outside"
_BY_OPERATION: Final = {
    "bool()": OF_TRUTH,
    "float()": _OF_NUMBERS,
    "int()": _OF_NUMBERS,
    "complex()": _OF_NUMBERS,
    "item()": "compute with the tensor itself, or return it and call item() outside; in a @jg.script int(x) and "
    "float(x) are numbers",
    "tolist()": "compute with the tensor itself, or return it and call tolist() outside",
    "numpy()": "compute with the tensor itself, or return it and call numpy() outside",
    "use as an index": "a tensor or array is indexed by a tensor as jg.asarray(array)[i], a list of tensors as "
    "jg.stack(tensors)[i]; range(n) of a tensor is a loop in a @jg.script",
    "np.asarray": "compute with tensors: jg.asarray([x, 1.0]) or jg.stack([x, y]) for np.array([x, 1.0]), and jg's "
    "functions for NumPy's; call numpy() outside",
}
_OUTSIDE_HINT: Final = "do it outside of the traced function, with what that returns"
READ_OF_ARRAY: Final = "make the array a tensor: jg.asarray(array)[i] in place of array[i]"
"""For a NumPy array or a list that is indexed by a tensor."""

WRITE_TO_ARRAY: Final = (
    "write to a tensor: out = jg.zeros(shape) in place of np.zeros(shape), or out = jg.asarray(array); then "
    "out[i] = value"
)
"""For a NumPy array that takes a tensor as an element."""

_BY_INSTRUCTION: Final = {
    "BINARY_SUBSCR": READ_OF_ARRAY,
    "BINARY_SLICE": READ_OF_ARRAY,
    "STORE_SUBSCR": WRITE_TO_ARRAY,
    "STORE_SLICE": WRITE_TO_ARRAY,
}
_CONVERSIONS: Final = ("np.asarray", "use as an index", "float()", "int()", "complex()")


def replacement_of(operation: str) -> str:
    """What to write in place of an operation such as ``np.asarray``, which the user's innermost line asks for."""
    place = user_location()
    if place is not None and operation in _CONVERSIONS:
        code, instruction = place
        name = dis.opname[code.co_code[instruction]]
        if name in _BY_INSTRUCTION:
            return _BY_INSTRUCTION[name]
    return _BY_OPERATION.get(operation, _OUTSIDE_HINT)


def replacement_of_text(location: Location | None) -> str:
    """What to write in place of a text that is made of a traced tensor."""
    line = "" if location is None else linecache.getline(location.file, location.line)
    if re.search(r"\b(raise|assert)\b", line):
        return (
            "compiled code raises exceptions of fixed texts: leave the tensor out of the text, and print it before, "
            'jg.debug.print("x = {}", x)'
        )
    return (
        'let the print make the text: jg.debug.print("loss {}", loss) or print("loss", loss), not print(f"loss {loss}")'
    )


# ----------------------------------------------------------------------
# Recorder: the emitter and handle store of a trace, and of the body of a control-flow op inside one.
#
# Handles are not changed while a trace records: reads and rebindings of handles from outside go to a shadow here, which
# is written back after the compiled call has succeeded, and dropped where anything fails.

TRACED: Final = "<traced Tensor"
"""How the text begins that stands for a traced tensor, for debuggers."""

_SWITCHING_IS_CHEAP: Final = sys.version_info < (3, 12)  # later on it rewrites the instructions of all running code


class ConcretisationError(TraceError):
    """Python asks for the value of a traced tensor."""


@dataclass(slots=True, eq=False)
class HandleState:
    """A handle from outside: its value here, the value it came with (None while it was never read), and its grad."""

    handle: Tensor
    value: TracedValue | None = None
    initial: TracedValue | None = None
    written: bool = False
    grad: Tensor | None = None
    initial_grad: Tensor | None = None
    grad_read: bool = False
    grad_written: bool = False


class Recorder:
    """Records ops into a graph. ``parent`` is the recorder of the surrounding graph, for the body of a control op."""

    def __init__(self, name: str, constraints: TraceConstraints, parent: Recorder | None = None) -> None:
        self.name = name
        self.parent = parent
        self.capture: Capture | None = None  # of a whole trace: what it sees of Python state
        self.constraints = constraints
        self.builder = GraphBuilder()
        self.builder.constraints = constraints
        self.location: Location | None = None  # of an op that is recorded again; else the line that runs counts
        self.states: dict[int, HandleState] = {}
        self.aliases = Aliases()
        self.stand_ins: StandIns = StandIns() if parent is None else parent.stand_ins
        self.repeats = False  # whether it records the body of a loop
        self.gradients = Gradients(self)
        self.producers: dict[Value, Node] = {}
        self.positions: dict[Value, int] = {}  # of what nodes produced: later values have greater ones
        self.ends: dict[Value, tuple[int, int]] = {}  # of int64 values that stand for Python ints, where known
        self.journal: WriteLog | None = None  # of the staged body that is recorded, under @jg.script
        self.dropped: dict[str, Any] = {}  # variables that a staged statement left unbound: why, and a hint
        self.dropped_cells: dict[int, tuple[CellType, Any]] = {}  # of a whole trace: those that Python would have bound
        self.ended = False
        self.has_staged = False  # of a whole trace: whether there are Python numbers that the graph computes
        self.text: PrintText | None = None  # of the print that is being recorded
        self.streams: tuple[Any, Any] = (sys.stdout, sys.stderr) if parent is None else parent.streams
        self._order: Tensor | None = None
        self.takes_tape: bool = (
            parent is not None and parent.takes_tape
        )  # eager values come in with what they depend on
        self._place = CPU
        self._held: list[Tensor] = []
        self._stopped: dict[Value, TracedValue] = {}
        self._places = ModulePaths()

    # --- the emitter ------------------------------------------------------------------------------------------------

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Record one op. Without gradients, an operand that requires one first passes ``stop_gradient``."""
        if context.current().autocast is not None:
            from jitgraph.eager import emitter  # here, as few programs need it

            return emitter.emit(self, op, inputs, attrs, regions)
        operands = [self.own(value) for value in inputs]
        stops = op is ops.stop_gradient
        grad = context.current().grad_enabled and not stops and "nondifferentiable" not in op.traits
        if not context.current().grad_enabled and not stops:
            operands = [self.stopped(value) if value.requires_grad else value for value in operands]
        needed = grad and any(value.requires_grad for value in operands)
        return tuple(self.record_op(op, [value.ir for value in operands], attrs, regions, needed))

    def record_op(
        self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph], needed: bool
    ) -> list[TracedValue]:
        """Append one op on values of this graph; ``needed`` says whether gradients flow through it."""
        tracer = sys.gettrace() if _SWITCHING_IS_CHEAP else None
        if tracer is None:
            return self._append(op, inputs, attrs, regions, needed)
        sys.settrace(None)  # nothing of the user's runs in here, and a tracer slows every call
        try:
            return self._append(op, inputs, attrs, regions, needed)
        finally:
            sys.settrace(tracer)

    def _append(
        self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph], needed: bool
    ) -> list[TracedValue]:
        location = self.builder.location = self.location or self._places.here()
        attrs = {
            name: dtypes.canonical(value) if name == "dtype" else without_numbers(value)
            for name, value in attrs.items()
        }
        outputs = self.builder.emit(op, inputs, attrs, regions)
        node = self.builder.nodes[-1]
        self.producers.update(dict.fromkeys(outputs, node))
        self.positions.update(dict.fromkeys(outputs, len(self.builder.nodes)))
        flags = [needed and is_inexact_tensor(output.type) for output in outputs]
        if needed and op.kind == "control":
            with imports.importing():
                from jitgraph.passes.autodiff import active_outputs  # here: few recordings differentiate a loop
            active = active_outputs(node, tuple(value in self.gradients.differentiable for value in inputs))
            flags = [a and b for a, b in zip(flags, active, strict=True)]
        return [self.wrap(output, flag, location) for output, flag in zip(outputs, flags, strict=True)]

    def wrap(self, ir: Value, requires_grad: bool, location: Location | None) -> TracedValue:
        """A value of this trace."""
        if requires_grad:
            self.gradients.differentiable.add(ir)
        return TracedValue(ir, requires_grad, self, location)

    def stopped(self, value: TracedValue) -> TracedValue:
        """``value`` without its gradient; the same one each time."""
        stopped = self._stopped.get(value.ir)
        if stopped is None:
            (stopped,) = self.record_op(ops.stop_gradient, [value.ir], {}, (), False)
            self._stopped[value.ir] = stopped
        return stopped

    # --- values from elsewhere --------------------------------------------------------------------------------------

    def own(self, value: Any) -> TracedValue:
        """``value`` as one of this recorder: itself, imported from a surrounding one, or lifted from outside."""
        if isinstance(value, TracedValue):
            if value.trace is self:
                return value
            if self._is_inside(value.trace):
                return self.import_value(value)
            raise value.leaked()
        if isinstance(value, EagerValue):
            return self.lift_eager(value)
        if isinstance(value, DeviceValue):
            return self.lift_device(value)
        raise JitgraphError(f"{type(value).__name__} is not an operand of an op")

    def outwards(self) -> Iterator[Recorder]:
        """This recorder, then those that surround it."""
        recorder: Recorder | None = self
        while recorder is not None:
            yield recorder
            recorder = recorder.parent

    @property
    def outermost(self) -> Recorder:
        """The recorder of the whole trace."""
        return self if self.parent is None else self.parent.outermost

    def _is_inside(self, other: Recorder) -> bool:
        return self is not other and any(outer is other for outer in self.outwards())

    def import_value(self, value: TracedValue) -> TracedValue:
        """A value of a surrounding recorder as an operand of this one's op; only bodies of control ops have it."""
        raise value.leaked()

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value that no handle names."""
        raise NotImplementedError

    def lift_device(self, value: DeviceValue) -> TracedValue:
        """A computed value on a GPU that no handle names: an input."""
        handle = wrap(value)
        self._held.append(handle)
        return self.read(handle)

    # --- the device -------------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """The device on which the graph will run, as far as it is known: the CPU unless something lies on a GPU."""
        return self._place if self.parent is None else self.parent.device

    def require_recording(self, why: str, location: Location) -> None:
        """Let other processes record the function themselves, in place of taking this recording from the disk."""
        if self.parent is not None:
            self.parent.require_recording(why, location)

    def note_hooks(self, handle: Tensor) -> None:
        """Let the trace serve calls alone in which this leaf has the hooks that it has now: the graph contains them."""
        if self.parent is not None:
            self.parent.note_hooks(handle)

    def require_device(self, device: str) -> None:
        """Let the graph run on a device; DeviceError where it is to run on another GPU, or a copy would be needed."""
        if self.parent is not None:
            self.parent.require_device(device)
        elif self._place == CPU:
            self._place = device
        elif self._place != device:
            raise DeviceError(
                f"{self.name} of tensors on different devices: on {self._place} and on {device}",
                hint="a traced function runs on one device: copy what it takes or gives outside of it",
            )

    def lift(self, array: Any) -> TracedValue:
        """A NumPy array used inside the trace."""
        raise NotImplementedError

    # --- handles ----------------------------------------------------------------------------------------------------

    def read(self, handle: Tensor) -> TracedValue:
        """The handle's value here; a handle from outside is lifted to an input on its first read."""
        if self.stand_ins.by_handle:
            self.stand_ins.read(handle, self)
        value = handle._value
        state = None
        if not (isinstance(value, TracedValue) and value.trace is self):
            state = self.state_of(handle)
            if state.value is None:
                state.value = state.initial = self.adopt(handle)
            value = state.value
        if handle._requires_grad and not value.requires_grad:
            value = self.new_leaf(handle, value)
            if state is None:
                handle._value = value
            else:
                state.value = value
        return value

    def is_written(self, handle: Any) -> bool:
        """Whether a handle from outside is rebound here."""
        state = self.states.get(id(handle))
        return state is not None and state.written and state.value is not state.initial

    def state_of(self, handle: Tensor) -> HandleState:
        """The shadow of a handle from outside."""
        state = self.states.get(id(handle))
        if state is None:
            value = handle._value
            if isinstance(value, TracedValue) and not (handle._is_from_outside or self._is_inside(value.trace)):
                raise value.leaked()
            if hasattr(value, "trailing"):
                value.outside(handle)
            state = self.states[id(handle)] = HandleState(handle)
        return state

    def adopt(self, handle: Tensor) -> TracedValue:
        """The value with which a handle comes into this trace."""
        raise NotImplementedError

    def new_leaf(self, handle: Tensor, value: TracedValue) -> TracedValue:
        """A value of its own at which gradients for ``handle`` end."""
        (stop,) = self.record_op(ops.stop_gradient, [value.ir], {}, (), True)
        self.gradients.leaves[stop.ir] = handle
        return stop

    def write(self, handle: Tensor, value: Any) -> None:
        """Rebind a handle, and those that are the same one where the graph says so; one from outside in the shadow."""
        own = self.own(value)
        self.stand_ins.require_unshared(handle)
        for other, condition in aliases_of(self, handle):
            if isinstance(other, GrownElement):
                raise unknown_write(other.location)
            with context.using(emitter=self, trace=self, constraints=self.constraints):
                self.rebind(other, chosen(condition, own, partial(self.read, other)))
        self.rebind(handle, own)

    def rebind(self, handle: Tensor, value: Any) -> None:
        """Rebind this handle alone."""
        own = self.own(value)
        if self.stand_ins.by_handle:
            self.stand_ins.note_write(handle, self)
        old = handle._value
        if isinstance(old, TracedValue) and old.trace is self:
            handle._value = own
            return
        state = self.state_of(handle)
        state.value = own
        state.written = True

    def ask_gradient(self, handle: Tensor, flag: bool) -> None:
        """Let gradients end at ``handle`` from now on, or no more."""
        value = self.read(handle)
        own = self.is_own(handle)
        if not own and flag != handle._requires_grad:
            self.note_flag(handle)
        if flag:
            handle._requires_grad = handle._requires_grad or not value.requires_grad
            return
        handle._requires_grad = False
        if value.requires_grad and own:
            handle._value = self.stopped(value)
        elif value.requires_grad:
            self.state_of(handle).value = self.stopped(value)

    def note_flag(self, handle: Tensor) -> None:
        """``requires_grad`` of a handle from outside is about to change."""
        raise TraceError(
            f"requires_grad of a tensor from outside is changed in the body of {self.name}",
            hint="change it outside of the loop or branch",
        )

    # --- gradients --------------------------------------------------------------------------------------------------

    def read_grad(self, handle: Tensor) -> Tensor | None:
        """``handle.grad`` here."""
        if self.is_own(handle):
            return handle._grad
        state = self.state_of(handle)
        if not state.grad_read and not state.grad_written:
            state.grad_read = True
            state.grad = state.initial_grad = self.outer_grad(handle)
        return state.grad

    def outer_grad(self, handle: Tensor) -> Tensor | None:
        """The ``.grad`` with which a handle comes into this trace."""
        return handle._grad

    def write_grad(self, handle: Tensor, grad: Tensor | None) -> None:
        """Set ``handle.grad`` here."""
        if self.is_own(handle):
            handle._grad = grad
            return
        state = self.state_of(handle)
        state.grad = grad
        state.grad_written = True

    def order(self) -> Tensor:
        """The handle of the order of prints: its value is the token that the last print gave."""
        if self.parent is not None:
            return self.parent.order()
        if self._order is None:
            with context.using(emitter=self, trace=self, constraints=self.constraints):
                self._order = wrap(ops.token())
        return self._order

    def is_own(self, handle: Tensor) -> bool:
        """Whether the handle was made here."""
        return isinstance(handle._value, TracedValue) and handle._value.trace is self and not handle._is_from_outside

    def watch_gradient(self, handle: Tensor, hook: Any) -> Any:
        """As ``Gradients.watch``."""
        return self.gradients.watch(handle, hook)

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """As ``Gradients.backward``."""
        self.gradients.backward(loss, gradient, retain_graph=retain_graph)

    def grad(
        self,
        outputs: Sequence[Tensor],
        grad_outputs: Sequence[Tensor | None],
        inputs: Sequence[Tensor],
        *,
        create_graph: bool = False,
        retain_graph: bool = False,
        allow_unused: bool = False,
    ) -> list[Tensor | None]:
        """As ``Gradients.grad``."""
        return self.gradients.grad(
            outputs,
            grad_outputs,
            inputs,
            create_graph=create_graph,
            retain_graph=retain_graph,
            allow_unused=allow_unused,
        )

    # --- sizes and values that are not there ------------------------------------------------------------------------

    def user_shape(self, shape: Sequence[DimLike]) -> tuple[Any, ...]:
        """A shape as the user sees it."""
        reduced = [self.constraints.reduce(size) for size in shape]
        return tuple(self.number_of(size) if isinstance(size, Dim) else size for size in reduced)

    def number_of(self, size: Dim) -> Any:
        """A size that is no int as the Python number that the user sees."""
        assert self.parent is not None
        return self.parent.number_of(size)

    def to_dim(self, size: Any) -> DimLike:
        """The size that an int or a symbolic size means."""
        return to_dim(size)

    def size_value(self, size: Any, dtype: dtypes.DType = dtypes.int64) -> TracedValue:
        """A size as a 0-d value: an int is refused where ``dtype`` has no room for it, a float is the nearest one."""
        with context.using(emitter=self, trace=self):
            value: TracedValue = ops.full(shape=(), value=to_dim(size), dtype=dtype)
        return value

    def concretise(self, handle: Tensor, what: str) -> NoReturn:
        """Refuse ``what``, which needs the value of a traced tensor."""
        if handle._weak and not (self.uses_float(handle) or is_inexact_tensor(self.read(handle).ir.type)):
            raise ConcretisationError(
                f"{what} needs a Python number that a loop or if on a tensor made a tensor; it is known only when the "
                "graph runs",
                hint="compute with it as with a tensor, or loop over a Python range",
            )
        if handle._weak or self.uses_float(handle):
            raise ConcretisationError(
                f"{what} needs a value that depends on a Python float, which is an input of the traced function",
                hint="name the argument in static_argnames, or use jg.where instead of an if",
            )
        error = ConcretisationError(
            f"{what} needs the value of a traced tensor {self.read(handle).type}; it is known only when the graph runs",
            hint=replacement_of(what),
        )
        if what == "bool()" and _asks_whether_lazy():
            withdraw(error)
        raise error

    def text_of(self, handle: Tensor, conversion: str, form: str = "") -> str:
        """The text of a tensor: a mark in that of a print, else what says that it is traced, or an error."""
        if self.text is not None:
            return self.text.mark(handle, conversion, form)
        if conversion == "r":
            return f"{TRACED} {handle._value.type}>"
        raise text_too_early()

    def uses_float(self, handle: Tensor) -> bool:
        """Whether a value was computed from a Python float that is an input."""
        return False

    def host_float(self, mapping: Any, key: Any) -> Any:
        """``mapping[key]``, a Python float, as a 0-d input that is read again at each call."""
        raise NotImplementedError


def _asks_whether_lazy() -> bool:
    """Whether ``is_lazy_array`` of array_api_compat asks, which takes a refusal for the answer yes, and rightly so."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(PACKAGE):
        frame = frame.f_back
    return frame.f_code.co_name == "is_lazy_array" and "array_api_compat" in frame.f_code.co_filename


def text_too_early() -> TraceError:
    """The error for a text that is made of a traced tensor where no print makes it."""
    return TraceError(
        "a text of a traced tensor is made while tracing, but its value is known only when the compiled code runs",
        hint=replacement_of_text(Location.of_user()),
    )
