"""The choice of residuals: the minimum cut against brute force, large parts, and what is never computed again."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

from jitgraph.errors import UnsupportedOp
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim
from jitgraph.ir.graph import Node, Value
from jitgraph.ir.op import Op
from jitgraph.ir.types import StackType, TensorType
from jitgraph.passes import partition
from jitgraph.passes.partition import Joint, choose, cost

F32 = np.dtype(np.float32)
CHEAP = Op(name="cheap", kind="elementwise", infer=lambda *types: types[0])
COSTLY = Op(name="costly", kind="contraction", infer=lambda *types: types[0])


def vector(size: int) -> Value:
    return Value(TensorType(F32, (size,)))


def node(op: Op, inputs: Sequence[Value], size: int) -> Node:
    return Node(op, tuple(inputs), {}, (vector(size),))


def joint_of(inputs: Sequence[Value], nodes: Sequence[Node], needed: Sequence[Value]) -> Joint:
    """A forward part and one backward node that reads ``needed``."""
    cotangent = vector(1)
    last = node(COSTLY, (cotangent, *needed), 1)
    return Joint(tuple(inputs), (cotangent,), (*nodes, last), (), last.outputs)


def random_joint(seed: int, count: int) -> tuple[Joint, set[Value]]:
    rng = random.Random(seed)
    inputs = [vector(rng.randint(1, 9)) for _ in range(2)]
    values, nodes = list(inputs), []
    for _ in range(count):
        sources = rng.sample(values[-4:], min(len(values), rng.randint(1, 2)))
        nodes.append(node(CHEAP if rng.random() < 0.8 else COSTLY, sources, rng.randint(1, 9)))
        values.append(nodes[-1].output)
    needed = rng.sample(values, 3)
    return joint_of(inputs, nodes, needed), set(inputs[:1]) if rng.random() < 0.5 else set()


def feasible(joint: Joint, at_hand: set[Value]) -> bool:
    """Whether all that the backward node reads can be had by computing cheap nodes again."""
    producers = {value: node for node in joint.nodes for value in node.outputs}

    def reachable(value: Value) -> bool:
        if value in at_hand:
            return True
        maker = producers.get(value)
        return maker is not None and maker.op is CHEAP and all(map(reachable, maker.inputs))

    return all(map(reachable, joint.nodes[-1].inputs[1:]))


def total(values: Sequence[Value]) -> int:
    return sum(map(cost, values))


def cheapest(joint: Joint, free: set[Value]) -> int:
    values = [*joint.inputs, *(node.output for node in joint.nodes[:-1])]
    subsets = itertools.chain.from_iterable(itertools.combinations(values, n) for n in range(len(values) + 1))
    return min(total(subset) for subset in subsets if feasible(joint, {*subset, *free}))


@pytest.mark.parametrize("seed", range(40))
def test_the_cut_is_the_cheapest(seed: int) -> None:
    joint, free = random_joint(seed, 8)
    saved = choose(joint, free=free)
    assert feasible(joint, {*saved, *free})
    assert total(saved) == cheapest(joint, free)


@pytest.mark.parametrize("seed", range(10))
def test_windows_give_what_suffices(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    joint, free = random_joint(seed, 60)
    best = total(choose(joint, free=free))
    monkeypatch.setattr(partition, "SEGMENT", 7)
    saved = choose(joint, free=free)
    assert feasible(joint, {*saved, *free})
    assert best <= total(saved)


def test_a_chain_saves_its_narrowest_value_and_the_latest_of_equals() -> None:
    x = vector(8)
    nodes = [node(COSTLY, [x], 8)]
    for size in (4, 2, 2, 8):
        nodes.append(node(CHEAP, [nodes[-1].output], size))
    assert choose(joint_of([x], nodes, [nodes[-1].output])) == (nodes[3].output,)


def test_a_costly_node_is_not_computed_again_unless_its_operands_are_stable() -> None:
    x, y = vector(1), vector(1)
    product = node(COSTLY, [x], 9)
    joint = joint_of([x, y], [product], [product.output])
    assert choose(joint, free=[x]) == (product.output,)
    assert choose(joint, free=[x], stable=[x]) == ()


def test_named_sizes_count_as_the_assumed_size() -> None:
    value = Value(TensorType(F32, (Dim.name("batch"), 3)))
    assert cost(value) == dims.ASSUMED_SIZE * 12
    assert cost(Value(TensorType(F32, (0,)))) == 1


def test_a_stack_that_cannot_be_had_again_is_an_error_that_names_scan() -> None:
    x = vector(1)
    printing = Op(name="noisy", kind="effect", infer=lambda *types: types, effect="ordered")
    filled = Value(StackType(TensorType(F32, ())))
    joint = joint_of([x], [Node(printing, (x,), {}, (filled,))], [filled])
    with pytest.raises(UnsupportedOp, match=r"jg\.scan"):
        choose(joint, free=[x])


def test_a_long_chain_is_cut_in_its_last_window() -> None:
    x = vector(8)
    nodes = [node(COSTLY, [x], 8)]
    for i in range(1, 1200):
        nodes.append(node(CHEAP, [nodes[-1].output], 1 if i == 1000 else 8))
    saved = choose(joint_of([x], nodes, [nodes[-1].output]))
    assert saved == (nodes[1000].output,)
