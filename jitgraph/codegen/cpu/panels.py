"""Packing: a block of one factor of a contraction, evaluated once and laid out as the register tile reads it."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from jitgraph.codegen.cpu import vectors
from jitgraph.codegen.cpu.kernel_function import Scratch, emit_load
from jitgraph.codegen.cpu.tile import square_function
from jitgraph.codegen.kernels.index import Ranges, coefficient, divisions
from jitgraph.codegen.kernels.kernel import Body, Kernel, Let, Load, Operand, Param, Statement, Var, bodies_of, map_dims
from jitgraph.codegen.llvm import loops, machine
from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmModule, LlvmScalar, fetch_line
from jitgraph.codegen.llvm.environment import Environment, Names, constant_of, integer
from jitgraph.codegen.llvm.index import add, element_address, end_of_block, index_value, least, multiply, subtract
from jitgraph.dtypes import SHORT_NAMES, DType, bool_, int64
from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike, names
from jitgraph.ir.target import Target

# ----------------------------------------------------------------------
# Packing: a block of one factor of a contraction, evaluated once and laid out as the register tile reads it.
#
# A panel is ``width`` places along the factor's own axis (m or n) by a block of k, k outermost: place ``p`` at depth
# ``k`` lies at ``k * width + p``. Packing evaluates the operand's statements, so views, casts and cheap producers are
# fused in.

_FEW_PLACES: Final = 2  # for which a square of lanes is not worth transposing
_LEAST_RUN: Final = 4  # places of memory that are worth a loop
_ROWS_AHEAD: Final = 8  # depths by which rows are fetched before they are packed


class Panels(NamedTuple):
    """Packed memory: panels of ``width`` places one after the other, each by all of ``depths``.

    ``places`` and ``depths`` are (begin, end). The memory has room for one more vector than it holds; what lies at
    places and depths past the end is of no account.
    """

    memory: LlvmScalar
    width: int
    places: tuple[LlvmScalar, LlvmScalar]
    depths: tuple[LlvmScalar, LlvmScalar]

    def panel_at(self, env: Environment, position: LlvmScalar) -> LlvmScalar:
        """The panel that begins with ``position``."""
        number = _quotient(env, subtract(env, position, self.places[0]), self.width)
        size = multiply(env, subtract(env, self.depths[1], self.depths[0]), integer(self.width))
        address = element_address(env, self.memory, multiply(env, number, size))
        return LlvmScalar(address, "ptr", self.memory.dtype, 1)


def pack(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels, extent: LlvmScalar) -> None:
    """Fill ``panels`` with ``operand``. ``axes`` are the names of the factor's own axis, of ``extent``, and of k.

    Whichever of them runs through memory goes over lanes; where that is k, squares are transposed in registers. A plain
    matrix is packed by a function that is compiled once a process.
    """
    own, k = axes
    count = constant_of(subtract(env, panels.places[1], panels.places[0]))
    along_depth = unit_accesses(operand.body, k) > unit_accesses(operand.body, own)
    if along_depth and count is not None and count <= _FEW_PLACES:
        _clear_last(env, panels)
        _pack_singly(operand, axes, env, panels)
    elif not _pack_plain(operand, axes, env, panels, extent, along_depth):
        pack_here(operand, axes, env, panels, extent, along_depth)


def pack_here(
    operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels, extent: LlvmScalar, along_depth: bool
) -> None:
    """As ``pack``, by code in this place; ``along_depth`` says that memory runs along k."""
    _clear_last(env, panels)
    if along_depth:
        _pack_along_depth(operand, axes, env, panels, extent)
    elif panels.width % env.target.lanes(panels.memory.dtype.itemsize) == 0:
        _pack_rows(operand, axes, env, panels, extent)
    else:
        _pack_gathered(operand, axes, env, panels)


def _pack_plain(
    operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels, extent: LlvmScalar, along_depth: bool
) -> bool:
    """Pack by a function of ``panel_library`` where the operand is a load, and has no axis but its two over lanes."""
    lined, across = axes[::-1] if along_depth else axes
    dtype = panels.memory.dtype
    source = plain_load(operand, across, env, dtype)
    if source is None or env.lanes is not None or coefficient(source[0].index, lined) != 1:
        return False
    load, between = source
    there = env.at(dict.fromkeys(axes, integer(0)))
    address = element_address(env, env["&" + load.buffer], index_value(there, load.index))
    name = pack_name(dtype, panels.width, along_depth)
    env.module.declare(f"declare hidden void @{name}(ptr, i64, ptr, i64, i64, i64, i64, i64) nounwind\n")
    env.module.require("pack", name, dtype, panels.width, along_depth)
    matrix = f"ptr {address}", index_value(env, between)
    sizes = (*panels.places, *panels.depths, extent)
    env.function.do(env.function.call_of("void", name, *matrix, panels.memory, *sizes))
    return True


def pack_name(dtype: DType, width: int, along_depth: bool) -> str:
    """The name of the function that packs plain matrices so."""
    return f"jg_pack_{SHORT_NAMES[dtype]}_{width}_{'depth' if along_depth else 'places'}"


def _clear_last(env: Environment, panels: Panels) -> None:
    """Zero the last panel where it is not full: the tile runs over all of it, and on whatever lies in fresh memory,
    subnormal numbers as likely as not, it would be a hundred times slower."""
    dtype, width = panels.memory.dtype, panels.width
    begin, end = panels.places
    count = subtract(env, end, begin)
    known = constant_of(count)
    if known is not None and known % width == 0:
        return
    lanes = env.target.lanes(dtype.itemsize)
    zero = env.ops.splat(env.ops.const(0, dtype), lanes)
    size = multiply(env, subtract(env, panels.depths[1], panels.depths[0]), integer(width))
    first = multiply(env, _quotient(env, count, width), size)
    last = add(env, first, size)
    if known is None:
        s = env.ops
        rest = s.sub(count, s.mul(_quotient(env, count, width), integer(width)))
        last = s.select(s.cmp("eq", rest, integer(0)), first, last)

    def clear(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        store_vector(env, panels.memory, at, zero)
        return []

    loops.counted(env, first, last, lanes, [], clear)


def _pack_singly(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Element by element: of few places, no square is worth transposing."""
    own, k = axes

    def place(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        inside = subtract(env, at, panels.places[0])

        def depth(deep: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            row = multiply(env, subtract(env, deep, panels.depths[0]), integer(panels.width))
            value = value_of(operand, env.at({own: at, k: deep}), panels.memory.dtype)
            store_vector(env, panels.memory, add(env, row, inside), value)
            return []

        loops.counted(env, *panels.depths, 1, [], depth)
        return []

    loops.counted(env, *panels.places, 1, [], place)


def _pack_rows(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels, extent: LlvmScalar) -> None:
    """Depth by depth through all panels, so that memory is read in long runs. No vector crosses two panels."""
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    begin, end = panels.places
    size = multiply(env, subtract(env, panels.depths[1], panels.depths[0]), integer(width))
    lanes = env.target.lanes(dtype.itemsize)
    runs = _runs(operand, own, lanes, constant_of(extent))

    def depth(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        row = multiply(env, subtract(env, at, panels.depths[0]), integer(width))

        def run(number: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            assert runs is not None
            first = multiply(env, number, integer(runs.length))
            last = least(env, add(env, first, integer(runs.length)), end)
            inner = env.at({k: at, runs.run: number})
            ahead = {runs.run: number, k: add(env, at, integer(_ROWS_AHEAD))}

            def vector(position: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                place = subtract(env, position, first)
                here = inner.across(runs.place, place, runs.lanes)
                _fetch_ahead(runs.operand.body, here, runs.place, {**ahead, runs.place: place})
                store_vector(here, panels.memory, start_of(position), value_of(runs.operand, here, dtype))
                return []

            loops.counted(env, env.ops.max(first, begin), last, runs.lanes, [], vector)
            return []

        def start_of(position: LlvmScalar) -> LlvmScalar:
            """Where the panels have a place of this depth."""
            position = subtract(env, position, begin)
            number = _quotient(env, position, width)
            inside = subtract(env, position, multiply(env, number, integer(width)))
            return add(env, multiply(env, number, size), add(env, row, inside))

        if runs is not None:
            first, last = (
                _quotient(env, begin, runs.length),
                _quotient(env, add(env, end, integer(runs.length - 1)), runs.length),
            )
            loops.counted(env, first, last, 1, [], run)
            return []

        def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
            base = here.lanes.base if here.lanes is not None else here[own]
            _fetch_ahead(operand.body, here, own, {own: base, k: add(env, at, integer(_ROWS_AHEAD))})
            store_vector(here, panels.memory, start_of(base), value_of(operand, here, dtype))
            return carries

        vectors.in_lanes(own, operand.body, env.at({k: at}), begin, end, lanes, [], step)
        return []

    loops.counted(env, *panels.depths, 1, [], depth)


class _Runs(NamedTuple):
    """An operand whose places lie in runs of ``length``: place ``run * length + place``, in these two axes.

    It is read in vectors of ``lanes``, none of which crosses two runs.
    """

    operand: Operand
    length: int
    lanes: int
    run: str
    place: str


def _runs(operand: Operand, own: str, lanes: int, extent: int | None) -> _Runs | None:
    """The operand by runs of memory, where that is how all its loads lie, in vectors of ``lanes`` or fewer."""
    if any(not isinstance(statement, Load | Let) for statement in operand.body):
        return None
    loads = [load for load in operand.body if isinstance(load, Load) and own in names(load.index)]
    lengths = {division.denominator for load in loads for division in divisions(load.index, own)}
    if len(lengths) != 1:
        return None
    (length,) = lengths
    if not isinstance(length, int) or length < _LEAST_RUN or extent is None:
        return None
    lanes = math.gcd(length, lanes, extent)
    run, place = f"{own}.run", f"{own}.place"
    ranges = Ranges()
    ranges.declare(place, length)

    def by_run(index: DimLike) -> DimLike:
        return ranges.simplify(dims.substitute(index, {own: length * Dim.name(run) + Dim.name(place)}))

    body = tuple(map_dims(statement, by_run) for statement in operand.body)
    for statement in body:
        if isinstance(statement, Load) and coefficient(statement.index, place) not in (0, 1):
            return None
    return _Runs(Operand(body, operand.value), length, lanes, run, place)


def _fetch_ahead(body: Body, env: Environment, own: str, point: dict[str, LlvmScalar]) -> None:
    """Ask for what the loads of ``body`` that run through memory along ``own`` will read at ``point``.

    A block is read in short runs, one for each depth, which the processor does not foresee by itself.
    """
    for statement in body:
        if isinstance(statement, Load) and coefficient(statement.index, own) == 1:
            if any(name.startswith("_v") for name in names(statement.index)):
                continue
            there = env.at(point)
            there.lanes = None
            address = element_address(env, env["&" + statement.buffer], index_value(there, statement.index))
            fetch_line(env.function, address)


def _pack_gathered(operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels) -> None:
    """Panel by panel, the places of one depth in a vector; what it holds past the panel the next depth overwrites."""
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    lanes = min(env.target.lanes(dtype.itemsize), 1 << (width - 1).bit_length())

    def panel(first: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        memory = panels.panel_at(env, first)
        last = end_of_block(env, first, integer(width), panels.places)

        def depth(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            row = multiply(env, subtract(env, at, panels.depths[0]), integer(width))

            def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
                base = here.lanes.base if here.lanes is not None else here[own]
                store_vector(here, memory, add(env, row, subtract(env, base, first)), value_of(operand, here, dtype))
                return carries

            inner = env.at({k: at})
            vectors.in_lanes(own, operand.body, inner, first, last, lanes, [], step, most=width)
            return []

        loops.counted(env, *panels.depths, 1, [], depth)
        return []

    loops.counted(env, *panels.places, width, [], panel)


def _pack_along_depth(
    operand: Operand, axes: tuple[str, str], env: Environment, panels: Panels, extent: LlvmScalar
) -> None:
    """Squares of lanes by lanes: read along k, transposed, written along places.

    A square is read where it lies if the operand is nothing but a load, and by way of a dense copy elsewhere.
    """
    own, k = axes
    width, dtype = panels.width, panels.memory.dtype
    lanes = env.target.lanes(dtype.itemsize)
    transpose = square_function(env, dtype, lanes)
    square = env.private(dtype, lanes * lanes)
    zero = env.ops.splat(env.ops.const(0, dtype), lanes)

    def clear(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        store_vector(env, square, at, zero)
        return []

    # A square that is not full is transposed whole, see _clear_last; where the factor goes on for one, none is copied.
    goes_on = env.ops.cmp("le", add(env, panels.places[1], integer(lanes)), extent)
    size = env.ops.select(goes_on, integer(0), integer(lanes * lanes))
    loops.counted(env, integer(0), size, lanes, [], clear)
    source = plain_load(operand, own, env, dtype)

    def panel(first: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
        memory = panels.panel_at(env, first)
        last = end_of_block(env, first, integer(width), panels.places)

        def group(begin: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
            if width > lanes:  # the last square of a panel moves back, so that it stays inside
                begin = least(env, begin, add(env, first, integer(width - lanes)))
            end = least(env, add(env, begin, integer(lanes)), last)

            def step(here: Environment, carries: list[LlvmScalar]) -> list[LlvmScalar]:
                base = here.lanes.base if here.lanes is not None else here[k]
                row = multiply(env, subtract(env, base, panels.depths[0]), integer(width))
                start = add(env, row, subtract(env, begin, first))
                count = here.lanes.width if here.lanes is not None else 1
                origin, stride, copied = square.name, integer(lanes), begin
                if source is not None and here.lanes is not None and here.lanes.mask is None:
                    s = env.ops
                    load, between = source
                    inside = s.cmp("le", add(env, begin, integer(lanes)), extent)
                    there = env.at({own: begin, k: base})
                    address = element_address(env, env["&" + load.buffer], index_value(there, load.index))
                    origin = env.function.emit("ptr", f"select {inside}, ptr {address}, ptr {origin}").name
                    stride = s.select(inside, index_value(env, between), stride)
                    copied = s.select(inside, end, begin)

                def read(at: LlvmScalar, _: list[LlvmScalar]) -> list[LlvmScalar]:
                    line = multiply(env, subtract(env, at, begin), integer(count))
                    store_vector(here, square, line, value_of(operand, here.at({own: at}), dtype))
                    return []

                loops.counted(env, copied, end, 1, [], read)
                if count == 1:
                    store_vector(here, memory, start, load_vector(env, square, integer(0), dtype, lanes))
                else:
                    to = element_address(env, memory, start)
                    env.function.do(f"call void {transpose}(ptr {origin}, {stride}, ptr {to}, i64 {width})")
                return carries

            vectors.in_lanes(k, operand.body, env, *panels.depths, lanes, [], step)
            return []

        loops.counted(env, first, last, lanes, [], group)
        return []

    loops.counted(env, *panels.places, width, [], panel)


def plain_load(operand: Operand, own: str, env: Environment, dtype: DType) -> tuple[Load, DimLike] | None:
    """The operand's load, and the elements between its places, where that load is all there is to it."""
    if len(operand.body) != 1 or dtype == bool_:
        return None
    (load,) = operand.body
    if not isinstance(load, Load) or load.mask is not None or load.var != operand.value:
        return None
    between = coefficient(load.index, own)
    if between is None or load.var.dtype != dtype or env["&" + load.buffer].lanes > 1:
        return None
    return load, between


def _quotient(env: Environment, x: LlvmScalar, divisor: int) -> LlvmScalar:
    known = constant_of(x)
    if known is not None:
        return integer(known // divisor)
    return env.ops.make(f"udiv {x}, {divisor}", x.dtype, 1)


def value_of(operand: Operand, env: Environment, dtype: DType) -> LlvmScalar:
    """The operand's value where ``env`` says, as ``dtype`` and in all lanes."""
    env.emit(operand.body)
    value = env.ops.cast(env[operand.value.name], dtype)
    return env.ops.splat(value, env.lanes.width) if env.lanes is not None else value


def store_vector(env: Environment, buffer: LlvmScalar, index: LlvmScalar, value: LlvmScalar) -> None:
    """Store all lanes of ``value`` from ``index`` on into private memory."""
    address = element_address(env, buffer, index)
    env.function.do(f"store {value}, ptr {address}, align {value.dtype.itemsize}")


def load_vector(env: Environment, buffer: LlvmScalar, index: LlvmScalar, dtype: DType, lanes: int) -> LlvmScalar:
    """``lanes`` elements from ``index`` on of private memory."""
    address = element_address(env, buffer, index)
    type = env.ops.type(dtype, lanes)
    return env.ops.make(f"load {type}, ptr {address}, align {dtype.itemsize}", dtype, lanes)


def part(env: Environment, buffer: LlvmScalar, start: LlvmScalar) -> LlvmScalar:
    """``buffer`` from element ``start`` on."""
    return buffer._replace(name=element_address(env, buffer, start))


def unit_accesses(body: Body, axis: str) -> int:
    """How many loads of ``body`` run through memory along ``axis``."""
    count = 0
    for statement in body:
        if isinstance(statement, Load):
            count += coefficient(statement.index, axis) == 1
        for inner in bodies_of(statement):
            count += unit_accesses(inner, axis)
    return count


# ----------------------------------------------------------------------
# Packing of plain matrices as functions: compiled once a process for a dtype and a width of panels, and linked.
#
# A factor of a contraction that is nothing but a matrix in memory needs no code of its own: the function is told where
# it lies and how far its lines are apart.


def pack_module(target: Target, name: str, dtype: DType, width: int, along_depth: bool) -> LlvmModule:
    """A module with ``void name(ptr from, i64 stride, ptr to, i64 begin, i64 end, i64 first, i64 last, i64 extent)``.

    It packs places ``begin .. end`` and depths ``first .. last`` of a matrix into panels of ``width`` places. Elements
    lie side by side along k where ``along_depth``, else along the factor's own axis, which has ``extent`` places; along
    the other axis they are ``stride`` elements apart. ``from`` is the element at place 0 and depth 0.
    """
    module = LlvmModule(machine.TRIPLE)
    function = LlvmFunction(module, name, "void", linkage="hidden", attributes="nounwind")
    own, k, stride, value = "_i0", "_i1", "stride", Var("_v0", dtype)
    across, lined = (own, k) if along_depth else (k, own)
    load = Load(value, "from", Dim.name(stride) * Dim.name(across) + Dim.name(lined))
    kernel = Kernel(name, (Param("from", dtype, Dim.name(stride), "read"),), (), (stride,))
    env = Environment(function, kernel, target, Names(), Scratch(name), _emit_load)
    env.bind("&from", LlvmScalar(function.argument("ptr", "noalias readonly").name, "ptr", dtype, 1))
    env.bind(stride, LlvmScalar(function.argument("i64").name, "i64", int64, 1))
    memory = LlvmScalar(function.argument("ptr", "noalias").name, "ptr", dtype, 1)
    begin, end, first, last, extent = (LlvmScalar(function.argument("i64").name, "i64", int64, 1) for _ in range(5))
    panels = Panels(memory, width, (begin, end), (first, last))
    pack_here(Operand((load,), value), (own, k), env, panels, extent, along_depth)
    function.ret()
    function.finish()
    return module


def _emit_load(statement: Statement, env: Environment) -> None:
    """A plain matrix is read by nothing else."""
    assert isinstance(statement, Load), statement
    emit_load(statement, env)
