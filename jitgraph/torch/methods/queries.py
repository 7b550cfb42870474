"""Methods that say of a tensor what PyTorch programs ask: memory, history, hooks."""

from __future__ import annotations

from typing import Any

from jitgraph.torch.tensors import Tensor, View, strides_of


def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor: memory is not locked here."""
    return self


def is_pinned(self: Tensor, device: Any = None) -> bool:
    """Whether the memory is locked: no."""
    return False


def is_shared(self: Tensor) -> bool:
    """Whether other processes see the memory: no."""
    return False


def is_coalesced(self: Tensor) -> bool:
    """Of sparse tensors alone."""
    raise RuntimeError("is_coalesced expected sparse coordinate tensor layout but got Strided")


def is_set_to(self: Tensor, tensor: Tensor) -> bool:
    """Whether two tensors are the same elements of the same storage."""
    storage = lambda x: x.base if isinstance(x, View) else x
    return (
        storage(self) is storage(tensor)
        and tuple(self.shape) == tuple(tensor.shape)
        and strides_of(self) == strides_of(tensor)
        and self.storage_offset() == tensor.storage_offset()
    )


def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The axes from the outermost to the innermost in memory."""
    strides = strides_of(self)
    return tuple(sorted(range(self.ndim), key=lambda axis: (-strides[axis], axis)))


def const_data_ptr(self: Tensor) -> int:
    """The address of the first element."""
    return self.data_ptr()


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What a module's parameter becomes where another tensor is loaded."""
    return other.detach() if assign else self.copy_(other)


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: Any = None) -> Tensor:
    """The tensor, which is dense, in a dtype."""
    return self if dtype is None else self.to(dtype=dtype)


def record_stream(self: Tensor, stream: Any) -> None:
    """Say that a stream uses the tensor, whose memory stays while any does here."""


def storage_type(self: Tensor) -> str:
    """The name of PyTorch's class of storages for the dtype."""
    return self.type().replace("Tensor", "Storage")


def get_device(self: Tensor) -> int:
    """The number of the GPU, -1 on the CPU."""
    where = self.device
    return -1 if where.type == "cpu" else where.index or 0


def data_ptr(self: Tensor) -> int:
    """The address of the first element; equal for equal ones of a base and its views alone."""
    return int(self._concrete("data_ptr()").__array_interface__["data"][0])
