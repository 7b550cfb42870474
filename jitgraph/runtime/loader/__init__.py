"""Runs a saved jitgraph model with NumPy and the standard library alone: ``loader.load("model.jg")(x)``.

It needs nothing beside it: ``python -m jitgraph loader DIR`` writes its parts as one file, which works under
``python -I`` in a folder with a model. It EXECUTES THE NATIVE CODE IN THE FILE, so load only files whose origin you
trust; what is checked (hashes, sizes, offsets, shapes, dtypes) guards against damage and mistakes, not against a file
written to attack you.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from jitgraph.runtime.loader.abi import (
    ABI_VERSION,
    ALIGNMENT,
    CHECK_FAILED,
    CODE_NAMES,
    INTERRUPTED,
    OK,
    OUT_OF_MEMORY,
    SCRATCH_BYTES,
    SIZE_OVERFLOW,
    SIZES_REFUSED,
    Block,
    Call,
    ErrorRecord,
    Host,
    PoolState,
    function_address,
    libc,
)
from jitgraph.runtime.loader.entry import MOST_ARENA, CallState, Entry, ShapePlan, address_of, is_dense
from jitgraph.runtime.loader.errors import CHECK_KINDS, ArgumentError, JitgraphError, LoadError
from jitgraph.runtime.loader.host import CallbackFunction, Runtime, process_runtime
from jitgraph.runtime.loader.image import (
    EXPORTS,
    HEADER_BYTES,
    MACHINE_X86_64,
    Image,
    ImageHeader,
    cpu_flags,
    cpu_levels,
    lacking,
    lacking_system,
)
from jitgraph.runtime.loader.memory import allocator
from jitgraph.runtime.loader.pool import processors, thread_count
from jitgraph.runtime.loader.signatures import (
    PRINT_STYLES,
    Check,
    CustomCall,
    Print,
    PrintOperand,
    Signature,
    print_text,
    tensor_text,
)
from jitgraph.runtime.loader.specs import Array, Constraint, Expression, StateSpec, ValueSpec, default_of, dtype_named

if TYPE_CHECKING:
    from jitgraph.runtime.loader.artifact import (
        FORMAT,
        FORMAT_VERSION,
        MANIFEST,
        MAX_GRAPH_BYTES,
        WEIGHTS,
        Artifact,
        read_safetensors,
    )
    from jitgraph.runtime.loader.device_arrays import DeviceArray
    from jitgraph.runtime.loader.device_model import DeviceModel, load
    from jitgraph.runtime.loader.model import Model, verify_state

__all__ = [
    "ABI_VERSION",
    "ALIGNMENT",
    "CHECK_FAILED",
    "CHECK_KINDS",
    "CODE_NAMES",
    "EXPORTS",
    "FORMAT",
    "FORMAT_VERSION",
    "HEADER_BYTES",
    "INTERRUPTED",
    "MACHINE_X86_64",
    "MANIFEST",
    "MAX_GRAPH_BYTES",
    "MOST_ARENA",
    "OK",
    "OUT_OF_MEMORY",
    "PRINT_STYLES",
    "SCRATCH_BYTES",
    "SIZES_REFUSED",
    "SIZE_OVERFLOW",
    "WEIGHTS",
    "ArgumentError",
    "Array",
    "Artifact",
    "Block",
    "Call",
    "CallState",
    "CallbackFunction",
    "Check",
    "Constraint",
    "CustomCall",
    "DeviceArray",
    "DeviceModel",
    "Entry",
    "ErrorRecord",
    "Expression",
    "Host",
    "Image",
    "ImageHeader",
    "JitgraphError",
    "LoadError",
    "Model",
    "PoolState",
    "Print",
    "PrintOperand",
    "Runtime",
    "ShapePlan",
    "Signature",
    "StateSpec",
    "ValueSpec",
    "address_of",
    "allocator",
    "cpu_flags",
    "cpu_levels",
    "default_of",
    "dtype_named",
    "function_address",
    "is_dense",
    "lacking",
    "lacking_system",
    "libc",
    "load",
    "print_text",
    "process_runtime",
    "processors",
    "read_safetensors",
    "tensor_text",
    "thread_count",
    "verify_state",
]

_OF_FILES: Final = {  # name -> part; a process that reads no file of a model does not load these
    "MANIFEST": "artifact",
    "WEIGHTS": "artifact",
    "FORMAT": "artifact",
    "FORMAT_VERSION": "artifact",
    "MAX_GRAPH_BYTES": "artifact",
    "Artifact": "artifact",
    "Model": "model",
    "DeviceArray": "device_arrays",
    "DeviceModel": "device_model",
    "load": "device_model",
    "verify_state": "model",
    "read_safetensors": "artifact",
}


def _resolve(name: str) -> Any:
    if name not in _OF_FILES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value = getattr(importlib.import_module(f"{__name__}.{_OF_FILES[name]}"), name)
    return value


if not TYPE_CHECKING:  # type checkers shall miss what is not there
    __getattr__ = _resolve
