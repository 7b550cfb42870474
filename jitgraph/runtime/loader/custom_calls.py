"""Custom ops of a file: the functions that its native code calls by their names, from a table of the caller's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.errors import JitgraphError, LoadError
from jitgraph.runtime.loader.signatures import CustomCall, Signature
from jitgraph.runtime.loader.specs import Array, Expression, ValueSpec, dtype_named

_POINTER: Final = ctypes.CFUNCTYPE(None).__mro__[1]


class CustomCalls:
    """Serves the calls of one entry: ``calls(number, buffers, dims)`` with the addresses that native code gives.

    A function takes copies of the operands as arrays and gives an array, or a tuple of several. A function pointer of
    ctypes is ``int32 f(void **inputs, void **outputs, int64 *sizes)``, with the extents of all operands, then results.
    """

    def __init__(self, signature: Signature, functions: Mapping[str, Any]) -> None:
        """LoadError for an op that ``functions`` lacks, and for what is no function."""
        self._dims = signature.dims
        self._sites = [(call, self._function(call, functions)) for call in signature.calls]

    @staticmethod
    def _function(call: CustomCall, functions: Mapping[str, Any]) -> Callable[..., Any]:
        if call.op not in functions:
            known = ", ".join(sorted(functions)) or "none"
            raise LoadError(
                f"it calls the custom op {call.op!r} ({call.types}), and custom_ops has {known}: "
                f"load(path, custom_ops={{{call.op!r}: function}})"
            )
        function = functions[call.op]
        function = getattr(function, "ctypes", function)
        if not callable(function):
            raise LoadError(f"custom_ops[{call.op!r}] is a {type(function).__name__}, not a function")
        return function  # type: ignore[no-any-return]

    def __call__(self, number: int, buffers: int, dims: int) -> None:
        call, function = self._sites[number]
        try:
            self._serve(call, function, buffers, dims)
        except BaseException as error:
            place = f", at {call.location}" if call.location else ""
            if hasattr(error, "add_note"):
                error.add_note(f"in the custom op {call.op}{place}")
            raise

    def _serve(self, call: CustomCall, function: Callable[..., Any], buffers: int, dims: int) -> None:
        count = len(self._dims)
        sizes = dict(zip(self._dims, (ctypes.c_int64 * count).from_address(dims) if count else (), strict=True))
        specs = (*call.operands, *call.results)
        addresses = (ctypes.c_void_p * len(specs)).from_address(buffers)
        arrays = [_memory(spec, address, sizes) for spec, address in zip(specs, addresses, strict=True)]
        first = len(call.operands)
        # what the function keeps of its operands must not change when their memory serves other values
        operands = [np.array(array, order="C") for array in arrays[:first]]
        if isinstance(function, _POINTER):
            _call_pointer(call, function, operands, arrays[first:])
            return
        results = function(*operands)
        several = results if isinstance(results, (tuple, list)) else (results,)
        if len(several) != len(call.results):
            raise JitgraphError(f"{call.op}: the function gives {len(several)} results, not {len(call.results)}")
        for number, (out, result) in enumerate(zip(arrays[first:], several, strict=True)):
            array = np.asarray(result)
            if array.shape != out.shape or array.dtype != out.dtype:
                raise JitgraphError(
                    f"{call.op}: result {number} of the function is {array.dtype.name}{list(array.shape)}, not "
                    f"{out.dtype.name}{list(out.shape)}"
                )
            out[...] = array


def _memory(spec: ValueSpec, address: int | None, sizes: Mapping[str, int]) -> Array:
    """The memory of a tensor, dense and row-major."""
    dtype = dtype_named(spec.dtype)
    shape = tuple([size if isinstance(size, int) else Expression(size).evaluate(sizes) for size in spec.shape])
    count = 1
    for extent in shape:
        count *= extent
    if not count or address is None:
        return np.empty(shape, dtype)
    memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
    array: Array = np.ctypeslib.as_array(memory).view(dtype).reshape(shape)
    return array


def _call_pointer(call: CustomCall, function: Any, operands: Sequence[Array], results: Sequence[Array]) -> None:
    for result in results:
        result[...] = 0
    extents = [extent for array in (*operands, *results) for extent in array.shape]
    args: list[Any] = [(ctypes.c_void_p * len(some))(*[x.ctypes.data for x in some]) for some in (operands, results)]
    args.append((ctypes.c_int64 * max(1, len(extents)))(*extents))
    kinds = function.argtypes or (ctypes.c_void_p,) * 3
    if len(kinds) != 3:
        raise JitgraphError(f"{call.op}: a function pointer takes 3 pointers, and this one {len(kinds)} arguments")
    code = function(*[ctypes.cast(x, kind) for x, kind in zip(args, kinds, strict=True)])
    for result in results:
        if result.dtype == np.bool_:  # bools are 0 or 1, whatever was written
            result[...] = result.view(np.uint8) != 0
    if isinstance(code, int) and code:
        raise JitgraphError(f"{call.op}: the function returned the error code {code}")
