"""Writes of results to tensors that are there already: ``out=``, and methods whose names end in ``_``."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Final

import jitgraph as jg
from jitgraph import dtypes
from jitgraph.eager.handle import NATIVE_CLASSES, stopped
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.runtime import imports
from jitgraph.tensor import lifting
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.scalar_types import scalar_type

RETAINING: Final[dict[int, Callable[[], None]]] = {}
"""What ends ``retain_grad()``, by the ids of the tensors on which it was called."""

OF_OWN_DTYPE: Final = {
    "abs", "addbmm", "addmm", "addmv", "alias_copy", "all", "amax", "amin", "aminmax", "any", "argmax", "argmin",
    "as_strided_copy", "avg_pool2d", "avg_pool3d", "baddbmm", "bmm", "bucketize", "ceil", "complex", "cross",
    "cummax", "cummin", "diag", "diagonal_copy", "dot", "expand_copy", "float_power", "floor", "frac",
    "frexp", "gather", "gelu", "hardshrink", "heaviside", "histc", "histogram", "index_add", "index_copy",
    "index_reduce", "index_select", "inner", "isin", "isneginf", "isposinf", "kthvalue", "linalg.cholesky",
    "linalg.cholesky_ex", "linalg.cross", "linalg.det", "linalg.eigh", "linalg.eigvalsh", "linalg.inv",
    "linalg.inv_ex", "linalg.lu", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu_solve", "linalg.matrix_norm",
    "linalg.multi_dot", "linalg.norm", "linalg.qr", "linalg.slogdet", "linalg.solve", "linalg.solve_ex",
    "linalg.solve_triangular", "linalg.svd", "linalg.svdvals", "linalg.vecdot", "linalg.vector_norm", "linear",
    "log_softmax", "logcumsumexp", "logsigmoid", "lu_solve", "lu_unpack", "masked_select", "matmul", "mm", "mode",
    "msort", "multinomial", "mv", "nan_to_num", "nanquantile", "narrow_copy", "native_batch_norm", "neg", "nonzero",
    "norm", "ormqr", "permute_copy", "polar", "qr", "quantile", "renorm", "round", "scatter", "scatter_add",
    "scatter_reduce", "searchsorted", "sgn", "sign", "signbit", "slice_copy", "slice_scatter", "softmax", "softplus",
    "softshrink", "sort", "split_with_sizes_copy", "squeeze_copy", "svd", "t_copy", "take", "take_along_dim",
    "tensordot", "topk", "transpose_copy", "triangular_solve", "tril", "triu", "trunc", "unbind_copy", "unfold_copy",
    "unsqueeze_copy", "vdot", "view_copy", "where",
}  # fmt: skip
"""Functions whose ``out=`` has to have the dtype of the result; that of others may be higher."""


OF_ASKED_DTYPE: Final = {"arange", "empty", "eye", "full", "linspace", "logspace", "ones", "rand", "randn", "zeros"}
"""Functions whose ``dtype=`` is that of ``out=`` where both are given."""


def require_own_dtype(name: str, out: Any, result: Any) -> None:
    """RuntimeError where the tensors of ``out=`` have other dtypes than the results."""
    pairs = [(out, result)] if isinstance(out, jg.Tensor) else zip(out, result, strict=True)
    for target, value in pairs:
        dtype = lifting.value_of(value).dtype
        if target._static.type.dtype != dtype:
            raise RuntimeError(
                f"{name}: Expected out tensor to have dtype {scalar_type(dtype)!r}, but got {target.dtype!r} instead"
            )


def written_to(out: Any, result: Any) -> Any:
    """``out`` after ``result`` was written to it; of several results one by one."""
    if not isinstance(out, jg.Tensor):
        items = [written_to(target, value) for target, value in zip(out, result, strict=True)]
        return type(result)(*items) if hasattr(result, "_fields") else tuple(items)
    if any(step.repeats for step in getattr(out, "steps", ())):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
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


def is_without_history(x: Any, old: Any, value: Any, current: context.Context) -> bool:
    """Whether ``value``, which takes the place of x's value ``old`` outside of traces, is all that becomes of x: no
    gradient flows to it or to what was there, none is asked for now, and none is retained."""
    if old.__class__ is not EagerValue or value.__class__ is not EagerValue or value.record is not None:
        return False
    return (not current.grad_enabled if x._requires_grad else old.record is None) and not RETAINING


def overwritten(self: Any, result: Any) -> Any:
    """``self`` with ``result`` as its value, which has its shape and may be cast to its dtype; else RuntimeError."""
    kind: Any = NATIVE_CLASSES["torch", False]
    if self.__class__ is kind and result.__class__ is kind and not result._requires_grad:
        current, value = context.current(), result._value
        if (
            current.trace is None
            and is_without_history(self, self._value, value, current)
            and value._type is self._value._type is not None
        ):
            self._replace(value)
            return self
    value = lifting.value_of(result)
    own = self._static.type
    if tuple(value.shape) != tuple(own.shape):
        raise RuntimeError(f"output with shape {list(own.shape)} doesn't match the broadcast shape {list(value.shape)}")
    if value.dtype != own.dtype:
        require_castable(value.dtype, self)
        value = lifting.cast(value, own.dtype)
    trace = context.current().trace
    value = in_history_of(self, value)
    if trace is None:
        self._rebind(value)
    else:
        with trace.gradients.writes.by_op_in_place():
            self._rebind(value)
    return self


def in_history_of(x: Any, value: Any, *, overwrites: bool = False) -> Any:
    """What takes the place of x's value: where that is computed it is too, with the derivative 0.

    Unless ``overwrites``, a value that requires a gradient was computed of x's.
    """
    current = context.current()
    if (value.requires_grad and not overwrites) or x._requires_grad or not current.grad_enabled:
        return value
    own = x.value
    if not own.requires_grad or own.dtype != value.dtype:
        return value
    return jg.where(jg.zeros((), dtype=jg.bool), wrap(own), wrap(value)).value


def can_cast(from_: Any, to: Any) -> bool:
    """Whether results of one dtype may be written to a tensor of another: not to a lower kind."""
    return dtypes.kind_rank(dtypes.canonical(from_)) <= dtypes.kind_rank(dtypes.canonical(to))


def write_data(base: Any, value: Any, data: Any, step: Any, own: Any) -> None:
    """Give ``base`` other elements without a change of its history, and of its version where it is by ``.data``.

    The tensor that ``step`` detached has the value ``own`` then.
    """
    current, old = context.current(), base._value
    if current.grad_enabled:
        step.depend_on(own)
    with context.using(grad_enabled=False):
        base._rebind(stopped(value), data is None)
    if current.grad_enabled and current.trace is None:
        imports.module("jitgraph.eager.versions").computed_in_place(own, old)
    if data is not None:
        data.writes += 1
