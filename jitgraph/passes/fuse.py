"""Fusion: nodes that one kernel computes become one ``fused`` node with a closed region.

A group has a domain, the shape that its loops run over, and one of three forms: *pointwise* (every value has the
domain's shape and is read at the same index), *rows* (reductions over the same axes of the domain, and pointwise values
of the domain's or of the rows' shape around them) and *contraction* (a dot or conv with pointwise values of its
result's shape after it). Movement and creation ops belong to no group: being index maps they are copied into every
group that reads through them, and stand alone only where their result itself is wanted. Nothing else is computed twice.

Groups grow by merging the producer of a value with its consumer, then groups of one domain that read the same value.
A merge is refused where it would make a cycle, or where a value would be read at another index than it is computed at.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, Final, Literal

from jitgraph import config
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Fusion
from jitgraph.ir.target import Target
from jitgraph.ir.types import Shape, TensorType
from jitgraph.once import cached_property
from jitgraph.ops import fused
from jitgraph.passes.group_order import GroupOrder
from jitgraph.passes.rewriter import rewrite_regions
from jitgraph.records import dataclass

Index = tuple[DimLike, ...]

MOST_NODES: Final = 64  # in a group: a bound on the registers that a kernel wants, and on the depth of expressions
MOST_READ: Final = 4  # operands of an index map; a concat of more copies them, one loop for each
_GLOBAL_ROWS: Final = 8  # a reduction to no more results than this of ...
_GLOBAL_EXTENT: Final = 1 << 14  # ... at least this many elements each is split over threads, in a kernel of its own

_OF_KIND: Final[Mapping[str, Fusion]] = {
    "elementwise": "pointwise",
    "movement": "free",
    "creation": "free",
    "contraction": "contraction",
    "reduce": "rows",
}


@dataclass(frozen=True)
class MissedFusion:
    """A producer and a consumer that were not fused, and why."""

    producer: Node
    consumer: Node
    reason: str

    def __str__(self) -> str:
        return f"{self.producer.op.name} -> {self.consumer.op.name}: {self.reason}"


def fuse(graph: Graph, target: Target) -> Graph:
    """``graph`` with groups of nodes, in regions too, as ``fused`` nodes."""
    return fuse_with_reasons(graph, target)[0]


def fuse_with_reasons(graph: Graph, target: Target) -> tuple[Graph, tuple[MissedFusion, ...]]:
    """As ``fuse``, with the neighbours that were kept apart."""
    apart: list[MissedFusion] = []

    def rewrite(region: Graph) -> Graph:
        result, found = fuse_with_reasons(region, target)
        apart.extend(found)
        return result

    nodes = []
    for node in graph.nodes:
        regions = node.regions if "one_kernel" in node.op.traits else rewrite_regions(node, rewrite)
        changed = any(new is not old for new, old in zip(regions, node.regions, strict=True))
        nodes.append(Node(node.op, node.inputs, node.attrs, node.outputs, regions, node.location) if changed else node)
    plan = _Grouping(Graph(graph.inputs, tuple(nodes), graph.outputs, graph.constraints, graph.name))
    plan.merge_along_values()
    plan.merge_side_by_side()
    result = plan.build()
    for one in plan.apart:
        config.log("fusion", str(one))
    return result, (*apart, *plan.apart)


@dataclass(frozen=True)
class _Form:
    """What a group's loops run over; ``axes`` are those that its reductions reduce."""

    kind: Literal["pointwise", "rows", "contraction", "alone"]
    domain: Shape
    axes: tuple[int, ...] = ()

    @cached_property
    def rows(self) -> Shape:
        return tuple(extent for axis, extent in enumerate(self.domain) if axis not in self.axes)

    @cached_property
    def index(self) -> Index:
        return _axes_index(self.domain)

    @cached_property
    def row_index(self) -> Index:
        """The part of ``index`` that a value of the rows' shape is read at."""
        return tuple(dim for axis, dim in enumerate(self.index) if axis not in self.axes)

    @cached_property
    def is_global(self) -> bool:
        """A reduction of much to little: what follows from it has to wait for all of it."""
        if self.kind != "rows":
            return False
        count, extent = dims.product(self.rows), dims.product(self.domain[axis] for axis in self.axes)
        return isinstance(count, int) and count <= _GLOBAL_ROWS and isinstance(extent, int) and extent >= _GLOBAL_EXTENT


@dataclass(frozen=True)
class _Edge:
    """A value that a node reads through movement ops: at this index of the value when at index ``_i0, _i1, ...``."""

    value: Value
    producer: Node
    index: Index | None  # None: at several indices, or at one that is computed


@dataclass(eq=False)
class _Group:
    form: _Form
    members: list[Node]
    first: int
    last: int
    root: Node | None = None
    edges: dict[Node, list[_Edge]] = field(default_factory=dict)


def _axes_index(shape: Shape) -> Index:
    return tuple(0 if extent == 1 else Dim.name(f"_i{axis}") for axis, extent in enumerate(shape))


def is_free(node: Node) -> bool:
    """Whether the node is an index map, or makes its value from the index: free to be copied into every reader."""
    return _part(node) == "free" and (node.op.kind != "movement" or len(node.inputs) <= MOST_READ)


def _part(node: Node) -> Fusion:
    return node.op.fusion or _OF_KIND.get(node.op.kind, "alone")


def _form_of(node: Node) -> _Form:
    if any(not isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs)) or node.regions:
        return _Form("alone", ())
    part = _part(node)
    if part == "pointwise" or part == "contraction":
        return _Form(part, node.output.shape)
    if part == "rows":
        axes: Any = node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
        if axes:
            return _Form("rows", node.inputs[0].shape, tuple(axes))
    return _Form("alone", ())


class _Grouping:
    """The groups of one graph while they grow."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.apart: list[MissedFusion] = []
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.group: dict[Node, _Group] = {}
        self.behind = _order_of_effects(graph.nodes)
        for node in graph.nodes:
            if is_free(node):
                continue
            form = _form_of(node)
            group = _Group(form, [node], self.position[node], self.position[node])
            group.root = node if form.kind == "contraction" else None
            group.edges[node] = self._edges(node, form)
            self.group[node] = group
        self.order = GroupOrder(list(self.group.values()), self._reads)

    # --- what a node reads

    def _edges(self, node: Node, form: _Form) -> list[_Edge]:
        """The values of other nodes that ``node`` reads, through movement ops."""
        direct = node.op.kind == "elementwise" or form.kind == "rows"
        index = form.index if direct else None
        found: list[_Edge] = []
        for value in node.inputs:
            self._trace(value, index, found, set())
        return found

    def _trace(self, value: Value, index: Index | None, found: list[_Edge], seen: set[tuple[Value, bool]]) -> None:
        producer = self.graph.producers.get(value)
        if producer is None:
            return
        if not is_free(producer):
            found.append(_Edge(value, producer, index))
            return
        if index is None and (value, True) in seen:
            return
        seen.add((value, index is None))
        reads: Any = None
        if index is not None and producer.op.index_map is not None:
            reads = producer.op.index_map(index, *(v.type for v in producer.inputs), **producer.attrs)
        if reads is not None and len(reads) == 1:
            (read,) = reads
            source = producer.inputs[read.operand]
            place = tuple(0 if extent == 1 else dim for dim, extent in zip(read.index, source.shape, strict=True))
            self._trace(source, place, found, seen)
            return
        for source in producer.inputs:
            self._trace(source, None, found, seen)

    # --- merging

    def merge_along_values(self) -> None:
        """Merge every node, in order, with the groups of what it reads."""
        for node in self.graph.nodes:
            if node not in self.group:
                continue
            refused: dict[Node, str] = {}
            for edge in list(self.group[node].edges[node]):
                producer, consumer = self.group[edge.producer], self.group[node]
                if producer is consumer:
                    continue
                reason = self._merge(producer, consumer)
                if reason is not None:
                    refused.setdefault(edge.producer, reason)
            for producer_node, reason in refused.items():
                if self.group[producer_node] is not self.group[node]:
                    self.apart.append(MissedFusion(producer_node, node, reason))

    def merge_side_by_side(self) -> None:
        """Merge groups of one form that read one value at the same index: it is then read once."""
        readers: dict[tuple[Value, _Form], list[_Group]] = {}
        for node in self.graph.nodes:
            group = self.group.get(node)
            if group is None or group.form.kind not in ("pointwise", "rows") or not group.form.domain:
                continue
            for value in node.inputs:
                if value.type == TensorType(value.dtype, group.form.domain):
                    readers.setdefault((value, group.form), []).append(group)
        for groups in readers.values():
            for one in groups[1:]:
                left, right = self.group[groups[0].members[0]], self.group[one.members[0]]
                if left is not right and left.form == right.form:
                    self._merge(*sorted((left, right), key=lambda group: group.first))

    def _merge(self, left: _Group, right: _Group) -> str | None:
        """Merge two groups, or say why not."""
        form = _common(left.form, right.form)
        if isinstance(form, str):
            return form
        root = left.root or right.root
        members = sorted(left.members + right.members, key=self.position.__getitem__)
        if len(members) > MOST_NODES:
            return "the kernel would be too large"
        edges = {**left.edges, **right.edges}
        sides = (left, right)
        sound = [side for side in sides if side.form == form]  # what these read of themselves was checked before
        for node in members:
            reader = self.group[node]
            for edge in edges[node]:
                maker = self.group[edge.producer]
                if maker not in sides or (maker is reader and reader in sound):
                    continue
                if reason := _misread(form, node, edge, root):
                    return reason
        if form.is_global and self._waits(form, members, edges):
            return "the reduction is over much more than one row, and has to finish first"
        between = self.order.between(left, right)
        if between is None:
            return "it would make a cycle"
        merged = _Group(form, members, min(left.first, right.first), max(left.last, right.last), root, edges)
        self.order.merge(left, right, merged, between)
        for node in members:
            self.group[node] = merged
        return None

    def _waits(self, form: _Form, members: Iterable[Node], edges: Mapping[Node, list[_Edge]]) -> bool:
        """Whether a value of the domain's shape depends on a reduction among ``members``."""
        reduced: set[Node] = set()
        for node in members:
            depends = any(edge.producer in reduced for edge in edges[node])
            if depends and (node.op.kind == "reduce" or node.outputs[0].shape == form.domain):
                return True
            if depends or node.op.kind == "reduce":
                reduced.add(node)
        return False

    def _reads(self, group: _Group) -> set[_Group]:
        """The groups that a group reads, through movement ops too, and those whose effects come before its own."""
        read = {self.group[edge.producer] for edges in group.edges.values() for edge in edges}
        if self.behind:
            read.update(self.group[first] for node in group.members for first in self.behind.get(node, ()))
        return read

    # --- the new graph

    def build(self) -> Graph:
        """The graph with a fused node for each group of more than one node, in an order that keeps checks in theirs."""
        groups = list(dict.fromkeys(self.group.values()))
        units = self._units(groups)
        nodes = list(_in_order(units, self._effects_before(groups)))
        if all(node in self.position for node in nodes) and len(nodes) == len(self.graph.nodes):
            return self.graph
        graph = self.graph
        return Graph(graph.inputs, tuple(nodes), graph.outputs, graph.constraints, graph.name)

    def _effects_before(self, groups: list[_Group]) -> dict[int, set[int]]:
        """For the groups with effects, by number, those whose effects come before."""
        number = {id(group): i for i, group in enumerate(groups)}
        found: dict[int, set[int]] = {}
        for node, firsts in self.behind.items():
            own = number[id(self.group[node])]
            found.setdefault(own, set()).update({number[id(self.group[first])] for first in firsts} - {own})
        return found

    def _units(self, groups: list[_Group]) -> list[tuple[int, Node]]:
        """The nodes of the new graph, those of the groups first, each with a number that says how late it may come."""
        inputs = {id(group): _outer_inputs(self.graph, group) for group in groups}
        wanted = set(self.graph.outputs).union(*inputs.values())
        alone: list[Node] = []
        pending = [value for value in wanted if self._is_free_value(value)]
        while pending:
            node = self.graph.producers[pending.pop()]
            if node in alone:
                continue
            alone.append(node)
            if "alias" in node.op.traits:  # a view of a buffer, so that its operand has to be one
                needed = set(node.inputs)
            else:
                needed = set(_outer_inputs(self.graph, _single(node)))
            pending += [value for value in needed - wanted if self._is_free_value(value)]
            wanted |= needed
        units = [(group.last, _node_of(self.graph, group, wanted)) for group in groups]
        for node in alone:
            keep = "alias" in node.op.traits
            units.append((self.position[node], node if keep else _node_of(self.graph, _single(node), wanted)))
        return units

    def _is_free_value(self, value: Value) -> bool:
        producer = self.graph.producers.get(value)
        return producer is not None and is_free(producer)


def _single(node: Node) -> _Group:
    return _Group(_Form("alone", ()), [node], 0, 0)


def _common(left: _Form, right: _Form) -> _Form | str:
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


def _misread(form: _Form, node: Node, edge: _Edge, root: Node | None) -> str | None:
    """Why a node of a group of this form cannot read a value of the group; None where it can."""
    if node is root:
        return "an operand of a contraction is read many times"
    if edge.index is None:
        return "it is read at several indices"
    if form.kind != "rows":
        same = edge.index == form.index and edge.value.shape == form.domain
        return None if same else "it is read at another index"
    if node.op.kind == "reduce" or node.outputs[0].shape == form.domain:
        whole = edge.index == form.index and edge.value.shape == form.domain
        of_row = edge.index == form.row_index and edge.value.shape == form.rows
        return None if whole or of_row else "it is read at another index"
    same = edge.index == _axes_index(form.rows) and edge.value.shape == form.rows
    return None if same else "it is read at another index"


def _outer_inputs(graph: Graph, group: _Group) -> tuple[Value, ...]:
    """The values that a group reads and does not make, index maps seen through where the group is a kernel."""
    made = {output for node in group.members for output in node.outputs}
    found: dict[Value, None] = {}
    through = _is_kernel(group)

    def visit(value: Value) -> None:
        if value in made or value in found:
            return
        producer = graph.producers.get(value)
        if through and producer is not None and is_free(producer):
            for source in producer.inputs:
                visit(source)
        else:
            found[value] = None

    for node in group.members:
        for value in node.inputs:
            visit(value)
    return tuple(found)


def _is_kernel(group: _Group) -> bool:
    """Whether the group's values are computed at an index, so that index maps can be part of it."""
    return not any(
        node.regions or not all(isinstance(value.type, TensorType) for value in (*node.inputs, *node.outputs))
        for node in group.members
    )


def _node_of(graph: Graph, group: _Group, wanted: set[Value]) -> Node:
    """The group as one node: the node itself where it reads nothing through index maps."""
    inputs = _outer_inputs(graph, group)
    if len(group.members) == 1 and (not _is_kernel(group) or set(group.members[0].inputs) <= set(inputs)):
        return group.members[0]
    outputs = [value for node in group.members for value in node.outputs if value in wanted]
    inner: dict[Value, Value] = {value: Value(value.type, value.hint) for value in inputs}
    nodes: list[Node] = []

    def value_of(value: Value) -> Value:
        if value not in inner:
            copy(graph.producers[value])
        return inner[value]

    def copy(node: Node) -> None:
        operands = tuple(value_of(value) for value in node.inputs)
        made = tuple(Value(output.type, output.hint) for output in node.outputs)
        inner.update(zip(node.outputs, made, strict=True))
        nodes.append(Node(node.op, operands, node.attrs, made, node.regions, node.location))

    for node in group.members:
        copy(node)
    name = "_".join(dict.fromkeys(node.op.name for node in group.members))
    region = Graph(tuple(inner[v] for v in inputs), tuple(nodes), tuple(inner[v] for v in outputs), (), name[:60])
    location = next((node.location for node in reversed(group.members) if node.location), None)
    return Node(fused, inputs, {}, tuple(outputs), (region,), location)


def _order_of_effects(nodes: Iterable[Node]) -> dict[Node, tuple[Node, ...]]:
    """For prints and what can raise, in a graph with both: the nodes that stay before, beside those that they read.

    What raises does so behind the prints before it and before those behind it, as in the program.
    """
    found: dict[Node, tuple[Node, ...]] = {}
    since: list[Node] = []  # the last print, and what can raise behind it
    printed = False
    for node in nodes:
        if _prints(node):
            found[node] = tuple(since)
            since, printed = [node], True
        elif not is_free(node) and _can_raise(node):
            found[node] = (since[0],) if printed else ()
            since.append(node)
    return found if printed else {}


def _prints(node: Node) -> bool:
    return node.op.effect == "ordered" or any(_prints(inner) for region in node.regions for inner in region.nodes)


def _can_raise(node: Node) -> bool:
    """Whether a node is a check, or reads at indices that may be out of range."""
    if node.op.effect == "check" or node.op.kind == "indexing":
        return True
    return any(_can_raise(inner) for region in node.regions for inner in region.nodes)


def _in_order(units: list[tuple[int, Node]], behind: Mapping[int, set[int]]) -> Iterable[Node]:
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
    placed = 0
    while ready:
        _, i = heapq.heappop(ready)
        placed += 1
        yield units[i][1]
        for j in readers.get(i, ()):
            waiting[j] -= 1
            if not waiting[j]:
                heapq.heappush(ready, (units[j][0], j))
    assert placed == len(units), "the groups depend on one another in a circle"
