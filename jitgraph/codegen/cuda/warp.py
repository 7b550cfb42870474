"""What PTX has and the kernel IR does not: special registers, thread numbers as indices, barriers, exchanges in a
warp.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmScalar, LlvmValue
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.index import index_value
from jitgraph.dtypes import int64
from jitgraph.ir.dims import DimLike

# ----------------------------------------------------------------------
# What PTX has and the kernel IR does not: special registers, barriers, and values that lanes of a warp exchange.

WARP: Final = 32
"""Threads that run together."""

PROCESSORS: Final = 108
"""Of a GPU for which tiles are chosen: an A100 has so many."""

_EVERY_LANE: Final = "i32 -1"


def call(function: LlvmFunction, result: str, name: str, *arguments: str) -> LlvmValue:
    """The value that one of NVIDIA's intrinsics gives; every call of it is made."""
    types = ", ".join(argument.rpartition(" ")[0] for argument in arguments)
    function.module.declare(f"declare {result} @llvm.nvvm.{name}({types})")
    return function.emit(result, f"call {result} @llvm.nvvm.{name}({', '.join(arguments)})")


def special_register(function: LlvmFunction, name: str) -> LlvmScalar:
    """A special register, such as ``tid.x``, as an int64 that LLVM knows to be small."""
    narrow = call(function, "i32", f"read.ptx.sreg.{name}")
    return LlvmScalar(function.emit("i64", f"zext {narrow} to i64").name, "i64", int64, 1)


def wait_for_warp(function: LlvmFunction) -> None:
    """A barrier of the lanes of a warp, after which each sees what the others have stored."""
    function.module.declare("declare void @llvm.nvvm.bar.warp.sync(i32)")
    function.do(f"call void @llvm.nvvm.bar.warp.sync({_EVERY_LANE})")


def wait_for_block(function: LlvmFunction) -> None:
    """A barrier of all threads of a block, after which each sees what the others have stored."""
    function.module.declare("declare void @llvm.nvvm.barrier.cta.sync.aligned.all(i32)")
    function.do("call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)")


def from_below(env: Environment, x: LlvmScalar, distance: int) -> LlvmScalar:
    """``x`` of the lane ``distance`` further on; its own in the last ones."""
    return _shuffled(env, x, "down", distance)


def from_first(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """``x`` of the first lane."""
    return _shuffled(env, x, "idx", 0)


def _shuffled(env: Environment, x: LlvmScalar, mode: str, by: int) -> LlvmScalar:
    """A value of any type goes as one word of 32 bits, or as two."""
    function = env.function

    def convert(instruction: str, value: LlvmValue, type: str) -> LlvmValue:
        return value if value.type == type else function.emit(type, f"{instruction} {value} to {type}")

    def exchange(word: LlvmValue) -> LlvmValue:
        arguments = (_EVERY_LANE, str(word), f"i32 {by}", f"i32 {WARP - 1}")
        return call(function, "i32", f"shfl.sync.{mode}.i32", *arguments)

    bits = {"float": 32, "double": 64, "half": 16}.get(x.type) or int(x.type[1:])
    raw = convert("bitcast", LlvmValue(x.name, x.type), f"i{bits}")
    if bits <= WARP:
        moved = convert("trunc", exchange(convert("zext", raw, "i32")), f"i{bits}")
    else:
        high = function.emit("i64", f"lshr {raw}, 32")
        words = [function.emit("i64", f"zext {exchange(convert('trunc', half, 'i32'))} to i64") for half in (raw, high)]
        above = function.emit("i64", f"shl {words[1]}, 32")
        moved = function.emit("i64", f"or {words[0]}, {above.name}")
    return x._replace(name=convert("bitcast", moved, x.type).name)


# ----------------------------------------------------------------------
# The number of a thread or a block as indices of the loops that it stands for.

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
