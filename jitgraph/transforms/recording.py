"""Functions recorded as closed regions, eager or in a trace, and checkpoint, whose insides are computed anew."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jitgraph import ops, tree
from jitgraph.autograd.transforms import own_part
from jitgraph.eager import placement, replay
from jitgraph.eager.handle import Api, api_of, class_of_tensors
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.types import TensorType, Type
from jitgraph.passes.autodiff import expand_grads
from jitgraph.tensor import Tensor, lifting, wrap_as
from jitgraph.tracing.record.planning import GENERATOR
from jitgraph.tracing.record.recorder import Recorder
from jitgraph.tracing.record.region import Region, operands_of
from jitgraph.tracing.record.trace import Trace
from jitgraph.tracing.record.values import TracedValue

# ----------------------------------------------------------------------
# Functions recorded as closed regions: what transforms work on, outside of traces as well as inside.
#
# Outside of traces a function is recorded by a trace of its own that watches no Python state; what the transform makes
# of the region is then run at once, op by op, so that the tape sees it.


class AtOnce(Trace):
    """The trace of what a transform does outside of traces."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.takes_tape = True
        self.variables: list[Tensor] = []  # of transforms outside, which results do not depend on
        self._values: dict[int, tuple[EagerValue, TracedValue]] = {}
        self._inputs: dict[Value, Any] = {}

    def lift_eager(self, value: EagerValue) -> TracedValue:
        """A computed value: an input, through which gradients flow back to the caller's tape."""
        known = self._values.get(id(value))
        if known is None:
            ir = self.builder.input(value.type)
            self._inputs[ir] = value
            known = self._values[id(value)] = (value, self.wrap(ir, value.record is not None, None))
        return known[1]

    def operands(self) -> list[Any]:
        """The values of the graph's inputs."""
        return [self._inputs[ir] if ir in self._inputs else self._taken_value(ir) for ir in self.builder.inputs]

    def _taken_value(self, ir: Value) -> Any:
        number = self.input_number(ir)
        assert number is not None
        taken = self.taken[number]
        if taken.kind == "slot":
            return self.slots[taken.at].handle.value
        assert taken.kind == "array", taken
        return EagerValue(lifting.own(taken.at))


def at_once(name: str, function: Callable[[], Any]) -> Any:
    """What ``function``, which records through the trace in force, returns; outside of traces it is run at once.

    It is a tree with tensors as leaves; handles that it rebinds get their values where nothing failed.
    """
    if context.current().trace is not None:
        return function()
    root = AtOnce(name)
    with context.using(emitter=root, trace=root, constraints=root.constraints):
        leaves, structure = tree.flatten(function())
        results = [root.read(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        written = [state for state in root.states.values() if state.written and state.value is not state.initial]
        states = [state.value for state in written]
        traced = [value for value in (*results, *states) if isinstance(value, TracedValue)]
        graph = root.builder.graph([value.ir for value in traced], name)
    values = run(graph, root)
    rest = iter(values)
    new_leaves = [
        wrap_as(next(rest), leaf) if isinstance(value, TracedValue) else value
        for value, leaf in zip(results, leaves, strict=True)
    ]
    if root.variables:
        new_leaves = [own_part(x, x, root.variables) if isinstance(x, Tensor) else x for x in new_leaves]
    for state in written:
        value = placement.moved(next(rest), state.handle.device)  # numbers and generators may stay on the CPU
        with context.using(grad_enabled=False):
            state.handle._rebind(value)
    return structure.unflatten(new_leaves)


def run(graph: Graph, root: AtOnce) -> list[Any]:
    """The outputs of what a trace recorded outside of traces, op by op on the tape."""
    operands = root.operands()
    if placement.is_on_device(operands):
        placement.common_device(root.name, [value for value in operands if value.type != GENERATOR])
    with placement.on(root.device):
        return replay.run(expand_grads(graph), operands)


class Closed:
    """A function recorded as a region: its graph, the operands beside the parameters, and what it returned.

    ``written`` are the handles from outside that it rebinds; their values are the last outputs of the graph.
    """

    def __init__(self, name: str, trace: Recorder, types: Sequence[Type], flags: Sequence[bool]) -> None:
        self.trace = trace
        self.region = Region(name, trace, types, flags)

    def parameters(self, examples: Sequence[Any]) -> list[Tensor]:
        """Handles for the parameters, each of the API of its example."""
        return [wrap_as(value, example) for value, example in zip(self.region.parameters, examples, strict=True)]

    def record(self, function: Callable[[], Any]) -> None:
        """Record a call; its result is a tree whose numbers and arrays become tensors."""
        self.leaves, self.apis, self.structure = self.region.record(self._called, function)
        self.kept = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, TracedValue)]
        self.written = self.region.written()
        values = [self.region.own(self.leaves[i]) for i in self.kept]
        values += [self.region.read(handle) for handle in self.written]
        for handle in self.written:
            if ("handle", id(handle)) not in self.region.captured:
                state = self.region.states[id(handle)]
                state.initial = self.region.adopt(handle)
        self.keys, self.outer = operands_of([self.region])
        self.graph = self.region.close(self.keys, [value.type for value in self.outer], values)

    def _called(self, function: Callable[[], Any]) -> tuple[list[Any], list[Api], Any]:
        leaves, structure = tree.flatten(function())
        values = [lifting.value_of(leaf) if is_data(leaf) else leaf for leaf in leaves]
        return values, list(map(api_of, leaves)), structure

    def rebuilt(self, values: Sequence[Any]) -> Any:
        """The result with these values in place of its tensors."""
        new_leaves = list(self.leaves)
        for i, value in zip(self.kept, values, strict=True):
            new_leaves[i] = class_of_tensors(self.apis[i])._of(value)
        return self.structure.unflatten(new_leaves)


def is_data(leaf: Any) -> bool:
    """Whether a leaf is a tensor, an array or a number, as which a result of a function is a tensor."""
    return lifting.is_operand(leaf) and not isinstance(leaf, str)


def own_value(x: Any) -> TracedValue:
    """The value of a tensor, array or number in the trace in force."""
    value: TracedValue = context.current().trace.own(lifting.value_of(x))
    return value


def tensor_type(value: TracedValue) -> TensorType:
    """The type of a value that is a tensor."""
    assert isinstance(value.type, TensorType)
    return value.type


# ----------------------------------------------------------------------
# checkpoint: functions whose insides are computed anew in the backward pass instead of kept for it.


def checkpoint(function: Callable[..., Any], *misplaced: Any, **settings: Any) -> Callable[..., Any]:
    """``function``, for whose gradient only arguments and results are saved; the rest is computed again.

    It has the values and gradients of ``function``; random numbers are the same the second time, and prints are not
    repeated. Tensors that it closes over, parameters of modules among them, get their gradients. Outside of traces it
    is recorded as in a trace, so that Python cannot branch on values in it.
    JitgraphError for anything beside a function.
    """
    if not callable(function) or misplaced or settings:
        what = "jg.checkpoint takes a function alone"
        hint = "jg.checkpoint(f)(x); use_reentrant and its like choose among ways of PyTorch's"
        raise JitgraphError(f"{what}\n  hint: {hint}")

    @functools.wraps(function, updated=())
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if not context.current().grad_enabled:
            return function(*args, **kwargs)
        return at_once("checkpoint", lambda: _record(function, args, kwargs))

    return recomputed


def _record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    trace = context.current().trace
    leaves, structure = tree.flatten((args, kwargs))
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor | np.ndarray | np.generic)]
    values = [own_value(leaves[i]) for i in positions]
    name = getattr(function, "__name__", type(function).__name__)
    closed = Closed(name, trace, [value.type for value in values], [value.requires_grad for value in values])
    new_leaves = list(leaves)
    for i, parameter in zip(positions, closed.parameters([leaves[i] for i in positions]), strict=True):
        new_leaves[i] = parameter
    call_args, call_kwargs = structure.unflatten(new_leaves)
    closed.record(lambda: function(*call_args, **call_kwargs))
    outputs = context.emitter().emit(ops.recompute, [*values, *closed.outer], {}, (closed.graph,))
    for handle, value in zip(closed.written, outputs[len(closed.kept) :], strict=True):
        trace.write(handle, value)
    return closed.rebuilt(outputs[: len(closed.kept)])
