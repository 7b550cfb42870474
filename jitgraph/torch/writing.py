"""Writes of results to tensors that are there already: ``out=``, and methods whose names end in ``_``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.ir import context
from jitgraph.tensor import lifting
from jitgraph.torch.scalar_types import scalar_type

RETAINING: Final[dict[int, Callable[[], None]]] = {}
"""What ends ``retain_grad()``, by the ids of the tensors on which it was called."""


def written_to(out: Any, result: Any) -> Any:
    """``out`` after ``result`` was written to it; of several results one by one."""
    if not isinstance(out, jg.Tensor):
        items = [written_to(target, value) for target, value in zip(out, result, strict=True)]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    if out.requires_grad and context.current().grad_enabled:
        raise RuntimeError("out=... arguments don't support automatic differentiation, but one requires grad")
    value = lifting.value_of(result)
    if tuple(out.shape) != tuple(value.shape):
        if out.numel():
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(out.shape)}, which does not "
                f"match the required output shape {list(value.shape)}.",
                UserWarning,
                stacklevel=3,
            )
        require_castable(value.dtype, out)
        out._resize_to(lifting.cast(value, out._static.type.dtype))
        return out
    require_castable(value.dtype, out)
    out._rebind(lifting.cast(value, out._static.type.dtype))
    return out


def require_castable(dtype: Any, to: Any) -> None:
    if not can_cast(dtype, to._static.type.dtype):
        raise RuntimeError(
            f"result type {scalar_type(dtype)!r} can't be cast to the desired output type {to.dtype!r}\n"
            "  hint: write x = ... for a new tensor, or cast the other operand"
        )


def overwritten(self: Any, result: Any) -> Any:
    """``self`` with ``result`` as its value, which has its shape and may be cast to its dtype; else RuntimeError."""
    value = lifting.value_of(result)
    own = self._static.type
    if tuple(value.shape) != tuple(own.shape):
        raise RuntimeError(f"output with shape {list(own.shape)} doesn't match the broadcast shape {list(value.shape)}")
    if value.dtype != own.dtype:
        require_castable(value.dtype, self)
        value = lifting.cast(value, own.dtype)
    self._rebind(value)
    return self


def can_cast(from_: Any, to: Any) -> bool:
    """Whether results of one dtype may be written to a tensor of another: not to a lower kind."""
    return dtypes.kind_rank(dtypes.canonical(from_)) <= dtypes.kind_rank(dtypes.canonical(to))
