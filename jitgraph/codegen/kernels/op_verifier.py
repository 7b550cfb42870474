"""The rules of scalar ops, checked: how many arguments an op of a ``Let`` takes, of which dtypes, and what it gives."""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Body, Let, Load, Store, Update
from jitgraph.codegen.kernels.traversal import statements_of
from jitgraph.dtypes import DType
from jitgraph.ops.math_functions.functions import FUNCTIONS

_NUMBER = ("add", "sub", "mul", "div", "rem", "neg", "abs", "min", "max")
_FLOAT = ("sqrt", "floor", "ceil", "rint", "trunc", "fma")
_BITS = ("and_", "or_", "xor", "not_")
_ARITY = {
    **dict.fromkeys(("neg", "abs", "sqrt", "floor", "ceil", "rint", "trunc", "not_", "cast", "bitcast"), 1),
    **dict.fromkeys(("add", "sub", "mul", "div", "rem", "min", "max", "cmp", "and_", "or_", "xor", "shl", "shr"), 2),
    **dict.fromkeys(("fma", "select"), 3),
    "const": 0,
}
_RELATIONS = ("eq", "ne", "lt", "le", "gt", "ge")


_UPDATED = frozenset((dtypes.int32, dtypes.int64, dtypes.uint32, dtypes.uint64))
_ADDED = _UPDATED | {dtypes.float32, dtypes.float64}


def update_fault(update: Update | None, dtype: DType, access: str) -> str | None:
    """What is wrong with a store's update of a buffer; None: nothing."""
    if update is None:
        return None
    if update not in ("add", "max", "min"):
        return f"there is no update {update}"
    if dtype not in (_ADDED if update == "add" else _UPDATED):
        return f"elements of {dtype.name} are not updated by {update}"
    return None if access == "readwrite" else "what is updated is read and written"


def mixed_update(body: Body) -> Store | None:
    """A store that updates a buffer which ``body`` also loads from, or stores to in another way."""
    inside = list(statements_of(body))
    accesses = {(s.buffer, s.update) for s in inside if isinstance(s, Store)}
    accesses |= {(s.buffer, None) for s in inside if isinstance(s, Load)}
    several = {buffer for buffer, _ in accesses if sum(buffer == other for other, _ in accesses) > 1}
    return next((s for s in inside if isinstance(s, Store) and s.update and s.buffer in several), None)


def op_fault(let: Let) -> str | None:
    """What is wrong with a scalar op, its arguments' dtypes, its param or its result's dtype; None: nothing."""
    op, param = let.op, let.param
    arg_dtypes = [arg.dtype for arg in let.args]
    if op == "call":
        if param not in FUNCTIONS:
            return f"there is no math function {param}"
        if len(arg_dtypes) != _function_arity(str(param)):
            return f"{param} takes {_function_arity(str(param))} arguments, not {len(arg_dtypes)}"
        fits = all(dtypes.is_float(dtype) and dtype == let.var.dtype for dtype in arg_dtypes)
        return None if fits else f"{param} takes and gives one float dtype"
    if op not in _ARITY:
        return f"{op} is no scalar op"
    if len(arg_dtypes) != _ARITY[op]:
        return f"{op} takes {_ARITY[op]} arguments, not {len(arg_dtypes)}"
    if (param is not None) != (op in ("const", "cmp")):
        return f"{op} has {'no' if param is not None else 'a'} param"
    return _dtype_fault(op, arg_dtypes, let.var.dtype, param)


def _dtype_fault(op: str, arg_dtypes: list[DType], result: DType, param: Any) -> str | None:
    if op == "const":
        return None if _holds(result, param) else f"{param!r} is no {result.name}"
    if op == "cast":
        return None
    if op == "bitcast":
        return None if arg_dtypes[0].itemsize == result.itemsize else "a bitcast keeps the width"
    if op == "cmp":
        if param not in _RELATIONS:
            return f"there is no relation {param}"
        return (
            None if arg_dtypes[0] == arg_dtypes[1] and dtypes.is_bool(result) else "cmp takes one dtype and gives bool"
        )
    if op == "select":
        fits = dtypes.is_bool(arg_dtypes[0]) and arg_dtypes[1] == arg_dtypes[2] == result
        return None if fits else "select takes a bool and two values of its result's dtype"
    if any(dtype != result for dtype in arg_dtypes):
        return f"{op} takes and gives one dtype, not {', '.join(d.name for d in arg_dtypes)} for {result.name}"
    if op in _NUMBER and dtypes.is_bool(result):
        return f"{op} takes numbers"
    if op in _FLOAT and not dtypes.is_float(result):
        return f"{op} takes floats"
    if op in _BITS and dtypes.is_float(result):
        return f"{op} takes integers and bools"
    if op in ("shl", "shr") and not dtypes.is_integer(result):
        return f"{op} takes integers"
    return None


def _holds(dtype: DType, value: Any) -> bool:
    """Whether a ``const`` of ``dtype`` may have this value."""
    if dtypes.is_bool(dtype):
        return isinstance(value, bool)
    if dtypes.is_integer(dtype):
        bits = dtype.itemsize * 8
        low = -(1 << bits - 1) if dtypes.is_signed(dtype) else 0
        return isinstance(value, int) and not isinstance(value, bool) and low <= value < low + (1 << bits)
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@cache
def _function_arity(name: str) -> int:
    return len(inspect.signature(FUNCTIONS[name]).parameters) - 1
