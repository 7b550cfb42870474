"""Recorder: the emitter and handle store of a trace, and of the body of a control-flow op inside one.

Handles are not changed while a trace records: reads and rebindings of handles from outside go to a shadow here, which
is written back after the compiled call has succeeded, and dropped where anything fails.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn

from jitgraph import dtypes, lifting, ops
from jitgraph.eager import EagerValue
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Attrs, Graph, Node, Value
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.passes.activity import active_outputs
from jitgraph.records import dataclass
from jitgraph.tensor import Tensor
from jitgraph.tracing.record.values import TracedValue
from jitgraph.tracing.symbolic.number import to_dim, without_numbers
from jitgraph.tracing.symbolic.sizes import TraceConstraints

if TYPE_CHECKING:
    from jitgraph.tracing.control.journal import Journal
    from jitgraph.tracing.record.printing import Text

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
        self.constraints = constraints
        self.builder = GraphBuilder()
        self.builder.constraints = constraints
        self.states: dict[int, HandleState] = {}
        self.leaves: dict[Value, Tensor] = {}
        self.foreign: dict[Value, Tensor] = {}
        self.producers: dict[Value, Node] = {}
        self.ends: dict[Value, tuple[int, int]] = {}  # of int64 values that stand for Python ints, where known
        self.journal: Journal | None = None  # of the staged body that is recorded, under @jg.script
        self.dropped: dict[str, str] = {}  # variables that a staged statement left undefined: why, and the way out
        self.ended = False
        self.text: Text | None = None  # of the print that is being recorded
        self.streams: tuple[Any, Any] = (sys.stdout, sys.stderr) if parent is None else parent.streams
        self._order: Tensor | None = None
        self._spent: set[Node] = set()  # through which a gradient passed that kept nothing
        self._differentiable: set[Value] = set()
        self._stopped: dict[Value, TracedValue] = {}

    # --- the emitter ------------------------------------------------------------------------------------------------

    def emit(self, op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
        """Record one op. Without gradients, an operand that requires one first passes ``stop_gradient``."""
        operands = [self.own(value) for value in inputs]
        stops = op is ops.stop_gradient
        grad = context.current().grad_enabled and not stops and "nondifferentiable" not in op.traits
        if not context.current().grad_enabled and not stops:
            operands = [self.stopped(value) if value.requires_grad else value for value in operands]
        needed = grad and any(value.requires_grad for value in operands)
        return tuple(self._record(op, [value.ir for value in operands], attrs, regions, needed))

    def _record(
        self, op: Op, inputs: Sequence[Value], attrs: Attrs, regions: Sequence[Graph], needed: bool
    ) -> list[TracedValue]:
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
        location = self.builder.location = Location.of_user()
        attrs = {name: without_numbers(value) for name, value in attrs.items()}
        outputs = self.builder.emit(op, inputs, attrs, regions)
        node = self.builder.nodes[-1]
        self.producers.update(dict.fromkeys(outputs, node))
        flags = [needed and _is_float(output) for output in outputs]
        if needed and op.kind == "control" and op is not ops.grad:
            active = active_outputs(node, tuple(value in self._differentiable for value in inputs))
            flags = [a and b for a, b in zip(flags, active, strict=True)]
        return [self.wrap(output, flag, location) for output, flag in zip(outputs, flags, strict=True)]

    def wrap(self, ir: Value, requires_grad: bool, location: Location | None) -> TracedValue:
        """A value of this trace."""
        if requires_grad:
            self._differentiable.add(ir)
        return TracedValue(ir, requires_grad, self, location)

    def stopped(self, value: TracedValue) -> TracedValue:
        """``value`` without its gradient; the same one each time."""
        found = self._stopped.get(value.ir)
        if found is None:
            (found,) = self._record(ops.stop_gradient, [value.ir], {}, (), False)
            self._stopped[value.ir] = found
        return found

    # --- values from elsewhere --------------------------------------------------------------------------------------

    def own(self, value: Any) -> TracedValue:
        """``value`` as one of this recorder: itself, imported from a surrounding one, or lifted from outside."""
        if isinstance(value, TracedValue):
            if value.trace is self:
                return value
            if self.parent is not None and self._encloses(value.trace):
                return self.import_value(value)
            raise value.leaked()
        if isinstance(value, EagerValue):
            return self.lift_eager(value)
        raise JitgraphError(f"{type(value).__name__} is not an operand of an op")

    def _encloses(self, other: Recorder) -> bool:
        outer = self.parent
        while outer is not None:
            if outer is other:
                return True
            outer = outer.parent
        return False

    def import_value(self, value: TracedValue) -> TracedValue:
        """A value of a surrounding recorder as an operand of this one's op; only bodies of control ops have it."""
        raise value.leaked()

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value that no handle names."""
        raise NotImplementedError

    def lift(self, array: Any) -> TracedValue:
        """A NumPy array used inside the trace."""
        raise NotImplementedError

    # --- handles ----------------------------------------------------------------------------------------------------

    def read(self, handle: Tensor) -> TracedValue:
        """The handle's value here; a handle from outside is lifted to an input on its first read."""
        value = handle._value
        state = None
        if not (isinstance(value, TracedValue) and value.trace is self):
            state = self.state_of(handle)
            if state.value is None:
                state.value = state.initial = self.adopt(handle)
            value = state.value
        if handle._requires_grad and not value.requires_grad:
            value = self._new_leaf(handle, value)
            if state is None:
                handle._value = value
            else:
                state.value = value
        return value

    def state_of(self, handle: Tensor) -> HandleState:
        """The shadow of a handle from outside."""
        state = self.states.get(id(handle))
        if state is None:
            if isinstance(handle._value, TracedValue) and not self._encloses(handle._value.trace):
                raise handle._value.leaked()
            state = self.states[id(handle)] = HandleState(handle)
        return state

    def adopt(self, handle: Tensor) -> TracedValue:
        """The value with which a handle comes into this trace."""
        raise NotImplementedError

    def _new_leaf(self, handle: Tensor, value: TracedValue) -> TracedValue:
        """A value of its own at which gradients for ``handle`` end."""
        (stop,) = self._record(ops.stop_gradient, [value.ir], {}, (), True)
        self.leaves[stop.ir] = handle
        return stop

    def write(self, handle: Tensor, value: Any) -> None:
        """Rebind a handle; one from outside only in the shadow."""
        own = self.own(value)
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
                self._order = lifting.wrap(ops.token())
        return self._order

    def is_own(self, handle: Tensor) -> bool:
        """Whether the handle was made here."""
        return isinstance(handle._value, TracedValue) and handle._value.trace is self

    def backward(self, loss: Tensor, gradient: Tensor | None, *, retain_graph: bool = False) -> None:
        """Record the gradient of ``loss`` for every leaf it depends on, and accumulate it into their ``.grad``.

        JitgraphError for a second gradient through the same ops without ``retain_graph``, as in eager.
        """
        value = self.read(loss)
        cotangent = self._cotangent(value, gradient)
        reached = self._reached([value.ir])
        for ir, handle in self.foreign.items():
            if ir in reached:
                raise TraceError(
                    f"backward() goes on to a tensor of shape {handle._value.type} that was computed before the trace",
                    hint="pass x.detach(), or compute it inside the traced function",
                )
        self._spend(self._reached([value.ir], through_gradients=False), retain_graph)
        wrt = [ir for ir in self.leaves if ir in reached]
        with context.using(grad_enabled=False):
            for ir, found in zip(wrt, self._grad([value.ir], [cotangent.ir], wrt), strict=True):
                handle = self.leaves[ir]
                fresh = lifting.wrap(found)
                old = self.read_grad(handle)
                self.write_grad(handle, fresh if old is None else old + fresh)

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
        """Record gradients of the sum of ``outputs``, weighted by ``grad_outputs``, with respect to ``inputs``.

        JitgraphError for a second gradient through the same ops without ``retain_graph``, as in eager.
        """
        values = [self.read(output) for output in outputs]
        cotangents = [self._cotangent(v, weight) for v, weight in zip(values, grad_outputs, strict=True)]
        targets = [self.read(x) for x in inputs]
        reached = self._reached([value.ir for value in values])
        used = [number for number, target in enumerate(targets) if target.ir in reached]
        if len(used) < len(targets) and not allow_unused:
            missing = next(number for number in range(len(targets)) if number not in used)
            raise JitgraphError(f"outputs do not depend on input {missing}\n  hint: pass allow_unused=True to get None")
        passed = self._reached([value.ir for value in values], through_gradients=False)
        self._spend(self._between([targets[i].ir for i in used], passed), retain_graph)
        found = self._grad(
            [v.ir for v in values],
            [ct.ir for ct in cotangents],
            [targets[i].ir for i in used],
            differentiable=create_graph,
        )
        results: list[Tensor | None] = [None] * len(targets)
        for number, value in zip(used, found, strict=True):
            results[number] = lifting.wrap(value)
        return results

    def _grad(
        self, outputs: list[Value], cotangents: list[Value], wrt: list[Value], *, differentiable: bool = False
    ) -> list[TracedValue]:
        if not wrt:
            return []
        attrs = {"num_outputs": len(outputs)}
        found = self._record(ops.grad, [*outputs, *cotangents, *wrt], attrs, (), differentiable)
        return found if differentiable else [self.stopped(value) for value in found]

    def _cotangent(self, value: TracedValue, gradient: Tensor | None) -> TracedValue:
        type = value.type
        assert isinstance(type, TensorType)
        if gradient is not None:
            given = self.read(gradient)
            if given.type != type:
                raise JitgraphError(f"the cotangent is {given.type}, the tensor {type}")
            return given
        if type.size != 1:
            raise JitgraphError(
                f"a gradient without a cotangent needs a scalar; the shape is {type.shape}\n"
                "  hint: reduce first (loss.mean()) or pass gradient="
            )
        one: TracedValue = ops.full(shape=type.shape, value=1.0, dtype=type.dtype)
        return one

    def _reached(self, outputs: Sequence[Value], *, through_gradients: bool = True) -> set[Value]:
        """The values on which ``outputs`` depend in a differentiable way.

        A gradient depends on all that its outputs depend on; without ``through_gradients`` it is where the way ends, as
        which of them it uses is not known before it is written out.
        """
        found = {value for value in outputs if value in self._differentiable}
        pending = list(found)
        while pending:
            value = pending.pop()
            node = self.producers.get(value)
            if node is None or value in self.leaves or (node.op is ops.grad and not through_gradients):
                continue
            for operand in node.inputs:
                if operand in self._differentiable and operand not in found:
                    found.add(operand)
                    pending.append(operand)
        return found

    def _between(self, targets: Sequence[Value], reached: set[Value]) -> set[Value]:
        """The values of ``reached`` that depend on ``targets``."""
        below = set(targets)
        for node in self.builder.nodes:
            if not below.isdisjoint(node.inputs):
                below.update(value for value in node.outputs if value in reached)
        return below.difference(targets)

    def _spend(self, values: Collection[Value], retain_graph: bool) -> None:
        """Refuse to pass twice through the nodes that made ``values``; note them unless they are to be kept."""
        passed = {self.producers[value] for value in values if value in self.producers and value not in self.leaves}
        if again := self._spent & passed:
            node = next(node for node in reversed(self.builder.nodes) if node in again)
            raise JitgraphError(
                f"backward through <{node.op.name} at {node.location}> a second time; its values are gone\n"
                "  hint: pass retain_graph=True to the first backward() or grad()"
            )
        if not retain_graph:
            self._spent |= passed

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

    def size_value(self, size: Any) -> TracedValue:
        """A size as a 0-d int64 value."""
        with context.using(emitter=self, trace=self):
            value: TracedValue = ops.full(shape=(), value=to_dim(size), dtype=dtypes.int64)
        return value

    def concretise(self, handle: Tensor, what: str) -> NoReturn:
        """Refuse ``what``, which needs the value of a traced tensor."""
        if handle._weak and not (self.uses_float(handle) or _is_float(self.read(handle).ir)):
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
        raise ConcretisationError(
            f"{what} needs the value of a traced tensor {self.read(handle).type}; it is known only when the graph runs",
            hint="use @jg.script for an if or while on tensors, or jg.where; call numpy() and item() outside",
        )

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


def text_too_early() -> TraceError:
    """The error for a text that is made of a traced tensor where no print makes it."""
    return TraceError(
        "a text of a traced tensor is made while tracing, but its value is known only when the compiled code runs",
        hint='let the print make the text: jg.debug.print("loss {}", loss) or print("loss", loss), '
        'not print(f"loss {loss}")',
    )


def _is_float(value: Value) -> bool:
    return isinstance(value.type, TensorType) and dtypes.is_float(value.type.dtype)
