"""Random well-typed programs over the op table, as a hypothesis strategy, and how to judge two runs of one.

``programs()`` yields ``(graph, arrays)``: every op (by construction or by its samples), every dtype, rank 0 to 4,
sizes 0 and 1, views, broadcasts, named sizes, and cond, while, scan and call with bodies of their own.

What can be judged: results of *exact* ops have one right answer, bit for bit, float sums in their order among them. The
others (contractions and transcendental functions) depend on the last bits of an approximation; they are only applied to
tame values (random in -2 .. 2), and only moved about afterwards, so that a small tolerance is enough for every output.
Running extremes of floats count among the others, since which of -0.0 and 0.0 they give depends on order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jitgraph import ops
from jitgraph.dtypes import DTYPES, DType, bool_, float16, float32, float64, int64, is_bool, is_float
from jitgraph.errors import DTypeError, ShapeError
from jitgraph.ir import context, dims
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.op import Op
from jitgraph.ir.types import Constant, TensorType
from jitgraph.ops import OPS
from jitgraph.ops.sampling import edges

Arrays = list[np.ndarray[Any, Any]]

MAX_ELEMENTS = 700
MAX_RANK = 4
EXACT = frozenset(
    {
        "abs",
        "neg",
        "sign",
        "add",
        "sub",
        "mul",
        "div",
        "maximum",
        "minimum",
        "floor_divide",
        "remainder",
        "sqrt",
        "floor",
        "ceil",
        "rint",
        "trunc",
        "eq",
        "ne",
        "lt",
        "le",
        "gt",
        "ge",
        "select",
        "cast",
        "bitcast",
        "stop_gradient",
        "argmax",
        "argmin",
        "reduce_sum",
        "reduce_prod",
        "reduce_max",
        "reduce_min",
        "sort",
        "gather",
        "scatter",
        "dynamic_slice",
        "dynamic_update_slice",
        "iota",
        "full",
        "constant",
        "random_bits",
    }
)
EXTREMES = frozenset({"cummax", "cummin"})
NOT_SAMPLED = frozenset({"grad", "fused", "print", "token", "stack_new", "stack_push", "stack_pop", "check"})


def is_exact(node: Node) -> bool:
    """Whether the node's results have one right answer, given its operands."""
    if node.regions:
        return all(is_exact(inner) for region in node.regions for inner in region.nodes)
    if node.op.name not in EXTREMES and (node.op.name in EXACT or node.op.kind in ("movement", "effect", "other")):
        return True
    return not any(isinstance(v.type, TensorType) and is_float(v.dtype) for v in (*node.inputs, *node.outputs))


def inexact_outputs(graph: Graph) -> list[bool]:
    """For each output, whether it comes from an op that is not exact."""
    inexact: set[Value] = set()
    for node in graph.nodes:
        if not is_exact(node) or any(value in inexact for value in node.inputs):
            inexact.update(node.outputs)
    return [value in inexact for value in graph.outputs]


def assert_same(graph: Graph, actual: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Judge the outputs of two runs of ``graph``: bit for bit (NaN is NaN), with a tolerance where it is not exact."""
    for i, (a, b, loose) in enumerate(zip(actual, wanted, inexact_outputs(graph), strict=True)):
        assert a.dtype == b.dtype, f"output {i}: {a.dtype} and {b.dtype}"
        assert a.shape == b.shape, f"output {i}: {a.shape} and {b.shape}"
        if not is_float(a.dtype):
            np.testing.assert_array_equal(a, b, err_msg=f"output {i}")
            continue
        x, y = a.astype(np.float64), b.astype(np.float64)
        if loose:
            tolerance = {float64: 1e-11, float32: 1e-5, float16: 4e-3}.get(a.dtype, 3e-2)
            finite = np.abs(y[np.isfinite(y)])
            np.testing.assert_allclose(
                x, y, rtol=tolerance, atol=tolerance * float(finite.max(initial=1.0)), err_msg=f"output {i}"
            )
        else:
            np.testing.assert_array_equal(x, y, err_msg=f"output {i}")
            numbers = ~np.isnan(y)
            np.testing.assert_array_equal(np.signbit(x)[numbers], np.signbit(y)[numbers], err_msg=f"output {i}: sign")


@cache
def samples_of(op: Op, dtype: DType) -> tuple[Any, ...]:
    """The op's samples whose operands are all arrays of moderate size."""
    assert op.samples is not None
    return tuple(
        sample
        for sample in op.samples(dtype)
        if op.name not in ("complex", "of_pairs", "rfft")
        and not any(np.iscomplexobj(x) for x in sample.inputs)  # whose buffers passes change
        and all(isinstance(x, np.ndarray | np.generic) and np.asarray(x).size <= MAX_ELEMENTS for x in sample.inputs)
    )


@cache
def arity(op: Op) -> int:
    """The number of operands of an op that has samples."""
    return next(len(sample.inputs) for dtype in DTYPES for sample in samples_of(op, dtype))


ELEMENTWISE = [op for op in OPS.values() if op.kind == "elementwise" and op.name not in ("select", "cast", "bitcast")]
SAMPLED = [
    op
    for op in OPS.values()
    if op.samples is not None
    and op.name not in NOT_SAMPLED
    and op.lowering != "host"
    and any(samples_of(op, dtype) for dtype in DTYPES)
]


@dataclass(frozen=True)
class Slot:
    """A value that may be used further. Inexact ones are only moved; only tame ones become inexact."""

    value: Value
    tame: bool
    exact: bool = True


class Maker:
    """Draws one program, or the body of a region of it."""

    def __init__(self, draw: Any, dtypes: Sequence[DType], sizes: dict[str, int], depth: int) -> None:
        self.draw = draw
        self.dtypes = dtypes
        self.sizes = sizes
        self.depth = depth
        self.inside = False  # a region: closed, so it takes no new inputs
        self.builder = GraphBuilder()
        self.slots: list[Slot] = []
        self.arrays: Arrays = []

    def integer(self, low: int, high: int) -> int:
        return int(self.draw(st.integers(low, high)))

    def choice(self, items: Sequence[Any]) -> Any:
        return items[self.integer(0, len(items) - 1)]

    def pick(self, accept: Callable[[Slot], bool] = lambda slot: slot.exact) -> Slot | None:
        results = [slot for slot in self.slots if isinstance(slot.value.type, TensorType) and accept(slot)]
        return self.choice(results) if results else None

    def concrete(self, shape: Sequence[Any]) -> tuple[int, ...]:
        return tuple(dims.evaluate(dim, self.sizes) for dim in shape)

    def emit(self, op: Op, slots: Sequence[Slot], regions: Sequence[Graph] = (), **attrs: Any) -> list[Slot]:
        """Apply an op; nothing happens where its rule, or what can be judged, forbids it."""
        values = [slot.value for slot in slots]
        known = len(list(self.builder.constraints))
        assert known == 0
        trial = GraphBuilder()
        try:
            with context.using(emitter=trial, constraints=trial.constraints):
                op(*values, regions=regions, **attrs)
        except (ShapeError, DTypeError):
            return []
        (node,) = trial.nodes
        if list(trial.constraints) or not self.is_judged(node, slots):
            return []
        self.builder.nodes.append(node)
        exact = all(slot.exact for slot in slots) and is_exact(node)
        tame = all(slot.tame for slot in slots) and exact and bool(slots) and node.op.kind == "movement"
        results = [Slot(value, tame, exact) for value in node.outputs]
        self.slots += results
        return results

    def is_judged(self, node: Node, slots: Sequence[Slot]) -> bool:
        for value in node.outputs:
            if isinstance(value.type, TensorType) and (
                len(value.shape) > MAX_RANK or math.prod(self.concrete(value.shape)) > MAX_ELEMENTS
            ):
                return False
        if is_exact(node):
            return node.op.kind == "movement" or all(slot.exact for slot in slots)
        return all(slot.exact and (slot.tame or not is_float(slot.value.dtype)) for slot in slots)

    def supply(self, array: np.ndarray[Any, Any], type: TensorType | None = None, *, tame: bool) -> Slot:
        """``array`` as an input, or as a constant in a region."""
        type = type or TensorType(array.dtype, array.shape)
        if self.inside:
            with context.using(emitter=self.builder, constraints=self.builder.constraints):
                value = ops.constant(value=Constant(array))
        else:
            value = self.builder.input(type)
            self.arrays.append(array)
        self.slots.append(Slot(value, tame))
        return self.slots[-1]

    def random_array(self, dtype: DType, shape: tuple[int, ...], tame: bool) -> np.ndarray[Any, Any]:
        rng = np.random.default_rng(self.integer(0, 2**16))
        if is_bool(dtype):
            return np.asarray(rng.integers(0, 2, shape).astype(bool))
        if not tame:
            return np.asarray(rng.choice(edges(dtype), shape))
        if is_float(dtype):
            return np.asarray(rng.uniform(-2, 2, shape).astype(dtype))
        return np.asarray(rng.integers(-3 if dtype.kind == "i" else 0, 4, shape).astype(dtype))

    def fresh(self) -> list[Slot]:
        """A new input (a constant in a region), its shape concrete or with named sizes."""
        shape = tuple(
            Dim.name(self.choice(sorted(self.sizes)))
            if not self.inside and self.integer(0, 3) == 0
            else self.integer(0, 4)
            for _ in range(self.choice([0, 1, 1, 2, 2, 3, 4]))
        )
        dtype, tame = self.choice(self.dtypes), bool(self.integer(0, 1))
        if math.prod(self.concrete(shape)) > MAX_ELEMENTS:
            return []
        array = self.random_array(dtype, self.concrete(shape), tame)
        return [self.supply(array, TensorType(dtype, shape), tame=tame)]

    def sampled(self) -> list[Slot]:
        """An op with one of its samples; operands of the right type are taken from the program where there are any."""
        op = self.choice(SAMPLED)
        supported = [dtype for dtype in self.dtypes if samples_of(op, dtype)]
        if not supported:
            return []
        sample = self.choice(samples_of(op, self.choice(supported)))
        slots = []
        for x in map(np.asarray, sample.inputs):
            type = TensorType(x.dtype, x.shape)
            same = [slot for slot in self.slots if slot.value.type == type and slot.exact]
            if same and op.kind != "indexing" and x.dtype not in (int64, np.uint64) and self.integer(0, 1):
                slots.append(self.choice(same))
            else:
                slots.append(self.supply(x, tame=sample.differentiable))
        return self.emit(op, slots, sample.regions, **sample.attrs)

    def elementwise(self) -> list[Slot]:
        op, x = self.choice(ELEMENTWISE), self.pick()
        if x is None:
            return []
        return self.emit(op, [x, *(self.alike(x) for _ in range(arity(op) - 1))])

    def alike(self, x: Slot) -> Slot:
        """A slot of the same type."""
        return self.choice([slot for slot in self.slots if slot.value.type == x.value.type and slot.exact])

    def chosen(self) -> list[Slot]:
        """select by a comparison."""
        x = self.pick()
        if x is None:
            return []
        relation = self.emit(self.choice([ops.eq, ops.ne, ops.lt, ops.ge]), [x, self.alike(x)])
        return self.emit(ops.select, [*relation, self.alike(x), self.alike(x)]) if relation else []

    def converted(self) -> list[Slot]:
        x = self.pick()
        if x is None:
            return []
        op = self.choice([ops.cast, ops.cast, ops.bitcast])
        return self.emit(op, [x], dtype=self.choice(self.dtypes))

    def moved(self) -> list[Slot]:
        x = self.pick(lambda slot: True)
        if x is None:
            return []
        way = self.choice([self.reshaped, self.transposed, self.broadcasted, self.sliced, self.flipped, self.joined])
        return way(x) if not isinstance(x.value.type, TensorType) or x.value.shape or way == self.broadcasted else []

    def reshaped(self, x: Slot) -> list[Slot]:
        shape = list(x.value.shape)
        if self.integer(0, 1):
            at = self.integer(0, len(shape) - 1)
            shape[at : at + 2] = [dims.product(shape[at : at + 2])]
        if self.integer(0, 1):
            shape.insert(self.integer(0, len(shape)), 1)
        return self.emit(ops.reshape, [x], shape=tuple(shape))

    def transposed(self, x: Slot) -> list[Slot]:
        return self.emit(ops.transpose, [x], permutation=tuple(self.draw(st.permutations(range(len(x.value.shape))))))

    def broadcasted(self, x: Slot) -> list[Slot]:
        shape: list[Any] = [self.integer(0, 3) if dim == 1 else dim for dim in x.value.shape]
        axes = list(range(len(shape)))
        for _ in range(self.integer(0, 2)):
            at = self.integer(0, len(shape))
            shape.insert(at, self.integer(0, 3))
            axes = [axis + (axis >= at) for axis in axes]
        return self.emit(ops.broadcast, [x], shape=tuple(shape), axes=tuple(axes))

    def sliced(self, x: Slot) -> list[Slot]:
        starts, stops, strides = [], [], []
        for dim in x.value.shape:
            full = isinstance(dim, Dim)
            starts.append(0 if full else self.integer(0, dim))
            stops.append(dim if full else self.integer(starts[-1], dim))
            strides.append(1 if full else self.integer(1, 3))
        return self.emit(ops.slice, [x], starts=tuple(starts), stops=tuple(stops), strides=tuple(strides))

    def flipped(self, x: Slot) -> list[Slot]:
        axes = [axis for axis in range(len(x.value.shape)) if self.integer(0, 1)]
        return self.emit(ops.flip, [x], axes=tuple(axes))

    def joined(self, x: Slot) -> list[Slot]:
        if self.integer(0, 1):
            same = [slot for slot in self.slots if slot.value.type == x.value.type]
            return self.emit(ops.concat, [x, self.choice(same)], axis=self.integer(0, len(x.value.shape) - 1))
        filler = self.supply(self.random_array(x.value.dtype, (), True), tame=True)
        amounts = [tuple(self.integer(0, 2) for _ in x.value.shape) for _ in range(3)]
        return self.emit(ops.pad, [x, filler], low=amounts[0], high=amounts[1], interior=amounts[2])

    def reduced(self) -> list[Slot]:
        x = self.pick(lambda slot: slot.exact and bool(slot.value.shape))
        if x is None:
            return []
        rank = len(x.value.shape)
        axis = self.integer(0, rank - 1)
        axes = tuple(sorted({axis, *(i for i in range(rank) if self.integer(0, 1))}))
        op = self.choice([op for op in OPS.values() if op.kind in ("reduce", "cumulative")] + _ALONG_AXIS)
        if op.name == "sort":
            return self.emit(op, [x], axis=axis, descending=bool(self.integer(0, 1)), stable=True)
        if op in _ALONG_AXIS or op.name in ("argmax", "argmin"):
            if not all(self.concrete(x.value.shape)):  # the place of nothing has no answer
                return []
            return self.emit(op, [x], axis=axis)
        return self.emit(op, [x], axes=axes)

    def contracted(self) -> list[Slot]:
        x = self.pick(lambda slot: slot.exact and 0 < len(slot.value.shape) <= 3)
        if x is None:
            return []
        roles = [self.choice("bcf") for _ in x.value.shape]
        batch, contract = (tuple(i for i, role in enumerate(roles) if role == word) for word in "bc")
        return self.emit(ops.dot, [x, self.alike(x)], batch=(batch, batch), contract=(contract, contract))

    def created(self) -> list[Slot]:
        dtype = self.choice(self.dtypes)
        shape = tuple(self.integer(0, 3) for _ in range(self.integer(0, 3)))
        if shape and self.integer(0, 1):
            return self.emit(ops.iota, [], shape=shape, axis=self.integer(0, len(shape) - 1), dtype=dtype)
        value = self.choice(edges(dtype).tolist())
        return self.emit(ops.full, [], shape=shape, value=float(value) if is_float(dtype) else value, dtype=dtype)

    def stacked(self) -> list[Slot]:
        x = self.pick()
        if x is None:
            return []
        with context.using(emitter=self.builder, constraints=self.builder.constraints):
            stack = ops.stack_new(shape=x.value.shape, dtype=x.value.dtype)
            stack = ops.stack_push(stack, x.value)
            stack, first = ops.stack_pop(ops.stack_push(stack, self.alike(x).value))
            _, second = ops.stack_pop(stack)
            ops.check(ops.full(shape=(), value=True, dtype=bool_), kind="ValueError", message="never")
        self.slots += [Slot(first, False), Slot(second, False)]
        return self.slots[-2:]

    def body(self, types: Sequence[Any], wanted: Sequence[Any], name: str) -> Graph:
        """A region for operands of these types with outputs of the types ``wanted``, which are among them."""
        inner = Maker(self.draw, self.dtypes, self.sizes, self.depth - 1)
        inner.inside = True
        for type in types:
            inner.slots.append(Slot(inner.builder.input(type), False))
        inner.grow(self.integer(0, 3))
        outputs = []
        for type in wanted:
            results = [slot.value for slot in inner.slots if slot.value.type == type and slot.exact]
            outputs.append(results[-1 - self.integer(0, min(1, len(results) - 1))])
        return inner.builder.graph(outputs, name)

    def operands(self) -> list[Slot]:
        results = [self.pick() for _ in range(self.integer(1, 3))]
        return [slot for slot in results if slot is not None]

    def branched(self) -> list[Slot]:
        slots = self.operands()
        if self.depth == 0 or not slots:
            return []
        predicate = self.supply(np.array(bool(self.integer(0, 1))), tame=True)
        types = [slot.value.type for slot in slots]
        regions = [self.body(types, types[:2], name) for name in ("then", "otherwise")]
        return self.emit(ops.cond, [predicate, *slots], regions)

    def called(self) -> list[Slot]:
        slots = self.operands()
        if self.depth == 0 or not slots:
            return []
        types = [slot.value.type for slot in slots]
        return self.emit(ops.call, slots, [self.body(types, types, "body")])

    def looped(self) -> list[Slot]:
        slots = self.operands()
        if self.depth == 0 or not slots:
            return []
        num_carries = self.integer(1, len(slots))
        count = TensorType(int64, ())
        types = [count, *(slot.value.type for slot in slots)]
        inner = self.body(types, types[1 : 1 + num_carries], "body")
        body, condition = GraphBuilder(), GraphBuilder()
        body.inputs, body.nodes = list(inner.inputs), list(inner.nodes)
        for type in types:
            condition.input(type)
        with context.using(emitter=body, constraints=body.constraints):
            following = ops.add(body.inputs[0], ops.full(shape=(), value=1, dtype=int64))
        with context.using(emitter=condition, constraints=condition.constraints):
            limit = ops.full(shape=(), value=self.integer(0, 3), dtype=int64)
            more = ops.lt(condition.inputs[0], limit)
        regions = [condition.graph([more], "condition"), body.graph([following, *inner.outputs], "body")]
        start = self.supply(np.array(0, np.int64), tame=True)
        return self.emit(ops.while_, [start, *slots], regions, num_carries=1 + num_carries)

    def scanned(self) -> list[Slot]:
        first = self.pick(lambda slot: slot.exact and bool(slot.value.shape))
        if self.depth == 0 or first is None:
            return []
        length = first.value.shape[0]
        carries, xs, invariants = self.operands()[:2], [first, self.alike(first)], self.operands()[:1]
        slices = [TensorType(x.value.dtype, x.value.shape[1:]) for x in xs]
        states = [slot.value.type for slot in carries]
        types = [*states, *slices, *(slot.value.type for slot in invariants)]
        body = self.body(types, [*states, *slices[: self.integer(0, 2)]], "body")
        counts = {"num_carries": len(carries), "num_xs": len(xs)}
        return self.emit(
            ops.scan, [*carries, *xs, *invariants], [body], length=length, reverse=bool(self.integer(0, 1)), **counts
        )

    def grow(self, steps: int) -> None:
        modes = [
            *(self.fresh, self.created, self.converted, self.chosen, self.reduced, self.contracted, self.stacked),
            *(self.elementwise,) * 5,
            *(self.moved,) * 4,
            *(self.sampled,) * 6,
            *(self.branched, self.called, self.looped, self.scanned),
        ]
        for _ in range(steps):
            self.choice(modes)()


_ALONG_AXIS = [OPS[name] for name in ("cumsum", "cumprod", "cummax", "cummin", "sort") if name in OPS]


@st.composite
def programs(
    draw: Any, max_nodes: int = 16, dtypes: Sequence[DType] = DTYPES, max_depth: int = 2
) -> tuple[Graph, Arrays]:
    """A graph that the verifier accepts, without constraints, and arguments for it."""
    maker = Maker(draw, dtypes, {"n": draw(st.integers(0, 4)), "m": draw(st.integers(0, 3))}, max_depth)
    while not maker.slots:
        maker.fresh()
    maker.grow(draw(st.integers(1, max_nodes)))
    tensors = [slot.value for slot in maker.slots if isinstance(slot.value.type, TensorType)]
    outputs = [tensors[-1], *(value for value in tensors[-6:-1] if maker.integer(0, 1))]
    return maker.builder.graph(outputs, "program"), maker.arrays
