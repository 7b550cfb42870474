"""Groups of nodes that one kernel computes: their forms, the ``fused`` nodes that they become, and their order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Generic, Literal, TypeVar

from jitgraph.ir import dims
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Fusion
from jitgraph.ir.target import Target
from jitgraph.ir.types import Shape, TensorType
from jitgraph.once import cached_property
from jitgraph.ops import fused
from jitgraph.passes.rewriter import prints
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# The forms of fusion groups: what a kernel's loops run over, and which values its nodes may read of one another.

Index = tuple[DimLike, ...]

MOST_READ: Final = 4  # operands of an index map; a concat of more copies them, one loop for each
# A reduction to no more results than the first number, of at least as many elements each as the second, is split over
# threads, in a kernel of its own.
_GLOBAL: Final = 8, 1 << 14
_GLOBAL_ON_GPU: Final = 64, 1 << 14  # a result is a block's, and there are more blocks at once
_GLOBAL_SCATTERED_ON_GPU: Final = 1 << 14, 1 << 8  # a column, or runs here and there: for one block a walk without end

_OF_KIND: Final[Mapping[str, Fusion]] = {
    "elementwise": "pointwise",
    "movement": "free",
    "creation": "free",
    "contraction": "contraction",
    "reduce": "rows",
}


@dataclass(frozen=True)
class FusionForm:
    """What a group's loops run over; ``axes`` are those that its reductions reduce."""

    kind: Literal["pointwise", "rows", "contraction", "alone"]
    domain: Shape
    axes: tuple[int, ...] = ()

    @cached_property
    def rows(self) -> Shape:
        return tuple(extent for axis, extent in enumerate(self.domain) if axis not in self.axes)

    @cached_property
    def index(self) -> Index:
        return axes_index(self.domain)

    @cached_property
    def row_index(self) -> Index:
        """The part of ``index`` that a value of the rows' shape is read at."""
        return tuple(dim for axis, dim in enumerate(self.index) if axis not in self.axes)

    def is_global(self, target: Target) -> bool:
        """A reduction of much to little: what follows from it has to wait for all of it."""
        if self.kind != "rows":
            return False
        count, extent = dims.product(self.rows), dims.product(self.domain[axis] for axis in self.axes)
        most, least = _GLOBAL if target.sm is None else _GLOBAL_ON_GPU
        if target.sm is not None and self._is_scattered:
            most, least = _GLOBAL_SCATTERED_ON_GPU
        return isinstance(count, int) and count <= most and isinstance(extent, int) and extent >= least

    @property
    def _is_scattered(self) -> bool:
        """Whether a kept axis stands behind a reduced one, so that a row is not one run of memory."""
        reduced = [axis for axis in self.axes if self.domain[axis] != 1]
        return any(extent != 1 and axis > min(reduced, default=axis) for axis, extent in self._kept)

    @property
    def _kept(self) -> list[tuple[int, DimLike]]:
        return [(axis, extent) for axis, extent in enumerate(self.domain) if axis not in self.axes]


@dataclass(frozen=True)
class FusionEdge:
    """A value that a node reads through movement ops: at this index of the value when at index ``_i0, _i1, ...``."""

    value: Value
    producer: Node
    index: Index | None  # None: at several indices, or at one that is computed


def axes_index(shape: Shape) -> Index:
    return tuple(0 if extent == 1 else Dim.name(f"_i{axis}") for axis, extent in enumerate(shape))


def is_free(node: Node) -> bool:
    """Whether the node is an index map, or makes its value from the index: free to be copied into every reader."""
    return _part(node) == "free" and (node.op.kind != "movement" or len(node.inputs) <= MOST_READ)


def _part(node: Node) -> Fusion:
    return node.op.fusion or _OF_KIND.get(node.op.kind, "alone")


def form_of(node: Node) -> FusionForm:
    if any(not isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs)) or node.regions:
        return FusionForm("alone", ())
    part = _part(node)
    if part == "pointwise" or part == "contraction":
        return FusionForm(part, node.output.shape)
    if part == "rows":
        axes: Any = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
        if axes:
            return FusionForm("rows", node.inputs[0].shape, tuple(axes))
    return FusionForm("alone", ())


def common_form(left: FusionForm, right: FusionForm) -> FusionForm | str:
    """The form of two groups together, or why there is none."""
    if "alone" in (left.kind, right.kind):
        return "it is a kernel of its own"
    if left == right:
        return left if left.kind != "contraction" else "one kernel holds one contraction"
    if right.kind == "contraction" and left.kind != "pointwise":
        return "an operand of a contraction is read many times"
    kinds = {left.kind, right.kind}
    pointwise, other = (left, right) if left.kind == "pointwise" else (right, left)
    if kinds == {"pointwise", "contraction"}:
        return other if pointwise.domain == other.domain else "the shapes differ"
    if kinds == {"pointwise", "rows"}:
        return other if pointwise.domain in (other.domain, other.rows) else "the shapes differ"
    if kinds == {"rows"}:
        return "the reductions are over other axes or shapes"
    if kinds == {"pointwise"}:
        return "the shapes differ"
    return "a reduction needs the whole result of the contraction"


def misread(form: FusionForm, node: Node, edge: FusionEdge, root: Node | None) -> str | None:
    """Why a node of a group of this form cannot read a value of the group; None where it can."""
    if node is root:
        return "an operand of a contraction is read many times"
    if edge.index is None:
        return "it is read at several indices"
    if form.kind != "rows":
        same = edge.index == form.index and edge.value.shape == form.domain
        return None if same else "it is read at another index"
    if node.op.kind == "reduce" or node.outputs[0].shape == form.domain:
        of_domain = edge.index == form.index and edge.value.shape == form.domain
        of_row = edge.index == form.row_index and edge.value.shape == form.rows
        return None if of_domain or of_row else "it is read at another index"
    same = edge.index == axes_index(form.rows) and edge.value.shape == form.rows
    return None if same else "it is read at another index"


# ----------------------------------------------------------------------
# Groups of nodes that one kernel computes, and the ``fused`` node that a group becomes.


@dataclass(eq=False)
class FusionGroup:
    form: FusionForm
    members: list[Node]
    first: int
    last: int
    root: Node | None = None
    edges: dict[Node, list[FusionEdge]] = field(default_factory=dict)


def lone_group(node: Node) -> FusionGroup:
    return FusionGroup(FusionForm("alone", ()), [node], 0, 0)


def outer_inputs(graph: Graph, group: FusionGroup) -> tuple[Value, ...]:
    """The values that a group reads and does not make, index maps seen through where the group is a kernel."""
    internal = {output for node in group.members for output in node.outputs}
    external: dict[Value, None] = {}
    through = _is_kernel(group)

    def visit(value: Value) -> None:
        if value in internal or value in external:
            return
        producer = graph.producers.get(value)
        if through and producer is not None and is_free(producer):
            for source in producer.inputs:
                visit(source)
        else:
            external[value] = None

    for node in group.members:
        for value in node.inputs:
            visit(value)
    return tuple(external)


def _is_kernel(group: FusionGroup) -> bool:
    """Whether the group's values are computed at an index, so that index maps can be part of it."""
    return not any(
        node.regions
        or "alias" in node.op.traits
        or not all(isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs))
        for node in group.members
    )


def node_of(graph: Graph, group: FusionGroup, needed: set[Value]) -> Node:
    """The group as one node: the node itself where it reads nothing through index maps."""
    inputs = outer_inputs(graph, group)
    if len(group.members) == 1 and (not _is_kernel(group) or set(group.members[0].inputs) <= set(inputs)):
        return group.members[0]
    outputs = [value for node in group.members for value in node.outputs if value in needed]
    inner: dict[Value, Value] = {value: Value(value.type, value.hint) for value in inputs}
    builder = GraphBuilder()

    def value_of(value: Value) -> Value:
        if value not in inner:
            copy(graph.producers[value])
        return inner[value]

    def copy(node: Node) -> None:
        copies = builder.copy(node, [value_of(value) for value in node.inputs])
        inner.update(zip(node.outputs, copies, strict=True))

    for node in group.members:
        copy(node)
    name = "_".join(dict.fromkeys(node.op.name for node in group.members))
    builder.inputs = [inner[value] for value in inputs]
    region = builder.graph([inner[value] for value in outputs], name[:60])
    location = next((node.location for node in reversed(group.members) if node.location), None)
    return Node(fused, inputs, {}, tuple(outputs), (region,), location)


# ----------------------------------------------------------------------
# An order of groups in which each stands after what it reads, kept while groups are merged.
#
# Whether a merge would make a cycle is one walk back from the later of the two groups that never leaves the window
# between them; a merge moves groups inside that window alone. Positions of the groups' nodes in the graph would not do
# as the bound of the walk: a group that holds an early and a late node lies before and behind the same group.
#
# After D. J. Pearce and P. H. J. Kelly, "A dynamic topological sort algorithm for directed acyclic graphs" (2007).

T = TypeVar("T")


class GroupOrder(Generic[T]):
    """The order; ``reads`` gives the groups that a group reads, itself among them or not."""

    def __init__(self, groups: Sequence[T], reads: Callable[[T], Iterable[T]]) -> None:
        self._places: list[T | None] = list(groups)
        self._place = {group: position for position, group in enumerate(groups)}
        self._reads = reads

    def between(self, left: T, right: T) -> set[T] | None:
        """The groups that the later of the two depends on and that stand between; None where one reads the earlier.

        None says that merging the two would make a cycle. That the later reads the earlier directly makes none.
        """
        first, last = sorted((left, right), key=self._place.__getitem__)
        start = self._place[first]
        dependencies: set[T] = set()
        pending = [last]
        while pending:
            group = pending.pop()
            for before in self._reads(group):
                if before is first and group is not last:
                    return None
                if self._place[before] > start and before is not last and before not in dependencies:
                    dependencies.add(before)
                    pending.append(before)
        return dependencies

    def merge(self, left: T, right: T, merged: T, between: set[T]) -> None:
        """Put ``merged`` in the place of both, behind the groups ``between`` that ``between(left, right)`` gave."""
        start, end = sorted((self._place.pop(left), self._place.pop(right)))
        inside = [group for group in self._places[start + 1 : end] if group is not None]
        window: list[T | None] = [group for group in inside if group in between]
        window += [merged, *(group for group in inside if group not in between)]
        window += [None] * (end + 1 - start - len(window))
        self._places[start : end + 1] = window
        for position, group in enumerate(window, start):
            if group is not None:
                self._place[group] = position


# ----------------------------------------------------------------------
# The order in which fused groups may stand: values before their uses, and effects as in the program.


def order_of_effects(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For prints and what can raise, in a graph with both: the nodes that stay before, beside those that they read.

    What raises does so behind the prints before it and before those behind it, as in the program.
    """
    predecessors: dict[Node, tuple[Node, ...]] = {}
    since: list[Node] = []  # the last print, and what can raise behind it
    printed = False
    for node in nodes:
        if prints(node):
            predecessors[node] = tuple(since)
            since, printed = [node], True
        elif not is_free(node) and _can_raise(node):
            predecessors[node] = (since[0],) if printed else ()
            since.append(node)
    return predecessors if printed else {}


def _can_raise(node: Node) -> bool:
    """Whether a node is a check, or reads at indices that may be out of range."""
    if node.op.effect == "check" or node.op.kind == "indexing":
        return True
    return any(_can_raise(inner) for region in node.regions for inner in region.nodes)


def in_order(units: list[tuple[int, Node]], behind: Mapping[int, set[int]]) -> Iterable[Node]:
    """The units so that values stand before their uses, those that come first in the old graph first.

    ``behind`` gives for units, by number, others that stand before them.
    """
    maker = {output: i for i, (_, node) in enumerate(units) for output in node.outputs}
    waiting = []
    readers: dict[int, list[int]] = {}
    for i, (_, node) in enumerate(units):
        before = {maker[value] for value in node.inputs if value in maker} | behind.get(i, set())
        waiting.append(len(before))
        for j in before:
            readers.setdefault(j, []).append(i)
    ready = [(units[i][0], i) for i, count in enumerate(waiting) if not count]
    heapq.heapify(ready)
    emitted = 0
    while ready:
        _, i = heapq.heappop(ready)
        emitted += 1
        yield units[i][1]
        for j in readers.get(i, ()):
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (units[j][0], j))
    assert emitted == len(units), "the groups depend on one another in a circle"
