"""Reverse-mode differentiation of the nodes that a builder has recorded, by the gradient rules of the ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jitgraph.dtypes import int64
from jitgraph.errors import GraphError, UnsupportedOp
from jitgraph.ir import context, dims
from jitgraph.ir.builder import GraphBuilder, decomposition
from jitgraph.ir.control import CarriedLoop, Conditional, RegionCall, structure_of
from jitgraph.ir.fault import working_on
from jitgraph.ir.graph import Graph, Node, Value
from jitgraph.ir.types import TensorType
from jitgraph.ops import (
    add,
    call,
    dynamic_slice,
    dynamic_update_slice,
    full,
    optimization_barrier,
    reshape,
    scatter_add,
)
from jitgraph.ops.effects import zeros
from jitgraph.passes.autodiff import carries_gradient, spread
from jitgraph.passes.control_gradients import cond_gradient, loop_gradient
from jitgraph.passes.partition import Joint, ResidualStack
from jitgraph.passes.rewriter import uniform_value
from jitgraph.passes.split import Split, split, strip_prints

# ----------------------------------------------------------------------
# Cotangents that are zero but in one place, added to another in that place alone.
#
# The cotangent of a tensor of which a loop reads an element is zeros with the element's written into them. In the body
# of a loop the sum with what there is so far is a write of the element, and not a sum over the whole tensor.


def added_in_place(known: Value, cotangent: Value, nodes: Sequence[Node]) -> Value | None:
    """``known + cotangent`` as a write of a part of ``known``; None where the cotangent is not known to be so sparse.

    ``nodes`` are what has been recorded so far. Of several updates only those of distinct elements are taken, so that
    each is one sum, as it would be in zeros; a zero of ``known`` keeps its sign.
    """
    node = _producer(cotangent, nodes)
    if node is None:
        return None
    if "alias" in node.op.traits and len(node.inputs) == 1:
        (source,) = node.inputs
        inner = added_in_place(reshape(known, shape=source.shape), source, nodes) if _is_sparse(source, nodes) else None
        return None if inner is None else _value(reshape(inner, shape=known.shape))
    if not _is_sparse(cotangent, nodes):
        return None
    match node.op.lowering:
        case "scatter":
            attrs: Any = node.attrs
            return _value(scatter_add(known, *node.inputs[1:], **attrs))
        case "dynamic_update_slice":
            update, starts = node.inputs[1], node.inputs[2:]
        case _:
            update = node.inputs[0]
            low: Any = node.attrs["low"]
            starts = tuple(full(shape=(), value=start, dtype=int64) for start in low)
    part = add(dynamic_slice(known, *starts, sizes=update.shape), update)
    return _value(dynamic_update_slice(known, part, *starts))


def _value(value: object) -> Value:
    assert isinstance(value, Value)
    return value


def _producer(value: Value, nodes: Sequence[Node]) -> Node | None:
    return next((node for node in reversed(nodes) if value in node.outputs), None)


def _is_sparse(value: Value, nodes: Sequence[Node]) -> bool:
    """Whether a value is zeros with one update of a part of them, behind changes of its shape or not."""
    node = _producer(value, nodes)
    if node is None:
        return False
    if "alias" in node.op.traits and len(node.inputs) == 1:
        return _is_sparse(node.inputs[0], nodes)
    match node.op.lowering:
        case "scatter" if node.op.reduction is not None:
            zero, indices, _ = node.inputs
            return _is_zero(zero, nodes) and dims.product(indices.shape) == 1
        case "dynamic_update_slice":
            return _is_zero(node.inputs[0], nodes) and _is_part(node.inputs[1], value)
    if node.op.batch != "pad":
        return False
    update, zero = node.inputs
    gaps: Any = node.attrs["interior"]
    return not any(gaps) and _is_zero(zero, nodes) and _is_part(update, value)


def _is_zero(value: Value, nodes: Sequence[Node]) -> bool:
    number: object = uniform_value(_producer(value, nodes))
    return number == 0


def _is_part(update: Value, target: Value) -> bool:
    """Whether an update is known to be no more than half of what it is written into."""
    some, every = update.tensor.size, target.tensor.size
    return isinstance(some, int) and isinstance(every, int) and 2 * some <= every


# ----------------------------------------------------------------------
# The gradient of what is to be computed anew: nothing of its inside is kept for the way back.


def recomputed_gradient(reverse: Reverse, node: Node, cotangents: Sequence[Value | None]) -> list[Value | None]:
    """The cotangents of a node's inputs by its region, run once more from the same operands, and its derivative.

    The operands stand behind a barrier: what computes with them waits for a cotangent, and is not taken for what the
    forward computed already. Random numbers are the same, as their streams' states are operands; prints are not
    repeated.
    """
    region = strip_prints(node.regions[0])
    tensor_inputs = [i for i, value in enumerate(node.inputs) if isinstance(value.type, TensorType)]
    tensors = [i for i, value in enumerate(node.outputs) if isinstance(value.type, TensorType)]
    seeds = [(position, ct) for position, i in enumerate(tensors) if (ct := cotangents[i]) is not None]
    wrt = [position for position, i in enumerate(tensor_inputs) if node.inputs[i] in reverse.active]
    after = seeds[0][1]
    operands = [optimization_barrier(node.inputs[i], after) for i in tensor_inputs]
    backward = _backward(reverse, region, [position for position, _ in seeds], wrt)
    gradients = call(*operands, *(ct for _, ct in seeds), regions=(backward,))
    by_input: list[Value | None] = [None] * len(node.inputs)
    for position, gradient in zip(wrt, gradients if len(wrt) > 1 else (gradients,), strict=True):
        by_input[tensor_inputs[position]] = gradient
    return by_input


def _backward(reverse: Reverse, region: Graph, seeds: Sequence[int], wrt: Sequence[int]) -> Graph:
    """Inputs and cotangents of the outputs ``seeds`` to cotangents of the inputs ``wrt``."""
    builder = GraphBuilder()
    builder.constraints = reverse.builder.constraints
    builder.location = reverse.builder.location
    inputs = [builder.input(value.type, value.hint) for value in region.inputs]
    outputs = builder.inline(region, inputs)
    chosen = [outputs[i] for i in seeds]
    cotangents = [builder.input(value.type) for value in chosen]
    assert all(carries_gradient(inputs[i].type) for i in wrt)
    input_cts = type(reverse)(builder).run(chosen, cotangents, [inputs[i] for i in wrt])
    with context.using(emitter=builder, constraints=builder.constraints):
        gradients = [zeros(inputs[i].type) if ct is None else ct for i, ct in zip(wrt, input_cts, strict=True)]
    graph = builder.graph(gradients, f"{region.name}_again")
    return Graph(graph.inputs, graph.nodes, graph.outputs, (), graph.name)


# ----------------------------------------------------------------------
# Reverse-mode differentiation of the nodes that a builder has recorded, by the gradient rules of the ops.

Cotangents = Sequence["Value | None"]


class Reverse:
    """One walk back over the nodes recorded so far, which the nodes of the gradient then follow.

    Loops and branches that are differentiated are replaced by ones that yield their residuals too; values keep their
    identity. ``residual_stacks`` are the stacks that this needed, ``originals`` the nodes as they were.
    """

    def __init__(self, builder: GraphBuilder, *, in_loop: bool = False) -> None:
        """``in_loop``: what the builder records belongs to the body of a loop."""
        self.builder = builder
        self.in_loop = in_loop
        self.active: set[Value] = set()
        self.residual_stacks: list[ResidualStack] = []
        self.originals: dict[Node, Node] = {}
        self._cotangents: dict[Value, Value] = {}
        self._forward: list[Node] = []  # in reverse order

    def run(
        self,
        outputs: Sequence[Value],
        cotangents: Sequence[Value],
        wrt: Sequence[Value],
        known: Mapping[Value, Value] | None = None,
    ) -> list[Value | None]:
        """The cotangent of each of ``wrt`` for these cotangents of ``outputs``; None where none arrives.

        What arrives is added to the cotangents of some of ``wrt`` that are ``known`` already.
        """
        self._cotangents.update(known or {})
        begin, end = _window(self.builder.nodes, outputs, wrt)
        nodes = self.builder.nodes[begin:end]
        self.active = {value for value in wrt if carries_gradient(value.type)}
        spread(nodes, self.active)
        location = self.builder.location
        with context.using(emitter=self.builder, constraints=self.builder.constraints):
            for output, cotangent in zip(outputs, cotangents, strict=True):
                self._accumulate(output, cotangent)
            self._walk(nodes)
        self.builder.location = location
        self.builder.nodes[begin:end] = reversed(self._forward)
        return [self._cotangents.get(value) for value in wrt]

    def _accumulate(self, value: Value, cotangent: Value) -> None:
        if value not in self.active:
            return
        fitted = self._fitted(value, cotangent)
        known = self._cotangents.get(value)
        if known is None:
            self._cotangents[value] = fitted
            return
        summed = None
        if self.in_loop and known.shape:
            summed = added_in_place(known, fitted, self.builder.nodes)
        self._cotangents[value] = add(known, fitted) if summed is None else summed

    def taken(self, value: Value) -> Value | None:
        """The cotangent of ``value`` that is known so far, for who gives it back with more added to it."""
        return self._cotangents.pop(value, None)

    def _fitted(self, value: Value, cotangent: Value) -> Value:
        """The cotangent in the very type of its value: sizes equal by a constraint may be written differently."""
        if cotangent.type == value.type:
            return cotangent
        want, have = value.tensor, cotangent.tensor
        same = self.builder.constraints.same
        if want.dtype != have.dtype or want.ndim != have.ndim or not all(map(same, want.shape, have.shape)):
            raise GraphError(f"a cotangent of type {have} arrives at a value of type {want}")
        fitted: Value = reshape(cotangent, shape=want.shape)
        return fitted

    def _walk(self, nodes: Sequence[Node]) -> None:
        for node in reversed(nodes):
            cotangents = [self._cotangents.get(value) for value in node.outputs]
            if self.active.isdisjoint(node.inputs) or all(cotangent is None for cotangent in cotangents):
                self._forward.append(node)
                continue
            self.builder.location = node.location
            if _is_inlined(node):
                self._walk_inside(node)
                continue
            with working_on(f"the gradient of {node.op.name}", node.location):
                input_cts = self._step(node, cotangents)
            for value, cotangent in zip(node.inputs, input_cts, strict=True):
                if cotangent is not None:
                    self._accumulate(value, cotangent)

    def _walk_inside(self, node: Node) -> None:
        """Walk back over what defines a node.

        What a composite adds to the cotangent of an operand is one summand, as for an op with a rule and on the tape.
        """
        inner = _inlined(node, self.builder)
        spread(inner, self.active)
        before: dict[Value, Value] = {}
        if node.op.kind == "composite":
            before = {v: self._cotangents.pop(v) for v in dict.fromkeys(node.inputs) if v in self._cotangents}
        self._walk(inner)
        for value, cotangent in before.items():
            summand = self._cotangents.get(value)
            self._cotangents[value] = cotangent
            if summand is not None:
                self._accumulate(value, summand)

    def _step(self, node: Node, cotangents: Cotangents) -> Cotangents:
        """The cotangents of the node's inputs; its forward form is recorded on the way."""
        match structure_of(node):
            case Conditional():
                return cond_gradient(self, node, cotangents)
            case CarriedLoop() as loop:
                return loop_gradient(self, node, loop, cotangents)
        self._forward.append(node)
        if "recomputed" in node.op.traits:
            return recomputed_gradient(self, node, cotangents)
        if node.op.vjp is None:
            raise _no_gradient(node)
        attrs = {**node.attrs, "regions": node.regions} if "ruled_by_region" in node.op.traits else node.attrs
        single = len(node.outputs) == 1
        input_cts = node.op.vjp(
            cotangents[0] if single else tuple(cotangents),
            node.outputs[0] if single else node.outputs,
            *node.inputs,
            **attrs,
        )
        if len(input_cts) != len(node.inputs):
            raise GraphError(
                f"the gradient rule of {node.op.name} gives {len(input_cts)} cotangents for {len(node.inputs)}"
            )
        return input_cts

    def replace(self, node: Node, record: Callable[[], object], positions: Sequence[int]) -> tuple[Value, ...]:
        """Put what ``record`` records in the place of ``node`` and return the outputs of the last node recorded.

        That node's outputs at ``positions`` become the outputs of ``node``.
        """
        scratch = GraphBuilder()
        scratch.constraints = self.builder.constraints
        scratch.location = node.location
        with context.using(emitter=scratch):
            record()
        last = scratch.nodes.pop()
        outputs = list(last.outputs)
        for position, value in zip(positions, node.outputs, strict=True):
            outputs[position] = value
        rewritten = replace(last, outputs=tuple(outputs))
        self.originals[rewritten] = node
        self._forward.extend((rewritten, *reversed(scratch.nodes)))
        return rewritten.outputs

    def emit_unchanged(self, node: Node) -> Cotangents:
        """Leave ``node`` as it is; no cotangent passes it."""
        self._forward.append(node)
        return (None,) * len(node.inputs)

    def halves(
        self,
        region: Graph,
        seeds: Sequence[int],
        wrt: Sequence[int],
        *,
        free_inputs: Collection[int],
        free_outputs: Collection[int],
        stable: Collection[int] = (),
        onto: Sequence[int] = (),
        in_loop: bool = False,
    ) -> Split:
        """Forward and backward of a region: cotangents of the outputs ``seeds`` to those of the inputs ``wrt``."""
        return halves(
            region,
            seeds,
            wrt,
            self.builder,
            free_inputs=free_inputs,
            free_outputs=free_outputs,
            stable=stable,
            onto=onto,
            with_stacks=True,
            in_loop=in_loop or self.in_loop,
        )


def halves(
    graph: Graph,
    seeds: Sequence[int],
    wrt: Sequence[int],
    parent: GraphBuilder,
    *,
    free_inputs: Collection[int],
    free_outputs: Collection[int],
    stable: Collection[int] = (),
    onto: Sequence[int] = (),
    with_stacks: bool,
    in_loop: bool = False,
) -> Split:
    """Differentiate ``graph`` and split it: cotangents of the outputs ``seeds`` to those of the inputs ``wrt``.

    The backward part takes, behind the cotangents of outputs, those of the inputs ``onto`` to which it adds. Sizes are
    assumed in ``parent``'s constraints; see ``split`` for the rest.
    """
    builder = GraphBuilder()
    builder.constraints = parent.constraints
    builder.location = parent.location
    inputs = tuple(builder.input(value.type, value.hint) for value in graph.inputs)
    outputs = builder.inline(graph, inputs)
    cotangents = tuple(Value(outputs[i].type) for i in seeds)
    starts = {inputs[i]: Value(inputs[i].type) for i in onto}
    reverse = Reverse(builder, in_loop=in_loop)
    input_cts = reverse.run([outputs[i] for i in seeds], cotangents, [inputs[i] for i in wrt], starts)
    with context.using(emitter=builder, constraints=builder.constraints):
        gradients = tuple(zeros(inputs[i].type) if ct is None else ct for i, ct in zip(wrt, input_cts, strict=True))
    joint = Joint(
        inputs,
        (*cotangents, *starts.values()),
        tuple(builder.nodes),
        outputs,
        gradients,
        tuple(reverse.residual_stacks),
        reverse.originals,
    )
    return split(
        joint,
        graph.name,
        parent.constraints,
        free_inputs=free_inputs,
        free_outputs=free_outputs,
        stable=stable,
        with_stacks=with_stacks,
    )


def _window(nodes: Sequence[Node], outputs: Sequence[Value], wrt: Sequence[Value]) -> tuple[int, int]:
    """The nodes, as a range, through which cotangents can pass: behind the first of ``wrt``, up to the last output.

    They are looked for from the end, beside which most gradients stand: a graph with many need not be walked for each.
    """
    early, late = set(wrt), set(outputs)
    begin = len(nodes)
    while begin and late.isdisjoint(nodes[begin - 1].outputs):
        early.difference_update(nodes[begin - 1].outputs)
        begin -= 1
    end = begin
    while begin and early:
        begin -= 1
        early.difference_update(nodes[begin].outputs)
    return begin, end


def _is_inlined(node: Node) -> bool:
    if node.op.kind == "composite":
        return node.op.vjp is None and "recomputed" not in node.op.traits
    return isinstance(structure_of(node), RegionCall)


def _inlined(node: Node, parent: GraphBuilder) -> list[Node]:
    """The nodes of the node's region over its operands; what the region returns are the node's own outputs."""
    if node.regions:
        (region,) = node.regions
    else:
        region = decomposition(node.op, [value.type for value in node.inputs], node.attrs, parent.constraints)
    builder = GraphBuilder()
    builder.constraints = parent.constraints
    builder.location = node.location
    results = builder.inline(region, node.inputs)
    names: dict[Value, Value] = {}
    defined = {value for inner in builder.nodes for value in inner.outputs}
    aliases: list[tuple[Value, Value]] = []
    for result, output in zip(results, node.outputs, strict=True):
        if result in defined and result not in names:
            names[result] = output
        else:  # an operand, or a value returned twice: it needs a node of its own
            aliases.append((output, result))
    nodes = [_renamed(inner, names) for inner in builder.nodes]
    for output, result in aliases:
        nodes.append(_identity(names.get(result, result), output, builder))
    return nodes


def _renamed(node: Node, names: dict[Value, Value]) -> Node:
    return replace(
        node,
        inputs=tuple(names.get(value, value) for value in node.inputs),
        outputs=tuple(names.get(value, value) for value in node.outputs),
    )


def _identity(value: Value, output: Value, parent: GraphBuilder) -> Node:
    """A node that gives ``value`` the second name ``output``; simplification removes it."""
    scratch = GraphBuilder()
    scratch.constraints = parent.constraints
    scratch.location = parent.location
    with context.using(emitter=scratch, constraints=scratch.constraints):
        if isinstance(value.type, TensorType):
            reshape(value, shape=value.type.shape)
        else:
            inner = Value(value.type)
            call(value, regions=(Graph((inner,), (), (inner,), (), "identity"),))
    (node,) = scratch.nodes
    return replace(node, outputs=(output,))


def _no_gradient(node: Node) -> UnsupportedOp:
    return UnsupportedOp(
        f"{node.op.name} has no gradient rule",
        location=node.location,
        hint="use jg.stop_gradient(x) where no gradient is meant to pass",
    )
