"""What Python and NumPy see of a tensor: sizes, arrays, numbers, text and pickles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from jitgraph import dtypes
from jitgraph.eager import placement
from jitgraph.eager.handle import ValueHandle
from jitgraph.eager.placement import DeviceValue
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import HostAccessError, JitgraphError, ShapeError, SharingError
from jitgraph.ir import context
from jitgraph.runtime import imports, loader
from jitgraph.runtime.buffer import Buffer
from jitgraph.tensor import lifting

if TYPE_CHECKING:
    from numpy.typing import NDArray


class _Size(int):
    """The number of elements; called, as ``x.size(0)``, it says what to write here."""

    def __call__(self, axis: int | None = None) -> NoReturn:
        form = "x.shape" if axis is None else f"x.shape[{axis}]"
        raise JitgraphError(f"x.size is the number of elements, as in NumPy, not a function\n  hint: write {form}")


class ReadableHandle(ValueHandle):
    """A handle whose value Python and NumPy can read; inside a trace, where there is none yet, that is refused."""

    __slots__ = ()

    # --- description -------------------------------------------------------------------------------------------

    @property
    def device(self) -> str:
        """Where the value lies: "cpu", or a GPU such as "cuda:0"; in a trace, where it will lie."""
        value = self._value
        return value.device  # type: ignore[no-any-return]

    @property
    def size(self) -> Any:
        """The number of elements."""
        total: Any = 1
        for size in self.shape:
            total = total * size
        return _Size(total) if type(total) is int else total

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to step along each axis of the row-major value; its layout in memory is not visible."""
        steps, step = [], self.dtype.itemsize
        for size in reversed(self.shape):
            steps.append(step)
            step *= size
        return tuple(reversed(steps))

    @property
    def nbytes(self) -> Any:
        """Bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return self.dtype.itemsize

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of a 0-d tensor")
        return int(self.shape[0])

    # --- arrays ------------------------------------------------------------------------------------------------

    def numpy(self) -> NDArray[Any]:
        """A read-only view of the value; SharingError where it requires a gradient, as in PyTorch.

        HostAccessError for a tensor on a GPU: ``x.cpu().numpy()``.
        """
        return self._view("numpy()", "x.detach().numpy()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        view = self._view("np.asarray", "np.asarray(x.detach())")
        if dtype is not None and view.dtype != dtype:
            if copy is False:
                raise ValueError(f"{view.dtype} cannot be seen as {dtype} without a copy")
            return view.astype(dtype)
        return view.copy() if copy else view

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of a tensor on a GPU, read-only, by version 3 of the protocol; AttributeError on the CPU."""
        value = self._value
        if not isinstance(value, DeviceValue) or self.requires_grad:
            raise AttributeError("__cuda_array_interface__")  # __getattr__ goes on
        interface: dict[str, Any] = placement.exchange().interface_of(self, value)
        return interface

    def __dlpack__(
        self, stream: Any = None, *, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        """A DLPack capsule: the memory of the value, read-only, for callers of version 1; for older ones a copy.

        SharingError where the tensor requires a gradient, and for what a tensor on its device cannot do.
        """
        value = self._value
        if value.__class__ is DeviceValue and context.current().trace is None:
            if self.requires_grad:
                raise SharingError("DLPack of a tensor that requires a gradient", hint="x.detach()")
            return placement.exchange().exported(value, stream, max_version, dl_device, copy)
        from jitgraph.runtime import dlpack  # here: few programs hand arrays to other libraries

        view = self._view("DLPack", "x.detach()")
        return dlpack.exported(view, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        from jitgraph.runtime import dlpack

        value = self._value
        return placement.exchange().device_of(value) if value.__class__ is DeviceValue else dlpack.CPU_DEVICE

    def _view(self, what: str, way_out: str) -> NDArray[Any]:
        if self._value.__class__ is DeviceValue and context.current().trace is None:
            raise HostAccessError(f"{what} of a tensor on {self.device}", hint=way_out.replace("x", "x.cpu()"))
        self._concrete(what)
        if self.requires_grad:
            raise SharingError(f"{what} of a tensor that requires a gradient", hint=way_out)
        value: Buffer = self._value
        return value.shown()

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The package; JitgraphError for a version of the Array API that it does not follow."""
        if api_version is not None:
            imports.module("jitgraph.tensor.dtype_queries").require_version(api_version)
        return imports.provided("the package")

    @property
    def data(self) -> NoReturn:
        """Not here, where a value is not shared by handles: the error says what to write."""
        raise AttributeError("data")  # __getattr__ goes on

    @data.setter
    def data(self, value: Any) -> NoReturn:
        from jitgraph.migration_hints import replacement  # here, as only errors need it

        raise JitgraphError(f"x.data cannot be set\n  hint: {replacement('x', 'data')}")

    # --- numbers -----------------------------------------------------------------------------------------------

    def item(self) -> Any:
        """The one element as a Python number; ShapeError for more or fewer, TraceError in a trace."""
        array = self._concrete("item()")
        if array.size != 1:
            raise ShapeError(f"item() needs one element; the shape is {array.shape}", hint="x.tolist() or x[i].item()")
        return float(array.reshape(())) if dtypes.is_float(array.dtype) else array.item()

    def tolist(self) -> Any:
        """Nested lists of Python numbers, one number of a tensor of rank 0; TraceError in a trace."""
        array = self._concrete("tolist()")
        return array.astype(np.float64).tolist() if array.dtype == dtypes.bfloat16 else array.tolist()

    def __bool__(self) -> bool:
        return bool(self._one("bool()"))

    def __float__(self) -> float:
        return float(self._one("float()"))

    def __complex__(self) -> complex:
        return complex(self._one("complex()"))

    def __int__(self) -> int:
        return int(self._one("int()"))

    def __index__(self) -> int:
        if not dtypes.is_integer(self.dtype):
            raise TypeError(f"only an integer tensor is an index, not {self.dtype.name}")
        return int(self._one("use as an index"))

    def _one(self, what: str) -> Any:
        array = self._concrete(what)
        if array.size != 1:
            raise ShapeError(f"{what} needs one element; the shape is {array.shape}", hint="jg.any or jg.all reduce")
        return array.reshape(())

    # --- text --------------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        value, trace = self._value, context.current().trace
        if trace is not None:
            return str(trace.text_of(self, "r"))
        if isinstance(value, DeviceValue):
            text = loader.tensor_text(value.fetched(), self.dtype.name, self.requires_grad)
            return f"{text[:-1]}, device='{value.device}')"
        if not isinstance(value, EagerValue):
            return f"<traced Tensor {value.type}>"
        return loader.tensor_text(value.array, self.dtype.name, self.requires_grad)

    def __str__(self) -> str:
        trace = context.current().trace
        return repr(self) if trace is None else str(trace.text_of(self, "s"))

    def __format__(self, spec: str) -> str:
        if spec and self.ndim:
            raise TypeError(f"the format {spec!r} of a tensor of rank {self.ndim}; str(x), or one of its elements")
        trace = context.current().trace
        if trace is not None:
            return str(trace.text_of(self, "", spec))
        return format(self.item(), spec) if spec else str(self)

    # --- pickles -----------------------------------------------------------------------------------------------

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For pickle: the value, ``.grad`` and attributes of a leaf; the tape is not kept.

        Read-only, as protocol 5 may hand out the memory itself (``buffer_callback``). A tensor on a GPU goes with the
        name of its device, and is on that device again where it is unpickled; DeviceError where that is absent there.
        """
        fetched = self._concrete("pickling")
        if not self.is_leaf:
            raise JitgraphError("pickling of a tensor that an op made on the tape\n  hint: x.detach()")
        value = self._value
        payload = (fetched, value.device) if isinstance(value, DeviceValue) else value.shown()
        return _unpickled, (type(self),), (payload, self._requires_grad, self._grad, vars(self))

    def __setstate__(self, state: tuple[Any, bool, Any, dict[str, Any]]) -> None:
        payload, requires_grad, self._grad, attributes = state
        if isinstance(payload, tuple):
            self._value = placement.of_array(*payload)
        else:
            self._value = EagerValue(lifting.own(payload))  # the memory may be that of whoever gave the pickle
        self._requires_grad = requires_grad
        vars(self).update(attributes)


def _unpickled(kind: type[ReadableHandle]) -> ReadableHandle:
    """A handle whose state is about to be set."""
    return kind._of(None)
