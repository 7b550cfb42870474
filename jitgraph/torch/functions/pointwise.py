"""Functions of each element whose Python signatures differ from ATen's."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.torch import return_types
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.aten_ops import pointwise
from jitgraph.torch.scalar_types import scalar_type
from jitgraph.torch.writing import overwritten, require_own_dtype, written_to


@with_out
def clamp(input: Any, min: Any = None, max: Any = None) -> Any:
    """Elements below ``min`` as it, those above ``max`` as it: numbers or tensors."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    return pointwise.clamp(input, min, max)


clip = clamp


def float_power_(self: Any, exponent: Any) -> Any:
    """``float_power`` in place; RuntimeError unless the tensor has the result's dtype, float64 or complex128."""
    result = pointwise.float_power(self, exponent)
    if result.dtype != self.dtype:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype!r} but the operation's result requires dtype "
            f"{scalar_type(result._static.type.dtype)!r}"
        )
    return overwritten(self, result)


@with_out
def frexp(input: Any) -> Any:
    """The mantissas, at least 1/2 and below 1, and the exponents of two."""
    return return_types.frexp(*pointwise.frexp(input))


@with_out
def polygamma(n: int, input: Any) -> Any:
    """The n-th derivative of the digamma function."""
    return pointwise.polygamma(n, input)


@with_out
def complex(real: Any, imag: Any) -> Any:
    """Complex numbers of real and imaginary parts, which have the same float dtype."""
    first, second = (x._static.type.dtype for x in (real, imag))
    if not dtypes.is_float(first) or not dtypes.is_float(second):
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {scalar_type(first)!r} and "
            f"{scalar_type(second)!r}"
        )
    if first != second:
        raise RuntimeError(
            f"Expected object of scalar type {scalar_type(first)!r} but got scalar type {scalar_type(second)!r} for "
            "second argument"
        )
    return pointwise.complex(real, imag)


def real(input: Any) -> Any:
    """A view of the real parts."""
    return input.real


def imag(input: Any) -> Any:
    """A view of the imaginary parts."""
    return input.imag


@torch_function
def conj(input: Any) -> Any:
    """The complex conjugates; a real tensor itself."""
    return jg.conj(input) if input.is_complex() else input


def positive(input: Any) -> Any:
    """The tensor itself; RuntimeError for bools."""
    if dtypes.is_bool(input._static.type.dtype):
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


def resolve_conj(input: Any) -> Any:
    """The tensor itself: its conjugates are computed."""
    return input


resolve_neg = resolve_conj


def conj_physical(input: Any, *, out: Any = None) -> Any:
    """The complex conjugates; a real tensor itself."""
    if out is None:
        return conj(input)
    result = jg.conj(input)
    require_own_dtype("conj_physical", out, result)
    return written_to(out, result)


def detach(input: Any) -> Any:
    """The same elements without history: writes to one are seen in the other."""
    return input.detach()


def detach_(input: Any) -> Any:
    """The tensor without history."""
    return input.detach_()
