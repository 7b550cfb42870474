"""The number of a thread or a block as indices of the loops that it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.index import index_value
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int64
from jitgraph.ir.dims import DimLike

_NARROW = 1 << 31


def ceil_div(dim: DimLike, by: int) -> DimLike:
    """``dim / by`` rounded up."""
    return (dim + (by - 1)) // by


def unravelled(env: Environment, position: LlvmScalar, extents: Sequence[DimLike]) -> list[LlvmScalar]:
    """The index in a row-major space of these extents whose number is ``position``."""
    if not extents:
        return []
    # A division of 32 bits takes a third of the instructions. A product may be known, as 0, where an extent is not.
    known = [extent for extent in extents if isinstance(extent, int)]
    narrow = len(known) == len(extents) and prod(known) < _NARROW
    indices: list[LlvmScalar] = []
    rest = position
    for extent in reversed(extents[1:]):
        rest, index = _divided(env, rest, index_value(env, extent), narrow=narrow)
        indices.append(index)
    return [rest, *reversed(indices)]


def _divided(env: Environment, x: LlvmScalar, y: LlvmScalar, *, narrow: bool) -> tuple[LlvmScalar, LlvmScalar]:
    """Quotient and remainder of natural numbers, below 2**31 where they are ``narrow``."""
    function, s = env.function, env.ops
    if not narrow:
        quotient, remainder = (s.make(f"{name} {x}, {y.name}", int64, 1) for name in ("udiv", "urem"))
        return quotient, remainder
    low = function.emit("i32", f"trunc {x} to i32")
    results = [function.emit("i32", f"{name} {low}, {y.name}") for name in ("udiv", "urem")]
    quotient, remainder = (s.make(f"zext {result} to i64", int64, 1) for result in results)
    return quotient, remainder
