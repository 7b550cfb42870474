"""Operands as PyTorch promotes them, and the forms that many operators share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jitgraph import dtypes
from jitgraph.tensor import Tensor
from jitgraph.tensor import functions as fn


def category(dtype: Any) -> int:
    """The place of a dtype in bool < integer < float < complex, among which alone PyTorch promotes a 0-d tensor."""
    return 3 if dtypes.is_complex(dtype) else 2 if dtypes.is_float(dtype) else 0 if dtypes.is_bool(dtype) else 1


def promoted(*operands: Any) -> tuple[Any, ...]:
    """The operands with 0-d tensors in the dtype of those that have dimensions, unless theirs is of a higher category.

    All else is as jitgraph promotes: numbers never raise the dtype within a category.
    """
    ranks = [operand.ndim if isinstance(operand, Tensor) else None for operand in operands]
    if 0 not in ranks or not any(ranks):
        return operands
    dtype = result_type(*(operand for operand, rank in zip(operands, ranks, strict=True) if rank))
    return tuple(
        fn.astype(operand, dtype)
        if rank == 0 and operand.dtype != dtype and category(operand.dtype) <= category(dtype)
        else operand
        for operand, rank in zip(operands, ranks, strict=True)
    )


def result_type(*operands: Any) -> Any:
    """The dtype to which jitgraph promotes tensors."""
    return dtypes.promote(*(operand.dtype for operand in operands))


def unary(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The operator ``name(self)`` of a function of one tensor."""

    def operator(self: Any) -> Any:
        return function(self)

    return operator


def binary(function: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """The operator ``name(self, other)`` of a function of two operands, promoted as in PyTorch."""

    def operator(self: Any, other: Any) -> Any:
        return function(*promoted(self, other))

    return operator


def scaled(operand: Any, alpha: Any) -> Any:
    """``alpha * operand``, the operand itself for 1."""
    if isinstance(alpha, int | float) and alpha == 1:
        return operand
    return operand * alpha


def cast(result: Any, dtype: Any) -> Any:
    """``result`` in ``dtype``, unchanged for None."""
    return result if dtype is None else fn.astype(result, dtype)


def is_bool(operand: Any) -> bool:
    """Whether an operand is a bool, or a tensor of them."""
    return isinstance(operand, bool) or (isinstance(operand, Tensor) and dtypes.is_bool(operand.dtype))


def is_integral(operand: Any) -> bool:
    """Whether an operand is an integer or a bool, or a tensor of them."""
    if isinstance(operand, Tensor):
        return category(operand.dtype) < 2
    return not isinstance(operand, float | complex)


def axes(dim: Any) -> Any:
    """PyTorch's ``dim`` of a reduction as an axis: None and an empty list are all axes."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return None
    return tuple(dim) if isinstance(dim, list | tuple) else dim
