"""Packing: a block of one factor of a contraction, evaluated once and laid out as the register tile reads it.

A panel is ``width`` places along the factor's own axis (m or n) by a block of k, k outermost: place ``p`` at depth
``k`` lies at ``k * width + p``. Packing evaluates the operand's statements, so views, casts and cheap producers are
fused in.
"""

from __future__ import annotations

from typing import NamedTuple

from jitgraph.codegen.kernel import Body, Load, Operand
from jitgraph.codegen.llvm import body as bodies
from jitgraph.codegen.llvm import loops
from jitgraph.codegen.llvm.access import memory_type
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, multiply, subtract
from jitgraph.codegen.llvm.scalars import Scalar
from jitgraph.codegen.llvm.structure import inner_bodies
from jitgraph.codegen.llvm.tile import square_function
from jitgraph.dtypes import DType
from jitgraph.ir.dims import Dim, DimLike


class Panels(NamedTuple):
    """Packed memory: panels of ``width`` places one after the other, each by all of ``depths``.

    ``places`` and ``depths`` are (begin, end). The memory has room for one more vector than it holds; what lies at
    places and depths past the end is of no account.
    """

    memory: Scalar
    width: int
    places: tuple[Scalar, Scalar]
    depths: tuple[Scalar, Scalar]

    def panel_at(self, env: Environment, place: Scalar) -> Scalar:
        """The panel that begins with ``place``."""
        number = _quotient(env, subtract(env, place, self.places[0]), self.width)
        size = multiply(env, subtract(env, self.depths[1], self.depths[0]), integer(self.width))
        address = element_address(env, self.memory, multiply(env, number, size))
        return Scalar(address, "ptr", self.memory.dtype, 1)


def pack(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Fill ``panels`` with ``operand``. ``axes`` are the names of the factor's own axis and of k.

    Whichever of them runs through memory goes over lanes; where that is k, squares are transposed in registers.
    """
    own, k = axes
    if _unit_accesses(operand.body, k) > _unit_accesses(operand.body, own):
        _pack_along_depth(operand, axes, env, panels)
    elif panels.width % env.target.lanes(panels.memory.dtype.itemsize) == 0:
        _pack_rows(operand, axes, env, panels)
    else:
        _pack_along_places(operand, axes, env, panels)


def _pack_rows(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Depth by depth through all panels, so that memory is read in long runs. No vector crosses two panels."""
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    begin, end = panels.places
    size = multiply(env, subtract(env, panels.depths[1], panels.depths[0]), integer(width))

    def depth(at: Scalar, _: list[Scalar]) -> list[Scalar]:
        row = multiply(env, subtract(env, at, panels.depths[0]), integer(width))

        def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
            base = here.lanes.base if here.lanes is not None else here[own]
            place = subtract(env, base, begin)
            number = _quotient(env, place, width)
            inside = subtract(env, place, multiply(env, number, integer(width)))
            start = add(env, multiply(env, number, size), add(env, row, inside))
            store_vector(here, panels.memory, start, _value(operand, here, dtype))
            return carries

        loops.in_lanes(own, operand.body, env.at({k: at}), begin, end, env.target.lanes(dtype.itemsize), [], step)
        return []

    loops.counted(env, *panels.depths, 1, [], depth)


def _pack_along_places(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Panel by panel, the places of one depth in a vector; what it holds past the panel the next depth overwrites."""
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    lanes = min(env.target.lanes(dtype.itemsize), 1 << (width - 1).bit_length())

    def panel(first: Scalar, _: list[Scalar]) -> list[Scalar]:
        memory = panels.panel_at(env, first)
        last = least(env, add(env, first, integer(width)), panels.places[1])

        def depth(at: Scalar, _: list[Scalar]) -> list[Scalar]:
            row = multiply(env, subtract(env, at, panels.depths[0]), integer(width))

            def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
                base = here.lanes.base if here.lanes is not None else here[own]
                store_vector(here, memory, add(env, row, subtract(env, base, first)), _value(operand, here, dtype))
                return carries

            loops.in_lanes(own, operand.body, env.at({k: at}), first, last, lanes, [], step)
            return []

        loops.counted(env, *panels.depths, 1, [], depth)
        return []

    loops.counted(env, *panels.places, width, [], panel)


def _pack_along_depth(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Squares of lanes by lanes: read along k, transposed, written along places."""
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    lanes = env.target.lanes(dtype.itemsize)
    transpose = square_function(env, dtype)
    square = Scalar(env.function.alloca(env.words.type(dtype), lanes * lanes).name, "ptr", dtype, 1)

    def panel(first: Scalar, _: list[Scalar]) -> list[Scalar]:
        memory = panels.panel_at(env, first)
        last = least(env, add(env, first, integer(width)), panels.places[1])

        def group(begin: Scalar, _: list[Scalar]) -> list[Scalar]:
            if width > lanes:  # the last square of a panel moves back, so that it stays inside
                begin = least(env, begin, add(env, first, integer(width - lanes)))
            end = least(env, add(env, begin, integer(lanes)), last)

            def step(here: Environment, carries: list[Scalar]) -> list[Scalar]:
                base = here.lanes.base if here.lanes is not None else here[k]
                row = multiply(env, subtract(env, base, panels.depths[0]), integer(width))
                start = add(env, row, subtract(env, begin, first))
                count = here.lanes.width if here.lanes is not None else 1

                def read(at: Scalar, _: list[Scalar]) -> list[Scalar]:
                    line = multiply(env, subtract(env, at, begin), integer(count))
                    store_vector(here, square, line, _value(operand, here.at({own: at}), dtype))
                    return []

                loops.counted(env, begin, end, 1, [], read)
                if count == 1:
                    store_vector(here, memory, start, load_vector(env, square, integer(0), dtype, lanes))
                else:
                    to = element_address(env, memory, start)
                    env.function.do(f"call void @{transpose}({square}, ptr {to}, i64 {width})")
                return carries

            loops.in_lanes(k, operand.body, env, *panels.depths, lanes, [], step)
            return []

        loops.counted(env, first, last, lanes, [], group)
        return []

    loops.counted(env, *panels.places, width, [], panel)


def _quotient(env: Environment, x: Scalar, divisor: int) -> Scalar:
    known = constant_of(x)
    if known is not None:
        return integer(known // divisor)
    return env.words.make(f"udiv {x}, {divisor}", x.dtype, 1)


def least(env: Environment, x: Scalar, y: Scalar) -> Scalar:
    """The smaller of two uniform sizes, folded where both are literals."""
    a, b = constant_of(x), constant_of(y)
    if a is not None and b is not None:
        return integer(min(a, b))
    return env.words.min(x, y)


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
