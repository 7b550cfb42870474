"""Control flow, calls, fused groups and the gradient node: ops whose meaning is in their regions.

Regions are closed graphs; what they use comes in as operands. None of these has an evaluation: their ``control`` column
says what they do with their regions (``ir/control.py``), and that is how the interpreter, passes and codegen know them.

cond(predicate, *operands), regions (then, otherwise): both take the operands and give the same types.
while(*carries, *invariants) {num_carries}, regions (condition, body): the condition gives a 0-d bool, the body the
    carries.
scan(*carries, *xs, *invariants) {num_carries, num_xs, length, reverse}, region body: takes the carries, one slice of
    each x along its first axis (of extent ``length``) and the invariants; gives the next carries and one slice of each
    y. The outputs are the last carries and the ys stacked along a new first axis; ``reverse`` goes from the last slice
    to the first, and y slice i still belongs to x slice i.
call(*operands), one region. fused(*operands), one region: a group that becomes one kernel.
grad(*outputs, *cotangents, *wrt) {num_outputs}: the cotangents of ``wrt`` in the graph that the node stands in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.errors import GraphError, ShapeError
from jitgraph.ir.builder import build
from jitgraph.ir.control import CarriedLoop, Conditional, RegionCall
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph
from jitgraph.ir.op import Op, Sample
from jitgraph.ir.types import TensorType, Type
from jitgraph.ops import rules
from jitgraph.ops.arithmetic import add, lt, mul, sub
from jitgraph.ops.creation import full_like
from jitgraph.ops.rules import require_region, require_same_types
from jitgraph.ops.sampling import generator, values

Regions = tuple[Graph, ...]
_PREDICATE = TensorType(dtypes.bool_, ())


def _require_regions(op: str, regions: Regions, count: int) -> Regions:
    if len(regions) != count:
        raise GraphError(f"{op} has {count} regions, not {len(regions)}")
    return regions


def _outputs(region: Graph) -> tuple[Type, ...]:
    return tuple(value.type for value in region.outputs)


def _require_count(op: str, what: str, count: object, limit: int) -> int:
    if not isinstance(count, int) or not 0 <= count <= limit:
        raise ShapeError(f"{op}: {what}={count!r} does not fit {limit} operands")
    return count


def _cond_type(predicate: Type, *operands: Type, regions: Regions = ()) -> tuple[Type, ...]:
    then, otherwise = _require_regions("cond", regions, 2)
    if predicate != _PREDICATE:
        raise ShapeError(f"cond takes a bool[] predicate, not {predicate}")
    require_region("cond", then, operands)
    require_region("cond", otherwise, operands)
    left, right = _outputs(then), _outputs(otherwise)
    require_same_types(f"cond: the branches give ({rules.describe(left)}) and ({rules.describe(right)})", left, right)
    return left


def _while_type(*operands: Type, num_carries: int, regions: Regions = ()) -> tuple[Type, ...]:
    condition, body = _require_regions("while", regions, 2)
    _require_count("while", "num_carries", num_carries, len(operands))
    carries, _, _ = CarriedLoop(num_carries, body, condition).parts(operands)
    require_region("while", condition, operands)
    require_region("while", body, operands)
    if _outputs(condition) != (_PREDICATE,):
        raise ShapeError(f"while: the condition gives ({rules.describe(_outputs(condition))}), not bool[]")
    after = _outputs(body)
    what = f"while: the body gives ({rules.describe(after)}) for the carries ({rules.describe(carries)})"
    require_same_types(what, tuple(carries), after)
    return tuple(carries)


def _scan_type(
    *operands: Type, num_carries: int, num_xs: int, length: DimLike, reverse: bool, regions: Regions = ()
) -> tuple[Type, ...]:
    (body,) = _require_regions("scan", regions, 1)
    _require_count("scan", "num_carries + num_xs", num_carries + num_xs, len(operands))
    rules.at_least("scan: length", length, 0)
    loop = CarriedLoop(num_carries, body, xs=num_xs)
    carries, xs, invariants = loop.parts(operands)
    require_region("scan", body, (*carries, *(_slice_of(type, length) for type in xs), *invariants))
    after = _outputs(body)
    carried, ys = loop.results(after)
    what = f"scan: the body gives ({rules.describe(after)}) for the carries ({rules.describe(carries)})"
    require_same_types(what, tuple(carries), tuple(carried))
    return (*carries, *(_stack_of(type, length) for type in ys))


def _slice_of(x: Type, length: DimLike) -> TensorType:
    type = rules.require_tensor("scan", x)
    if not type.shape:
        raise ShapeError("scan: a 0-d operand has no slices")
    rules.same_dims(f"scan over {type} of length {length}", (type.shape[0],), (length,))
    return TensorType(type.dtype, type.shape[1:])


def _stack_of(slice: Type, length: DimLike) -> TensorType:
    type = rules.require_tensor("scan", slice)
    return TensorType(type.dtype, (length, *type.shape))


def _call_type(name: str) -> Any:
    def infer(*operands: Type, regions: Regions = ()) -> tuple[Type, ...]:
        (body,) = _require_regions(name, regions, 1)
        require_region(name, body, operands)
        return _outputs(body)

    return infer


def _grad_type(*operands: Type, num_outputs: int) -> tuple[Type, ...]:
    _require_count("grad", "2 * num_outputs", 2 * num_outputs, len(operands))
    outputs, cotangents = operands[:num_outputs], operands[num_outputs : 2 * num_outputs]
    what = f"grad: the cotangents ({rules.describe(cotangents)}) of ({rules.describe(outputs)})"
    require_same_types(what, outputs, cotangents)
    for type in (*outputs, *operands[2 * num_outputs :]):
        rules.require_dtype("grad", rules.require_tensor("grad", type), rules.INEXACT)
    return operands[2 * num_outputs :]


def _operands(name: str, dtype: DType) -> tuple[Any, Any, TensorType]:
    rng = generator(name, dtype)
    return values(rng, dtype, (3,), (0.5, 1.5)), values(rng, dtype, (3,), (0.5, 1.5)), TensorType(dtype, (3,))


def _cond_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in rules.NUMBERS:
        return ()
    x, y, type = _operands("cond", dtype)
    regions = (
        build(lambda a, b: add(a, b), [type, type], "then"),
        build(lambda a, b: mul(a, b), [type, type], "otherwise"),
    )
    return [Sample((np.array(flag), x, y), {}, regions) for flag in (True, False)]


def _while_samples(dtype: DType) -> Sequence[Sample]:
    if dtype not in rules.NUMBERS:
        return ()
    x, y, type = _operands("while", dtype)
    count = TensorType(dtypes.int64, ())
    types = [count, type, type]
    condition = build(lambda i, a, b: lt(i, full_like(3, i)), types, "condition")
    body = build(lambda i, a, b: (add(i, full_like(1, i)), mul(a, b)), types, "body")
    return [Sample((np.array(start), x, y), {"num_carries": 2}, (condition, body)) for start in (0, 2, 3)]


def _scan_samples(dtype: DType) -> Sequence[Sample]:
    from jitgraph.ops.movement import reduce_sum  # here: for samples alone

    if dtype not in rules.NUMBERS:
        return ()
    cases = []
    carry, scale, type = _operands("scan", dtype)
    for length, reverse in [(4, False), (4, True), (1, False), (0, True)]:
        xs = values(generator("scan", dtype), dtype, (length, 3), (0.5, 1.5))

        def step(c: Any, x: Any, s: Any) -> Any:
            following = add(mul(c, s), x)
            return following, reduce_sum(sub(following, c), axes=(0,))

        body = build(step, [type, type, type], "body")
        attrs = {"num_carries": 1, "num_xs": 1, "length": length, "reverse": reverse}
        cases.append(Sample((carry, xs, scale), attrs, (body,)))
    return cases


def _region_samples(name: str) -> Any:
    def samples(dtype: DType) -> Sequence[Sample]:
        if dtype not in rules.NUMBERS:
            return ()
        x, y, type = _operands(name, dtype)
        region = build(lambda a, b: (mul(add(a, b), b), sub(a, b)), [type, type], "body")
        return [Sample((x, y), {}, (region,))]

    return samples


cond: Op = Op(
    name="cond",
    kind="control",
    infer=_cond_type,
    control=Conditional,
    onnx="If",
    samples=_cond_samples,
    doc="One of two regions.",
)
while_: Op = Op(
    name="while",
    kind="control",
    infer=_while_type,
    control=lambda condition, body, *, num_carries: CarriedLoop(num_carries, body, condition),
    onnx="Loop",
    samples=_while_samples,
    doc="The body while the condition.",
)
scan: Op = Op(
    name="scan",
    kind="control",
    infer=_scan_type,
    control=lambda body, *, num_carries, num_xs, length, reverse: CarriedLoop(
        num_carries, body, xs=num_xs, length=length, reverse=reverse
    ),
    onnx="Scan",
    samples=_scan_samples,
    doc="A loop over slices that carries state and stacks results.",
)
call: Op = Op(
    name="call",
    kind="control",
    infer=_call_type("call"),
    control=RegionCall,
    samples=_region_samples("call"),
    doc="A region.",
)
fused: Op = Op(
    name="fused",
    kind="control",
    infer=_call_type("fused"),
    control=RegionCall,
    traits=frozenset({"one_kernel"}),
    samples=_region_samples("fused"),
    doc="A region, as one kernel.",
)
grad: Op = Op(
    name="grad",
    kind="gradient",
    infer=_grad_type,
    samples=lambda dtype: (
        [
            Sample(
                (np.ones((), dtype), np.ones((), dtype), np.ones((2, 3), dtype)),
                {"num_outputs": 1},
                differentiable=False,
            )
        ]
        if dtype in rules.FLOATS
        else ()
    ),
    doc="The cotangents that reach wrt from the outputs.",
)
