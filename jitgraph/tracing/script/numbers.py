"""Builtins that a script calls on tensors: float, int and bool give what stands for a Python number."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.tensor import Tensor, lifting, wrap
from jitgraph.tracing.script.branches import truth


def _scalar(x: Tensor, name: str) -> Any:
    if x.ndim:
        raise TypeError(f"{name}() takes a 0-d tensor, not one of shape {tuple(x.shape)}")
    return x.value


def _number(value: Any, dtype: Any) -> Tensor:
    made = wrap(lifting.cast(value, dtype))
    made._weak = True
    return made


def to_float(*args: Any) -> Any:
    """``float``; of a 0-d tensor the tensor that stands for the Python float."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return _number(_scalar(args[0], "float"), dtypes.float64)
    return float(*args)


def to_int(*args: Any, **kwargs: Any) -> Any:
    """``int``; of a 0-d tensor the tensor that stands for the Python int (int64; truncated as by ``astype``)."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return _number(_scalar(args[0], "int"), dtypes.int64)
    return int(*args, **kwargs)


def to_bool(*args: Any) -> Any:
    """``bool``; of a tensor of one element the 0-d tensor that stands for the Python bool."""
    if len(args) == 1 and isinstance(args[0], Tensor):
        return _number(truth(args[0]).value, dtypes.bool_)
    return bool(*args)
