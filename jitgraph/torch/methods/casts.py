"""Methods that give a tensor in another dtype, or make one like it."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.torch import scalar_types
from jitgraph.torch.functions import creation
from jitgraph.torch.functions.views import sizes_of
from jitgraph.torch.tensor_classes import class_of, dtype_of_class
from jitgraph.torch.tensors import Tensor


def _cast(name: str, dtype: scalar_types.dtype) -> Any:
    def method(self: Tensor, memory_format: Any = None) -> Tensor:
        return self.to(dtype=dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The elements as {dtype.name}; this tensor where it has the dtype."
    return method


bfloat16, half = _cast("bfloat16", scalar_types.bfloat16), _cast("half", scalar_types.float16)
float, double = _cast("float", scalar_types.float32), _cast("double", scalar_types.float64)
char, short = _cast("char", scalar_types.int8), _cast("short", scalar_types.int16)
int, long = _cast("int", scalar_types.int32), _cast("long", scalar_types.int64)
byte, bool = _cast("byte", scalar_types.uint8), _cast("bool", scalar_types.bool_)
cfloat, cdouble = _cast("cfloat", scalar_types.complex64), _cast("cdouble", scalar_types.complex128)


def type(self: Tensor, dtype: Any = None, non_blocking: Any = False, **kwargs: Any) -> Any:
    """The name of the tensor's class ("torch.FloatTensor"); with a dtype, a class or its name the elements in it."""
    if dtype is None:
        return class_of(self)
    return self.to(dtype=dtype if isinstance(dtype, scalar_types.dtype) else dtype_of_class(dtype))


def type_as(self: Tensor, other: Tensor) -> Tensor:
    """The elements in the dtype of another tensor, and on its device."""
    return self.to(other)


def _device_of(self: Tensor, device: Any) -> Any:
    return self.device if device is None else device


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False,
    layout: Any = None, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A tensor of ``data`` in the dtype and on the device of this one."""
    return creation.tensor(
        data, dtype=dtype or self.dtype, device=_device_of(self, device), requires_grad=requires_grad
    )


def _new(name: str) -> Any:
    make = getattr(creation, name)

    def method(
        self: Tensor, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: Any = False,
        layout: Any = None, pin_memory: Any = False,
    ) -> Tensor:  # fmt: skip
        return make(
            *sizes, size=size, dtype=dtype or self.dtype, device=_device_of(self, device), requires_grad=requires_grad
        )

    method.__name__ = method.__qualname__ = f"new_{name}"
    method.__doc__ = f"As ``torch.{name}``, in the dtype and on the device of this tensor."
    return method


new_zeros, new_ones, new_empty = _new("zeros"), _new("ones"), _new("empty")


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False,
    layout: Any = None, pin_memory: Any = False,
) -> Tensor:  # fmt: skip
    """A number everywhere, in the dtype and on the device of this tensor."""
    return creation.full(
        size, fill_value, dtype=dtype or self.dtype, device=_device_of(self, device), requires_grad=requires_grad
    )


def new_empty_strided(
    self: Tensor, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None,
    pin_memory: Any = False, requires_grad: Any = False,
) -> Tensor:  # fmt: skip
    """Zeros of a shape, in the dtype and on the device of this tensor."""
    return creation.empty(
        tuple(size), dtype=dtype or self.dtype, device=_device_of(self, device), requires_grad=requires_grad
    )


def new(self: Tensor, *data: Any, device: Any = None) -> Tensor:
    """A tensor of sizes or of data, in the dtype of this one."""
    if len(data) == 1 and (isinstance(data[0], list | jg.Tensor) or hasattr(data[0], "__array__")):
        return new_tensor(self, data[0], device=device)
    sizes = sizes_of(data) if data else (0,)
    return new_empty(self, *sizes, device=device)


def as_subclass(self: Tensor, cls: Any) -> Any:
    """The tensor as an object of a class of tensors."""
    result = self.to(copy=True) if self.__class__ is not Tensor else Tensor._of(self.value)
    result.__class__ = cls
    return result
