"""Cutting a joint computation into a forward graph that yields residuals and a backward graph that reads them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import replace

from jitgraph.ir import context, dims
from jitgraph.ir.attributes import names_in_attr, names_in_type
from jitgraph.ir.builder import GraphBuilder, run_nodes
from jitgraph.ir.constraints import Constraints, SizeConstraint
from jitgraph.ir.control import CarriedLoop, structure_of
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Attr, Graph, Node, Value
from jitgraph.ir.types import TokenType, Type
from jitgraph.location import Location
from jitgraph.passes.partition import Joint, ResidualStack, choose, cost, dependents, late_nodes
from jitgraph.passes.rewriter import has_effect, is_tensor
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# strip_prints: graphs without prints, for what is run again: each print of the program is printed once.


def strip_prints(graph: Graph) -> Graph:
    """``graph`` without prints, in regions too, and without the tokens that order them."""
    inputs, nodes = _without_tokens(graph.inputs), without_prints(graph.nodes)
    if inputs == graph.inputs and list(map(id, nodes)) == list(map(id, graph.nodes)):
        return graph
    return replace(graph, inputs=inputs, nodes=nodes, outputs=_without_tokens(graph.outputs))


def without_prints(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes that are left of ``nodes`` without prints; the values that they give stay the same."""
    return tuple(_silent(node) for node in nodes if not _is_token_alone(node))


def _is_token_alone(node: Node) -> bool:
    """Whether a node gives tokens and nothing else, as ``token`` and ``print`` do."""
    return bool(node.outputs) and not node.regions and not _without_tokens(node.outputs)


def _silent(node: Node) -> Node:
    if node.op.kind == "composite" and "recomputed" not in node.op.traits:  # which says what a formula means
        return node
    inputs, outputs = _without_tokens(node.inputs), _without_tokens(node.outputs)
    regions = tuple(strip_prints(region) for region in node.regions)
    if inputs == node.inputs and all(new is old for new, old in zip(regions, node.regions, strict=True)):
        return node
    attrs: dict[str, Attr] = dict(node.attrs)
    structure = structure_of(node)
    if isinstance(structure, CarriedLoop):
        attrs |= structure.counts([not isinstance(value.type, TokenType) for value in node.inputs])
    return replace(node, inputs=inputs, attrs=attrs, outputs=outputs, regions=regions)


def _without_tokens(values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(value for value in values if not isinstance(value.type, TokenType))


# ----------------------------------------------------------------------
# Cutting a joint computation into a forward graph that yields residuals and a backward graph that reads them.


@dataclass(frozen=True, slots=True)
class Split:
    """The two halves of a gradient.

    forward: inputs + empty stacks -> outputs + filled stacks + saved values.
    backward: kept inputs + kept outputs + filled stacks + saved values + cotangents -> gradients + emptied stacks.
    ``saved_inputs`` and ``saved_outputs`` number the inputs and outputs of the forward graph that backward reads.
    """

    forward: Graph
    backward: Graph
    saved_inputs: tuple[int, ...]
    saved_outputs: tuple[int, ...]
    saved: tuple[Type, ...]
    stacks: tuple[Type, ...]


def subgraph(
    types: Sequence[Type],
    function: Callable[..., Sequence[Value]],
    constraints: Constraints,
    name: str,
    location: Location | None = None,
) -> Graph:
    """The region that ``function(builder, *inputs)`` records; what it assumes of sizes goes to ``constraints``."""
    builder = GraphBuilder()
    builder.constraints = constraints
    builder.location = location
    inputs = [builder.input(type) for type in types]
    with context.using(emitter=builder, constraints=constraints):
        outputs = tuple(function(builder, *inputs))
    return Graph(tuple(inputs), tuple(builder.nodes), outputs, (), name)


def split(
    joint: Joint,
    name: str,
    constraints: Constraints,
    *,
    free_inputs: Collection[int] = (),
    free_outputs: Collection[int] = (),
    stable: Collection[int] = (),
    with_stacks: bool = False,
) -> Split:
    """Choose the residuals of ``joint`` (see ``partition.choose``) and build both halves.

    The free inputs and outputs, by number, are at hand in the backward part without being saved. With ``with_stacks``,
    stacks that loops fill come in from outside and go out again, for a joint computation that is the body of a loop.
    Without, both halves stand alone: backward keeps inputs that tell it the sizes that it and ``constraints`` name.
    Prints are in the forward half alone: what backward computes again, it does not print again.
    """
    audible, joint = joint, replace(joint, nodes=without_prints(joint.nodes))
    late = dependents(joint.nodes, joint.cotangents)
    needed = late_nodes(joint, late)
    read = {value for node in needed for value in node.inputs}
    residual_stacks = tuple(stack for stack in joint.residual_stacks if stack.end in read) if with_stacks else ()
    joint, audible = (replace(one, residual_stacks=residual_stacks) for one in (joint, audible))
    numbers = {joint.outputs[i]: (1, i) for i in sorted(free_outputs, reverse=True)}
    numbers |= {joint.inputs[i]: (0, i) for i in free_inputs}
    saved = choose(joint, free=numbers, stable=[joint.inputs[i] for i in stable], with_stacks=with_stacks)
    leaves = {*numbers, *saved, *joint.cotangents, *(stack.end for stack in residual_stacks)}
    nodes = _scheduled(joint, needed, leaves)
    used = {value for node in nodes for value in node.inputs} | set(joint.gradients)
    if not with_stacks:
        used_leaves = [value for value in leaves if value in used]
        used.update(_binders(_names_in(nodes, constraints), used_leaves, [joint.inputs[i] for i in free_inputs]))
    pairs = [(number, value) for value, number in sorted(numbers.items(), key=lambda item: item[1]) if value in used]
    ends = tuple(stack.end for stack in residual_stacks)
    entering = (*(value for _, value in pairs), *ends, *saved, *joint.cotangents)
    builder = GraphBuilder()
    env = {value: builder.input(value.type, value.hint) for value in entering}
    run_nodes(nodes, env, builder.copy)
    outputs = (*joint.gradients, *(stack.rest for stack in residual_stacks))
    backward = Graph(
        tuple(builder.inputs), tuple(builder.nodes), tuple(env[value] for value in outputs), (), f"{name}_backward"
    )
    return Split(
        forward=_forward(audible, residual_stacks, saved, late, name),
        backward=backward,
        saved_inputs=tuple(i for (side, i), _ in pairs if side == 0),
        saved_outputs=tuple(i for (side, i), _ in pairs if side == 1),
        saved=tuple(value.type for value in saved),
        stacks=tuple(value.type for value in ends),
    )


def _scheduled(joint: Joint, needed: Sequence[Node], leaves: Collection[Value]) -> list[Node]:
    """The nodes of the backward half; what is computed again stands right before its first use, to live shortly."""
    producers = {value: node for node in joint.nodes for value in node.outputs}
    nodes: list[Node] = []
    done: set[Node] = set()

    def require(node: Node) -> None:
        open_nodes = [node]
        while open_nodes:
            current = open_nodes[-1]
            if current in done:
                open_nodes.pop()
                continue
            missing = [producers[value] for value in current.inputs if value not in leaves]
            missing = [producer for producer in dict.fromkeys(missing) if producer not in done]
            if missing:
                open_nodes.extend(reversed(missing))
            else:
                done.add(current)
                nodes.append(open_nodes.pop())

    for node in needed:
        require(node)
    for value in joint.gradients:
        if value not in leaves:
            require(producers[value])
    return nodes


def _names_in(nodes: Iterable[Node], constraints: Iterable[SizeConstraint]) -> set[str]:
    names: set[str] = set()
    for constraint in constraints:
        names |= dims.names(constraint.left) | dims.names(constraint.right)
    for node in nodes:
        names.update(*map(names_in_attr, node.attrs.values()))
        names.update(*(names_in_type(value.type) for value in node.outputs))
        for region in node.regions:
            names |= _names_in(region.nodes, ())
    return names


def _binders(names: set[str], entering: Iterable[Value], inputs: Sequence[Value]) -> set[Value]:
    """The smallest inputs that tell the sizes in ``names`` which ``entering`` values do not tell."""

    def told_by(value: Value) -> set[str]:
        alone = (dim.as_name for dim in value.shape if isinstance(dim, Dim)) if is_tensor(value) else ()
        return {name for name in alone if name is not None}

    missing = names.difference(*map(told_by, entering))
    binders: set[Value] = set()
    for name in sorted(missing):
        telling = [value for value in inputs if name in told_by(value)]
        if telling:
            binders.add(min(telling, key=cost))
        else:  # told by a compound size: keep whatever mentions it
            binders.update(value for value in inputs if name in names_in_type(value.type))
    return binders


def _forward(
    joint: Joint, residual_stacks: Sequence[ResidualStack], saved: Sequence[Value], late: Collection[Value], name: str
) -> Graph:
    starts = tuple(stack.start for stack in residual_stacks)
    outputs = (*joint.outputs, *(stack.end for stack in residual_stacks), *saved)
    needed = set(outputs)
    nodes: list[Node] = []
    for node in reversed(joint.nodes):
        if any(value in late for value in node.inputs) or any(value in starts for value in node.outputs):
            continue
        if has_effect(node) or not needed.isdisjoint(node.outputs):
            plain = joint.originals.get(node)
            chosen = plain if plain and needed.isdisjoint(set(node.outputs).difference(plain.outputs)) else node
            nodes.append(chosen)
            needed.update(chosen.inputs)
    return Graph((*joint.inputs, *starts), tuple(reversed(nodes)), outputs, (), name)
