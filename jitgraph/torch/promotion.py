"""PyTorch's promotion: tensors of rank 0 and Python's numbers do not raise the dtype within a kind.

Source: "Type promotion" in PyTorch's documentation of tensor attributes. Kinds are bool, integers, floats and complex
numbers; a Python float or complex number counts as one of the default dtype, an int as int64.
"""

from __future__ import annotations

import warnings
from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.eager import versions
from jitgraph.eager.handle import ValueHandle
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.tensor.scalars import is_scalar
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.scalar_types import get_default_dtype


def _of_number(number: Any) -> DType:
    if isinstance(number, bool):
        return dtypes.bool_
    if isinstance(number, complex):
        return dtypes.complex_of(get_default_dtype().dtype)
    return dtypes.int64 if isinstance(number, int) else get_default_dtype().dtype


def _joined(higher: DType | None, lower: DType | None) -> DType | None:
    if higher is None or lower is None or dtypes.is_complex(higher):
        return lower if higher is None else higher
    if dtypes.is_float(higher):
        return dtypes.complex_of(higher) if dtypes.is_complex(lower) else higher
    return dtypes.promote(higher, lower) if dtypes.is_bool(higher) or dtypes.is_inexact(lower) else higher


def result_type_of(*operands: Any) -> DType:
    """The dtype to which tensors and numbers are brought."""
    ranked: DType | None = None
    single: DType | None = None
    number: DType | None = None
    for x in operands:
        if isinstance(x, ValueHandle) and not x._weak:
            dtype = x._static.type.dtype
            if x.ndim:
                ranked = dtype if ranked is None else dtypes.promote(ranked, dtype)
            else:
                single = dtype if single is None else dtypes.promote(single, dtype)
        elif is_scalar(x) or isinstance(x, ValueHandle):
            dtype = _of_number(x) if is_scalar(x) else x._static.type.dtype
            number = dtype if number is None else dtypes.promote(number, dtype)
        else:
            dtype = lifting.value_of(x).dtype
            ranked = dtype if ranked is None else dtypes.promote(ranked, dtype)
    result = _joined(_joined(ranked, single), number)
    assert result is not None
    return result


def promoted(*operands: Any) -> tuple[Any, ...]:
    """The operands with tensors cast to the common dtype, where jitgraph's own promotion would choose another one."""
    seen: DType | None = None
    for x in operands:
        if x.__class__ is int or x.__class__ is bool:
            continue  # an int never changes a float's or an integer's dtype
        if not isinstance(x, ValueHandle) or x._weak:
            break
        dtype = x._static.type.dtype
        if seen is not None and dtype is not seen:
            break
        seen = dtype
    else:
        if seen is not None and not dtypes.is_bool(seen):
            return operands
    target = result_type_of(*operands)
    return tuple([_as_operand(x, cast(x, target)) for x in operands])


def _as_operand(x: Any, brought: Any) -> Any:
    """``brought``, a tensor in the dtype of an operation: PyTorch saves the operand itself for its gradient."""
    now = context.current()
    if brought is x or not isinstance(x, ValueHandle) or not now.grad_enabled:
        return brought
    trace = getattr(brought._value, "trace", None)
    if trace is not None:
        trace.gradients.writes.derived(brought._value, x.value)
    elif now.trace is None:
        dtype = brought._static.type.dtype
        read = lambda base: lifting.cast(base, dtype)
        brought._value = versions.derived(brought._value, x.value, read, is_form=True)
    return brought


def cast(x: Any, dtype: DType) -> Any:
    """A tensor in a dtype, itself where it is; numbers, which are weak, as they are."""
    if is_scalar(x):
        return x if dtypes.kind_rank(_of_number(x)) <= dtypes.kind_rank(dtype) else wrap(lifting.value_of(x, dtype))
    if isinstance(x, ValueHandle) and x._static.type.dtype == dtype:
        return x
    return wrap(lifting.cast(lifting.value_of(x), dtype))


def converted(x: Any, dtype: DType) -> Any:
    """A tensor as PyTorch casts it to a dtype, itself where it has it: complex numbers lose their imaginary parts."""
    if dtypes.is_complex(x._static.type.dtype) and not dtypes.is_complex(dtype):
        if dtypes.is_bool(dtype):
            return jg.not_equal(x, 0)
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        x = jg.real(x)
    return cast(x, dtype)


def to_inexact(x: Any) -> Any:
    """A tensor of ints or bools in the default float dtype; others as they are."""
    if isinstance(x, ValueHandle) and not x._weak and not dtypes.is_inexact(x._static.type.dtype):
        return _as_operand(x, cast(x, get_default_dtype().dtype))
    return x
