"""Loads and stores of kernel buffers: uniform, contiguous, reversed, gathered; lanes masked off touch nothing."""

from __future__ import annotations

from jitgraph.codegen.kernels.kernel import Load, Store
from jitgraph.codegen.llvm.access import (
    element_address,
    from_memory,
    load_element,
    memory_type,
    store_element,
    to_memory,
)
from jitgraph.codegen.llvm.builder import LlvmScalar, lanes_of
from jitgraph.codegen.llvm.environment import Environment, integer
from jitgraph.codegen.llvm.index import add, axis_lanes, index_value, multiply, split, varies
from jitgraph.codegen.llvm.scalars import any_lane
from jitgraph.dtypes import DType, bool_, int64
from jitgraph.errors import UnsupportedOp


def emit_load(load: Load, env: Environment) -> None:
    """Bind ``load.var``."""
    buffer = env["&" + load.buffer]
    mask = env[load.mask.name] if load.mask is not None else None
    if buffer.lanes > 1:
        value = _load_private(env, buffer, load, mask)
    elif env.lanes is None or not (varies(env, load.index) or _is_varying(mask)):
        value = load_element(env, buffer, index_value(env, load.index), mask)
    elif not varies(env, load.index):
        value = _load_shared(env, buffer, load, mask)
    else:
        value = _load_lanes(env, buffer, load, mask)
    env.bind(load.var.name, value)


def emit_store(store: Store, env: Environment) -> None:
    """Emit ``store``; UnsupportedOp for an update, for which the processor's threads have no instruction here."""
    if store.update is not None:
        raise UnsupportedOp(f"kernel {env.kernel.name} updates {store.buffer} in one step, on a processor")
    buffer = env["&" + store.buffer]
    mask = env[store.mask.name] if store.mask is not None else None
    value = to_memory(env, env[store.value.name], buffer.dtype)
    if buffer.lanes > 1:
        _store_private(env, buffer, store, value, mask)
    elif env.lanes is None:
        store_element(env, buffer, index_value(env, store.index), value, mask)
    else:
        _store_lanes(env, buffer, store, value, mask)


def _is_varying(mask: LlvmScalar | None) -> bool:
    return mask is not None and mask.lanes > 1


def _load_shared(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    """One element for all lanes, of which some may be masked off: read where any is not."""
    s = env.ops
    active = active_mask(env, mask)
    assert active is not None
    value = load_element(env, buffer, index_value(env, load.index), any_lane(s, active))
    return s.select(active, value, s.zero_like(s.splat(value, active.lanes)))


def _load_lanes(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    assert env.lanes is not None
    count, dtype = env.lanes.width, buffer.dtype
    active = active_mask(env, mask)
    parts = split(env, load.index)
    if parts is not None and parts[0] in (1, -1):
        reverse = parts[0] == -1
        address = _first_address(env, buffer, parts)
        if reverse and active is not None:
            active = _reversed(env, active)
        raw = _load_run(env, address, dtype, count, active)
        return from_memory(env, _reversed(env, raw) if reverse else raw, dtype)
    addresses = element_address(env, buffer, env.ops.splat(_lane_index(env, load.index, parts), count))
    return from_memory(env, _gather(env, addresses, dtype, count, active), dtype)


def _store_lanes(
    env: Environment, buffer: LlvmScalar, store: Store, value: LlvmScalar, mask: LlvmScalar | None
) -> None:
    assert env.lanes is not None
    count = env.lanes.width
    value = env.ops.splat(value, count)
    active = active_mask(env, mask)
    parts = split(env, store.index)
    if parts is not None and parts[0] in (1, -1):
        address = _first_address(env, buffer, parts)
        if parts[0] == -1:
            value = _reversed(env, value)
            active = _reversed(env, active) if active is not None else None
        _store_run(env, value, address, buffer.dtype, active)
        return
    addresses = element_address(env, buffer, env.ops.splat(_lane_index(env, store.index, parts), count))
    _scatter(env, value, addresses, buffer.dtype, active)


def _load_private(env: Environment, buffer: LlvmScalar, load: Load, mask: LlvmScalar | None) -> LlvmScalar:
    """From a Local of which each lane has its own: element i of lane j lies at i * lanes + j."""
    count, dtype = buffer.lanes, buffer.dtype
    active = active_mask(env, mask) if mask is not None else None  # its memory is there for every lane
    index = multiply(env, index_value(env, load.index), integer(count))
    if index.lanes == 1:
        return from_memory(env, _load_run(env, element_address(env, buffer, index), dtype, count, active), dtype)
    addresses = element_address(env, buffer, env.ops.add(index, _own_lane(count)))
    return from_memory(env, _gather(env, addresses, dtype, count, active_mask(env, mask)), dtype)


def _store_private(
    env: Environment, buffer: LlvmScalar, store: Store, value: LlvmScalar, mask: LlvmScalar | None
) -> None:
    count = buffer.lanes
    value = env.ops.splat(value, count)
    index = multiply(env, index_value(env, store.index), integer(count))
    active = active_mask(env, mask) if mask is not None or index.lanes > 1 else None
    if index.lanes == 1:
        _store_run(env, value, element_address(env, buffer, index), buffer.dtype, active)
        return
    _scatter(env, value, element_address(env, buffer, env.ops.add(index, _own_lane(count))), buffer.dtype, active)


def _load_run(env: Environment, address: str, dtype: DType, count: int, active: LlvmScalar | None) -> LlvmScalar:
    """Neighbours from ``address`` on; zero in lanes that are not active."""
    memory = lanes_of(memory_type(dtype), count)
    if active is None:
        return env.ops.make(f"load {memory}, ptr {address}, align {dtype.itemsize}", dtype, count, memory)
    return env.ops.make(
        f"call {memory} @llvm.masked.load.{_overload(dtype, count)}.p0(ptr align {dtype.itemsize} {address},"
        f" {active}, {memory} zeroinitializer)",
        dtype, count, memory,
    )  # fmt: skip


def _gather(env: Environment, addresses: str, dtype: DType, count: int, active: LlvmScalar | None) -> LlvmScalar:
    """An element from each of ``addresses``; zero in lanes that are not active."""
    memory = lanes_of(memory_type(dtype), count)
    bits = active if active is not None else _all(env, count)
    return env.ops.make(
        f"call {memory} @llvm.masked.gather.{_overload(dtype, count)}.v{count}p0("
        f"<{count} x ptr> align {dtype.itemsize} {addresses}, {bits}, {memory} zeroinitializer)",
        dtype, count, memory,
    )  # fmt: skip


def _store_run(env: Environment, value: LlvmScalar, address: str, dtype: DType, active: LlvmScalar | None) -> None:
    """The active lanes of ``value`` to neighbours from ``address`` on."""
    if active is None:
        env.function.do(f"store {value}, ptr {address}, align {dtype.itemsize}")
    else:
        env.function.do(
            f"call void @llvm.masked.store.{_overload(dtype, value.lanes)}.p0({value},"
            f" ptr align {dtype.itemsize} {address}, {active})"
        )


def _scatter(env: Environment, value: LlvmScalar, addresses: str, dtype: DType, active: LlvmScalar | None) -> None:
    """The active lanes of ``value`` to an address each."""
    count = value.lanes
    bits = active if active is not None else _all(env, count)
    env.function.do(
        f"call void @llvm.masked.scatter.{_overload(dtype, count)}.v{count}p0({value},"
        f" <{count} x ptr> align {dtype.itemsize} {addresses}, {bits})"
    )


def active_mask(env: Environment, mask: LlvmScalar | None) -> LlvmScalar | None:
    """``mask`` and the lanes that are in range; None where that is all of them."""
    assert env.lanes is not None
    if mask is None:
        return env.lanes.mask
    mask = env.ops.splat(mask, env.lanes.width)
    return mask if env.lanes.mask is None else env.ops.and_(mask, env.lanes.mask)


def _overload(dtype: DType, count: int) -> str:
    name = {"float": "f32", "double": "f64"}.get(memory_type(dtype), memory_type(dtype))
    return f"v{count}{name}"


def _all(env: Environment, count: int) -> LlvmScalar:
    return env.ops.splat(LlvmScalar("true", "i1", bool_, 1), count)


def _own_lane(count: int) -> LlvmScalar:
    return LlvmScalar(f"<{', '.join(f'i64 {lane}' for lane in range(count))}>", f"<{count} x i64>", int64, count)


def _first_address(env: Environment, buffer: LlvmScalar, parts: tuple[object, object]) -> str:
    """The lowest address of a contiguous run: lane 0's, or the last lane's where the index falls."""
    assert env.lanes is not None
    rest = index_value(env, parts[1])  # type: ignore[arg-type]
    if parts[0] == 1:
        return element_address(env, buffer, add(env, rest, env.lanes.base))
    last = add(env, env.lanes.base, integer(env.lanes.width - 1))
    return element_address(env, buffer, env.ops.sub(rest, last))


def _lane_index(env: Environment, index: object, parts: tuple[object, object] | None) -> LlvmScalar:
    """A varying index as a vector."""
    if parts is None:
        return index_value(env, index)  # type: ignore[arg-type]
    step = multiply(env, index_value(env, parts[0]), axis_lanes(env))  # type: ignore[arg-type]
    return add(env, index_value(env, parts[1]), step)  # type: ignore[arg-type]


def _reversed(env: Environment, x: LlvmScalar) -> LlvmScalar:
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(x.lanes)))
    return env.ops.make(f"shufflevector {x}, {x.type} poison, <{x.lanes} x i32> <{order}>", x.dtype, x.lanes, x.type)
