"""Products that a library computes: which launches they are, and how their matrices lie.

Rows of a matrix in memory are columns to cuBLASLt, so it is asked for the transposed product.
"""

from __future__ import annotations

from collections.abc import Sequence

from jitgraph.codegen.cuda.launches import LaunchNest, LibraryCall
from jitgraph.codegen.cuda.mma import source_of
from jitgraph.codegen.cuda.panels import plain_load
from jitgraph.codegen.kernels.index import coefficient
from jitgraph.codegen.kernels.kernel import Contract, Kernel, Let, Load, Operand, Store
from jitgraph.codegen.kernels.library_sizes import LARGE, is_large
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64
from jitgraph.ir import dims
from jitgraph.ir.dims import DimLike
from jitgraph.ir.target import Target
from jitgraph.records import dataclass
from jitgraph.runtime.device_payload import LibraryProduct, Matrix

_RESULTS = {
    float32: (float32,),
    float64: (float64,),
    float16: (float16, float32),
    bfloat16: (bfloat16, float32),
}
"""The dtypes of results, by those of the factors."""

_ALIGNMENT = 16
"""Of each matrix, in bytes, which the library is told of."""

_MOST = (1 << 31) - 1
"""The longest side, distance of columns, and number of products."""


@dataclass(frozen=True)
class _Access:
    """Elements at ``start + across * number + steps of the two axes``, in a param of the kernel."""

    param: int
    dtype: DType
    start: int
    steps: tuple[int, int]
    across: int

    @property
    def begin(self) -> int:
        """The byte at which the first matrix begins."""
        return self.start * self.dtype.itemsize

    def matrix(self, extents: tuple[int, int]) -> Matrix | None:
        """The matrix whose rows are the first axis, or the transposed one; None where neither axis is dense."""
        for turned in (0, 1):
            (rows, columns), (inner, outer) = (extents, self.steps) if not turned else (extents[::-1], self.steps[::-1])
            if inner == 1 and rows <= outer <= _MOST:
                return rows, columns, outer, turned, self.across
        return None


def library_call(nest: LaunchNest, kernel: Kernel, target: Target) -> LibraryCall | None:
    """How a library is asked for what a nest computes; None where that is the nest's own work."""
    *_, contract = nest.body or (None,)
    if not target.library or not isinstance(contract, Contract) or not contract.is_whole:
        return None
    around = [level.extent for level in nest.levels]
    if not is_large(LARGE, dims.product(around), contract.extents):
        return None
    names = [level.axis for level in nest.levels]
    left = _factor(kernel, contract.left, (contract.m, contract.k), names, around)
    right = _factor(kernel, contract.right, (contract.k, contract.n), names, around)
    result = _result(kernel, contract, names, around)
    if left is None or right is None or result is None or left.dtype != right.dtype:
        return None
    if result.dtype not in _RESULTS.get(left.dtype, ()):
        return None
    m, n, k = (int(extent) for extent in contract.extents)
    # Rows of the result are columns of the one that is asked for, whose left factor is the right one.
    first = _turned(right).matrix((n, k))
    second = _turned(left).matrix((k, m))
    third = _turned(result).matrix((n, m))
    batch = dims.product(around)
    if first is None or second is None or third is None or third[3] or not isinstance(batch, int) or batch > _MOST:
        return None
    tf32 = target.tf32 and left.dtype == float32
    return LibraryCall(
        LibraryProduct(left.dtype.name, result.dtype.name, tf32, batch, first, second, third),
        (right.param, left.param, result.param),
        (right.begin, left.begin, result.begin),
    )


def _turned(access: _Access) -> _Access:
    """The same elements with the axes exchanged."""
    return _Access(access.param, access.dtype, access.start, access.steps[::-1], access.across)


def _factor(
    kernel: Kernel, operand: Operand, axes: tuple[str, str], names: Sequence[str], around: Sequence[DimLike]
) -> _Access | None:
    source = source_of(operand)
    load = plain_load(operand, source)
    if load is None or source.dtype != load.var.dtype:
        return None
    return _access(kernel, load, load.var.dtype, axes, names, around)


def _result(kernel: Kernel, contract: Contract, names: Sequence[str], around: Sequence[DimLike]) -> _Access | None:
    *before, store = contract.epilogue
    value = contract.acc
    if before:
        (cast, *rest) = before
        if rest or not isinstance(cast, Let) or cast.op != "cast" or cast.args != (contract.acc,):
            return None
        value = cast.var
    if not isinstance(store, Store) or store.value != value or store.mask is not None or store.update is not None:
        return None
    return _access(kernel, store, value.dtype, (contract.m, contract.n), names, around)


def _access(
    kernel: Kernel,
    access: Load | Store,
    dtype: DType,
    axes: tuple[str, str],
    names: Sequence[str],
    around: Sequence[DimLike],
) -> _Access | None:
    """An access as matrices that lie equally far from each other, each aligned; None where they do not."""
    params = [param.name for param in kernel.params]
    if access.buffer not in params:
        return None
    steps = [coefficient(access.index, axis) for axis in (*axes, *names)]
    start = dims.substitute(access.index, dict.fromkeys((*axes, *names), 0))
    known = [step for step in steps if isinstance(step, int) and 0 <= step <= _MOST]
    if not isinstance(start, int) or len(known) < len(steps):
        return None
    row, column, *outer = known
    across = _together(outer, [int(extent) for extent in around])
    if across is None or start * dtype.itemsize % _ALIGNMENT or across * dtype.itemsize % _ALIGNMENT:
        return None
    return _Access(params.index(access.buffer), dtype, start, (row, column), across)


def _together(steps: Sequence[int], extents: Sequence[int]) -> int | None:
    """The step of several axes as one; None where they are none."""
    merged, count = 0, 1
    for step, extent in reversed([*zip(steps, extents, strict=True)]):
        if extent == 1:
            continue
        if count == 1:
            merged = step
        elif step != merged * count:
            return None
        count *= extent
    return merged
