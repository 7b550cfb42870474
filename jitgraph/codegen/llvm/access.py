"""Loads and stores of single elements, and what elements are in memory; lanes are each target's own.

In memory a bool is a byte (0 or 1 as stored, true where not 0 as loaded) and a 16-bit float its bits.
"""

from __future__ import annotations

from jitgraph.codegen.llvm.builder import LlvmScalar, element_type, lanes_of
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.dtypes import DType, bool_, float16, is_bool, uint8


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
