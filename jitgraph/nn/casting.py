"""Modules in other float dtypes and on other devices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from jitgraph.autograd import no_grad
from jitgraph.dtypes import bfloat16, canonical, float16, float32, float64, is_float
from jitgraph.eager import placement
from jitgraph.errors import DTypeError
from jitgraph.tensor import Tensor, lifting

P = TypeVar("P", bound="Conversion")


class Conversion:
    """What a module is, as far as its dtype and device go."""

    _deferred: list[Any] | None = None
    """What ``to`` was asked for while a layer waits for its first call to make its parameters (``lazy.py``)."""

    def modules(self) -> Iterator[Any]:
        """This module and all below it."""
        raise NotImplementedError

    def to(self: P, *targets: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False) -> P:
        """Float parameters and buffers in another float dtype, all on another device, or both; returns the module.

        A tensor stands for its device and dtype. DTypeError for a dtype that is no float, DeviceError for a device that
        is absent. ``non_blocking`` is PyTorch's: copies to a GPU never wait.
        """
        for target in targets:
            if isinstance(target, Tensor):
                self._to(target.device)
                self._to(target.dtype)
            elif target is not None:
                self._to(target)
        if device is not None:
            self._to(placement.canonical(device))
        if dtype is not None:
            self._to(canonical(dtype))
        return self

    def _to(self, target: Any) -> None:
        modules = list(self.modules())
        tensors: list[Tensor] = []
        for module in modules:
            if module._deferred is None:
                tensors += module.parameters(recurse=False)
                tensors += module.buffers(recurse=False)
        self._move(target, {id(tensor): tensor for tensor in tensors}.values())
        for module in modules:
            if module._deferred is not None:
                module._deferred.append(target)

    def _move(self, target: Any, tensors: Iterable[Tensor]) -> None:
        if placement.is_name(target):
            with no_grad():
                for tensor in tensors:
                    gradient = tensor.grad
                    tensor.grad = None
                    tensor._rebind(tensor.to(target).value)
                    tensor.grad = None if gradient is None else gradient.to(target)
            return
        dtype = canonical(target)
        if not is_float(dtype):
            raise DTypeError(f"a module's parameters are floats, not {dtype.name}", hint="module.to(jg.float32)")
        with no_grad():
            for tensor in tensors:
                if is_float(tensor.dtype) and tensor.dtype != dtype:
                    tensor._rebind(lifting.cast(tensor.value, dtype))
                    tensor.grad = None

    def cuda(self: P, device: str | int | None = None) -> P:
        """Parameters, buffers and gradients on the current GPU, or the one given; returns the module."""
        return self.to(f"cuda:{device}" if isinstance(device, int) else device or "cuda")

    def cpu(self: P) -> P:
        """Parameters, buffers and gradients on the CPU; returns the module."""
        return self.to("cpu")

    def double(self: P) -> P:
        """Float parameters and buffers in float64; returns the module."""
        return self.to(float64)

    def float(self: P) -> P:
        """Float parameters and buffers in float32; returns the module."""
        return self.to(float32)

    def half(self: P) -> P:
        """Float parameters and buffers in float16; returns the module."""
        return self.to(float16)

    def bfloat16(self: P) -> P:
        """Float parameters and buffers in bfloat16; returns the module."""
        return self.to(bfloat16)

    def type(self: P, dst_type: Any) -> P:
        """Float parameters and buffers in the dtype; returns the module."""
        return self.to(dtype=dst_type)

    def to_empty(self: P, *, device: Any, recurse: bool = True) -> P:
        """As ``to(device)``, values included, where PyTorch leaves them undefined; returns the module."""
        modules: list[Any] = list(self.modules()) if recurse else [self]
        for module in modules:
            module._move(device, [*module.parameters(recurse=False), *module.buffers(recurse=False)])
        return self
