"""The value of an eager tensor in the memory of a GPU, which the CPU's code never sees."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from jitgraph.eager.tape import LeafRecord, Record
from jitgraph.errors import HostAccessError
from jitgraph.ir.types import TensorType
from jitgraph.runtime.buffer import Access, Array

if TYPE_CHECKING:
    from jitgraph.runtime.cuda.buffers import CudaBuffer


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

    def part_of(self, record: Record, output: int) -> DeviceValue:
        """The same memory as an output of a record."""
        return DeviceValue(self.buffer, self.type, record, output, self.access)

    def fetched(self) -> Array:
        """A copy of the elements in the host's memory, once the work that computes them is done."""
        array = np.empty(self.shape, self.dtype)
        self.buffer.to_host(array.ctypes.data)
        return array
