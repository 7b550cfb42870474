"""Functions about tensors, dtypes and settings: ``is_tensor``, ``result_type``, ``typename``, threads."""

from __future__ import annotations

from typing import Any

from jitgraph import dtypes
from jitgraph.runtime import threads
from jitgraph.torch.promotion import result_type_of
from jitgraph.torch.scalar_types import dtype, scalar_type
from jitgraph.torch.tensors import Tensor


def is_tensor(obj: Any, /) -> bool:
    """Whether an object is a tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """Whether an object is a storage, which nothing is here."""
    return False


def is_floating_point(input: Tensor) -> bool:
    """Whether elements are real floats."""
    return input.is_floating_point()


def is_complex(input: Tensor) -> bool:
    """Whether elements are complex numbers."""
    return input.is_complex()


def is_signed(input: Tensor) -> bool:
    """Whether elements may be negative."""
    return input.is_signed()


def is_conj(input: Tensor) -> bool:
    """Whether a tensor is the conjugate of another one in the same memory, which none is here."""
    return False


is_neg = is_inference = is_distributed = is_conj


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return tuple(input.shape) == tuple(other.shape)


def get_device(input: Tensor) -> int:
    """The number of the GPU where a tensor lies, -1 for the CPU."""
    return input.get_device()


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """The dtype of a result of arithmetic on two tensors or numbers."""
    return scalar_type(result_type_of(tensor1, tensor2))


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype to which two are cast without loss of their kind."""
    return scalar_type(dtypes.promote(type1.dtype, type2.dtype))


def typename(obj: Any, /) -> str:
    """The name of an object's type, with its module; of a tensor as ``x.type()``."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(kind, "__module__", None) or ""
    name = getattr(kind, "__qualname__", "") or type(obj).__name__
    return name if module in ("builtins", "__builtin__", "") else f"{module}.{name}"


def get_num_threads() -> int:
    """How many threads kernels use."""
    return threads.get_num_threads()


def set_num_threads(num: int) -> None:
    """Let kernels use so many threads."""
    if not isinstance(num, int) or isinstance(num, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(num).__name__}")
    if num <= 0:
        raise RuntimeError("set_num_threads expects a positive integer")
    threads.set_num_threads(num)


get_num_interop_threads, set_num_interop_threads = get_num_threads, set_num_threads
