"""Accumulators of reductions in lanes, and where they lie in memory, in which bools are bytes."""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.llvm.environment import Environment
from jitgraph.codegen.llvm.operand import LlvmScalar, lanes_of
from jitgraph.dtypes import is_bool, uint8


def lanes_from(env: Environment, x: LlvmScalar, start: int, count: int) -> LlvmScalar:
    """``count`` of the lanes of ``x``."""
    s = env.ops
    if count == 1:
        return s.make(f"extractelement {x}, i64 {start}", x.dtype, 1)
    order = ", ".join(f"i32 {lane}" for lane in range(start, start + count))
    return s.make(f"shufflevector {x}, {x.type} poison, <{count} x i32> <{order}>", x.dtype, count)


def joined_lanes(env: Environment, vectors: Sequence[LlvmScalar]) -> LlvmScalar:
    """Vectors of one type, a power of two of them, end to end."""
    vectors = list(vectors)
    while len(vectors) > 1:
        lanes = list(range(2 * vectors[0].lanes))
        vectors = [shuffled(env, x, y, lanes) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
    return vectors[0]


def shuffled(env: Environment, x: LlvmScalar, y: LlvmScalar | None, order: list[int]) -> LlvmScalar:
    """Lanes of ``x`` and ``y``, those of ``y`` being numbered after those of ``x``."""
    if y is None and order == list(range(x.lanes)):
        return x
    other = f"{x.type} poison" if y is None else str(y)
    lanes = ", ".join(f"i32 {lane}" for lane in order)
    return env.ops.make(f"shufflevector {x}, {other}, <{len(order)} x i32> <{lanes}>", x.dtype, len(order))


def memory(env: Environment, like: LlvmScalar, elements: int) -> LlvmScalar:
    """Memory for accumulators such as ``like``."""
    return env.private(uint8 if is_bool(like.dtype) else like.dtype, elements)._replace(dtype=like.dtype)


def element(env: Environment, memory: LlvmScalar, like: LlvmScalar, index: LlvmScalar) -> LlvmScalar:
    """The memory from one of its elements on."""
    if index.name == "0":
        return memory
    address = env.function.emit("ptr", f"getelementptr {_stored(like)}, {memory}, {index}")
    return memory._replace(name=address.name)


def _stored(like: LlvmScalar) -> str:
    """The type of one element of ``like`` in memory."""
    return "i8" if is_bool(like.dtype) else like.type.rpartition(" x ")[2].rstrip(">")


def write(env: Environment, address: LlvmScalar, x: LlvmScalar) -> None:
    """Store ``x``."""
    value = env.ops.bitcast(x, uint8) if is_bool(x.dtype) else x
    env.function.do(f"store {value}, ptr {address.name}, align 1")


def read(env: Environment, address: LlvmScalar, like: LlvmScalar, lanes: int) -> LlvmScalar:
    """``lanes`` accumulators such as ``like``."""
    dtype = like.dtype
    type = lanes_of(_stored(like), lanes)
    value = env.ops.make(f"load {type}, ptr {address.name}, align 1", uint8 if is_bool(dtype) else dtype, lanes, type)
    return env.ops.bitcast(value, dtype) if is_bool(dtype) else value
