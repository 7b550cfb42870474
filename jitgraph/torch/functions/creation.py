"""Functions that make tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

import jitgraph as jg
from jitgraph.dtypes import canonical as jg_dtype
from jitgraph.torch.adapters import torch_function, with_out
from jitgraph.torch.functions.views import sizes_of
from jitgraph.torch.places import canonical
from jitgraph.torch.scalar_types import get_default_dtype
from jitgraph.torch.tensors import Tensor


def dtype_or_default(dtype: Any) -> Any:
    """The dtype that is asked for, or the default one."""
    return (get_default_dtype() if dtype is None else dtype).dtype


@torch_function
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Any:
    """A new tensor of numbers, nested lists, an array or a tensor, whose elements are copied."""
    if isinstance(data, jg.Tensor):
        data = Tensor._of(data.detach().value)
        kind = data._static.type.dtype if dtype is None else jg_dtype(dtype)
        result = jg.asarray(data, dtype=kind)
    else:
        result = jg.asarray(data, dtype=None if dtype is None else jg_dtype(dtype))
        python_floats = dtype is None and not isinstance(data, np.ndarray | np.generic) and result.dtype == jg.float32
        if python_floats and get_default_dtype().dtype != jg.float32:
            result = jg.asarray(data, dtype=get_default_dtype().dtype)
    if result is data:
        result = jg.clone(result)
    if device is not None:
        result = result.to(canonical(device))
    return result.requires_grad_() if requires_grad else result


@with_out
def zeros(
    *size: Any,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Any:
    """Zeros of a shape."""
    return jg.zeros(
        sizes_of(size), dtype=dtype_or_default(dtype), device=canonical(device), requires_grad=requires_grad
    )
