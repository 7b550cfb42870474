"""Values of an ONNX graph as the exporter knows them: their names, their types, and the shapes that stand there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.types import Shape, TensorType, Type
from jitgraph.records import dataclass

ELEMENT_TYPES: Final[dict[DType, int]] = {  # numbers of TensorProto.DataType
    dtypes.float32: 1,
    dtypes.uint8: 2,
    dtypes.int8: 3,
    dtypes.uint16: 4,
    dtypes.int16: 5,
    dtypes.int32: 6,
    dtypes.int64: 7,
    dtypes.bool_: 9,
    dtypes.float16: 10,
    dtypes.float64: 11,
    dtypes.uint32: 12,
    dtypes.uint64: 13,
    dtypes.complex64: 14,
    dtypes.complex128: 15,
    dtypes.bfloat16: 16,
}
TYPE_STRINGS: Final[dict[DType, str]] = {
    dtypes.float32: "tensor(float)",
    dtypes.float64: "tensor(double)",
} | {dtype: f"tensor({dtype.name})" for dtype in ELEMENT_TYPES if dtype not in (dtypes.float32, dtypes.float64)}
"""Dtypes as the schemas of operators write them."""


@dataclass(frozen=True, eq=False, slots=True)
class OnnxValue:
    """A value of the recorded graph in the ONNX graph: ``name`` is a value that broadcasts to ``type``.

    ``stored`` is the shape of what ``name`` is: that of ``type``, one with 1 for some of its sizes, or () for one
    number. Elementwise operators take such values as they are; for others they are expanded first. ``fill`` is the
    number of a constant of one number.
    """

    name: str
    type: Type
    stored: Shape
    fill: Any = None

    @property
    def tensor(self) -> TensorType:
        assert isinstance(self.type, TensorType), self.type
        return self.type

    @property
    def dtype(self) -> DType:
        return self.tensor.dtype

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def ndim(self) -> int:
        return len(self.tensor.shape)

    @property
    def is_whole(self) -> bool:
        """Whether ``name`` has the shape of the type."""
        return not isinstance(self.type, TensorType) or self.stored == self.type.shape


def common_stored(refs: Sequence[OnnxValue]) -> Shape:
    """The shape that NumPy's broadcasting gives for what is stored."""
    ndim = max((len(ref.stored) for ref in refs), default=0)
    shape: list[Any] = [1] * ndim
    for ref in refs:
        for axis, extent in enumerate(ref.stored, ndim - len(ref.stored)):
            if extent != 1:
                shape[axis] = extent
    return tuple(shape)


def tensor_proto(onnx: Any, array: np.ndarray[Any, Any], name: str = "") -> Any:
    """A TensorProto of an array of any of our dtypes."""
    proto = onnx.TensorProto()
    proto.name = name
    proto.data_type = ELEMENT_TYPES[array.dtype]
    proto.dims.extend(array.shape)
    proto.raw_data = np.ascontiguousarray(array).tobytes()
    return proto
