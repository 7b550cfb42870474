"""Where values lie: values in a GPU's memory, which device an op's operands share, and copies between devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np

from jitgraph.eager.tape import EagerValue, LeafRecord, Record
from jitgraph.errors import DeviceError, HostAccessError
from jitgraph.ir import context
from jitgraph.ir.graph import Attrs, Graph
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.runtime import imports
from jitgraph.runtime.buffer import CPU, Access, Array

if TYPE_CHECKING:
    from jitgraph.runtime.cuda.buffers import CudaBuffer
    from jitgraph.runtime.cuda.devices import Device

# ----------------------------------------------------------------------
# The value of an eager tensor in the memory of a GPU, which the CPU's code never sees.


@lru_cache(maxsize=4096)
def device_type(dtype: np.dtype[Any], shape: tuple[int, ...]) -> TensorType:
    """The one object for a type of values on GPUs, which is not that of the CPU's: what goes by it tells them apart."""
    return TensorType(dtype, shape)


class DeviceValue:
    """A computed tensor value on a device: dense, in row-major order, with the tape's record of how it was made.

    It is no ``EagerValue``: code that reads the host's memory asks for that class, or for ``array``, which raises here.
    """

    __slots__ = ("__weakref__", "access", "buffer", "output", "record", "type")

    native = None
    """What native code of the CPU knows of the memory: nothing."""

    base = None
    """The value in whose memory this one lies: always its own, as views are copies on a GPU."""

    def __init__(
        self,
        buffer: CudaBuffer,
        type: TensorType,
        record: Record | None = None,
        output: int = 0,
        access: Access = "own",
    ) -> None:
        self.buffer = buffer
        self.type = type
        self.record = record
        self.output = output
        self.access = access
        """"own" until a caller is shown the memory, "borrowed" where it is a caller's."""

    @property
    def device(self) -> str:
        """The name of the device, such as "cuda:0"."""
        return self.buffer.device.name

    @property
    def shape(self) -> tuple[int, ...]:
        return self.type.shape  # type: ignore[return-value]  # no size of a value has a name

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.type.dtype

    @property
    def requires_grad(self) -> bool:
        return self.record is not None

    @property
    def array(self) -> NoReturn:
        """HostAccessError: the memory is not the host's."""
        raise HostAccessError(
            f"a tensor on {self.device} is read as memory of the CPU", hint="x.cpu() is a copy on the CPU"
        )

    def outside(self, handle: Any) -> DeviceValue:
        """The value of ``handle``, whose it is, outside of traces: of a leaf with the record at which gradients end."""
        if handle._requires_grad and self.record is None:
            handle._value = self.recorded(LeafRecord(handle))
            return handle._value  # type: ignore[no-any-return]
        return self

    def recorded(self, record: Record | None) -> DeviceValue:
        """The same memory as a value with another record."""
        return DeviceValue(self.buffer, self.type, record, 0, self.access)

    def part_of(self, record: Record | None, output: int) -> DeviceValue:
        """The same memory as an output of a record."""
        return DeviceValue(self.buffer, self.type, record, output, self.access)

    def fetched(self) -> Array:
        """A copy of the elements in the host's memory, once the work that computes them is done."""
        array = np.empty(self.shape, self.dtype)
        self.buffer.to_host(array.ctypes.data)
        return array


# ----------------------------------------------------------------------
# Where values lie: which device an op's operands share, who computes there, and copies from device to device.
#
# What computes on GPUs (``device_emitter.py``) is loaded where an op first has an operand there.

KINDS: Final = ("cpu", "cuda")
_OTHERS: Final = ("gpu", "meta", "mps", "xpu", "tpu", "rocm")
_ANYWHERE: Final = nullcontext()


def emit(op: Op, inputs: Sequence[Any], attrs: Attrs, regions: Sequence[Graph]) -> tuple[Any, ...]:
    """Apply an op to operands of which one lies on a GPU; DeviceError where others lie elsewhere."""
    device = common_device(op.name, inputs)
    emitter = device.emitter or _emitters().emitter_of(device.name)
    outputs: tuple[Any, ...] = emitter.emit(op, inputs, attrs, regions)
    return outputs


def common_device(what: str, inputs: Sequence[Any]) -> Device:
    """The device of all operands but numbers; DeviceError, which names two that differ, where there is none."""
    first: Any = None
    for value in inputs:
        if value.__class__ is DeviceValue:
            first = value
            break
    device: Device = first.buffer.device
    for value in inputs:
        if value.__class__ is DeviceValue and value.buffer.device is device:
            continue
        if is_number(value) or not isinstance(value, EagerValue | DeviceValue):
            continue
        pair = [x for x in inputs if x is first or x is value]
        names = " and ".join(f"{x.type} on {x.device}" for x in pair)
        raise DeviceError(
            f"{what} of tensors on different devices: {names}",
            hint=f'x.to("{first.device}") brings a tensor there, jg.asarray(x, device="{first.device}") an array',
        )
    return device


def is_on_device(inputs: Sequence[Any]) -> bool:
    """Whether one of an op's operands lies on a GPU."""
    for value in inputs:  # noqa: SIM110 - a generator costs more than the rest
        if value.__class__ is DeviceValue:
            return True
    return False


def beside(value: Any) -> AbstractContextManager[Any]:
    """A block in which ops run where a value lies: what has no operands is made there, and operands are brought there.

    For what the package makes itself (places, counts, masks) and for indices, which may lie elsewhere.
    """
    return on(value.device) if value.__class__ is DeviceValue else _ANYWHERE


def on(device: str) -> AbstractContextManager[Any]:
    """As ``beside`` for what lies on the device of a full name."""
    return _ANYWHERE if device == CPU else context.using(emitter=_emitters().emitter_of(device))


def is_number(value: Any) -> bool:
    """Whether an operand in the CPU's memory is one number, or one repeated, which goes with tensors of any device."""
    return isinstance(value, EagerValue) and not any(value.array.strides)


def canonical(name: Any) -> str:
    """A device's name in full: "cpu", or "cuda:0" for "cuda:0" and 0. DeviceError for a device that is absent."""
    if is_ordinal(name):
        return _device(int(name)).name
    if isinstance(name, str):
        kind = name.partition(":")[0]
        if name in (CPU, "cpu:0"):
            return CPU
        if kind == "cuda":
            return _device(name).name
        if kind == "meta":
            raise DeviceError(
                "there is no device 'meta', as a tensor has elements",
                hint="make the model on the CPU, by torch.nn.utils.skip_init where its initial values are not wanted; "
                "jg.trace(f).lower(x) tells shapes",
            )
        if kind in _OTHERS:
            raise DeviceError(f"device {name!r} is not available", hint='devices are "cpu" and "cuda"')
    raise DeviceError(f"{name!r} names no device", hint='"cpu", "cuda", "cuda:0", or the number of a GPU')


def is_name(target: Any) -> bool:
    """Whether a text or a number names a device, present or absent, and no dtype."""
    return is_ordinal(target) or (isinstance(target, str) and target.partition(":")[0] in (*KINDS, *_OTHERS))


def is_ordinal(target: Any) -> bool:
    """Whether this is the number of a GPU, as PyTorch takes it for a device; a bool is none."""
    return isinstance(target, int | np.integer) and not isinstance(target, bool)


def moved(value: Any, device: str) -> Any:
    """The value on the device of a full name: itself where it lies there, else a copy, with gradients on the tape."""
    if value.device == device:
        return value
    transferred = copied(value, device)
    if value.record is not None and context.current().grad_enabled:
        transferred = transferred.recorded(CopyRecord(value))
    return transferred


def brought(value: Any, other: Any) -> Any:
    """The value where another one lies, if that is a GPU; gradients go back."""
    return moved(value, other.device) if other.__class__ is DeviceValue else value


def copied(value: Any, device: str) -> Any:
    """A copy of a value on the device of a full name, without a record."""
    if device == CPU:
        return EagerValue(value.fetched() if isinstance(value, DeviceValue) else np.array(value.array))
    if isinstance(value, DeviceValue):
        return DeviceValue(_buffers().copied(value.buffer, _device(device)), value.type)
    return of_array(value.array, device)


def array_of(value: Any) -> Any:
    """The elements in the host's memory; those of a GPU are copied, once the work that computes them is done."""
    return value.fetched() if value.__class__ is DeviceValue else value.array


def of_array(array: Any, device: str) -> DeviceValue:
    """A copy of an array on a GPU."""
    dense = np.ascontiguousarray(array).reshape(array.shape)  # the former gives an array of rank 0 an axis
    buffer = _buffers().of_host(_device(device), dense.ctypes.data, dense.nbytes)
    return DeviceValue(buffer, device_type(dense.dtype, dense.shape))


def of_arrays(arrays: Sequence[Any], device: str) -> list[DeviceValue]:
    """Copies of small arrays on a GPU, by one transfer."""
    types = [device_type(array.dtype, array.shape) for array in arrays]
    return list(map(DeviceValue, _buffers().of_host_together(_device(device), arrays), types))


def zeros(shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> DeviceValue:
    """A value of zeros on a GPU, made there."""
    return DeviceValue(_buffers().zeros(_device(device), math.prod(shape) * dtype.itemsize), device_type(dtype, shape))


def has_gpu() -> bool:
    """Whether this process can use a GPU."""
    return bool(gpu_count())


def gpu_count() -> int:
    """How many GPUs this process can use; 0 where there is no driver."""
    return int(imports.module("jitgraph.runtime.cuda.devices").devices().count)


def exchange() -> Any:
    """What hands memory of GPUs to other libraries, and takes theirs."""
    return imports.module("jitgraph.eager.exchange")


def _device(name: str | int) -> Device:
    device: Device = imports.module("jitgraph.runtime.cuda.streams").device_named(name)
    return device


def _emitters() -> Any:
    """Who applies ops on GPUs."""
    return imports.module("jitgraph.eager.device_emitter")


def _buffers() -> Any:
    """What makes memory of GPUs; it loads where that is first asked for."""
    return imports.module("jitgraph.runtime.cuda.buffers")


class CopyRecord(Record):
    """A copy to another device; its gradient goes back to the first one."""

    __slots__ = ()
    name = "to"

    def __init__(self, source: Any) -> None:
        super().__init__((source,), (None,))

    def backward(self, cotangents: Sequence[Any]) -> Sequence[Any]:
        (source,) = self.live_inputs()
        (cotangent,) = cotangents
        return [None if cotangent is None else moved(cotangent, source.device)]
