"""Fusion: nodes that one kernel computes become one ``fused`` node with a closed region; partial writes become
stores.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from jitgraph import config
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops.conversion import cast
from jitgraph.passes.fusion_groups import (
    FusionEdge,
    FusionForm,
    FusionGroup,
    GroupOrder,
    Index,
    common_form,
    form_of,
    in_order,
    is_free,
    lone_group,
    misread,
    node_of,
    order_of_effects,
    outer_inputs,
)
from jitgraph.passes.rewriter import rewrite_regions
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Writes of a part of a tensor that a loop carries, or of an input given away: an order in which they can be stores.
#
# A write of an element gives a new tensor, and may go into the memory of its operand where nothing after it reads that.
# So, in the body of a loop, and of inputs that a call may overwrite, what reads the operand stands before the write
# where the program has it there, and is part of no kernel that stands behind; an index map over the operand that is
# read behind the write is computed before it.
#
# This decides what can be fast. Whether memory is shared is decided, and proved, where copies are left out
# (``codegen/kernels/coalescing.py``): in any order results are the same.

_WRITES: Final = ("scatter", "dynamic_update_slice")


class PartialWrites:
    """The partial writes of a graph into the memory of what ``carried`` holds, or of what became of that.

    ``inside`` says that the graph is, or belongs to, the body of a loop, where loops and branches write to it too.
    """

    def __init__(self, graph: Graph, carried: Collection[Value], *, inside: bool) -> None:
        self.graph = graph
        self.carried = carried
        self.inside = inside
        self._position = {node: number for number, node in enumerate(graph.nodes)}
        self._read: dict[Value, frozenset[Value]] = {}
        self.writers: dict[Node, tuple[Value, ...]] = dict(self._found()) if carried else {}
        self.alone = {node for node in self.writers if not node.regions}
        """Writes of a carry, or of what became of one: each is a step of its own."""

    def _found(self) -> Iterator[tuple[Node, tuple[Value, ...]]]:
        """The nodes that may write into the memory of operands, and these operands, without what is a view of them."""
        carried = set(self.carried)
        for node in self.graph.nodes:
            operands: list[Value] = []
            if node.op.lowering in _WRITES:
                operands = [value for value in node.inputs[:1] if self._viewed(value) in carried]
            elif node.regions and self.inside:
                match structure_of(node):
                    case CarriedLoop() as loop:
                        operands = loop.parts(node.inputs)[0]
                    case Conditional():
                        operands = list(node.inputs[1:])
            operands = [value for value in operands if isinstance(value.type, TensorType) and value.shape]
            if operands:
                carried.update(node.outputs)
                yield node, tuple(map(self._viewed, operands))

    def _viewed(self, value: Value) -> Value:
        return _source(self.graph, value)

    def _reads(self, value: Value) -> frozenset[Value]:
        """The values in memory that are read for ``value``: those behind index maps, or itself."""
        known = self._read.get(value)
        if known is None:
            producer = self.graph.producers.get(value)
            if producer is None or not is_free(producer):
                known = frozenset((value,))
            else:
                known = frozenset().union(*map(self._reads, producer.inputs))
            self._read[value] = known
        return known

    def _readers(self) -> dict[Value, list[Node]]:
        """The nodes that read a value, through index maps or not, in order."""
        readers: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            if not is_free(node):
                for value in frozenset().union(*map(self._reads, node.inputs)):
                    readers.setdefault(value, []).append(node)
        return readers

    def with_readers_first(self) -> Graph:
        """The graph with nodes that read what a write before them replaces, and do not need the write, before it.

        Gradients have such: what a write reads of the cotangent is recorded behind what it sets to zero.
        """
        readers = self._readers()
        late = [
            (reader, node)
            for node, operands in self.writers.items()
            for value in dict.fromkeys(operands)
            for reader in readers.get(value, ())
            if self._position[reader] > self._position[node]
        ]
        if not late:
            return self.graph
        before: dict[Node, set[Node]] = {node: set() for node in self.graph.nodes}
        for node in self.graph.nodes:
            before[node].update(self.graph.producers[v] for v in node.inputs if v in self.graph.producers)
        for node, firsts in (*order_of_effects(self.graph.nodes).items(), *self.readers_first().items()):
            before[node].update(firsts)
        moved = False
        for reader, node in late:
            if not _needs(reader, node, before):
                before[node].add(reader)
                moved = True
        if not moved:
            return self.graph
        nodes: dict[Node, None] = {}
        for node in self.graph.nodes:
            _append(node, before, nodes, self._position)
        return replace(self.graph, nodes=tuple(nodes))

    def readers_first(self) -> dict[Node, tuple[Node, ...]]:
        """For each write the nodes before it that read what it replaces."""
        if not self.writers:
            return {}
        readers = self._readers()
        return {
            node: tuple(
                reader
                for value in dict.fromkeys(operands)
                for reader in readers.get(value, ())
                if self._position[reader] < self._position[node]
            )
            for node, operands in self.writers.items()
        }

    def read_in_time(self) -> Graph:
        """The graph with what is read through index maps behind a write of what they are over computed where they are.

        The node for that is a cast to the dtype that the value has.
        """
        last = {value: self._position[node] for node, operands in self.writers.items() for value in operands}
        late = dict.fromkeys(
            value
            for node in self.graph.nodes
            if not is_free(node)
            for value in node.inputs
            if self._is_late(value, self._position[node], last)
        )
        late.update(
            dict.fromkeys(value for value in self.graph.outputs if self._is_late(value, len(self.graph.nodes), last))
        )
        if not late:
            return self.graph
        nodes: list[Node] = []
        new = {value: Value(value.type, value.hint) for value in late}
        for node in self.graph.nodes:
            position = self._position[node]
            inputs = tuple(
                new[value] if value in new and self._is_late(value, position, last) else value for value in node.inputs
            )
            nodes.append(node if inputs == node.inputs else replace(node, inputs=inputs))
            nodes += [
                Node(cast, (value,), {"dtype": value.dtype}, (new[value],), (), node.location)
                for value in node.outputs
                if value in new
            ]
        outputs = tuple(
            new[value] if value in new and self._is_late(value, len(self.graph.nodes), last) else value
            for value in self.graph.outputs
        )
        return replace(self.graph, nodes=tuple(nodes), outputs=outputs)

    def _is_late(self, value: Value, position: int, last: dict[Value, int]) -> bool:
        """Whether a node at ``position`` reads ``value`` through an index map that was there before a write."""
        producer = self.graph.producers.get(value)
        if producer is None or not is_free(producer) or "alias" in producer.op.traits:
            return False
        defined_at = self._position[producer]
        return any(defined_at < last.get(source, -1) < position for source in self._reads(value))


def partial_writes(graph: Graph, carried: Collection[Value], *, inside: bool) -> PartialWrites:
    """The partial writes of a graph, with its nodes in an order in which they can be stores into memory of operands."""
    writes = PartialWrites(graph, carried, inside=inside)
    for change in (PartialWrites.with_readers_first, PartialWrites.read_in_time):
        if writes.writers and (changed := change(writes)) is not writes.graph:
            writes = PartialWrites(changed, carried, inside=inside)
    return writes


def writes_into(graph: Graph, inputs: Collection[Value]) -> bool:
    """Whether a part of one of ``inputs`` is written, by a node of the graph or of a kernel in it."""
    for node in graph.nodes:
        if node.op.lowering in _WRITES and _source(graph, node.inputs[0]) in inputs:
            return True
        if "one_kernel" in node.op.traits:
            (region,) = node.regions
            pairs = zip(region.inputs, node.inputs, strict=True)
            if writes_into(region, {inner for inner, outer in pairs if _source(graph, outer) in inputs}):
                return True
    return False


def _source(graph: Graph, value: Value) -> Value:
    """The value whose memory ``value`` is a view of."""
    producer = graph.producers.get(value)
    while producer is not None and "alias" in producer.op.traits:
        value = producer.inputs[0]
        producer = graph.producers.get(value)
    return value


def _needs(node: Node, other: Node, before: Mapping[Node, set[Node]]) -> bool:
    """Whether ``other`` stands before ``node`` in every order."""
    seen: set[Node] = set()
    pending = [node]
    while pending:
        one = pending.pop()
        if one is other:
            return True
        if one not in seen:
            seen.add(one)
            pending += before[one]
    return False


def _append(
    node: Node, before: Mapping[Node, set[Node]], nodes: dict[Node, None], position: Mapping[Node, int]
) -> None:
    """Append a node behind all that stand before it."""
    pending = [node]
    while pending:
        missing = [one for one in before[pending[-1]] if one not in nodes]
        if missing and pending[-1] not in nodes:
            pending += sorted(missing, key=position.__getitem__, reverse=True)
        else:
            nodes.setdefault(pending.pop())


# ----------------------------------------------------------------------
# Fusion: nodes that one kernel computes become one ``fused`` node with a closed region.
#
# A group has a domain, the shape that its loops run over, and one of three forms: *pointwise* (every value has the
# domain's shape and is read at the same index), *rows* (reductions over the same axes of the domain, and pointwise
# values of the domain's or of the rows' shape around them) and *contraction* (a dot or conv with pointwise values of
# its result's shape after it). Movement and creation ops belong to no group: being index maps they are copied into
# every group that reads through them, and stand alone only where their result itself is wanted. Nothing else is
# computed twice.
#
# Groups grow by merging the producer of a value with its consumer, then groups of one domain that read the same value.
# A merge is refused where it would make a cycle, or where a value would be read at another index than it is computed
# at. Writes of a part of a loop's carry, or of an input that is given away, stand alone, behind what reads that before
# them (``fuse.py``).

MOST_NODES: Final = 64  # in a group: a bound on the registers that a kernel wants, and on the depth of expressions


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


def fuse_with_reasons(
    graph: Graph, target: Target, given_away: Collection[int] = ()
) -> tuple[Graph, tuple[MissedFusion, ...]]:
    """As ``fuse``, with the neighbours that were kept apart; ``given_away`` are inputs that may be overwritten."""
    return _fused(graph, target, {graph.inputs[i] for i in given_away}, in_loop=False)


def _fused(
    graph: Graph, target: Target, carried: Collection[Value], *, in_loop: bool
) -> tuple[Graph, tuple[MissedFusion, ...]]:
    missed: list[MissedFusion] = []
    nodes = []
    for node in graph.nodes:
        regions = node.regions
        if regions and "one_kernel" not in node.op.traits:
            inside = in_loop or isinstance(structure_of(node), CarriedLoop)

            def rewrite(region: Graph, inside: bool = inside) -> Graph:
                result, inner_missed = _fused(region, target, region.inputs if inside else (), in_loop=inside)
                missed.extend(inner_missed)
                return result

            regions = rewrite_regions(node, rewrite)
        changed = any(new is not old for new, old in zip(regions, node.regions, strict=True))
        nodes.append(Node(node.op, node.inputs, node.attrs, node.outputs, regions, node.location) if changed else node)
    rewritten = Graph(graph.inputs, tuple(nodes), graph.outputs, graph.constraints, graph.name)
    plan = _Grouping(partial_writes(rewritten, carried, inside=in_loop), target)
    plan.merge_along_values()
    plan.merge_side_by_side()
    result = plan.build()
    for one in plan.apart:
        config.log("fusion", str(one))
    return result, (*missed, *plan.apart)


class _Grouping:
    """The groups of one graph while they grow."""

    def __init__(self, writes: PartialWrites, target: Target) -> None:
        graph = writes.graph
        self.target = target
        self.graph = graph
        self.apart: list[MissedFusion] = []
        self.position = {node: i for i, node in enumerate(graph.nodes)}
        self.group: dict[Node, FusionGroup] = {}
        self.behind = order_of_effects(graph.nodes)
        for node, readers in writes.readers_first().items():
            self.behind[node] = (*self.behind.get(node, ()), *readers)
        for node in graph.nodes:
            if is_free(node):
                continue
            form = FusionForm("alone", ()) if node in writes.alone else form_of(node)
            group = FusionGroup(form, [node], self.position[node], self.position[node])
            group.root = node if form.kind == "contraction" else None
            group.edges[node] = self._edges(node, form)
            self.group[node] = group
        self.order = GroupOrder(list(self.group.values()), self._reads)

    # --- what a node reads

    def _edges(self, node: Node, form: FusionForm) -> list[FusionEdge]:
        """The values of other nodes that ``node`` reads, through movement ops."""
        direct = node.op.kind == "elementwise" or form.kind == "rows"
        index = form.index if direct else None
        edges: list[FusionEdge] = []
        for value in node.inputs:
            self._trace(value, index, edges, set())
        return edges

    def _trace(self, value: Value, index: Index | None, edges: list[FusionEdge], seen: set[tuple[Value, bool]]) -> None:
        producer = self.graph.producers.get(value)
        if producer is None:
            return
        if not is_free(producer):
            edges.append(FusionEdge(value, producer, index))
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
            mapped = tuple(0 if extent == 1 else dim for dim, extent in zip(read.index, source.shape, strict=True))
            self._trace(source, mapped, edges, seen)
            for other in producer.inputs:  # copied with it, unread: a fill value where nothing is padded
                if other is not source:
                    self._trace(other, None, edges, seen)
            return
        for source in producer.inputs:
            self._trace(source, None, edges, seen)

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
        readers: dict[tuple[Value, FusionForm], list[FusionGroup]] = {}
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

    def _merge(self, left: FusionGroup, right: FusionGroup) -> str | None:
        """Merge two groups, or say why not."""
        form = common_form(left.form, right.form)
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
                if reason := misread(form, node, edge, root):
                    return reason
        if form.is_global(self.target) and self._waits(form, members, edges):
            return "the reduction is over much more than one row, and has to finish first"
        between = self.order.between(left, right)
        if between is None:
            return "it would make a cycle"
        merged = FusionGroup(form, members, min(left.first, right.first), max(left.last, right.last), root, edges)
        self.order.merge(left, right, merged, between)
        for node in members:
            self.group[node] = merged
        return None

    def _waits(self, form: FusionForm, members: Iterable[Node], edges: Mapping[Node, list[FusionEdge]]) -> bool:
        """Whether a value of the domain's shape depends on a reduction among ``members``."""
        reduced: set[Node] = set()
        for node in members:
            depends = any(edge.producer in reduced for edge in edges[node])
            if depends and (node.op.kind == "reduce" or node.outputs[0].shape == form.domain):
                return True
            if depends or node.op.kind == "reduce":
                reduced.add(node)
        return False

    def _reads(self, group: FusionGroup) -> set[FusionGroup]:
        """The groups that a group reads, through movement ops too, and those whose effects come before its own."""
        read = {self.group[edge.producer] for edges in group.edges.values() for edge in edges}
        if self.behind:
            read.update(self.group[first] for node in group.members for first in self.behind.get(node, ()))
        return read

    # --- the new graph

    def build(self) -> Graph:
        """The graph with a fused node for each group of more than one node, in an order that keeps that of checks."""
        groups = list(dict.fromkeys(self.group.values()))
        units = self._units(groups)
        nodes = list(in_order(units, self._effects_before(groups)))
        if all(node in self.position for node in nodes) and len(nodes) == len(self.graph.nodes):
            return self.graph
        graph = self.graph
        return Graph(graph.inputs, tuple(nodes), graph.outputs, graph.constraints, graph.name)

    def _effects_before(self, groups: list[FusionGroup]) -> dict[int, set[int]]:
        """For the groups with effects, by number, those whose effects come before."""
        number = {id(group): i for i, group in enumerate(groups)}
        predecessors: dict[int, set[int]] = {}
        for node, firsts in self.behind.items():
            own = number[id(self.group[node])]
            predecessors.setdefault(own, set()).update({number[id(self.group[first])] for first in firsts} - {own})
        return predecessors

    def _units(self, groups: list[FusionGroup]) -> list[tuple[int, Node]]:
        """The nodes of the new graph, those of the groups first, each with a number that says how late it may come."""
        inputs = {id(group): outer_inputs(self.graph, group) for group in groups}
        required = set(self.graph.outputs).union(*inputs.values())
        alone: list[Node] = []
        pending = [value for value in required if self._is_free_value(value)]
        while pending:
            node = self.graph.producers[pending.pop()]
            if node in alone:
                continue
            alone.append(node)
            if "alias" in node.op.traits:  # a view of a buffer, so that its operand has to be one
                needed = set(node.inputs)
            else:
                needed = set(outer_inputs(self.graph, lone_group(node)))
            pending += [value for value in needed - required if self._is_free_value(value)]
            required |= needed
        units = [(group.last, node_of(self.graph, group, required)) for group in groups]
        for node in alone:
            keep = "alias" in node.op.traits
            units.append((self.position[node], node if keep else node_of(self.graph, lone_group(node), required)))
        return units

    def _is_free_value(self, value: Value) -> bool:
        producer = self.graph.producers.get(value)
        return producer is not None and is_free(producer)
