"""What a gradient saves from the forward computation and what it computes again: a minimum cut."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final

from jitgraph.errors import UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.control import RegionCall, structure_of
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.types import StackType, TensorType
from jitgraph.passes.rewriter import has_effect, prints
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# Minimum cuts of small networks (Dinic 1970, "Algorithm for solution of a problem of maximum flow in networks").
#
# Written here, as importing networkx took longer than all cuts of a model together.

Edge = tuple[int, int, int | None]
"""From, to, and the capacity; None for an edge that no cut may have."""


def minimum_cut(nodes: int, edges: Iterable[Edge], source: int, sink: int) -> set[int] | None:
    """The nodes on the side of ``source`` of the cheapest cut, of several the one that is nearest to ``sink``.

    Nodes are ``0 .. nodes``. None where every cut has an edge without a capacity.
    """
    network = _Network(nodes, list(edges))
    flow = 0
    while distances := network.distances(source, sink):
        flow += network.saturate(distances, source, sink)
    if flow >= network.unlimited:  # more than all edges with a capacity hold
        return None
    return set(range(nodes)) - network.reaching(sink)


class _Network:
    """Edges in pairs, each beside its reverse (``number ^ 1``), with what may yet flow along it."""

    def __init__(self, nodes: int, edges: list[Edge]) -> None:
        self.unlimited = 1 + sum(capacity for _, _, capacity in edges if capacity is not None)
        self.out: list[list[int]] = [[] for _ in range(nodes)]
        self.to: list[int] = []
        self.free: list[int] = []
        for before, after, capacity in edges:
            self.out[before].append(len(self.to))
            self.out[after].append(len(self.to) + 1)
            self.to += after, before
            self.free += self.unlimited if capacity is None else capacity, 0

    def distances(self, source: int, sink: int) -> dict[int, int]:
        """How far nodes are from the source along edges that have room; empty where the sink is out of reach."""
        distance = {source: 0}
        order = [source]
        for node in order:
            for edge in self.out[node]:
                after = self.to[edge]
                if after not in distance and self.free[edge]:
                    distance[after] = distance[node] + 1
                    order.append(after)
        return distance if sink in distance else {}

    def saturate(self, distances: dict[int, int], source: int, sink: int) -> int:
        """Let flow along shortest ways until none has room; gives how much."""
        untried = {node: list(self.out[node]) for node in distances}
        path: list[int] = []
        node, together = source, 0
        while True:
            if node == sink:
                amount = min(self.free[edge] for edge in path)
                together += amount
                for edge in path:
                    self.free[edge] -= amount
                    self.free[edge ^ 1] += amount
                path, node = [], source
            edges = untried[node]
            while edges and not (self.free[edges[-1]] and distances.get(self.to[edges[-1]]) == distances[node] + 1):
                edges.pop()
            if edges:
                path.append(edges[-1])
                node = self.to[edges[-1]]
            elif path:
                node = self.to[path.pop() ^ 1]
                untried[node].pop()
            else:
                return together

    def reaching(self, sink: int) -> set[int]:
        """The nodes from which more could flow to the sink."""
        reached = {sink}
        order = [sink]
        for node in order:
            for edge in self.out[node]:
                before = self.to[edge]
                if before not in reached and self.free[edge ^ 1]:
                    reached.add(before)
                    order.append(before)
        return reached


# ----------------------------------------------------------------------
# What a gradient saves from the forward computation and what it computes again: a minimum cut.
#
# The network has one edge of finite capacity for each value, its size in bytes; a cut between the values that cannot be
# computed again (inputs, products, reductions, loops) and those that the backward part reads is a set of values to
# save, and everything past the cut is computed again from it. The cheapest such set is the minimum cut (Ford and
# Fulkerson 1956; PyTorch's AOTAutograd chooses its residuals in the same way). Among equally cheap cuts the latest is
# taken: the least is computed again.
#
# Values that cannot be computed again are saved wherever they are read, so the network falls apart into small connected
# parts, and each part is solved exactly. A part of more than ``SEGMENT`` values is cut in program order into windows of
# that many, solved from the last to the first: what a later window needs of an earlier one is counted at its full size
# there, and decided when its own window's turn comes. That takes time linear in the number of values, and may miss the
# minimum only where a chain crosses a window's edge.

SEGMENT: Final = 500
_SOURCE, _SINK = 0, 1  # of every network
CHEAP_KINDS: Final = frozenset({"elementwise", "movement", "creation"})


@dataclass(frozen=True, slots=True)
class ResidualStack:
    """A stack that crosses from forward to backward: empty at ``start``, full at ``end``, empty again at ``rest``."""

    start: Value
    end: Value
    rest: Value


@dataclass(frozen=True, slots=True)
class Joint:
    """A forward computation followed by its backward one, in one list of nodes.

    ``originals`` gives for a loop that was rewritten to yield residuals the loop as it was.
    """

    inputs: tuple[Value, ...]
    cotangents: tuple[Value, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Value, ...]
    gradients: tuple[Value, ...]
    residual_stacks: tuple[ResidualStack, ...] = ()
    originals: Mapping[Node, Node] = field(default_factory=dict)


def cost(value: Value) -> int:
    """Bytes to save ``value``, a named size counted as ``dims.ASSUMED_SIZE``; at least 1."""
    tensor = value.tensor
    return max(1, dims.assumed(tensor.size) * tensor.dtype.itemsize)


def is_cheap(node: Node) -> bool:
    """Whether computing the node again costs no more than reading its result: no product, reduction, loop or effect."""
    if node.op.effect != "none":
        return False
    if node.op.kind == "composite" or isinstance(structure_of(node), RegionCall):
        return all(is_cheap(inner) for region in node.regions for inner in region.nodes)
    return node.op.kind in CHEAP_KINDS or "cheap" in node.op.traits


def dependents(nodes: Iterable[Node], sources: Iterable[Value]) -> set[Value]:
    """Every value of ``nodes`` (in order) that depends on ``sources``, and these."""
    dependent = set(sources)
    for node in nodes:
        if not dependent.isdisjoint(node.inputs):
            dependent.update(node.outputs)
    return dependent


def late_nodes(joint: Joint, late: Collection[Value]) -> list[Node]:
    """The nodes past the cotangents that the gradients need, in order; ``late`` is what depends on the cotangents."""
    needed = set(joint.gradients)
    nodes: list[Node] = []
    for node in reversed(joint.nodes):
        if any(value in late for value in node.inputs) and (has_effect(node) or not needed.isdisjoint(node.outputs)):
            needed.update(node.inputs)
            nodes.append(node)
    return nodes[::-1]


def choose(
    joint: Joint, *, free: Collection[Value] = (), stable: Collection[Value] = (), with_stacks: bool = False
) -> tuple[Value, ...]:
    """The values of the forward part to save for the backward part, in program order.

    ``free`` are those that the backward part has anyway. Whatever depends on ``stable`` inputs alone (a loop's
    invariants) is computed again rather than saved once a turn. With ``with_stacks`` the residual stacks of ``joint``
    are handed over too; without, a loop that fills one is run again in the backward part.
    """
    late = dependents(joint.nodes, joint.cotangents)
    available = set(free) | ({stack.end for stack in joint.residual_stacks} if with_stacks else set())
    producers = {value: node for node in joint.nodes for value in node.outputs}
    invariant = _stable(joint, set(stable), late)

    def fixed(value: Value) -> bool:
        node = producers.get(value)
        if node is None:
            return True
        if is_cheap(node) or (value in invariant and not has_effect(node)):
            return False
        fills = not with_stacks and any(isinstance(output.type, StackType) for output in node.outputs)
        return not fills or prints(node)

    sinks = [value for value in _read_late(joint, late) if value not in late and value not in available]
    return cheapest([*joint.inputs, *producers], producers, sinks, available, fixed)


def cheapest(
    values: Iterable[Value],
    producers: Mapping[Value, Node],
    sinks: Iterable[Value],
    available: Collection[Value],
    fixed: Callable[[Value], bool],
) -> tuple[Value, ...]:
    """The values of least cost, beside those ``available``, from which all ``sinks`` can be computed; in program order.

    ``values`` are all values in program order; ``fixed`` says of one that it is not to be computed again.
    """
    needed = set(sinks)
    sources: dict[Value, tuple[Value, ...] | None] = {}  # what a value is computed again from; None: it is not to be
    pending = list(needed)
    while pending:
        value = pending.pop()
        if value in sources:
            continue
        if fixed(value):
            sources[value] = None
        else:
            sources[value] = tuple(v for v in dict.fromkeys(producers[value].inputs) if v not in available)
            pending.extend(sources[value] or ())
    order = {value: i for i, value in enumerate(values)}
    saved: set[Value] = set()
    for part in _parts(sources, order):
        saved |= _solve(part, sources, needed)
    return tuple(sorted(saved, key=order.__getitem__))


def _stable(joint: Joint, stable: set[Value], late: set[Value]) -> set[Value]:
    if not stable:
        return set()
    invariant = set(stable)
    for node in joint.nodes:
        if all(value in invariant for value in node.inputs) and late.isdisjoint(node.outputs):
            invariant.update(node.outputs)
    return invariant


def _read_late(joint: Joint, late: set[Value]) -> set[Value]:
    """What the gradients are computed from: themselves, and the operands of every late node that they need."""
    return set(joint.gradients).union(*(node.inputs for node in late_nodes(joint, late)))


def _parts(sources: Mapping[Value, tuple[Value, ...] | None], order: Mapping[Value, int]) -> list[list[Value]]:
    """The connected parts of the network, each in program order."""
    parent = {value: value for value in sources}

    def root(value: Value) -> Value:
        while parent[value] is not value:
            parent[value] = parent[parent[value]]
            value = parent[value]
        return value

    for value, inputs in sources.items():
        for source in inputs or ():
            parent[root(source)] = root(value)
    parts: dict[Value, list[Value]] = {}
    for value in sorted(sources, key=order.__getitem__):
        parts.setdefault(root(value), []).append(value)
    return list(parts.values())


def _solve(
    part: Sequence[Value], sources: Mapping[Value, tuple[Value, ...] | None], sinks: Collection[Value]
) -> set[Value]:
    """The values of one connected part to save; windows from the last to the first where the part is large."""
    needed = set(sinks)
    saved: set[Value] = set()
    for end in range(len(part), 0, -SEGMENT):
        window = part[max(0, end - SEGMENT) : end]
        inside = set(window)
        border = {v for value in window for v in sources[value] or () if v not in inside}
        cut = _minimum_cut(window, border, sources, needed)
        saved |= cut & inside
        needed |= cut & border
    return saved


def _minimum_cut(
    window: Sequence[Value],
    border: Collection[Value],
    sources: Mapping[Value, tuple[Value, ...] | None],
    needed: Collection[Value],
) -> set[Value]:
    targets = [value for value in window if value in needed]
    if not border and all(sources[value] is not None for value in window):
        return set()
    if all(sources[value] is None for value in targets):
        return _savable(targets)
    return _cut_network(window, border, sources, needed)


def _cut_network(
    window: Sequence[Value],
    border: Collection[Value],
    sources: Mapping[Value, tuple[Value, ...] | None],
    needed: Collection[Value],
) -> set[Value]:
    enter = {value: 2 + 2 * number for number, value in enumerate((*window, *border))}  # and one more is its way out
    edges: list[Edge] = []
    for value, vertex in enter.items():
        edges.append((vertex, vertex + 1, cost(value) if isinstance(value.type, TensorType) else None))
        inputs = None if value in border else sources[value]
        if inputs is None:
            edges.append((_SOURCE, vertex, None))
        edges += [(enter[source] + 1, vertex, None) for source in inputs or ()]
        if value in needed and value not in border:
            edges.append((vertex + 1, _SINK, None))
    before = minimum_cut(2 + 2 * len(enter), edges, _SOURCE, _SINK)
    if before is None:
        raise _cannot_save(window)
    return {value for value, vertex in enter.items() if vertex in before and vertex + 1 not in before}


def _savable(values: Sequence[Value]) -> set[Value]:
    if not all(isinstance(value.type, TensorType) for value in values):
        raise _cannot_save(values)
    return set(values)


def _cannot_save(values: Sequence[Value]) -> UnsupportedOp:
    kinds = sorted({str(value.type) for value in values if not isinstance(value.type, TensorType)})
    return UnsupportedOp(
        f"a gradient needs values of type {', '.join(kinds)} of a loop that cannot be run again",
        hint="use jg.scan, whose length is known, or take what has the effect out of the while loop",
    )
