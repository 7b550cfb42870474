"""``jg.native_function``: a compiled function that other compiled code calls, by its address, without Python.

The address is that of ``call`` of ``codegen/native_calls.py``, which is the same for all functions; what tells them
from each other is the record at ``data``.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from jitgraph import dtypes, tree
from jitgraph.errors import ArgumentError, DeviceError, JitgraphError, UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.native import scipy_callables
from jitgraph.native.addresses import function_of
from jitgraph.native.header import header_text
from jitgraph.once import cached_property
from jitgraph.runtime import imports
from jitgraph.runtime import native_records as layout
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.loader import (
    ABI_VERSION,
    CODE_NAMES,
    OUT_OF_MEMORY,
    SIZES_REFUSED,
    Array,
    Host,
    Image,
    Signature,
    ValueSpec,
    default_of,
    dtype_named,
    function_address,
    libc,
)
from jitgraph.runtime.loader.abi import CHECK_FAILED
from jitgraph.runtime.loader.entry import as_array, bytes_of, check_error
from jitgraph.runtime.loader.signatures import rebuild
from jitgraph.saved.entry import FileEntry, entry_of
from jitgraph.saved.state import StateKeys
from jitgraph.saved.writing import compile_entry
from jitgraph.tensor import Tensor
from jitgraph.tracing.call.arguments import TensorSpec
from jitgraph.tracing.call.function import traced

CALL_TYPE: Final = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""``int32_t call(void *data, void *const *inputs, void *const *outputs, jg_native_error *error)``"""


class NativeError(ctypes.Structure):
    """``jg_native_error``: what a call that failed reports."""

    _fields_ = [
        ("code", ctypes.c_int32),
        ("check", ctypes.c_int32),
        ("index", ctypes.c_int64),
        ("bound", ctypes.c_int64),
    ]
    code: int
    check: int
    index: int
    bound: int


def native_function(function: Callable[..., Any], /, *example_inputs: Any) -> FunctionPointer:
    """``function``, compiled for arguments of these shapes and dtypes, as a function that compiled code calls.

    ``jg.TensorSpec`` may stand for an example. C calls it by ``address`` and ``data``, as ``header()`` says; numba's
    njit functions call the result itself; ``low_level_callable`` is for SciPy. No call needs Python, the GIL or a lock,
    and any number of threads may call at once; each call runs on the thread that makes it. Ints, strings, bools and
    None among the examples are part of what is compiled, and so are the values of the tensors and numbers that the
    function reaches by itself: a change of them later is not seen.

    JitgraphError for a function that writes state (random numbers, too), prints, or has named sizes; UnsupportedOp for
    ops that Python evaluates; DeviceError where it is on a GPU.
    """
    callee: Any = traced(function)
    lowered = callee.lower(*example_inputs)
    if any(key.kind == "static float" for key in lowered.keys):  # its result is a Python number; this one is a tensor
        lowered = callee.lower(*[tree.map_leaves(_as_tensor, each) for each in example_inputs])
    name = lowered.function.__name__
    if lowered.plan.device != CPU:
        raise DeviceError(f"{name} runs on {lowered.plan.device}, and compiled code calls the CPU's")
    entry = entry_of(lowered, StateKeys())
    leaves = [leaf for each in example_inputs for leaf in tree.flatten(each)[0]]
    given = sum(isinstance(leaf, Tensor | TensorSpec | np.ndarray) or type(leaf) is float for leaf in leaves)
    return FunctionPointer(entry, name, max(given, entry.defaults.count(None)))


def _as_tensor(leaf: Any) -> Any:
    return TensorSpec((), dtypes.float64) if type(leaf) is float else leaf


class FunctionPointer:
    """A compiled function for compiled code, made by ``native_function``. Its addresses are valid while it lives."""

    def __init__(self, entry: FileEntry, name: str, given: int) -> None:
        """The function of ``entry``, whose inputs from number ``given`` on have their defaults."""
        if entry.writes:
            keys = ", ".join(entry.state[state].key for _, state in entry.writes)
            raise JitgraphError(
                f"{name} writes the state {keys}, which calls from several threads would share\n"
                "  hint: take it as an argument and return its new value"
            )
        compiled = compile_entry(entry, Target.host().without_python())
        signature: Signature = compiled.signature
        for call in compiled.stages.schedule.calls:
            raise UnsupportedOp(
                f"{name}: {call.op.name} is evaluated by Python, which compiled code does not enter",
                location=call.location,
                hint="compute it before the call, and pass the result",
            )
        if signature.prints:
            raise JitgraphError(f"{name} prints, which needs Python\n  hint: return what it prints")
        if signature.dims:
            raise ArgumentError(
                f"{name} has the named sizes {', '.join(signature.dims)}\n"
                "  hint: a native function is for fixed sizes: examples, or TensorSpecs of numbers, of a plain function"
            )
        self.name = name
        specs = zip(signature.inputs[: len(entry.defaults)], entry.input_names, strict=True)
        inputs = [spec.but_with(name=each) for spec, each in specs]
        self.inputs: tuple[ValueSpec, ...] = tuple(inputs[:given])
        self.outputs: tuple[ValueSpec, ...] = tuple(
            spec.but_with(name=each) for spec, each in zip(signature.outputs, entry.names, strict=True)
        )
        self.checks = signature.checks
        self._structure = signature.default_structure() if entry.structure is None else entry.structure
        self._arguments = entry.arguments
        fixed = [default_of(spec.but_with(default=value)) for spec, value in _from(given, inputs, entry.defaults)]
        self._state = [np.array(array, order="C") for array in (*fixed, *(state.array for state in entry.state))]
        self._image = Image(compiled.image)
        self._record = self._filled()
        weakref.finalize(self, _free_arenas, self._record)

    def _filled(self) -> ctypes.Array[ctypes.c_int64]:
        """The record that the code reads."""
        arena = self._image.export("arena_bytes")
        no_dims = (ctypes.c_int64 * 1)()
        arena_bytes = int(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(arena)(no_dims)) if arena else 0
        sizes = [bytes_of(_extents(spec), dtype_named(spec.dtype), str(spec)) for spec in self.outputs]
        padded = [-(-size // layout.ALIGNMENT) * layout.ALIGNMENT for size in sizes]
        offsets = [sum(padded[:number]) for number in range(len(padded))]
        words = {
            "entry": self._image.export("entry"),
            "host": ctypes.addressof(_serial_host()),
            "dims": ctypes.addressof(no_dims),
            "arena_bytes": arena_bytes,
            "room_bytes": sum(padded),
            "input_count": len(self.inputs),
            "state_count": len(self._state),
            "output_count": len(self.outputs),
            "numbers": sum(_elements(spec) for spec in self.inputs),
            "results": sum(_elements(spec) for spec in self.outputs),
        }
        vectors = {"state": [array.ctypes.data for array in self._state], "sizes": sizes, "offsets": offsets}
        self._vectors = {name: (ctypes.c_int64 * max(1, len(values)))(*values) for name, values in vectors.items()}
        self._no_dims = no_dims
        words |= {name: ctypes.addressof(vector) for name, vector in self._vectors.items()}
        record = (ctypes.c_int64 * (layout.NATIVE_BYTES // 8))()
        for name, word in words.items():
            record[layout.NATIVE[name] // 8] = word
        return record

    # --- for C ------------------------------------------------------------------------------------------------------

    @property
    def address(self) -> int:
        """The address of ``int32_t call(void *data, void *const *inputs, void *const *outputs, jg_native_error *)``."""
        return function_of("call")

    @property
    def data(self) -> int:
        """What the function at ``address`` takes first."""
        return ctypes.addressof(self._record)

    @cached_property
    def ctypes_function(self) -> Any:
        """The function at ``address`` for ctypes, which releases the GIL while it runs."""
        function = CALL_TYPE(self.address)
        function.owner = self  # type: ignore[attr-defined]
        return function

    def header(self, name: str = "") -> str:
        """The text of a C header that declares how to call it, with its inputs, outputs and messages.

        ``name`` is what C calls it; the function's own where it is left out.
        """
        return header_text(name or self.name, self.inputs, self.outputs, self.checks)

    # --- for numba and SciPy ----------------------------------------------------------------------------------------

    @cached_property
    def njit(self) -> Any:
        """It as an njit function of numba: of arrays, and numbers where an input has no axes.

        Inside of njit functions the native function itself may be called, too. JitgraphError without numba.
        """
        return imports.module("jitgraph.native.numba_calls").njit_function(self)

    @property
    def _numba_type_(self) -> Any:
        """What numba takes it for, where an njit function names it."""
        return imports.module("jitgraph.native.numba_calls").type_of(self.njit)

    def low_level_callable(self, signature: str) -> Any:
        """It as a ``scipy.LowLevelCallable`` of a C signature, or of the function of SciPy that takes it.

        "double (double, void *)" for "quad"; "double (int, double *, void *)" for "nquad", of one vector or a number
        for each input; "int (double *, intptr_t, double *, void *)" for "generic_filter"; "int (double *, intptr_t,
        double *, intptr_t, void *)" for "generic_filter1d". Where a call fails, the first two give NaN, and
        ``raise_error`` raises what the last one reported. ArgumentError where its inputs and outputs do not fit, or
        for another signature; JitgraphError without SciPy.
        """
        return scipy_callables.low_level_callable(self, signature)

    # --- in Python --------------------------------------------------------------------------------------------------

    def __call__(self, /, *args: Any) -> Any:
        """Call it from Python with arrays for the inputs; gives arrays in the structure of the function's result.

        ArgumentError for arrays of other shapes and dtypes, and what a check inside of the function raises.
        """
        if len(args) != len(self.inputs):
            takes = ", ".join(map(str, self.inputs))
            raise ArgumentError(f"{self.name} takes {len(self.inputs)} inputs ({takes}), got {len(args)}")
        arrays = [self._array(value, spec) for value, spec in zip(args, self.inputs, strict=True)]
        results = [np.empty(_extents(spec), dtype_named(spec.dtype)) for spec in self.outputs]
        error = NativeError()
        addresses = [
            (ctypes.c_void_p * max(1, len(each)))(*(a.ctypes.data for a in each)) for each in (arrays, results)
        ]
        self.ctypes_function(self.data, *addresses, ctypes.byref(error))
        self._raise(error)
        return rebuild(self._structure, results)

    def _array(self, value: Any, spec: ValueSpec) -> Array:
        array = as_array(value, spec, dtype_named(spec.dtype), f"{self.name}, {spec.name}")
        if array.shape != _extents(spec):
            raise ArgumentError(f"{self.name}: expected {spec}, got the shape {list(array.shape)}")
        return array

    def raise_error(self) -> None:
        """Raise what the last callback of SciPy that failed reported, if one has since this was asked."""
        start = self.data + layout.NATIVE["error"]
        error = NativeError.from_buffer_copy((ctypes.c_char * ctypes.sizeof(NativeError)).from_address(start))
        ctypes.memset(start, 0, ctypes.sizeof(NativeError))
        self._raise(error)

    def _raise(self, error: NativeError) -> None:
        if error.code == 0:
            return
        if error.code == CHECK_FAILED and 0 <= error.check < len(self.checks):
            raise check_error(self.checks[error.check], error.index, error.bound)
        if error.code == OUT_OF_MEMORY:
            raise MemoryError(f"{self.name}: the compiled code ran out of memory")
        if error.code == SIZES_REFUSED:
            raise ArgumentError(
                f"{self.name}: the caller gave another number of elements than the inputs and outputs have"
            )
        known = CODE_NAMES[error.code] if 0 <= error.code < len(CODE_NAMES) else "no known meaning"
        raise JitgraphError(f"{self.name}: the compiled code returned {error.code} ({known})")

    def __repr__(self) -> str:
        takes, gives = (", ".join(map(str, specs)) for specs in (self.inputs, self.outputs))
        return f"<native {self.name}({takes}) -> {gives}>"


def _from(given: int, inputs: Sequence[ValueSpec], defaults: Sequence[Any]) -> list[tuple[ValueSpec, Any]]:
    return list(zip(inputs, defaults, strict=True))[given:]


def _extents(spec: ValueSpec) -> tuple[int, ...]:
    """The shape, which has no names."""
    return tuple(size for size in spec.shape if isinstance(size, int))


def _addresses(arrays: Sequence[Array]) -> Any:
    return (ctypes.c_void_p * max(1, len(arrays)))(*[array.ctypes.data for array in arrays])


def _elements(spec: ValueSpec) -> int:
    return int(np.prod(_extents(spec), dtype=np.int64))


@cache
def _serial_host() -> Host:
    """What the code may ask of the process: memory alone. There is no pool, and nothing of Python."""
    if libc is None:
        raise JitgraphError("this system has no C library by which native code gets memory")
    return Host(abi_version=ABI_VERSION, alloc=function_address(libc.malloc), free=function_address(libc.free))


def _free_arenas(record: ctypes.Array[ctypes.c_int64]) -> None:
    """Free the workspaces that a function keeps."""
    first = layout.NATIVE["arenas"] // 8
    for number in range(first, first + layout.ARENAS):
        if record[number]:
            libc.free(ctypes.c_int64.from_address(record[number] - 8).value)
            record[number] = 0
