"""Evaluator: the value of any tensor of a region at an index, as statements of the kernel being written."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import SIZE_NUMBER, Let, Var, statements_of
from jitgraph.codegen.kernels.schedule import CheckSite, NumberKind, SizeNumber
from jitgraph.codegen.lower.recorder import KernelRecorder, apply_scalar, converted
from jitgraph.codegen.lower.schedules.heuristics import Heuristics, RowMaterialisation
from jitgraph.codegen.lower.statements import ScalarOps, Storage
from jitgraph.dtypes import DType, bool_
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.dims import Dim, DimLike, stays_in_64_bits
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Kind, Lowering

# ----------------------------------------------------------------------
# Values of a row that several loops read, kept where computing them again costs more than a store and a load.
#
# A softmax sums exp(x - max) in one loop and divides it by the sum in the next: the first loop that computes such a
# value stores the row in a local buffer, and the loops after it load it. The buffer is on the stack, or in the thread's
# scratch memory where it is long, and lies in the cache while the row is worked on.


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


# ----------------------------------------------------------------------
# Evaluator: the value of any tensor of a region at an index, as statements of the kernel being written.
#
# Elementwise ops are inlined by their scalar bodies, movement and indexing ops by index maps, creation ops by the
# index, inputs by loads, reductions by loops of their own. A value is computed once for each index at which it is asked
# for.
#
# ``mask`` says where the value is wanted: elsewhere nothing is read or checked, and what comes out means nothing.

Index = tuple[DimLike, ...]
Inline = Callable[["Evaluator", Node, int, Index, "Var | None"], Var]


class Sites:
    """The table of check sites of the schedule being made; equal sites stand in it once."""

    def __init__(self) -> None:
        self.all: list[CheckSite] = []

    def number(self, site: CheckSite) -> int:
        """The position of ``site`` in the table."""
        if site not in self.all:
            self.all.append(site)
        return self.all.index(site)


class SizeNumbers:
    """The numbers that the entry of the schedule being made computes of the sizes; equal ones stand there once."""

    def __init__(self) -> None:
        self.all: list[SizeNumber] = []

    def read(self, recorder: KernelRecorder, dim: Dim, kind: NumberKind) -> Var:
        """``dim`` as an int64 (the bits of an unsigned one, too), or as a float64, in a kernel."""
        size_number = next((number for number in self.all if (number.dim, number.kind) == (dim, kind)), None)
        if size_number is None:
            size_number = SizeNumber(f"{SIZE_NUMBER}{len(self.all)}", dim, kind)
            self.all.append(size_number)
        number = recorder.index_value(Dim.name(size_number.name))
        return ScalarOps(recorder, number.dtype).bitcast(number, dtypes.float64) if kind == "float" else number


class Evaluator:
    """Values of one region.

    ``storages`` are the buffers of its inputs, ``constants`` makes one for a large constant, ``table`` says how the
    value of an op is computed at an index, by the op's lowering or else its kind. The indices of nodes in ``checked``
    are known to be in range.
    """

    def __init__(
        self,
        recorder: KernelRecorder,
        graph: Graph,
        storages: Mapping[Value, Storage],
        constants: Callable[[Node], Storage],
        sites: Sites,
        numbers: SizeNumbers,
        table: Mapping[Kind | Lowering, Inline],
        decisions: Heuristics,
        checked: frozenset[Node] = frozenset(),
    ) -> None:
        self.recorder = recorder
        self.graph = graph
        self.storages = dict(storages)
        self.constants = constants
        self.sites = sites
        self.numbers = numbers
        self.table = table
        self.decisions = decisions
        self.checked = checked
        self.kept: dict[Value, MaterialisedRow] = {}

    def at(self, value: Value, index: Sequence[DimLike], mask: Var | None = None) -> Var:
        """``value[index]`` as a scalar of its dtype.

        A tensor without elements has none to be read: code that asks for one stands in a loop that never turns.
        """
        if 0 in value.shape:
            return ScalarOps(self.recorder, value.dtype).const(0)
        element = tuple(0 if extent == 1 else dim for dim, extent in zip(index, value.shape, strict=True))
        key = (id(value), element, mask)
        known = self.recorder.recall(key)
        if known is not None:
            return known[0]
        if value in self.storages:
            result = self.recorder.load(self.storages[value], offset(element, value.shape), mask)
        elif value in self.kept and mask is None:
            result = self.kept[value].at(element, lambda: self._computed(value, element, None))
        else:
            result = self._computed(value, element, mask)
        self.recorder.remember(key, (result,))
        return result

    def _computed(self, value: Value, index: Index, mask: Var | None) -> Var:
        node = self.graph.producers[value]
        return self._inline(node)(self, node, node.outputs.index(value), index, mask)

    def materialise(self, value: Value, axis: int, row: Index) -> None:
        """Keep ``value`` along ``axis`` of the row at ``row``, in the innermost block, for all loops that read it."""
        index = list(row)
        index.insert(axis, 0)
        fixed = tuple(0 if extent == 1 else dim for dim, extent in zip(index, value.shape, strict=True))
        self.kept[value] = MaterialisedRow(self.recorder, value, axis, (*fixed[:axis], *fixed[axis + 1 :]))

    def define(self, value: Value, index: Sequence[DimLike], var: Var) -> None:
        """Let ``value[index]`` be a scalar that is already there."""
        element = tuple(0 if extent == 1 else dim for dim, extent in zip(index, value.shape, strict=True))
        self.recorder.remember((id(value), element, None), (var,))

    def _inline(self, node: Node) -> Inline:
        inline = self.table.get(node.op.lowering or node.op.kind)
        if inline is None:
            raise UnsupportedOp(f"{node.op.name} cannot be computed element by element", location=node.location)
        return inline


def elementwise_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    return apply_scalar(values.recorder, node, [values.at(value, index, mask) for value in node.inputs])


def _full_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    value: Any = node.attrs["value"]
    if isinstance(value, Dim):
        return _size_in(values, value, node.output.dtype)
    return ScalarOps(values.recorder, node.output.dtype).const(value)


def _size_in(values: Evaluator, size: Dim, dtype: DType) -> Var:
    """A size in ``dtype``: in a float the nearest one to the nearest float64, as Python and NumPy round an int."""
    recorder, wide = values.recorder, not stays_in_64_bits(size)
    if dtypes.is_float(dtype):
        ops = ScalarOps(recorder, dtypes.int64)
        number = values.numbers.read(recorder, size, "float") if wide else recorder.index_value(size)
        return ops.cast(ops.cast(number, dtypes.float64), dtype)
    kind: NumberKind = "uint" if dtype == dtypes.uint64 else "int"
    number = values.numbers.read(recorder, size, kind) if wide else recorder.index_value(size)
    return converted(recorder, number, dtype)


def _iota_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    axis: Any = node.attrs["axis"]
    return converted(values.recorder, values.recorder.index_value(index[axis]), node.output.dtype)


def _constant_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    value: Any = node.attrs["value"]
    if value.value.size == 1:
        return ScalarOps(values.recorder, node.output.dtype).const(value.value.reshape(()).item())
    return values.recorder.load(values.constants(node), offset(index, node.output.shape), mask)


CREATION: dict[Kind | Lowering, Inline] = {
    "full": _full_at,
    "iota": _iota_at,
    "constant": _constant_at,
}


# ----------------------------------------------------------------------
# Movement ops as index maps: where an element of the output comes from.


def both(recorder: KernelRecorder, left: Var | None, right: Var | None) -> Var | None:
    """The conjunction of two masks; None is true everywhere."""
    if left is None or right is None:
        return left if right is None else right
    return ScalarOps(recorder, bool_).and_(left, right)


def at_least(recorder: KernelRecorder, index: DimLike, bound: DimLike) -> Var | None:
    """The mask ``index >= bound``; None where that is known to hold."""
    low, _ = recorder.ranges.bounds(index)
    if low is not None and recorder.ranges.nonnegative(low - bound):
        return None
    ops = ScalarOps(recorder, bool_)
    return ops.cmp("ge", recorder.index_value(index), recorder.index_value(bound))


def below(recorder: KernelRecorder, index: DimLike, bound: DimLike) -> Var | None:
    """The mask ``index < bound``; None where that is known to hold."""
    _, high = recorder.ranges.bounds(index)
    if high is not None and recorder.ranges.nonnegative(bound - 1 - high):
        return None
    ops = ScalarOps(recorder, bool_)
    return ops.cmp("lt", recorder.index_value(index), recorder.index_value(bound))


def moved_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """The element that the op's index map names: of its reads, the first one whose condition holds."""
    recorder = values.recorder
    assert node.op.index_map is not None
    reads: Any = node.op.index_map(index, *(value.type for value in node.inputs), **node.attrs)
    candidates: list[tuple[Var | None, Var]] = []
    left = mask  # where no earlier read was taken
    for read in reads:
        operand = node.inputs[read.operand]
        if len(reads) > 1 and any(extent == 0 for extent in operand.shape):
            continue
        condition: Var | None = None
        for one, relation, other in read.condition:
            holds = at_least(recorder, one, other) if relation == ">=" else below(recorder, one, other)
            condition = both(recorder, condition, holds)
        # A 0-d operand is there at every index, so reading it needs no mask and can leave the loop.
        here = both(recorder, left, condition) if operand.shape else None
        source = tuple(recorder.ranges.simplify(dim) for dim in read.index)
        candidates.append((condition, values.at(operand, source, here)))
        if condition is None:
            break
        left = both(recorder, left, ScalarOps(recorder, bool_).not_(condition))
    _, result = candidates.pop()
    for condition, value in reversed(candidates):
        assert condition is not None
        result = ScalarOps(recorder, value.dtype).select(condition, value, result)
    return result


MOVEMENT: dict[Kind | Lowering, Inline] = {"movement": moved_at}
