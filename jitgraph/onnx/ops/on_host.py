"""Arithmetic on host values: exact for integers, of which some may be symbolic sizes; NumPy's for floats and bools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph.errors import NumberError
from jitgraph.onnx import values
from jitgraph.onnx.records import Array


def exactly(function: Callable[..., Any]) -> Callable[..., Array]:
    """A function of Python numbers, element by element of arrays that broadcast."""

    def compute(*operands: Array, **attributes: Any) -> Array:
        dtype = values.dtype_of(operands[0])
        if dtype.kind not in "iu":
            with np.errstate(all="ignore"):
                return np.asarray(function(*operands)).astype(dtype, copy=False)
        arrays = np.broadcast_arrays(*[operand.astype(object) for operand in operands])
        result = np.empty(arrays[0].shape, object)
        for i, numbers in enumerate(zip(*[array.flat for array in arrays], strict=True)):
            result.flat[i] = function(*numbers)
        return narrowed(result, dtype)

    return compute


def narrowed(numbers: Array, dtype: Any) -> Array:
    """An array of Python integers in a dtype; as it is where some are symbolic. NumberError where one does not fit."""
    if not all(type(number) is int or type(number) is bool for number in numbers.flat):
        return numbers
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        for number in numbers.flat:
            if not limits.min <= number <= limits.max:
                raise NumberError(f"{number} is no {dtype.name}")
    return numbers.astype(dtype)


def as_bools(function: Callable[..., Any]) -> Callable[..., Array]:
    """A comparison of host values, element by element."""

    def compute(*operands: Array, **attributes: Any) -> Array:
        if all(operand.dtype.kind != "O" for operand in operands):
            return np.asarray(function(*operands))
        arrays = np.broadcast_arrays(*[operand.astype(object) for operand in operands])  # Python's ints beside sizes
        result = np.empty(arrays[0].shape, bool)
        for i, numbers in enumerate(zip(*[array.flat for array in arrays], strict=True)):
            result.flat[i] = bool(function(*numbers))
        return result

    return compute


def quotient(numerator: Any, denominator: Any) -> Any:
    """Division as in C for integers, which sizes need not be told."""
    if isinstance(numerator, np.ndarray):
        return numerator / denominator
    if type(numerator) is int and type(denominator) is int:
        if denominator == 0:
            return 0
        result = abs(numerator) // abs(denominator)
        return result if (numerator < 0) == (denominator < 0) else -result
    return numerator // denominator


def rest(x: Any, y: Any) -> Any:
    """The remainder with the sign of x; 0 for an integer and 0."""
    return np.fmod(x, y) if isinstance(x, np.ndarray) else x - y * quotient(x, y) if y != 0 else 0


def modulo(x: Any, y: Any) -> Any:
    """The remainder with the sign of y; 0 for an integer and 0."""
    return np.mod(x, y) if isinstance(x, np.ndarray) else x % y if y != 0 else 0


def power(x: Any, y: Any) -> Any:
    """A power, whole where x is: towards zero, where the exponent is not."""
    result = x**y
    return int(result) if type(result) is float else result
