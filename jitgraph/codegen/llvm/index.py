"""Index arithmetic as 64-bit values, uniform or in lanes, and loads and stores of single elements."""

from __future__ import annotations

from jitgraph.codegen.llvm.builder import LlvmScalar, element_type, lanes_of
from jitgraph.codegen.llvm.environment import Environment, constant_of, folded, integer
from jitgraph.dtypes import DType, bool_, float16, float32, int32, int64, is_bool, uint8
from jitgraph.ir import dims
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv, Mod

# ----------------------------------------------------------------------
# Index arithmetic: dims over axes, sizes and int64 scalars, as 64-bit values, uniform or in lanes.


def varies(env: Environment, dim: DimLike) -> bool:
    """Whether ``dim`` differs between lanes."""
    lanes = env.lanes
    if lanes is None or isinstance(dim, int):
        return False
    return any(name == lanes.axis or env[name].lanes > 1 for name in dims.names(dim))


def split(env: Environment, dim: DimLike) -> tuple[DimLike, DimLike] | None:
    """``(coefficient, rest)`` with dim == coefficient * axis + rest, both uniform; None where it is not so."""
    assert env.lanes is not None
    axis = env.lanes.axis
    if isinstance(dim, int):
        return 0, dim
    coefficient: DimLike = 0
    rest: dict[tuple[Atom, ...], int] = {}
    for monomial, factor in dim.terms.items():
        if axis in monomial:
            left = list(monomial)
            left.remove(axis)
            coefficient = coefficient + (Dim({tuple(left): factor}) if left else factor)
        else:
            rest[monomial] = factor
    remainder = dims.of_terms(rest)
    if varies(env, coefficient) or varies(env, remainder):
        return None
    return coefficient, remainder


def add(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x + y``, folded where both are literals or one is zero."""
    a, b = (constant_of(x) if x.lanes == 1 else None), (constant_of(y) if y.lanes == 1 else None)
    if a is not None and b is not None:
        return folded(a + b)
    if a == 0:
        return y
    if b == 0:
        return x
    total = env.ops.add(x, y)
    literal = a if b is None else b
    if literal is not None and total.lanes == 1:
        base, offset = _offset(env, y if b is None else x)
        env.function.offsets[total.name] = (base, offset + literal)
    return total


def subtract(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x - y`` of uniform values, folded where both are literals or the same value plus literals."""
    known = difference(env, x, y)
    if known is not None:
        return folded(known)
    return x if constant_of(y) == 0 else env.ops.sub(x, y)


def difference(env: Environment, x: LlvmScalar, y: LlvmScalar) -> int | None:
    """``x - y`` of uniform values where it is a literal, else None; nothing is emitted."""
    (base, offset), (other, less) = _offset(env, x), _offset(env, y)
    return offset - less if base == other else None


def _offset(env: Environment, x: LlvmScalar) -> tuple[str, int]:
    """A uniform value as the name of another and what ``add`` added to it; no name for a literal."""
    known = constant_of(x)
    return env.function.offsets.get(x.name, (x.name, 0)) if known is None else ("", known)


def end_of_block(
    env: Environment, first: LlvmScalar, size: LlvmScalar, bounds: tuple[LlvmScalar, LlvmScalar]
) -> LlvmScalar:
    """Where the block that begins with ``first`` ends, of those of ``size`` into which (begin, end) is cut.

    Where all are known to be full nothing is compared, and ``subtract`` knows their length. An empty range is one block
    that is empty: a sum over nothing is computed, too.
    """
    begin, end = bounds
    total, each = difference(env, end, begin), constant_of(size)
    last = add(env, first, size)
    return last if total and each is not None and total % each == 0 else least(env, last, end)


def multiply(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """``x * y``, folded where both are literals or one is 0 or 1."""
    a, b = (constant_of(x) if x.lanes == 1 else None), (constant_of(y) if y.lanes == 1 else None)
    if a is not None and b is not None:
        return folded(a * b)
    if a == 1:
        return y
    if a == 0 or b == 0:
        return integer(0)
    return x if b == 1 else env.ops.mul(x, y)


def least(env: Environment, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    """The smaller of two uniform values, folded where both are literals."""
    a, b = constant_of(x), constant_of(y)
    return integer(min(a, b)) if a is not None and b is not None else env.ops.min(x, y)


def axis_lanes(env: Environment) -> LlvmScalar:
    """The axis over lanes as a vector: base + 0, 1, 2, ..."""
    assert env.lanes is not None
    return env.ops.add(env.ops.splat(env.lanes.base, env.lanes.width), _steps(env.lanes.width))


def index_value(env: Environment, dim: DimLike) -> LlvmScalar:
    """The value of ``dim``: uniform, or a vector where it differs between lanes."""
    if isinstance(dim, int):
        return integer(dim)
    total = integer(0)
    for monomial, coefficient in dim.terms.items():
        product = integer(coefficient)
        for atom in monomial:
            product = multiply(env, product, _atom(env, atom))
        total = add(env, total, product)
    return total


def _atom(env: Environment, atom: Atom) -> LlvmScalar:
    if isinstance(atom, str):
        if env.lanes is not None and atom == env.lanes.axis:
            return axis_lanes(env)
        return env[atom]
    quotient, remainder = _divide(env, atom)
    return remainder if isinstance(atom, Mod) else quotient


def _is_natural(dim: DimLike) -> bool:
    """Whether ``dim`` is known to be at least zero: one over sizes and axes, and not over computed indices."""
    return dims.is_natural(dim) and not any(name.startswith("_v") for name in dims.names(dim))


def _divide(env: Environment, atom: FloorDiv) -> tuple[LlvmScalar, LlvmScalar]:
    """Floor quotient and remainder of an atom; a zero divisor counts as one, since nothing may trap."""
    s = env.ops
    natural = _is_natural(atom.numerator) and _is_natural(atom.denominator)
    stepped = _divide_lanes(env, atom) if natural else None
    if stepped is not None:
        return stepped
    x, y = s.align(index_value(env, atom.numerator), index_value(env, atom.denominator))
    if natural:
        y = _not_zero(env, y)
        return _binary(env, "udiv", x, y), _binary(env, "urem", x, y)
    return s.div(x, y), s.rem(x, y)


def _divide_lanes(env: Environment, atom: FloorDiv) -> tuple[LlvmScalar, LlvmScalar] | None:
    """The atom of an index that grows by one a lane, by one division: lanes add less than their number to the rest."""
    lanes = env.lanes
    if lanes is None or varies(env, atom.denominator) or not varies(env, atom.numerator):
        return None
    parts = split(env, atom.numerator)
    if parts is None or parts[0] != 1:
        return None
    first = add(env, index_value(env, parts[1]), lanes.base)
    y = _not_zero(env, index_value(env, atom.denominator))
    quotient, remainder = _binary(env, "udiv", first, y), _binary(env, "urem", first, y)
    s, known = env.ops, constant_of(y)
    far = _wrap_once(env, remainder, y, lanes.width) if known is None or known >= lanes.width else None
    near = _wrap_often(env, remainder, y, lanes.width) if known is None or known < lanes.width else None
    more, rest = far or near or (y, y)
    if far is not None and near is not None:
        wide = s.cmp("ge", y, integer(lanes.width))
        more, rest = (s.select(wide, one, several) for one, several in zip(far, near, strict=True))
    return s.add(quotient, more), rest


def _wrap_once(env: Environment, remainder: LlvmScalar, y: LlvmScalar, width: int) -> tuple[LlvmScalar, LlvmScalar]:
    """Quotient and remainder of ``remainder + lane`` by y, where y is at least the number of lanes."""
    s = env.ops
    spread = s.add(remainder, _steps(width))
    wraps = s.cmp("ge", spread, y)
    return s.cast(wraps, int64), s.select(wraps, s.sub(spread, y), spread)


def _wrap_often(env: Environment, remainder: LlvmScalar, y: LlvmScalar, width: int) -> tuple[LlvmScalar, LlvmScalar]:
    """Quotient and remainder of ``remainder + lane`` by y below the number of lanes; anything for other y.

    All is below 128, so the quotient of floats, half a step from the next integer, rounds down as it should; so does a
    product with the reciprocal of a known y, rounded up in 16 bits: it is too large by less than 128 * 64 / 2**16.
    """
    s, known = env.ops, constant_of(y)
    steps = ", ".join(f"i32 {lane}" for lane in range(width))
    small = s.cast(remainder if known is not None else s.min(remainder, integer(width)), int32)
    divisor = s.cast(s.min(y, integer(width)), int32) if known is None else s.const(known, int32)
    spread = s.add(small, LlvmScalar(f"<{steps}>", f"<{width} x i32>", int32, width))
    if known is not None:
        many = s.make(f"mul {spread}, splat (i32 {(1 << 16) // known + 1})", int32, width)
        quotient = s.make(f"lshr {many}, splat (i32 16)", int32, width)
        return s.cast(quotient, int64), s.cast(s.sub(spread, s.mul(quotient, divisor)), int64)
    middle = s.make(f"fadd {s.cast(spread, float32)}, splat (float 0.5)", float32, width)
    ratio = s.make(f"fdiv {middle}, {s.splat(s.cast(divisor, float32), width).name}", float32, width)
    quotient = s.make(f"fptosi {ratio} to <{width} x i32>", int32, width)
    return s.cast(quotient, int64), s.cast(s.sub(spread, s.mul(quotient, divisor)), int64)


def _steps(width: int) -> LlvmScalar:
    """0, 1, 2, ... in lanes."""
    steps = ", ".join(f"i64 {lane}" for lane in range(width))
    return LlvmScalar(f"<{steps}>", f"<{width} x i64>", int64, width)


def _not_zero(env: Environment, y: LlvmScalar) -> LlvmScalar:
    if (y.lanes == 1 and constant_of(y) is not None) or y.is_literal:
        return y  # a dim never divides by a literal zero
    return env.ops.select(env.ops.cmp("eq", y, env.ops.raw(0, y)), env.ops.raw(1, y), y)


def _binary(env: Environment, instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
    return env.ops.make(f"{instruction} {x}, {y.name}", int64, x.lanes, x.type)


# ----------------------------------------------------------------------
# Loads and stores of single elements, and what elements are in memory; lanes are each target's own.
#
# In memory a bool is a byte (0 or 1 as stored, true where not 0 as loaded) and a 16-bit float its bits.


def memory_type(dtype: DType) -> str:
    """The LLVM type of an element in memory."""
    return {bool_: "i8", float16: "i16"}.get(dtype) or element_type(dtype)


def to_memory(env: Environment, x: LlvmScalar, dtype: DType) -> LlvmScalar:
    """A value of ``dtype``, or a vector of them, as it is stored."""
    assert x.dtype == dtype, (x, dtype)
    x = env.ops.stored(x)
    memory = memory_type(dtype)
    if is_bool(dtype):
        return env.ops.make(f"zext {x} to {lanes_of('i8', x.lanes)}", uint8, x.lanes)
    if dtype == float16:
        type = lanes_of(memory, x.lanes)
        return env.ops.make(f"bitcast {x} to {type}", dtype, x.lanes, type)
    return x


def from_memory(env: Environment, x: LlvmScalar, dtype: DType) -> LlvmScalar:
    """What was loaded, as a value of ``dtype`` or a vector of them."""
    s = env.ops
    if is_bool(dtype):
        return s.make(f"icmp ne {x}, {s.raw(0, x).name}", bool_, x.lanes)
    if dtype == float16:
        type = lanes_of("half", x.lanes)
        x = s.make(f"bitcast {x} to {type}", dtype, x.lanes, type)
    return s.loaded(x)


def element_address(env: Environment, buffer: LlvmScalar, index: LlvmScalar) -> str:
    """The address of an element; a vector of them for a vector index."""
    type = lanes_of("ptr", index.lanes)
    if index.name == "0":
        return buffer.name
    return env.function.emit(type, f"getelementptr {memory_type(buffer.dtype)}, ptr {buffer.name}, {index}").name


def load_element(
    env: Environment, buffer: LlvmScalar, index: LlvmScalar, mask: LlvmScalar | None, align: int = 1
) -> LlvmScalar:
    """One element; where ``mask`` is false nothing is read and it is 0. ``index`` is a multiple of ``align``."""
    dtype, memory = buffer.dtype, memory_type(buffer.dtype)
    if mask is None:
        address = element_address(env, buffer, index)
        raw = env.ops.make(f"load {memory}, ptr {address}, align {align * dtype.itemsize}", dtype, 1, memory)
        return from_memory(env, raw, dtype)
    function = env.function
    before, read, after = function.block, function.label("read"), function.label("after")
    function.branch(mask.name, read, after)
    known = function.known
    function.start_block(read, known)
    address = element_address(env, buffer, index)
    value = function.emit(memory, f"load {memory}, ptr {address}, align {dtype.itemsize}")
    function.jump(after)
    function.start_block(after, known)
    phi = function.phi(memory)
    phi.add("0.0" if memory in ("float", "double") else "0", before)
    phi.add(value.name, read)
    return from_memory(env, LlvmScalar(phi.value.name, memory, dtype, 1), dtype)


def store_element(
    env: Environment,
    buffer: LlvmScalar,
    index: LlvmScalar,
    value: LlvmScalar,
    mask: LlvmScalar | None,
    align: int = 1,
) -> None:
    """Store one element where ``mask`` is not false; ``value`` is as ``to_memory`` gives it, ``align`` as above."""
    function = env.function
    if mask is None:
        function.do(f"store {value}, ptr {element_address(env, buffer, index)}, align {align * buffer.dtype.itemsize}")
        return
    write, after = function.label("write"), function.label("after")
    function.branch(mask.name, write, after)
    known = function.known
    function.start_block(write, known)
    function.do(f"store {value}, ptr {element_address(env, buffer, index)}, align {buffer.dtype.itemsize}")
    function.jump(after)
    function.start_block(after, known)


# ----------------------------------------------------------------------
# Runs of neighbouring elements, as vectors.


def load_run(env: Environment, address: str, dtype: DType, count: int, active: LlvmScalar | None) -> LlvmScalar:
    """Neighbours from ``address`` on; zero in lanes that are not active."""
    memory = lanes_of(memory_type(dtype), count)
    if active is None:
        return env.ops.make(f"load {memory}, ptr {address}, align {dtype.itemsize}", dtype, count, memory)
    return env.ops.make(
        f"call {memory} @llvm.masked.load.{overload(dtype, count)}.p0(ptr align {dtype.itemsize} {address},"
        f" {active}, {memory} zeroinitializer)",
        dtype, count, memory,
    )  # fmt: skip


def store_run(env: Environment, value: LlvmScalar, address: str, dtype: DType, active: LlvmScalar | None) -> None:
    """The active lanes of ``value`` to neighbours from ``address`` on."""
    if active is None:
        env.function.do(f"store {value}, ptr {address}, align {dtype.itemsize}")
    else:
        env.function.do(
            f"call void @llvm.masked.store.{overload(dtype, value.lanes)}.p0({value},"
            f" ptr align {dtype.itemsize} {address}, {active})"
        )


def overload(dtype: DType, count: int) -> str:
    """The suffix of an intrinsic for ``count`` elements of memory."""
    name = {"float": "f32", "double": "f64"}.get(memory_type(dtype), memory_type(dtype))
    return f"v{count}{name}"


def reversed_lanes(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """The lanes of ``x`` from the last to the first."""
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(x.lanes)))
    return env.ops.make(f"shufflevector {x}, {x.type} poison, <{x.lanes} x i32> <{order}>", x.dtype, x.lanes, x.type)
