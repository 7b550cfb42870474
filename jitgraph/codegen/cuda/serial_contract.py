"""Small contractions: each thread computes whole elements of the result, in the order of ``kernel.Contract``."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.cuda import tree
from jitgraph.codegen.cuda.contract import blocks_of, steps_of
from jitgraph.codegen.kernels.kernel import Contract
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, least, multiply
from jitgraph.codegen.llvm.operand import LlvmScalar


def emit_element(contract: Contract, env: Environment, index: tuple[LlvmScalar, LlvmScalar]) -> None:
    """Emit the element of row and column ``index``, its epilogue included; the extents are known."""
    s, dtype = env.ops, contract.acc.dtype
    first, depth = steps = steps_of(contract, env)
    (blocks, most), zero = blocks_of(contract, env, steps), [s.const(0, dtype)]
    here = {contract.m: index[0], contract.n: index[1]}

    def step(k: LlvmScalar, sums: list[LlvmScalar]) -> list[LlvmScalar]:
        point = env.at({**here, contract.k: k})
        point.emit((*contract.left.body, *contract.right.body))
        left, right = (s.cast(point[operand.value.name], dtype) for operand in (contract.left, contract.right))
        return [s.fma(left, right, sums[0])]

    def block(number: LlvmScalar) -> list[LlvmScalar]:
        start = add(env, first, multiply(env, number, integer(contract.block_k)))
        stop = least(env, add(env, start, integer(contract.block_k)), depth)
        return loops.counted(env, start, stop, 1, zero, step)

    def merge(left: Sequence[LlvmScalar], right: Sequence[LlvmScalar]) -> list[LlvmScalar]:
        return [s.add(x, y) for x, y in zip(left, right, strict=True)]

    (total,) = tree.merged(env, integer(0), blocks, zero, block, merge, most)
    scope = env.at(here)
    scope.bind(contract.acc.name, total)
    scope.emit(contract.epilogue)
