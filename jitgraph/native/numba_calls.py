"""Native functions in njit functions of numba: arrays and numbers in and out, by one call of an address.

What numba knows when it compiles a caller (numbers of arguments, dtypes, ranks, layouts) is verified there, and raises
its TypingError; shapes are verified at each call. The addresses in what numba compiles are of this process alone, and
numba is told so, so that it keeps no such code in a cache on the disk.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import DTypeError, JitgraphError
from jitgraph.runtime import imports
from jitgraph.runtime import native_records as layout
from jitgraph.runtime.loader import ValueSpec, dtype_named
from jitgraph.runtime.loader.abi import CHECK_FAILED, OUT_OF_MEMORY

if TYPE_CHECKING:
    from jitgraph.native.function import FunctionPointer

try:
    numba: Any = imports.module("numba")
except ModuleNotFoundError:
    raise JitgraphError(
        "njit functions are numba's, which is not installed\n  hint: pip install jitgraph[numba]"
    ) from None
arrayobj: Any = imports.module("numba.np.arrayobj")
cgutils: Any = imports.module("numba.core.cgutils")
extending: Any = imports.module("numba.extending")
ir: Any = imports.module("llvmlite.ir")
types: Any = numba.types

_RAISED: Final = ("ArithmeticError", "AssertionError", "FloatingPointError", "IndexError", "OverflowError",
                  "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError")  # fmt: skip
"""What njit functions may raise."""


def type_of(function: Any) -> Any:
    """The type that numba has for a function."""
    return numba.typeof(function)


def njit_function(native: FunctionPointer) -> Any:
    """An njit function that calls ``native``; DTypeError for a dtype that numba does not have."""
    for spec in (*native.inputs, *native.outputs):
        if spec.dtype in ("float16", "bfloat16"):
            raise DTypeError(
                f"{native.name}: {spec} is of a dtype that njit functions do not compute with",
                hint="cast it to float32 in the function",
            )
    names = _identifiers([spec.name for spec in native.inputs])
    stub = _defined(f"def stub({', '.join(names)}): return native({', '.join(names)})", "stub", {"native": native})
    implementation = _implementation(native, names)

    def typed(*arguments: Any) -> Any:
        for spec, argument in zip(native.inputs, arguments, strict=True):
            _verify(native.name, spec, argument)
        return implementation

    extending.overload(stub, strict=False)(
        _defined(f"def typed({', '.join(names)}): return verify({', '.join(names)})", "typed", {"verify": typed})
    )
    caller = _defined(f"def call({', '.join(names)}): return stub({', '.join(names)})", "call", {"stub": stub})
    caller.__name__ = caller.__qualname__ = _identifiers([native.name])[0]
    function = numba.njit(nogil=True)(caller)
    function.native = native  # which has to live as long
    return function


def _identifiers(names: Sequence[str]) -> list[str]:
    """Names of Python for these, all different."""
    result: list[str] = []
    for number, name in enumerate(names):
        plain = re.sub(r"\W", "_", name, flags=re.ASCII)
        plain = plain if plain.isidentifier() and not plain.startswith("_") else f"x{number}_{plain}"
        result.append(f"{plain}_{number}" if plain in result or plain in ("np", "stub", "invoke") else plain)
    return result


def _defined(source: str, name: str, namespace: dict[str, Any]) -> Any:
    """The function that a text defines."""
    exec(source, namespace)
    return namespace[name]


def _verify(title: str, spec: ValueSpec, argument: Any) -> None:
    """TypingError where an argument of this type cannot be the input."""
    wanted = numba.from_dtype(dtype_named(spec.dtype))
    if isinstance(argument, types.Omitted | types.Optional):
        raise numba.TypingError(f"{title}: {spec} is given {argument}")
    if isinstance(argument, types.Array):
        if argument.dtype != wanted or argument.ndim != len(spec.shape):
            raise numba.TypingError(f"{title}: expected {spec}, got an array {argument}")
        if argument.layout != "C" and argument.ndim > 0:
            raise numba.TypingError(
                f"{title}: {spec} is given an array that is not C-contiguous: np.ascontiguousarray(x)"
            )
        return
    if spec.shape or not isinstance(argument, types.Number | types.Boolean) or not _holds(wanted, argument):
        raise numba.TypingError(f"{title}: expected {spec}, got {argument}")


def _holds(wanted: Any, argument: Any) -> bool:
    """Whether a number may be an input without axes: floats hold ints and floats, ints and bools their own kind."""
    if isinstance(wanted, types.Complex):
        return True
    if isinstance(wanted, types.Float):
        return isinstance(argument, types.Float | types.Integer | types.Boolean)
    if isinstance(wanted, types.Integer):
        return isinstance(argument, types.Integer) and (
            argument.bitwidth <= wanted.bitwidth and argument.signed == wanted.signed
        )
    return isinstance(argument, types.Boolean)


def _implementation(native: FunctionPointer, names: Sequence[str]) -> Any:
    """The function that numba compiles: it verifies shapes, calls, and raises what went wrong."""
    lines = [f"def implementation({', '.join(names)}):"]
    for name, spec in zip(names, native.inputs, strict=True):
        if spec.shape:
            lines.append(f"    if {name}.shape != {tuple(spec.shape)!r}:")
            what = f"{native.name}: {spec} is given an array"
            lines.append(f"        raise ValueError({f'{what} of another shape'!r})")
            lines.append(f"    if {name}.ctypes.data % {dtype_named(spec.dtype).alignment} != 0:")
            lines.append(
                f"        raise ValueError({f'{native.name}: {spec} is given an array that is not aligned'!r})"
            )
    lines.append(f"    told = invoke({_tuple(names)})")
    lines.append("    if told[0] != 0:")
    lines += [f"        {line}" for line in _raising(native)]
    results = [f"told[{_REPORTED + number}]" for number in range(len(native.outputs))]
    lines.append(f"    return {results[0] if len(results) == 1 else _tuple(results)}")
    return _defined("\n".join(lines), "implementation", {"invoke": _invoke(native)})


def _tuple(parts: Sequence[str]) -> str:
    return f"({''.join(f'{part}, ' for part in parts)})"


def _raising(native: FunctionPointer) -> list[str]:
    """What raises for a code, the number of a check, and the index and bound that it compared."""
    lines = [f"if told[0] == {OUT_OF_MEMORY}:", f"    raise MemoryError({f'{native.name}: out of memory'!r})"]
    for number, check in enumerate(native.checks):
        kind = check.kind if check.kind in _RAISED else "ValueError"
        where = f"\n  at {check.location}" if check.location else ""
        parts = re.split(r"(\{index\}|\{bound\})", check.message + where)
        values = {"{index}": "str(told[2])", "{bound}": "str(told[3])"}
        lines.append(f"if told[0] == {CHECK_FAILED} and told[1] == {number}:")
        lines.append(
            f"    raise {kind}({' + '.join(values.get(part, repr(part)) for part in parts if part) or repr('')})"
        )
    lines.append(f"raise RuntimeError({f'{native.name}: the compiled code failed'!r})")
    return lines


_REPORTED: Final = 4
"""What ``invoke`` gives before the outputs: code, check, index, bound."""


def _invoke(native: FunctionPointer) -> Any:
    """The intrinsic ``invoke(inputs)``: what is reported, then the outputs, arrays and numbers."""
    wanted = [numba.from_dtype(dtype_named(spec.dtype)) for spec in native.inputs]
    dtypes = [numba.from_dtype(dtype_named(spec.dtype)) for spec in native.outputs]
    shapes = [tuple(map(int, spec.shape)) for spec in native.outputs]
    given = [
        types.Array(dtype, len(shape), "C") if shape else dtype for dtype, shape in zip(dtypes, shapes, strict=True)
    ]
    told = types.Tuple((types.int32, types.int32, types.int64, types.int64, *given))
    address, data = native.address, native.data

    def generate(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
        pointer, int32, int64 = ir.IntType(8).as_pointer(), ir.IntType(32), ir.IntType(64)

        def table(addresses: Sequence[Any]) -> Any:
            slots = cgutils.alloca_once(builder, ir.ArrayType(pointer, max(1, len(addresses))))
            for number, each in enumerate(addresses):
                builder.store(builder.bitcast(each, pointer), cgutils.gep_inbounds(builder, slots, 0, number))
            return builder.bitcast(slots, pointer)

        def slot_of(dtype: Any) -> Any:
            slot = cgutils.alloca_once(builder, context.get_data_type(dtype))
            slot.align = layout.ALIGNMENT
            return slot

        inputs = []
        for number, (kind, dtype) in enumerate(zip(signature.args[0], wanted, strict=True)):
            value = builder.extract_value(arguments[0], number)
            if isinstance(kind, types.Array):
                inputs.append(context.make_array(kind)(context, builder, value).data)
            else:
                inputs.append(slot_of(dtype))
                converted = context.cast(builder, value, kind, dtype)
                builder.store(context.data_model_manager[dtype].as_data(builder, converted), inputs[-1])
        outputs: list[Any] = []
        arrays: list[Any] = []
        for kind, dtype, shape in zip(given, dtypes, shapes, strict=True):
            arrays.append(_new_array(context, builder, kind, shape) if shape else None)
            outputs.append(arrays[-1].data if shape else slot_of(dtype))
        error = cgutils.alloca_once(builder, ir.LiteralStructType([int32, int32, int64, int64]), zfill=True)
        call_type = ir.FunctionType(int32, [pointer] * 4)
        callee = context.add_dynamic_addr(builder, address, info="jitgraph call")
        record = context.add_dynamic_addr(builder, data, info="jitgraph data")
        operands = [record, table(inputs), table(outputs), error]
        builder.call(
            builder.bitcast(callee, call_type.as_pointer()), [builder.bitcast(each, pointer) for each in operands]
        )
        values = [builder.load(cgutils.gep_inbounds(builder, error, 0, number)) for number in range(_REPORTED)]
        for array, output, dtype in zip(arrays, outputs, dtypes, strict=True):
            model = context.data_model_manager[dtype]
            values.append(model.from_data(builder, builder.load(output)) if array is None else array._getvalue())
        return context.make_tuple(builder, told, values)

    def invoke(typing_context: Any, inputs: Any) -> Any:
        return told(inputs), generate

    return extending.intrinsic(invoke)


def _new_array(context: Any, builder: Any, kind: Any, shape: tuple[int, ...]) -> Any:
    """An array of numba's own, whose memory is aligned as outputs of compiled code are."""
    array = context.make_array(kind)(context, builder)
    itemsize = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [itemsize * math.prod(shape[axis + 1 :]) for axis in range(len(shape))]

    def numbers(values: Sequence[int]) -> Any:
        return cgutils.pack_array(builder, [context.get_constant(types.intp, value) for value in values])

    size = context.get_constant(types.intp, itemsize * math.prod(shape))
    block = context.nrt.meminfo_alloc_aligned(builder, size=size, align=layout.ALIGNMENT)
    arrayobj.populate_array(
        array,
        data=builder.bitcast(context.nrt.meminfo_data(builder, block), array.data.type),
        shape=numbers(shape),
        strides=numbers(strides),
        itemsize=context.get_constant(types.intp, itemsize),
        meminfo=block,
    )
    return array
