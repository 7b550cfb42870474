"""Native functions as ``scipy.LowLevelCallable``, for the signatures of callbacks that SciPy's functions take."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from jitgraph.errors import ArgumentError, JitgraphError
from jitgraph.native.addresses import function_of
from jitgraph.runtime import imports
from jitgraph.runtime.loader import ValueSpec

if TYPE_CHECKING:
    from jitgraph.native.function import FunctionPointer


class Callback(NamedTuple):
    """A signature of callbacks, the function of ``native_calls`` that has it, and what it is for."""

    signature: str
    function: str
    result: Any
    arguments: tuple[Any, ...]
    takes: str
    gives: str


_DOUBLE, _INT, _SIZE, _POINTER = ctypes.c_double, ctypes.c_int, ctypes.c_ssize_t, ctypes.c_void_p
_DOUBLES = ctypes.POINTER(ctypes.c_double)

CALLBACKS: Final = {
    "quad": Callback("double (double, void *)", "of_number", _DOUBLE, (_DOUBLE, _POINTER), "a number", "a number"),
    "nquad": Callback(
        "double (int, double *, void *)",
        "of_numbers",
        _DOUBLE,
        (_INT, _DOUBLES, _POINTER),
        "numbers, or one vector",
        "a number",
    ),
    "generic_filter": Callback(
        "int (double *, intptr_t, double *, void *)",
        "of_window",
        _INT,
        (_DOUBLES, _SIZE, _DOUBLES, _POINTER),
        "one vector",
        "a number",
    ),
    "generic_filter1d": Callback(
        "int (double *, intptr_t, double *, intptr_t, void *)",
        "of_line",
        _INT,
        (_DOUBLES, _SIZE, _DOUBLES, _SIZE, _POINTER),
        "one vector",
        "one vector",
    ),
}


def low_level_callable(function: FunctionPointer, signature: str) -> Any:
    """The callable; ArgumentError where the function is not of that signature."""
    callback = _callback(signature)
    takes = [_is_number(spec) for spec in function.inputs]
    gives = [_is_number(spec) for spec in function.outputs]
    doubles = all(spec.dtype == "float64" for spec in (*function.inputs, *function.outputs))
    match callback.takes:
        case "a number":
            fits = takes == [True]
        case "one vector":
            fits = takes == [False]
        case _:
            fits = bool(takes) and (all(takes) or takes == [False])
    if not doubles or not fits or gives != [callback.gives == "a number"]:
        raise ArgumentError(
            f"{function!r} is not of the signature {callback.signature}\n"
            f"  hint: it takes {callback.takes} and gives {callback.gives}, all float64; the example of a number is "
            "jg.TensorSpec((), jg.float64)"
        )
    try:
        scipy = imports.module("scipy")
    except ModuleNotFoundError:
        raise JitgraphError(
            "low-level callables are SciPy's, which is not installed\n  hint: pip install scipy"
        ) from None
    pointer = ctypes.CFUNCTYPE(callback.result, *callback.arguments)(function_of(callback.function))
    pointer.owner = function  # type: ignore[attr-defined]
    return scipy.LowLevelCallable(pointer, ctypes.c_void_p(function.data), signature=callback.signature)


def _callback(signature: str) -> Callback:
    if signature in CALLBACKS:
        return CALLBACKS[signature]
    plain = "".join(signature.split())
    for callback in CALLBACKS.values():
        if "".join(callback.signature.split()) == plain:
            return callback
    known = "; ".join(f"{callback.signature} for {name!r}" for name, callback in CALLBACKS.items())
    raise ArgumentError(f"no callback has the signature {signature!r:.80}\n  hint: one of {known}")


def _is_number(spec: ValueSpec) -> bool:
    return not spec.shape
