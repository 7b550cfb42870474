"""Writes to PyTorch's tensors in a trace that come between an op and its gradient: refused as in eager backward.

As there (``eager/versions.py``), what an op read is marked when the tensor is written, and a gradient that needs it is
refused. A graph has the values of each point, so none is read anew where a write went through ``.data``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from jitgraph.errors import JitgraphError
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder


class _Write(NamedTuple):
    """Before which node a tensor was written; ``is_data``: through ``.data``."""

    position: int
    location: Location | None
    is_data: bool


class TensorWrites:
    """The writes of one recorder to tensors whose values something in the graph read."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._writes: dict[Value, _Write] = {}
        self._parts: dict[Value, Value] = {}  # the value of the base, by that of a view or of another form
        self._shared: set[Value] = set()  # values that copies have, too, so that a write may be to a copy
        self._own: set[Node] = set()  # of ops in place, whose first operand PyTorch copies
        self._is_in_place = False

    def present(self, handle: Any) -> Value | None:
        """What the graph has for a handle, if anything has been read from it."""
        state = self._recorder.states.get(id(handle))
        value = handle._value if self._recorder.is_own(handle) else None if state is None else state.value
        return getattr(value, "ir", None)

    @contextmanager
    def by_op_in_place(self) -> Iterator[None]:
        """What is written in the block is the result of an op on the tensor itself."""
        self._is_in_place = True
        try:
            yield
        finally:
            self._is_in_place = False

    def note(self, old: Value, new: Any, *, counted: bool) -> None:
        """Note that a tensor with the value ``old`` has been given another one."""
        if old in self._shared:
            return
        if self._is_in_place:
            self._note_own(getattr(new, "ir", None), old)
        known = self._writes.get(old)
        if known is None or (known.is_data and counted):
            self._writes[old] = _Write(len(self._recorder.builder.nodes), Location.of_user(), not counted)

    def _note_own(self, new: Value | None, old: Value) -> None:
        last = None if new is None else self._recorder.producers.get(new)
        waiting, seen = [last], {last}
        first = self._recorder.positions.get(old, 0)
        while waiting:
            node = waiting.pop()
            if node is None or node.location != last.location:  # type: ignore[union-attr]
                continue
            if node.inputs and self._is_part_of(node.inputs[0], old):
                self._own.add(node)
            for value in node.inputs:
                before = self._recorder.producers.get(value)
                if before not in seen and self._recorder.positions.get(value, 0) > first:
                    seen.add(before)
                    waiting.append(before)

    def _is_part_of(self, value: Value, old: Value) -> bool:
        while value is not old and value in self._parts:
            value = self._parts[value]
        return value is old

    def derived(self, value: Any, base: Any) -> None:
        """Note that a value is a part, or another form, of that of a tensor."""
        if value.ir is not base.ir:
            self._parts[value.ir] = base.ir

    def share(self, value: Any) -> None:
        """Note that a copy of a tensor has the same value."""
        self._shared.add(value.ir)

    def check(self, reached: Collection[Value]) -> None:
        """JitgraphError where the gradient through ``reached`` needs what was there before a write."""
        if not self._writes:
            return
        from jitgraph.eager.saved_operands import of_types  # here: few programs write what a gradient reads

        for node in self._recorder.gradients.producers_in_order(reached):
            position = self._recorder.positions[node.outputs[0]]
            wrt = tuple([number for number, value in enumerate(node.inputs) if value in reached])
            types = [value.type for value in (*node.inputs, *node.outputs)]
            if node.regions or not wrt or not all(isinstance(type, TensorType) for type in types):
                continue
            if not any(self._written_behind(value, position) for value in (*node.inputs, *node.outputs)):
                continue
            dtypes = tuple([value.dtype for value in node.inputs])
            saved = of_types(node.op, node.attrs, dtypes, tuple([value.shape for value in node.inputs]), wrt)
            needed = [node.inputs[number] for number in saved.inputs if number or node not in self._own]
            for value in (*needed, *[node.outputs[number] for number in saved.outputs]):
                write = self._written_behind(value, position)
                if write is not None:
                    raise JitgraphError(_text(node, value, write))

    def _written_behind(self, value: Value, position: int) -> _Write | None:
        """The write to the tensor with a value that follows the node at this position."""
        while value not in self._writes and (base := self._base_of(value)) is not None:
            value = base
        write = self._writes.get(value)
        return write if write is not None and write.position >= position else None

    def _base_of(self, value: Value) -> Value | None:
        """The value of which another is a part or a form: by a view, or as an op repeats its operand."""
        if value in self._shared:
            return None
        if value in self._parts:
            return self._parts[value]
        node = self._recorder.producers.get(value)
        return node.inputs[0] if node is not None and node.inputs and "implicit" in node.op.traits else None


def _text(node: Node, value: Value, write: _Write) -> str:
    where = f"{node.op.name} at {node.location} needs a tensor of shape {list(value.shape)} that was written at "
    if write.is_data:
        return (
            f"{where}{write.location} through .data before backward(); PyTorch's gradient would be that of the new "
            "values, which a traced function does not compute\n  hint: write after backward(), or clone() the operand"
        )
    return (
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"{where}{write.location}\n"
        "  hint: write x = x + 1 in place of x += 1, clone() what is read later, or write after backward()"
    )
