"""Random words at an index: of elements that are computed together, those of one block compute it once."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernels.index import offset
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.statements import ScalarOps
from jitgraph.codegen.lower.values import Evaluator, Index
from jitgraph.dtypes import uint32, uint64
from jitgraph.ir.graph import Node
from jitgraph.ir.types import Shape
from jitgraph.ops.distributions import WORDS, philox

_LEAST_LANES: Final = 16


def random_bits_at(values: Evaluator, node: Node, output: int, index: Index, mask: Var | None) -> Var:
    """The word at an index. Words of a block share what is written for it, if the index says which word it is."""
    recorder = values.recorder
    (key,) = node.inputs
    position = offset(index, node.output.shape)
    seed, counter = values.at(key, (0,)), values.at(key, (1,))
    ops = ScalarOps(recorder, uint64)
    word = recorder.ranges.simplify(position % WORDS)
    if isinstance(word, int):
        block = ops.cast(recorder.index_value(position // WORDS), uint64)
        return ops.cast(philox(ops, seed, ops.add(counter, block))[word], uint32)
    assert node.op.scalar is not None
    result = node.op.scalar(ops, seed, counter, recorder.index_value(position))
    assert isinstance(result, Var)
    return result


def blocks_of(shape: Shape) -> Shape | None:
    """The shape of the blocks of words that the elements of ``shape`` fall into; None where they do not, or lanes lack.

    Element i of block b is element 4 b + i along the last axis; where that has four elements the axis before has lanes.
    """
    if not shape or not isinstance(shape[-1], int) or shape[-1] % WORDS:
        return None
    if shape[-1] == WORDS:
        return shape[:-1] or None
    blocks = shape[-1] // WORDS
    return (*shape[:-1], blocks) if blocks >= _LEAST_LANES or len(shape) == 1 else None


def elements_of(shape: Shape, block: Index) -> list[Index]:
    """The indices of the elements of a block."""
    if shape[-1] == WORDS:
        return [(*block, i) for i in range(WORDS)]
    return [(*block[:-1], block[-1] * WORDS + i) for i in range(WORDS)]
