"""One call of a plan whose graph runs on a GPU: what goes there, what of the state it overwrites, and what comes back.

Numbers and small state may lie on the CPU (``record/device_inputs.py``). They go to the device in one copy, which calls
with the same numbers share. New state of the CPU that follows from what lies there alone, such as that of a generator,
is computed there, so that no call waits for the device; other state goes back, which does wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.eager import placement
from jitgraph.eager.device_value import DeviceValue
from jitgraph.eager.value import EagerValue
from jitgraph.ir.graph import Graph, Node
from jitgraph.records import NamedTuple
from jitgraph.runtime.buffer import CPU
from jitgraph.tracing import backend
from jitgraph.tracing.donation import InPlaceCall
from jitgraph.tracing.invocation import Alias
from jitgraph.tracing.plan import CallPlan


class _Uploaded(NamedTuple):
    """Values of the CPU as bytes, and the same on the device."""

    content: bytes
    values: list[DeviceValue]


class DeviceInvocation:
    """Calls ``program`` on operands that fit it, without waiting for the results; safe from several threads."""

    def __init__(self, program: Any, plan: CallPlan, aliases: Sequence[Alias] = ()) -> None:
        self._program = program
        self._device = plan.device
        self._aliases = tuple(alias for alias in aliases if plan.handles[alias.slot].device != CPU)
        self._inputs = [alias.input for alias in self._aliases]
        self._calls: list[InPlaceCall] = []
        self._from_host = [
            number
            for number, plan_input in enumerate(plan.inputs)
            if plan_input.kind != "handle" or plan.handles[plan_input.at].device == CPU
        ]
        self._uploaded: _Uploaded | None = None
        self._to_host = sorted({
            value.number
            for handle, value in plan.rebound
            if value.kind == "output" and plan.handles[handle].device == CPU
            and plan.handles[handle].type == plan.graph.outputs[value.number].type
        })  # fmt: skip
        self._host_half = _HostHalf.of(plan.graph, self._to_host, self._from_host) if self._to_host else None

    def __call__(self, handles: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """The values of the outputs. State on the device is overwritten in place where nothing else refers to it."""
        outputs = self._in_place(handles, operands) if self._aliases else self._program.call(self.on_device(operands))
        if self._host_half is not None:
            for number, value in zip(self._to_host, self._host_half.run(operands), strict=True):
                outputs[number] = value
        else:
            for number in self._to_host:
                outputs[number] = placement.copied(outputs[number], CPU)
        return outputs

    def on_device(self, operands: Sequence[Any]) -> Sequence[Any]:
        """The operands, all of them on the device; a second time for the same call they are the same values."""
        if not self._from_host:
            return operands
        numbers = [number for number in self._from_host if isinstance(operands[number], EagerValue)]
        arrays = [operands[number].array for number in numbers]
        content = b"".join([array.tobytes() for array in arrays])
        uploaded = self._uploaded
        if uploaded is None or uploaded.content != content:
            uploaded = self._uploaded = _Uploaded(content, placement.of_arrays(arrays, self._device))
        on_device = list(operands)
        for number, value in zip(numbers, uploaded.values, strict=True):
            on_device[number] = value
        return on_device

    def _in_place(self, handles: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        state = [handles[alias.slot] for alias in self._aliases]
        try:
            call = self._calls.pop()
        except IndexError:
            call = InPlaceCall(len(state), on_device=True)
        with call.lock:
            try:
                alone = call.begin(state, operands, self._inputs)
                taken = {
                    alias.output: value
                    for index, (alias, value) in enumerate(zip(self._aliases, call.held, strict=True))
                    if (alone is None or alone[index]) and value.access == "own"
                }
                outputs = self._program.call(self.on_device(operands), taken)
                for value in taken.values():
                    if value.record is not None:  # how the old contents were made
                        value.record, value.output = None, 0
            finally:
                if call.end(state):
                    self._calls.append(call)
        return outputs  # type: ignore[no-any-return]


class _HostHalf:
    """The part of a graph that computes some of its outputs from inputs on the CPU alone, run there."""

    def __init__(self, graph: Graph, inputs: Sequence[int]) -> None:
        self._program = backend.compile_graph(graph)
        self._inputs = inputs

    def run(self, operands: Sequence[Any]) -> list[EagerValue]:
        """The values of those outputs."""
        return [EagerValue(array) for array in self._program.run([operands[i].array for i in self._inputs])]

    @classmethod
    def of(cls, graph: Graph, outputs: Sequence[int], from_host: Sequence[int]) -> _HostHalf | None:
        """The part for these outputs; None where they follow from anything that lies on the device."""
        live = {graph.outputs[number] for number in outputs}
        nodes: list[Node] = []
        for node in reversed(graph.nodes):
            if not live.isdisjoint(node.outputs):
                nodes.append(node)
                live.update(node.inputs)
        inputs = [number for number, value in enumerate(graph.inputs) if value in live]
        symbolic = any(not isinstance(size, int) for value in graph.inputs for size in value.shape)
        if symbolic or not set(inputs) <= set(from_host):
            return None
        part = Graph(
            tuple([graph.inputs[number] for number in inputs]),
            tuple(reversed(nodes)),
            tuple([graph.outputs[number] for number in outputs]),
            graph.constraints,
            f"{graph.name}.state",
        )
        return cls(part, inputs)
