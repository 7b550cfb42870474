"""The tree in which a contraction merges the sums of its blocks of k (``kernel.Contract``), as a stack.

Before block t as many sums wait as t has bits, the largest at the bottom. The sum of block t merges with those on top
of it, as many as t ends in ones, and waits in their place; the last block's merges with all, and what lies at the
bottom is the total. A stack has no gaps, so it takes less memory than a counter with a place for each bit.
"""

from __future__ import annotations

from jitgraph.codegen.cpu import parallel
from jitgraph.codegen.kernels.kernel import Contract
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value, subtract
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int64

_LONGEST = 2**63 - 1


def block_count(contract: Contract, env: Environment) -> LlvmScalar:
    """The number of blocks of k; an empty k has one, whose sums are 0."""
    depth = index_value(env, contract.extents[2])
    known = constant_of(depth)
    if known is not None:
        return integer(max(1, -(-known // contract.block_k)))
    return parallel.ceil_div(env, env.ops.max(depth, integer(1)), integer(contract.block_k))


def most_waiting(contract: Contract, env: Environment) -> int:
    """How many sums wait at once at most, whatever k is where it is not known; 1 where none need to.

    Up to three blocks the tree is a chain, for which one place is enough.
    """
    depth = constant_of(index_value(env, contract.extents[2]))
    return _waiting(-(-(_LONGEST if depth is None else depth) // contract.block_k))


def _waiting(blocks: int) -> int:
    return max(1, blocks.bit_length() - 1)


def waiting(env: Environment, blocks: LlvmScalar) -> LlvmScalar:
    """As ``most_waiting``, for a number of blocks of the code's."""
    known = constant_of(blocks)
    if known is not None:
        return integer(_waiting(known))
    zeros = env.ops.make(f"call i64 @llvm.ctlz.i64({blocks}, i1 false)", int64, 1)
    return env.ops.max(subtract(env, integer(63), zeros), integer(1))


def height(env: Environment, block: LlvmScalar) -> LlvmScalar:
    """How many sums wait before ``block``."""
    known = constant_of(block)
    return integer(known.bit_count()) if known is not None else env.ops.intrinsic("ctpop", block)


def merges(env: Environment, block: LlvmScalar, blocks: LlvmScalar) -> LlvmScalar:
    """With how many waiting sums that of ``block`` merges; ``blocks`` are all there are."""
    known, last = constant_of(block), constant_of(blocks)
    following = add(env, block, integer(1))
    high = height(env, block)
    ones = subtract(env, add(env, high, integer(1)), height(env, following))
    if known is not None and last is not None:
        return high if known + 1 == last else ones
    return env.ops.select(env.ops.cmp("eq", following, blocks), high, ones)
