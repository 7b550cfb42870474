"""Selection: a graph becomes a schedule, each node or fused group one kernel (a few, for sorting and long sums)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from jitgraph import config
from jitgraph.codegen.kernels.coalescing import coalesce_copies
from jitgraph.codegen.kernels.schedule import HostCall, HostStep, Launch, Pop, PrintStep, Push, Schedule, ScheduleBuffer
from jitgraph.codegen.lower.building import Group, ScheduleBuilder
from jitgraph.codegen.lower.schedules.strategies import LoweringStrategies
from jitgraph.codegen.lower.statements import Storage
from jitgraph.codegen.lower.values import CREATION, MOVEMENT, Inline, elementwise_at
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.control import CarriedLoop, Conditional, structure_of
from jitgraph.ir.dims import DimLike, stays_in_64_bits
from jitgraph.ir.fault import working_on
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Kind, Lowering
from jitgraph.ir.types import TensorType
from jitgraph.location import Location
from jitgraph.passes.fuse import writes_into
from jitgraph.passes.rewriter import has_effect
from jitgraph.records import NamedTuple
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.codegen.lower.control import Held

# ----------------------------------------------------------------------
# How each op's value is computed at an index, and which of a target's lowerings makes kernels of a group.

_GATHERING: Final = "jitgraph.codegen.lower.gathering"  # imported, as reductions are, by the first graph that has some

INLINE: Final[Mapping[Kind | Lowering, Inline]] = {
    "elementwise": elementwise_at,
    **CREATION,
    **MOVEMENT,
    "random_bits": imports.function("jitgraph.codegen.lower.random_words", "random_bits_at"),
    "gather": imports.function(_GATHERING, "gather_at"),
    "dynamic_slice": imports.function(_GATHERING, "dynamic_slice_at"),
    "dynamic_update_slice": imports.function(_GATHERING, "dynamic_update_slice_at"),
    "reduce": imports.function("jitgraph.codegen.lower.reduction", "reduced_at"),
}


def anchors_of(graph: Graph, strategies: LoweringStrategies) -> list[Node]:
    """The anchors of a group: its nodes with a lowering strategy of their own."""
    return [node for node in graph.nodes if node.op.lowering in strategies.anchors]


def lower_group(builder: ScheduleBuilder, group: Group, strategies: LoweringStrategies) -> None:
    """Append the kernels of a group: by its root op where it has one, else as rows or pointwise."""
    if any("bounds_checked" in node.op.traits for node in group.graph.nodes):
        group = imports.module(_GATHERING).check_indices(builder, group)
    roots = anchors_of(group.graph, strategies)
    if not roots and any(node.op.lowering == "dynamic_update_slice" for node in group.graph.nodes):
        updating = imports.module(_GATHERING)
        update = updating.slice_update_of(group)
        if update is not None and updating.is_copied_first(builder, group, update):
            updating.lower_slice_update(builder, group, update)
            return
    if roots:
        (root,) = roots
        strategies.anchors[root.op.lowering](builder, group, root)  # type: ignore[index]
    elif any(node.op.kind == "reduce" for node in group.graph.nodes):
        strategies.rows(builder, group)
    else:
        strategies.pointwise(builder, group)


# ----------------------------------------------------------------------
# Groups that a graph has several times, such as the layers of a model: lowered once, and launched for each.
#
# A lowering reads its group alone, and names buffers that others may take the places of. So equal groups, whose inputs
# and outputs lie in buffers that are told apart in the same way, give the same launches of other buffers.


class _Lowered(NamedTuple):
    """What a group became: its launches, and its buffers, those of inputs and outputs first, then temporaries."""

    launches: tuple[Launch, ...]
    buffers: tuple[str, ...]
    temporaries: tuple[TensorType, ...]


class RepeatedGroups:
    """The groups of one schedule."""

    def __init__(self, builder: ScheduleBuilder, strategies: LoweringStrategies) -> None:
        self._builder = builder
        self._nests = strategies
        self._lowered: dict[tuple[Any, ...], _Lowered] = {}

    def lower(self, group: Group) -> None:
        """As ``families.lower_group``."""
        if not _can_be_repeated(group):
            lower_group(self._builder, group, self._nests)
            return
        storages = [*(group.inputs[value] for value in group.graph.inputs), *(storage for _, storage in group.outputs)]
        buffers = tuple(dict.fromkeys(storage.name for storage in storages))
        which = {value: number for number, value in enumerate(group.graph.outputs)}
        key = (
            group.graph.canonical,
            tuple([(buffers.index(storage.name), storage.type) for storage in storages]),
            tuple([which[value] for value, _ in group.outputs]),
            self._copied(group),
        )
        cached = self._lowered.get(key)
        if cached is not None:
            self._launch_again(cached, buffers)
        elif (lowered := self._first(group, buffers)) is not None:
            self._lowered[key] = lowered

    def _copied(self, group: Group) -> tuple[bool, ...]:
        """For a partial write, which inputs are the caller's, which it goes by (``lower/gathering.py``)."""
        if not any(node.op.lowering in ("scatter", "dynamic_update_slice") for node in group.graph.nodes):
            return ()
        roles = (self._builder.buffers[group.inputs[value].name].role for value in group.graph.inputs)
        return tuple([role in ("input", "constant") for role in roles])

    def _first(self, group: Group, buffers: tuple[str, ...]) -> _Lowered | None:
        """Lower a group, and give what it became; None where that is more than launches and temporaries."""
        builder = self._builder
        steps, before, sites = len(builder.steps), len(builder.buffers), len(builder.sites.all)
        lower_group(builder, group, self._nests)
        fresh = list(islice(reversed(builder.buffers.values()), len(builder.buffers) - before))[::-1]
        appended = builder.steps[steps:]
        launches = tuple([step for step in appended if isinstance(step, Launch)])
        if len(launches) < len(appended) or len(builder.sites.all) > sites:
            return None
        temporaries = [buffer for buffer in fresh if buffer.role == "temporary"]
        names = (*buffers, *(buffer.name for buffer in temporaries))
        return _Lowered(launches, names, tuple([buffer.type for buffer in temporaries]))

    def _launch_again(self, lowered: _Lowered, buffers: Iterable[str]) -> None:
        builder = self._builder
        fresh = [builder.temporary(type).name for type in lowered.temporaries]
        renames = dict(zip(lowered.buffers, (*buffers, *fresh), strict=True))
        for launch in lowered.launches:  # constants stay where they are
            names = tuple([renames.get(name, name) for name in launch.buffers])
            builder.steps.append(Launch(launch.kernel, names, builder.location, builder.lines))


def _can_be_repeated(group: Group) -> bool:
    """Whether no error in it names a line of the user's, and no buffer is a slice of another."""
    if any(storage.slot is not None for storage in (*group.inputs.values(), *(output for _, output in group.outputs))):
        return False
    return not any(has_effect(node) or "bounds_checked" in node.op.traits for node in group.graph.nodes)


# ----------------------------------------------------------------------
# Selection: a graph becomes a schedule, each node or fused group one kernel (a few, for sorting and long sums).

_COALESCING_VERIFIER: Final = "jitgraph.codegen.kernels.coalescing_verifier"  # most processes never verify
_MATRICES: Final = "jitgraph.codegen.lower.matrices.lowerings"
_CONTROL: Final = "jitgraph.codegen.lower.control"  # imported, as prints are, by the first graph that has some


def select(
    graph: Graph,
    strategies: LoweringStrategies,
    *,
    fastmath: bool = False,
    alone: bool = False,
    verify: bool | None = None,
    given_away: Collection[int] = (),
) -> Schedule:
    """The schedule of a graph without ``grad`` nodes by a target's strategies; UnsupportedOp for an op without one.

    Buffers come in the order inputs, then the rest; composites that are still there are lowered by their regions. With
    ``alone`` there is no Python to call, and matrices are factored by the kernels of ``lower/matrices``. With
    ``verify`` (by default under JITGRAPH_VERIFY) it is proved that the schedule needs none of the copies it leaves out.
    ``given_away`` are inputs that the call may be allowed to overwrite: where a part of them is written their copies
    are launches of their own, behind checks of indices, so that a call can do without.
    """
    schedule = select_with_copies(graph, strategies, fastmath=fastmath, alone=alone, given_away=given_away)
    coalesced = coalesce_copies(schedule)
    if coalesced.schedule is not schedule and (config.VERIFY.is_on() if verify is None else verify):
        imports.module(_COALESCING_VERIFIER).verify_coalescing(schedule, coalesced.schedule, coalesced.names)
    return coalesced.schedule


def select_with_copies(
    graph: Graph,
    strategies: LoweringStrategies,
    *,
    fastmath: bool = False,
    alone: bool = False,
    given_away: Collection[int] = (),
) -> Schedule:
    """As ``select``, with all copies: of carries, of what branches give, and of the operands of partial writes."""
    builder = ScheduleBuilder(strategies.heuristics, INLINE, fastmath=fastmath)
    env: dict[Value, Held] = {}
    for position, value in enumerate(graph.inputs):
        env[value] = builder.storage(ScheduleBuffer(f"in{position}", _tensor(value, "an input"), "input", position))
    results = [
        builder.storage(ScheduleBuffer(f"out{position}", _tensor(value, "an output"), "output", position))
        for position, value in enumerate(graph.outputs)
    ]
    if given_away and writes_into(graph, {graph.inputs[i] for i in given_away}):
        builder.given_away = frozenset(f"in{i}" for i in given_away)
    Selector(builder, strategies, alone=alone).region(graph, env, results)
    return Schedule(
        graph.name,
        tuple(builder.buffers.values()),
        tuple(builder.steps),
        sizes_of(graph),
        graph.constraints,
        tuple(builder.sites.all),
        tuple(builder.stacks),
        prints=tuple(builder.prints),
        calls=tuple(builder.calls),
        numbers=tuple(builder.numbers.all),
        extents=_long_extents(graph),
    )


def _lines_of(node: Node) -> tuple[Location, ...]:
    """The lines of the user that a node came from, in order; those of a fused one are those of the ops in it."""
    fused = node.regions if "one_kernel" in node.op.traits else ()
    sites = {node.location, *(inner.location for region in fused for inner in region.walk())}
    return tuple(sorted((site for site in sites if site is not None), key=lambda site: (site.file, site.line)))


def sizes_of(graph: Graph) -> tuple[str, ...]:
    """The names of symbolic sizes, in the order in which the inputs' shapes mention them."""
    sizes: dict[str, None] = {}
    for value in graph.inputs:
        for extent in value.shape if isinstance(value.type, TensorType) else ():
            sizes.update(dict.fromkeys(sorted(dims.names(extent))))
    return tuple(sizes)


def _long_extents(graph: Graph) -> tuple[DimLike, ...]:
    """The extents of values, those inside of regions too, that may leave 64 bits by what a call gives; each once.

    One that is written out is no error: what is never stored may have any.
    """
    types = [value.type for node in graph.walk() for value in node.outputs]
    extents = dict.fromkeys(extent for type in types if isinstance(type, TensorType) for extent in type.shape)
    return tuple([extent for extent in extents if not isinstance(extent, int) and not stays_in_64_bits(extent)])


def _tensor(value: Value, what: str) -> TensorType:
    if not isinstance(value.type, TensorType):
        raise CompileError(f"{what} of the graph is a {value.type}; compiled code takes and gives tensors alone")
    return value.type


class Selector:
    """Lowers the nodes of a region in order, and the regions inside them."""

    def __init__(self, builder: ScheduleBuilder, strategies: LoweringStrategies, *, alone: bool = False) -> None:
        self.alone = alone
        self.builder = builder
        self.nests = strategies
        self.groups = RepeatedGroups(builder, strategies)

    def region(self, graph: Graph, env: Mapping[Value, Held], results: Sequence[Held | None]) -> list[Held]:
        """Append the steps of a region whose inputs are where ``env`` says; its outputs go to ``results``.

        Where a result is None the output may be anywhere. Returns where the outputs are.
        """
        bindings = dict(env)
        requested: dict[Value, list[Storage]] = {}
        for value, result in zip(graph.outputs, results, strict=True):
            if isinstance(result, Storage):
                requested.setdefault(value, []).append(result)
        for node in reversed(graph.nodes):  # a view of a value lies where the value does
            if "alias" in node.op.traits:
                for dest in requested.get(node.output, ()):
                    source = node.inputs[0]
                    requested.setdefault(source, []).append(replace(dest, type=source.tensor))
        written: set[str] = set()
        for node in graph.nodes:
            with working_on(node.regions[0].name if "one_kernel" in node.op.traits else node.op.name, node.location):
                self.builder.location, self.builder.lines = node.location, _lines_of(node)
                self._node(graph, node, bindings, requested, written)
        outputs: list[Held] = []
        copies: list[tuple[Value, Storage]] = []
        for value, result in zip(graph.outputs, results, strict=True):
            if isinstance(result, Storage) and result.name not in written:
                copies.append((value, result))
            outputs.append(result if isinstance(result, Storage) else bindings[value])
        self.copy([(self._storage(bindings, value), result) for value, result in copies])
        return outputs

    def _node(
        self,
        graph: Graph,
        node: Node,
        bindings: dict[Value, Held],
        requested: Mapping[Value, list[Storage]],
        written: set[str],
    ) -> None:
        if node.op.kind == "gradient":
            raise CompileError("a gradient is still there", location=node.location, hint="run the autodiff pass first")
        if "alias" in node.op.traits:
            bindings[node.output] = replace(self._storage(bindings, node.inputs[0]), type=node.output.tensor)
            return
        match node.op.lowering:
            case "token":
                bindings[node.output] = ""
                return
            case "stack_new":
                bindings[node.output] = self.builder.stack()
                return
            case "stack_push":
                stack = bindings[node.inputs[0]]
                assert isinstance(stack, str)
                self.builder.steps.append(Push(stack, self.whole(self._storage(bindings, node.inputs[1])).name))
                bindings[node.output] = stack
                return
            case "print":
                shown = [self.whole(self._storage(bindings, value)) for value in node.inputs[1:]]
                attrs: Any = node.attrs
                types = [storage.type for storage in shown]
                site = imports.module("jitgraph.ops.effects").print_site(types, location=node.location, **attrs)
                self.builder.steps.append(PrintStep(len(self.builder.prints), tuple(storage.name for storage in shown)))
                self.builder.prints.append(site)
                bindings[node.output] = ""
                return
        used = [value for value in node.outputs if value in graph.uses or value in graph.outputs]
        dests: list[Held] = []
        for value in node.outputs:
            if not isinstance(value.type, TensorType):
                dests.append("")
            elif value in requested:
                dests.append(requested[value][0])
                written.add(requested[value][0].name)
            else:
                dests.append(self.builder.temporary(_tensor(value, f"an output of {node.op.name}")))
        operands = [bindings[value] for value in node.inputs]
        match structure_of(node):
            case None if node.op.lowering == "host" and node.op.alone is not None and self.alone:
                self._matrices(node, operands, dests)
            case None if node.op.lowering == "host":
                self._host(node, operands, dests)
            case None if node.op.lowering == "stack_pop":
                self._pop(operands, dests)
            case Conditional():
                dests = imports.module(_CONTROL).lower_cond(self, node, operands, dests)
            case CarriedLoop() as loop:
                results = imports.module(_CONTROL).lower_loop(self, loop, operands, dests)
                pairs = zip(results, dests, strict=True)
                self.copy([(a, b) for a, b in pairs if isinstance(a, Storage) and isinstance(b, Storage) and a != b])
                dests = results
            case _ if node.regions and "one_kernel" not in node.op.traits:
                body = node.regions[0]
                dests = self.region(body, dict(zip(body.inputs, operands, strict=True)), dests)
            case _:
                self._group(node, bindings, dict(zip(node.outputs, dests, strict=True)), used, requested, written)
        bindings.update(zip(node.outputs, dests, strict=True))

    def _pop(self, operands: Sequence[Held], dests: list[Held]) -> None:
        stack, popped = operands[0], dests[1]
        assert isinstance(stack, str) and isinstance(popped, Storage)
        if popped.slot is None:
            self.builder.steps.append(Pop(stack, popped.name))
        else:
            full = self.builder.temporary(popped.type)
            self.builder.steps.append(Pop(stack, full.name))
            self.copy([(full, popped)])
        dests[0] = stack

    def _matrices(self, node: Node, operands: Sequence[Held], dests: Sequence[Held]) -> None:
        """A kernel of matrices, which takes and gives whole buffers."""
        reads, results = self._whole_buffers(operands, dests)
        imports.module(_MATRICES).lower_matrices(self.builder, node, reads, results)
        self._put(results, dests)

    def _whole_buffers(self, operands: Sequence[Held], dests: Sequence[Held]) -> tuple[list[Storage], list[Storage]]:
        reads, results = [], []
        for operand in operands:
            assert isinstance(operand, Storage)
            reads.append(self.whole(operand))
        for dest in dests:
            assert isinstance(dest, Storage)
            results.append(dest if dest.slot is None else self.builder.temporary(dest.type))
        return reads, results

    def _put(self, results: Sequence[Storage], dests: Sequence[Held]) -> None:
        pairs = zip(results, dests, strict=True)
        self.copy([(result, dest) for result, dest in pairs if isinstance(dest, Storage) and result != dest])

    def _host(self, node: Node, operands: Sequence[Held], dests: Sequence[Held]) -> None:
        """A call of Python, which takes and gives whole buffers."""
        reads, results = self._whole_buffers(operands, dests)
        call = HostCall(
            node.op,
            node.attrs,
            tuple(value.tensor for value in node.inputs),
            tuple(value.tensor for value in node.outputs),
            node.location,
        )
        step = HostStep(
            len(self.builder.calls), tuple(x.name for x in reads), tuple(storage.name for storage in results)
        )
        self.builder.steps.append(step)
        self.builder.calls.append(call)
        self._put(results, dests)

    def _group(
        self,
        node: Node,
        bindings: Mapping[Value, Held],
        dests: Mapping[Value, Held],
        used: Sequence[Value],
        requested: Mapping[Value, list[Storage]],
        written: set[str],
    ) -> None:
        """One node, or a fused one, as kernels; an output that is wanted in several places is stored in each."""
        graph = node.regions[0] if node.regions else single(node)
        inner = graph.outputs if node.regions else node.outputs
        inputs = graph.inputs if node.regions else tuple(dict.fromkeys(node.inputs))
        outer = node.inputs if node.regions else inputs
        unfused = any(n.regions or n.op.lowering == "host" for n in graph.nodes)  # what no kernel holds
        if len(anchors_of(graph, self.nests)) > 1 or unfused:
            self.region(
                graph, dict(zip(inputs, (bindings[v] for v in outer), strict=True)), [dests[v] for v in node.outputs]
            )
            return
        outputs = []
        for value, inside in zip(node.outputs, inner, strict=True):
            dest = dests[value]
            if value in used and isinstance(dest, Storage):
                outputs.append((inside, dest))
                for other in requested.get(value, [])[1:]:
                    outputs.append((inside, other))
                    written.add(other.name)
        storages = {inside: self._storage(bindings, value) for inside, value in zip(inputs, outer, strict=True)}
        if not outputs and not has_effect(node):
            return
        self.groups.lower(Group(graph, storages, tuple(outputs)))

    def _storage(self, bindings: Mapping[Value, Held], value: Value) -> Storage:
        storage = bindings[value]
        if not isinstance(storage, Storage):
            raise UnsupportedOp(f"a {value.type} is used as a tensor")
        return storage

    def whole(self, storage: Storage) -> Storage:
        """The storage, or a copy of it where it is one slice of a buffer."""
        if storage.slot is None:
            return storage
        copy = self.builder.temporary(storage.type)
        self.copy([(storage, copy)])
        return copy

    def copy(self, pairs: Sequence[tuple[Storage, Storage]]) -> None:
        """Copy each first storage to the second; no storage is both read and written."""
        for source, result in pairs:
            value = Value(source.type)
            graph = Graph((value,), (), (value,))
            lower_group(self.builder, Group(graph, {value: source}, ((value, result),)), self.nests)


def single(node: Node) -> Graph:
    """A region of one node."""
    return Graph(tuple(dict.fromkeys(node.inputs)), (node,), node.outputs, (), node.op.name)
