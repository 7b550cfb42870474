"""Packing: a block of one factor of a contraction, evaluated once and laid out as the register tile reads it.

A panel is ``width`` places along the factor's own axis (m or n) by a block of k, k outermost: place ``p`` at depth ``k``
lies at ``k * width + p``. Packing evaluates the operand's statements, so views, casts and cheap producers are fused in.
"""

from __future__ import annotations

from jitgraph.codegen.kernel import Body, Load, Operand
from jitgraph.codegen.llvm import body as bodies
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import inner_bodies
from jitgraph.dtypes import DType
from jitgraph.ir.dims import Dim, DimLike


def pack(
    operand: Operand,
    axes: tuple[str, str],
    env: Environment,
    panel: Scalar,
    width: int,
    places: tuple[Scalar, Scalar],
    depths: tuple[Scalar, Scalar],
    dtype: DType,
) -> None:
    """Fill ``panel`` with ``operand`` at ``places`` (begin, end; at most ``width``) and ``depths``, cast to ``dtype``.

    ``axes`` are the names of the factor's own axis and of k. Whichever of them runs through memory goes over lanes. The
    panel has room for one more vector than it holds; what lies at places past the end is of no account.
    """
    own, k = axes
    if _unit_accesses(operand.body, k) > _unit_accesses(operand.body, own):
        _pack_along_depth(operand, axes, env, panel, width, places, depths, dtype)
    else:
        _pack_along_places(operand, axes, env, panel, width, places, depths, dtype)


def _pack_along_places(
    operand: Operand,
    axes: tuple[str, str],
    env: Environment,
    panel: Scalar,
    width: int,
    places: tuple[Scalar, Scalar],
    depths: tuple[Scalar, Scalar],
    dtype: DType,
) -> None:
    own, k = axes
    lanes = min(env.target.lanes(dtype.itemsize), 1 << (width - 1).bit_length())

    def depth(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        row = multiply(env, subtract(env, at, depths[0]), integer(width))

        def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
            base = here.lanes.base if here.lanes is not None else here[own]
            place = add(env, row, subtract(env, base, places[0]))
            store_vector(here, panel, place, _value(operand, here, dtype))
            return carries

        loops.in_lanes(own, operand.body, env.at({k: at}), places[0], places[1], lanes, [], step)
        return []

    loops.counted(env, depths[0], depths[1], 1, [], depth)


def _pack_along_depth(
    operand: Operand,
    axes: tuple[str, str],
    env: Environment,
    panel: Scalar,
    width: int,
    places: tuple[Scalar, Scalar],
    depths: tuple[Scalar, Scalar],
    dtype: DType,
) -> None:
    own, k = axes
    lanes = env.target.lanes(dtype.itemsize)

    def place(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        column = subtract(env, at, places[0])

        def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
            value = _value(operand, here, dtype)
            base = here.lanes.base if here.lanes is not None else here[k]
            first = multiply(env, subtract(env, base, depths[0]), integer(width))
            count = here.lanes.width if here.lanes is not None else 1
            value = here.words.splat(value, count)
            for lane in range(count):  # lanes past the end fall into the room after the block
                one = here.words.make(f"extractelement {value}, i64 {lane}", dtype, 1) if count > 1 else value
                store_vector(here, panel, add(env, first, add(env, column, integer(lane * width))), one)
            return carries

        loops.in_lanes(k, operand.body, env.at({own: at}), depths[0], depths[1], lanes, [], step)
        return []

    loops.counted(env, places[0], places[1], 1, [], place)


def _value(operand: Operand, env: Environment, dtype: DType) -> Scalar:
    bodies.emit_body(operand.body, env)
    value = env.words.cast(env[operand.value.name], dtype)
    return env.words.splat(value, env.lanes.width) if env.lanes is not None else value


def store_vector(env: Environment, buffer: Scalar, index: Scalar, value: Scalar) -> None:
    """Store all lanes of ``value`` from ``index`` on into private memory."""
    address = element_address(env, buffer, index)
    env.function.do(f"store {value}, ptr {address}, align {value.dtype.itemsize}")


def load_vector(env: Environment, buffer: Scalar, index: Scalar, dtype: DType, lanes: int) -> Scalar:
    """``lanes`` elements from ``index`` on of private memory."""
    address = element_address(env, buffer, index)
    type = env.words.type(dtype, lanes)
    return env.words.make(f"load {type}, ptr {address}, align {dtype.itemsize}", dtype, lanes)


def element_address(env: Environment, buffer: Scalar, index: Scalar) -> str:
    """The address of element ``index`` of ``buffer``."""
    if constant_of(index) == 0:
        return buffer.name
    return env.function.emit("ptr", f"getelementptr {memory_type(buffer.dtype)}, ptr {buffer.name}, {index}").name


def _unit_accesses(body: Body, axis: str) -> int:
    """How many loads of ``body`` run through memory along ``axis``."""
    count = 0
    for statement in body:
        if isinstance(statement, Load):
            count += _coefficient(statement.index, axis) == 1
        for inner in inner_bodies(statement):
            count += _unit_accesses(inner, axis)
    return count


def _coefficient(index: DimLike, axis: str) -> int:
    return index.terms.get((axis,), 0) if isinstance(index, Dim) else 0
