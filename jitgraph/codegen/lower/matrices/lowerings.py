"""Which kernel stands for an op on matrices where LAPACK cannot be called, by the op's ``alone``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jitgraph.codegen.lower.building import ScheduleBuilder
from jitgraph.codegen.lower.matrices.bidiagonal import write_svd
from jitgraph.codegen.lower.matrices.elimination import (
    write_cholesky,
    write_determinant,
    write_elimination,
    write_order,
    write_solve,
    write_substitution,
)
from jitgraph.codegen.lower.matrices.householder import write_qr
from jitgraph.codegen.lower.matrices.symmetric import write_eigh
from jitgraph.codegen.lower.matrices.workspace import MatrixKernel
from jitgraph.codegen.lower.statements import Storage
from jitgraph.ir.graph import Node
from jitgraph.ir.op import MatrixNest
from jitgraph.records import dataclass


@dataclass(frozen=True)
class _Lowering:
    """How a kernel is written of the op's attributes, and how many matrices of how many axes the op takes."""

    write: Callable[..., None]
    matrices: int = 1
    axes: int = 2


_LOWERINGS: Final[Mapping[MatrixNest, _Lowering]] = {
    "cholesky": _Lowering(write_cholesky),
    "elimination": _Lowering(write_elimination),
    "qr": _Lowering(write_qr),
    "solve": _Lowering(write_solve, matrices=2),
    "inverse": _Lowering(write_solve),
    "determinant": _Lowering(write_determinant),
    "eigh": _Lowering(write_eigh),
    "svd": _Lowering(write_svd),
    "order": _Lowering(write_order, axes=1),
    "substitution": _Lowering(write_substitution, matrices=2),
}


def lower_matrices(
    builder: ScheduleBuilder, node: Node, operands: Sequence[Storage], results: Sequence[Storage]
) -> None:
    """The kernel of a node, from the buffers of its operands to those of its results."""
    assert node.op.alone is not None
    if all(_is_empty(storage) for storage in results):
        return
    lowering = _LOWERINGS[node.op.alone]
    parts = 2 if len(operands) == 2 * lowering.matrices else 1
    lowering.write(MatrixKernel(builder, node, operands, results, parts, lowering.axes), **node.attrs)


def _is_empty(storage: Storage) -> bool:
    return any(isinstance(extent, int) and extent == 0 for extent in storage.type.shape)
