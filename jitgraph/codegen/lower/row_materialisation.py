"""Values of a row that several loops read, kept where computing them again costs more than a store and a load.

A softmax sums exp(x - max) in one loop and divides it by the sum in the next: the first loop that computes such a value
stores the row in a local buffer, and the loops after it load it. The buffer is on the stack, or in the thread's scratch
memory where it is long, and lies in the cache while the row is worked on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from jitgraph.codegen.kernels.kernel import Let, Var
from jitgraph.codegen.kernels.traversal import statements_of
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_body import apply_scalar
from jitgraph.codegen.lower.schedules.heuristics import RowMaterialisation
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from jitgraph.codegen.lower.values import Index


class MaterialisedRow:
    """One value of a row in a local buffer: written by the first loop that computes it, read by those after it."""

    def __init__(self, recorder: KernelRecorder, value: Value, axis: int, row: Index) -> None:
        extent = value.shape[axis]
        assert isinstance(extent, int)
        self.recorder = recorder
        self.axis = axis
        self.row = row
        self.local = recorder.local(value.dtype, extent)
        self._stored: list[object] = []  # the loops that store all of it

    def at(self, index: Index, compute: Callable[[], Var]) -> Var:
        """The value at ``index``: loaded where a loop before has stored it, else computed, and stored on the way."""
        position = index[self.axis]
        if (*index[: self.axis], *index[self.axis + 1 :]) != self.row:
            return compute()
        if any(map(self.recorder.is_done, self._stored)):
            return self.recorder.load_local(self.local, position)
        value = compute()
        loop = self.recorder.loop_over(position, self.local.size)
        if loop is not None and loop not in self._stored:
            self.recorder.store_local(self.local, position, value)
            self._stored.append(loop)
        return value


def rows_to_materialise(
    heuristic: RowMaterialisation, graph: Graph, outputs: set[Value], axis: int, shape: tuple[DimLike, ...], lanes: bool
) -> list[Value]:
    """The values of a group of reductions along ``axis`` of ``shape`` that its loops should keep for each other.

    ``outputs`` are those of the group; with ``lanes`` neighbouring rows are worked on at once.
    """
    extent = shape[axis]
    if not isinstance(extent, int):
        return []
    loops: dict[Value, set[int]] = {value: {len(graph.nodes)} for value in outputs}  # by position; the last one stores
    chosen: list[Node] = []
    for position, node in reversed([*enumerate(graph.nodes)]):
        users = {position} if node.op.kind == "reduce" else set()
        if not users:
            if node.output.shape != shape:
                continue
            users = loops.get(node.output, set())
            if len(users) > 1 and node.op.kind == "elementwise":
                chosen.append(node)
                users = {min(users)}  # the first loop computes it
        for value in node.inputs:
            if value.shape == shape:
                loops.setdefault(value, set()).update(users)
    left = heuristic.most_bytes
    materialised: dict[Value, float] = {}
    for node in reversed(chosen):
        size = extent * (heuristic.lane_bytes if lanes else node.output.dtype.itemsize)
        if size <= left and _work(heuristic, graph, node, shape, materialised) >= heuristic.least_work:
            materialised[node.output] = 0.0
            left -= size
    return list(materialised)


def _work(
    heuristic: RowMaterialisation, graph: Graph, node: Node, shape: tuple[DimLike, ...], known: dict[Value, float]
) -> float:
    """The scalar ops that one element of a node takes from what is loaded or of a row, which costs one."""
    recorder = KernelRecorder()
    apply_scalar(recorder, node, [recorder.var(value.dtype) for value in node.inputs])
    ops = [statement.op for statement in statements_of(recorder.written) if isinstance(statement, Let)]
    total = sum(heuristic.work.get(op, 1.0) for op in ops)
    seen = dict(known)
    for value in dict.fromkeys(node.inputs):
        producer = graph.producers.get(value)
        if value in seen or producer is None or producer.op.kind != "elementwise" or value.shape != shape:
            total += 1.0
        else:
            total += _work(heuristic, graph, producer, shape, seen)
    return total
