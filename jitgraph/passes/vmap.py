"""vmap: a graph run on samples along a first axis of its inputs, control flow included, by batching rules of its
ops.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, cast

from jitgraph import ops
from jitgraph.errors import UnsupportedOp
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder, deaths_of, decomposition
from jitgraph.ir.control import CarriedLoop, Conditional, RegionCall, structure_of
from jitgraph.ir.dims import DimLike
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import StackType, TokenType, Type
from jitgraph.location import Location
from jitgraph.ops.effects import zeros
from jitgraph.passes.autodiff import carries_gradient
from jitgraph.passes.batching import (
    ActiveSamples,
    Lane,
    any_of,
    batched_type,
    chosen,
    each,
    entering,
    may_be_raw,
    moved,
    rule_of,
)

# ----------------------------------------------------------------------
# Control flow on many samples at once: loops run until all are done, branches are taken by samples that choose them.
#
# Where samples differ in what they do, each op is computed for all of them, and ``batching.py`` says what those get
# that it is not meant for. So no check fails, no loop goes on and no gradient is NaN for the sake of a sample that
# never came there. An array into which a branch or a turn writes elements passes from one branch to the other, and from
# turn to turn, as it is, since other samples keep what they have. Prints happen in the order of samples: what prints is
# run for one after another.


def batched_conditional(batcher: Batcher, node: Node, branches: Conditional, inputs: Sequence[Lane]) -> list[Lane]:
    """A branch; where samples choose, a branch that one of them takes is computed for all of them."""
    test, operands = batcher.standing_in(inputs[0]), list(inputs[1:])
    if not test.varies:
        return _shared_choice(batcher, node, branches, test, operands)
    if _has_tokens(node):
        return one_by_one(batcher, node, inputs)
    masks = [test.value, ops.logical_not(test.value)]
    if batcher.active is not None:
        masks = [ops.logical_and(batcher.active.mask, mask) for mask in masks]
    regions = (branches.then, branches.otherwise)
    sides = [_branch_for(batcher, region, masks[0], operands) for region in regions]
    chained: dict[int, int] = {}  # an operand, and what becomes of it in both branches
    origins = [tuple(sample.origin for sample in ends) for ends in zip(*(ends for _, ends in sides), strict=True)]
    for number, (origin, other) in enumerate(origins):
        if origin is not None and origin == other:
            chained.setdefault(origin, number)
    values = [sample.value for sample in operands]
    yes = _taken(node, *sides[0], masks[0], values)
    for position, number in chained.items():  # as it was for the samples that take the other branch
        values[position] = yes[number]
    no = _taken(node, *sides[1], masks[1], values)
    results = []
    for number, (origin, other) in enumerate(origins):
        if origin is not None and chained.get(origin) == number:
            results.append(Lane(no[number], True, operands[origin].raw, operands[origin].origin))
        else:
            raw = batcher.active is not None and (origin is not None or other is not None)
            results.append(Lane(chosen(test.value, yes[number], no[number]), True, raw))
    return results


def _shared_choice(
    batcher: Batcher, node: Node, branches: Conditional, test: Lane, operands: Sequence[Lane]
) -> list[Lane]:
    """A branch that all samples take."""
    operands = _entering(batcher, operands)
    regions = (branches.then, branches.otherwise)
    both = list(zip(*(batcher.region(region, operands)[1] for region in regions), strict=True))
    varies = [one.varies or other.varies for one, other in both]
    raw = [one.raw and other.raw for one, other in both]
    graphs = [batcher.region(region, operands, varies, raw)[0] for region in regions]
    values = [test.value, *(sample.value for sample in operands), *_mask(batcher, operands)]
    outputs = _emit(node, values, {}, graphs)
    flags = _but_tokens(varies, outputs)
    return [
        Lane(value, flag, is_raw, operands[one.origin].origin if one.origin == other.origin else None)
        if is_raw and one.origin is not None
        else Lane(value, flag)
        for value, flag, is_raw, (one, other) in zip(outputs, flags, raw, both, strict=True)
    ]


def _branch_for(batcher: Batcher, region: Graph, mask: Any, operands: Sequence[Lane]) -> tuple[Graph, list[Lane]]:
    """A branch for the samples in a mask, which is its first input, and its outputs by their origin."""
    types = [mask.type, *(sample.value.type for sample in operands)]
    ends: list[Lane] = []

    def run(mask: Any, *values: Any) -> list[Any]:
        active = ActiveSamples(mask, batcher.size)
        with batcher.only(active):
            lanes = [
                entering(Lane(value, sample.varies), position, active)
                for position, (value, sample) in enumerate(zip(values, operands, strict=True))
            ]
            inputs = [Lane(value, sample.varies) for value, sample in zip(values, operands, strict=True)]
            outputs = [batcher.outgoing(sample, inputs) for sample in batcher.run(region, lanes)]
            ends.extend(each(sample, batcher.size) for sample in outputs)
        return [sample.value for sample in ends]

    return region_of(types, run, region.name), ends


def _taken(node: Node, taken: Graph, ends: Sequence[Lane], mask: Any, values: Sequence[Any]) -> Sequence[Any]:
    """What a branch gives where a sample takes it; else what it began with, or any values."""
    input_index = {value: number for number, value in enumerate(taken.inputs[1:])}
    if all(value in input_index for value in taken.outputs):
        return [values[input_index[value]] for value in taken.outputs]

    def left(_: Any, *unchanged: Any) -> list[Any]:
        return [
            zeros(value.type) if end.origin is None else unchanged[end.origin]
            for value, end in zip(taken.outputs, ends, strict=True)
        ]

    return _emit(node, [any_of(mask), mask, *values], {}, [taken, region_of(taken.inputs, left, "none")])


def _entering(batcher: Batcher, operands: Sequence[Lane]) -> list[Lane]:
    """Operands of a region that all active samples run."""
    return [sample if may_be_raw(sample.value) else batcher.standing_in(sample) for sample in operands]


def _mask(batcher: Batcher, operands: Sequence[Lane]) -> list[Any]:
    """The operand that a region for such operands has behind them."""
    return [batcher.active.mask] if batcher.active is not None and any(sample.raw for sample in operands) else []


def batched_loop(batcher: Batcher, node: Node, structure: CarriedLoop, inputs: Sequence[Lane]) -> list[Lane]:
    """A loop whose carries vary where a turn makes them vary."""
    carries, xs, invariants = structure.parts(_entering(batcher, inputs))
    if structure.condition is None:
        return _scan(batcher, node, structure, carries, xs, invariants)
    while True:
        _, (tested,) = batcher.region(structure.condition, [*carries, *invariants], raw=[False])
        if tested.varies:
            return _masked(batcher, node, structure, carries, invariants)
        body, ends = _turn(batcher, structure.body, carries, invariants)
        settled = _settled(batcher, carries, ends)
        if all(new is old for new, old in zip(settled, carries, strict=True)):
            break
        carries = settled
    condition, _ = batcher.region(structure.condition, [*carries, *invariants], raw=[False])
    operands = [*carries, *invariants]
    values = [sample.value for sample in operands] + _mask(batcher, operands)
    outputs = _emit(node, values, node.attrs, [condition, body])
    return _ended(outputs, carries, ends)


def _turn(
    batcher: Batcher, body: Graph, carries: Sequence[Lane], rest: Sequence[Lane], others: int = 0
) -> tuple[Graph, list[Lane]]:
    """The body of a loop, of which what is carried varies, and is raw, where the carry is; ``others`` are outputs."""
    varies = [sample.varies for sample in carries] + [False] * others
    raw = [sample.raw for sample in carries] + [False] * others
    return batcher.region(body, [*carries, *rest], varies, raw)


def _settled(batcher: Batcher, carries: Sequence[Lane], ends: Sequence[Lane]) -> list[Lane]:
    """The carries to run the body with next: varying where a turn makes them vary, raw where it leaves them so."""
    settled = []
    for sample, end in zip(carries, ends, strict=False):
        if end.varies and not isinstance(sample.value.type, TokenType):
            sample = each(sample, batcher.size)
        settled.append(sample if end.raw else batcher.standing_in(sample))
    return settled


def _ended(outputs: Sequence[Any], carries: Sequence[Lane], ends: Sequence[Lane]) -> list[Lane]:
    """What a loop gives for its carries: where no turn exchanges them, as far as not active what they began with."""
    in_place = all(end.origin == number for number, end in enumerate(ends[: len(carries)]) if end.raw)
    return [
        Lane(value, sample.varies, sample.raw, sample.origin if in_place else None)
        for value, sample in zip(outputs, carries, strict=False)
    ]


def _masked(
    batcher: Batcher, node: Node, structure: CarriedLoop, carries: Sequence[Lane], invariants: Sequence[Lane]
) -> list[Lane]:
    """A loop that goes on until all samples are done; those that are keep what they have."""
    if _has_tokens(node):
        return one_by_one(batcher, node, [*carries, *invariants])
    assert structure.condition is not None
    condition, body, size = structure.condition, structure.body, batcher.size
    carried = [each(sample, size) for sample in carries]
    lanes = [*carried, *invariants]

    def test(samples: Sequence[Lane]) -> Any:
        return each(batcher.standing_in(batcher.run(condition, samples)[0]), size).value

    going = test(lanes)
    if batcher.active is not None:
        going = ops.logical_and(batcher.active.mask, going)
    operands = [going, *(sample.value for sample in lanes)]
    types = [value.type for value in operands]

    def turn(going: Any, *values: Any) -> list[Any]:
        active = ActiveSamples(going, size)
        with batcher.only(active):
            entered = [Lane(value, like.varies) for value, like in zip(values, lanes, strict=True)]
            now = [entering(sample, number, active) for number, sample in enumerate(entered)]
            after = []
            for number, new in enumerate(batcher.run(body, now)):
                old = values[number]
                in_place = new.origin == number and new.value.type == old.type
                after.append(new.value if in_place else chosen(going, each(new, size).value, old))
            # what a sample ended with was tested before, so that only what came raw needs stand-ins
            turned = [*after, *values[len(carried) :]]
            tested = [Lane(value, like.varies, like.raw) for value, like in zip(turned, lanes, strict=True)]
            again = ops.logical_and(going, test(tested))
        return [again, *after]

    regions = [
        region_of(types, lambda going, *_: [any_of(going)], condition.name),
        region_of(types, turn, body.name),
    ]
    with batcher.only(None):
        outputs = _emit(node, operands, {"num_carries": len(carried) + 1}, regions)
    return [Lane(value, True, old.raw, old.origin) for value, old in zip(outputs[1:], carried, strict=True)]


def _scan(
    batcher: Batcher,
    node: Node,
    structure: CarriedLoop,
    carries: list[Lane],
    xs: Sequence[Lane],
    invariants: Sequence[Lane],
) -> list[Lane]:
    """Slices come along the second axis of what varies, and results go there."""
    xs = [sample if len(sample.value.shape) > 2 else batcher.standing_in(sample) for sample in xs]
    others = len(structure.body.outputs) - structure.carries
    while True:
        body, ends = _turn(batcher, structure.body, carries, [*xs, *invariants], others)
        settled = _settled(batcher, carries, ends)
        if all(new is old for new, old in zip(settled, carries, strict=True)):
            break
        carries = settled
    operands = [*carries, *xs, *invariants]
    slices = [moved(sample.value, 0, 1) if sample.varies else sample.value for sample in xs]
    values = [sample.value for sample in (*carries, *invariants)]
    values[len(carries) : len(carries)] = slices
    outputs = _emit(node, [*values, *_mask(batcher, operands)], node.attrs, [body])
    ys = structure.results(outputs)[1]
    flags = [sample.varies for sample in ends[len(carries) :]]
    stacked = [Lane(moved(y, 1, 0) if flag else y, flag) for y, flag in zip(ys, flags, strict=True)]
    return [*_ended(outputs, carries, ends), *stacked]


def with_regions(batcher: Batcher, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
    """A composite with regions of the user's: the same composite of batched ones.

    Where a rule gives the cotangent of each sample for an operand that they share, these are added.
    """
    flags = [sample.varies for sample in inputs]
    forward, ends = batcher.region(node.regions[0], inputs, [True] * len(node.outputs))
    varies = [sample.varies for sample in ends]
    regions = [forward]
    if len(node.regions) > 1:
        rule, captured = node.regions[1], node.attrs["num_captured"]
        assert isinstance(captured, int)
        rule_flags = [True] * (len(rule.inputs) - captured) + flags[len(flags) - captured :]
        floats = [flag for value, flag in zip(node.inputs, flags, strict=True) if carries_gradient(value.type)]
        types = [
            batched_type(value.type, batcher.size) if flag else value.type
            for value, flag in zip(rule.inputs, rule_flags, strict=True)
        ]

        def run(*values: Any) -> list[Any]:
            with batcher.only(None):
                lanes = batcher.run(rule, [Lane(*pair) for pair in zip(values, rule_flags, strict=True)])
            batched = [each(sample, batcher.size).value for sample in lanes]
            return [
                value if flag else ops.reduce_sum(value, axes=(0,)) for value, flag in zip(batched, floats, strict=True)
            ]

        regions.append(region_of(types, run, rule.name))
    outputs = _emit(node, [sample.value for sample in inputs], node.attrs, regions)
    return [Lane(value, flag) for value, flag in zip(outputs, _but_tokens(varies, outputs), strict=True)]


def one_by_one(batcher: Batcher, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
    """A node for one sample after another, which takes tokens from one to the next."""
    inputs = [batcher.standing_in(sample) for sample in inputs]
    tokens = [i for i, sample in enumerate(inputs) if isinstance(sample.value.type, TokenType)]
    varying = [i for i, sample in enumerate(inputs) if sample.varies]
    fixed = [i for i in range(len(inputs)) if i not in tokens and i not in varying]
    order = [*tokens, *varying, *fixed]
    after = [i for i, value in enumerate(node.outputs) if isinstance(value.type, TokenType)]
    data_outputs = [i for i in range(len(node.outputs)) if i not in after]

    def body(*values: Any) -> list[Any]:
        operands: list[Any] = [None] * len(order)
        for index, value in zip(order, values, strict=True):
            operands[index] = value
        regions = () if node.op.decompose is not None else node.regions
        outputs = context.emitter().emit(node.op, operands, node.attrs, regions)
        return [outputs[i] for i in (*after, *data_outputs)]

    types = [node.inputs[i].type for i in order]
    attrs = {"num_carries": len(tokens), "num_xs": len(varying), "length": batcher.size, "reverse": False}
    values = [inputs[i].value for i in order]
    scanned = context.emitter().emit(ops.scan, values, attrs, (region_of(types, body, node.op.name),))
    results: list[Any] = [None] * len(node.outputs)
    for index, value in zip((*after, *data_outputs), scanned, strict=True):
        results[index] = Lane(value, index in data_outputs)
    return results


def region_of(types: Sequence[Any], function: Any, name: str) -> Graph:
    """A closed region of ``function`` for operands of these types (or those of these values)."""
    builder = GraphBuilder()
    builder.constraints = context.constraints()
    inputs = [builder.input(getattr(type, "type", type)) for type in types]
    with context.using(emitter=builder, constraints=builder.constraints):
        outputs = function(*inputs)
    region = builder.graph(outputs, name)
    return Graph(region.inputs, region.nodes, region.outputs, (), name)


def _emit(node: Node, values: Sequence[Any], attrs: Any, regions: Sequence[Graph]) -> tuple[Any, ...]:
    return tuple(context.emitter().emit(node.op, values, attrs, tuple(regions)))


def _has_tokens(node: Node) -> bool:
    return any(isinstance(value.type, TokenType) for value in (*node.inputs, *node.outputs))


def _but_tokens(flags: Sequence[bool], values: Sequence[Any]) -> list[bool]:
    """The flags, false for tokens."""
    kinds: list[Type] = [getattr(value, "value", value).type for value in values]
    return [flag and not isinstance(kind, TokenType) for flag, kind in zip(flags, kinds, strict=True)]


# ----------------------------------------------------------------------
# vmap: a graph run on samples that stand along a first axis of some of its inputs, by the batching rules of its ops.
#
# Every value of the graph either has such an axis, or is one and the same for all samples; what depends on no sample is
# computed once. Control flow has its rules in ``vmap.py``; an op without a rule, and what has ordered effects,
# is run for one sample after another by a ``scan``.


class Batcher:
    """Runs graphs on ``size`` samples; a ``Lane`` stands for each value, and ops are called on what it holds."""

    def __init__(self, size: DimLike) -> None:
        self.size = size
        self.active: ActiveSamples | None = None  # of the region that is being recorded; None where all are

    @contextmanager
    def only(self, active: ActiveSamples | None) -> Iterator[None]:
        """Ops are for these samples alone."""
        before, self.active = self.active, active
        try:
            yield
        finally:
            self.active = before

    def standing_in(self, sample: Lane) -> Lane:
        """The lane, of which ops may compute anything: where it is raw, samples that are not active have stand-ins."""
        return sample if self.active is None else self.active.standing_in(sample)

    def run(self, graph: Graph, arguments: Sequence[Lane]) -> list[Lane]:
        """What the graph gives for these arguments; ops keep the lines and modules of the graph's."""
        emitter = _recorder()
        before = emitter.location
        try:
            return self._run(graph, arguments)
        finally:
            emitter.location = before

    def _run(self, graph: Graph, arguments: Sequence[Lane]) -> list[Lane]:
        wrt_values = {value for node in graph.nodes if node.op.kind == "gradient" for value in wrt_of(node)}
        env: dict[Value, Lane] = {}

        def define(value: Value, sample: Lane) -> None:
            env[value] = each(self.standing_in(sample), self.size) if value in wrt_values else sample

        for value, argument in zip(graph.inputs, arguments, strict=True):
            define(value, argument)
        deaths = deaths_of(graph)
        for node, dead in zip(graph.nodes, deaths, strict=True):
            outputs = self.apply(node, [env[value] for value in node.inputs])
            for value, sample in zip(node.outputs, outputs, strict=True):
                define(value, sample)
            for value in dead:
                del env[value]
        return [env[value] for value in graph.outputs]

    def apply(self, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
        """The outputs of one node."""
        if node.location is not None:
            _recorder().location = node.location
        if not any(sample.varies for sample in inputs):
            return [Lane(value, False) for value in applied(node, [sample.value for sample in inputs])]
        match structure_of(node):
            case RegionCall(body):
                return self.run(body, inputs)
            case Conditional() as branches:
                return batched_conditional(self, node, branches, inputs)
            case CarriedLoop() as loop:
                return batched_loop(self, node, loop, inputs)
        rule = rule_of(node.op)
        if self.active is not None and any(sample.raw for sample in inputs):
            output = self.active.apply(node, inputs)
            if output is not None:
                return [output]
            if node.op.kind == "composite" and rule is None and "ruled_by_region" not in node.op.traits:
                return self.run(_definition(node), inputs)
        inputs = [self.standing_in(sample) for sample in inputs]
        if any(isinstance(value.type, StackType) for value in (*node.inputs, *node.outputs)):
            raise UnsupportedOp(
                f"vmap of {node.op.name}: the gradient of a while loop was written out before its samples were put "
                "together",
                location=node.location,
                hint="batch the function first and differentiate it then: jg.grad inside of jg.vmap",
            )
        if node.op.kind == "gradient":
            return self._gradient(node, inputs)
        if node.op.effect == "ordered":
            return one_by_one(self, node, inputs)
        values, flags = [sample.value for sample in inputs], [sample.varies for sample in inputs]
        result = None if rule is None else rule(node.op, self.size, values, flags, node.attrs)
        if result is not None or (rule is not None and not node.outputs):
            outputs = result if isinstance(result, tuple | list) else (result,) if node.outputs else ()
            return [Lane(value, True) for value in outputs]
        if "ruled_by_region" in node.op.traits or "recomputed" in node.op.traits:
            return with_regions(self, node, inputs)
        if node.op.kind == "composite":
            return self.run(_definition(node), inputs)
        return one_by_one(self, node, inputs)

    def _gradient(self, node: Node, inputs: Sequence[Lane]) -> list[Lane]:
        """Samples do not depend on each other, so that each gets its own gradient where it has its own variables."""
        values = [each(sample, self.size).value for sample in inputs]
        return [Lane(value, True) for value in applied(node, values)]

    def region(
        self, graph: Graph, operands: Sequence[Lane], varying: Sequence[bool] = (), raw: Sequence[bool] | None = None
    ) -> tuple[Graph, list[Lane]]:
        """The graph for such operands, and its outputs; those ``varying`` vary in any case.

        Where an operand is raw the mask of the active samples is one more input, the last. An output is raw where it
        has an origin, and ``raw`` allows it.
        """
        builder = GraphBuilder()
        builder.constraints = context.constraints()
        inputs = [
            Lane(
                builder.input(batched_type(value.type, self.size) if like.varies else value.type, value.hint),
                like.varies,
                like.raw,
                position if like.raw else None,
            )
            for position, (value, like) in enumerate(zip(graph.inputs, operands, strict=True))
        ]
        active = None
        if self.active is not None and any(like.raw for like in operands):
            active = ActiveSamples(builder.input(self.active.mask.type, "active"), self.size)
        with context.using(emitter=builder, constraints=builder.constraints), self.only(active):
            lanes = self.run(graph, inputs)
            lanes = [self.outgoing(sample, inputs) for sample in lanes]
            if raw is not None:
                lanes = [s if allowed else self.standing_in(s) for s, allowed in zip(lanes, raw, strict=True)]
            outputs = [
                each(sample, self.size) if want else sample
                for sample, want in zip(lanes, varying or [False] * len(lanes), strict=True)
            ]
        region = builder.graph([sample.value for sample in outputs], graph.name)
        return Graph(region.inputs, region.nodes, region.outputs, (), graph.name), outputs

    def outgoing(self, sample: Lane, inputs: Sequence[Lane]) -> Lane:
        """An output of a region: raw where it is the input of its origin but for active samples."""
        if sample.raw and sample.origin is not None and inputs[sample.origin].value.type == sample.value.type:
            return sample
        return self.standing_in(sample)


class _Recorder(Protocol):
    """What builds a graph, and takes the lines of its ops."""

    location: Location | None


def _recorder() -> _Recorder:
    return cast(_Recorder, context.emitter())


def wrt_of(node: Node) -> tuple[Value, ...]:
    """The values with respect to which a gradient node differentiates."""
    count = node.attrs["num_outputs"]
    assert isinstance(count, int)
    return node.inputs[2 * count :]


def applied(node: Node, values: Sequence[Value]) -> tuple[Value, ...]:
    """The node on other values, by the emitter in force; a composite's definition is made where it is wanted."""
    regions = () if node.op.decompose is not None else node.regions
    return tuple(context.emitter().emit(node.op, values, node.attrs, regions))


def _definition(node: Node) -> Graph:
    if node.regions:
        return node.regions[0]
    types = [value.type for value in node.inputs]
    return decomposition(node.op, types, node.attrs, context.constraints())
