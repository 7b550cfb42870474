"""Products and large sums of floats outside traces: compiled kernels of one op, with a trace's bits and speed.

A kernel serves all sizes: they have names, but for axes of one element, the windows of convolutions, and channels that
are cut into groups. NumPy's evaluation has the same bits. It takes a hundred times as long for a product and ten times
as long for a sum, and serves where nothing is to be computed, for short sums, and where native code cannot be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from jitgraph import config
from jitgraph.dtypes import is_float
from jitgraph.errors import CompileError, DeviceError
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op, OpenShape
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.ops.rules import open_extent

if TYPE_CHECKING:
    from jitgraph.runtime.executable import Executable

Array: TypeAlias = "np.ndarray[tuple[Any, ...], np.dtype[Any]]"

_MOST_KERNELS: Final = 256

_LARGE: Final = 1 << 16
"""Elements from which on a sum is worth a kernel: below them its evaluation takes 0.2 ms or so."""


class EagerKernels:
    """Compiled kernels of single ops. No lock: two threads may make one twice, and a fork finds nothing held."""

    def __init__(self) -> None:
        self._made: dict[tuple[Any, ...], Executable] = {}
        self._native: tuple[str, bool] | None = None

    def run(self, op: Op, arrays: Sequence[Array], attrs: Attrs) -> Array | None:
        """What ``op`` makes of ``arrays``, whose types its rule accepts; None where its evaluation shall serve."""
        if not is_float(arrays[0].dtype) or not all(array.size for array in arrays):
            return None
        if op.reduction is not None and (not op.reduction.rounds or arrays[0].size < _LARGE or not attrs["axes"]):
            return None
        if config.INTERPRET.is_on() or not self._has_native_code():
            return None
        shapes = _shapes(op, arrays, attrs)
        key = (op, arrays[0].dtype, shapes, *attrs.items())
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._compile(op, arrays[0].dtype, shapes, attrs)
        result: Array = made.run([np.asarray(array, order="C") for array in arrays])[0]
        return result

    def _has_native_code(self) -> bool:
        asked = config.TARGET_CPU.text()
        if self._native is None or self._native[0] != asked:
            try:
                self._native = asked, Target.host().fma
            except (CompileError, DeviceError):
                self._native = asked, False
        return self._native[1]

    def _compile(self, op: Op, dtype: np.dtype[Any], shapes: Sequence[OpenShape], attrs: Attrs) -> Executable:
        from jitgraph import compiler  # the code generator loads with the first product

        if len(self._made) >= _MOST_KERNELS:
            self._made.clear()
        builder = GraphBuilder()
        inputs = [builder.input(TensorType(dtype, tuple(map(_dim, shape)))) for shape in shapes]
        made = compiler.compile(builder.graph(builder.emit(op, inputs, attrs, ()), op.name))
        assert not isinstance(made, compiler.Interpreted)
        return made


def _shapes(op: Op, arrays: Sequence[Array], attrs: Attrs) -> tuple[OpenShape, ...]:
    """The shapes of the operands for which a kernel is compiled, with a name for each extent that is any number."""
    if op.open_shapes is not None:
        return op.open_shapes(*(array.shape for array in arrays), **attrs)
    return tuple(tuple(open_extent(extent, f"n{axis}") for axis, extent in enumerate(array.shape)) for array in arrays)


def _dim(extent: int | str) -> DimLike:
    return Dim.name(extent) if isinstance(extent, str) else extent
