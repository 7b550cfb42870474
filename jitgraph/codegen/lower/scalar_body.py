"""The scalar body of an op on scalars of the kernel being written, and the dtypes that numbers are computed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.recorder import KernelRecorder
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.dtypes import DType
from jitgraph.ir.graph import Node

HALF = frozenset({dtypes.float16, dtypes.bfloat16})


def accumulator(dtype: DType) -> DType:
    """The dtype in which sums and products of ``dtype`` are kept."""
    return dtypes.float32 if dtype in HALF else dtype


def apply_scalar(recorder: KernelRecorder, node: Node, operands: Sequence[Var]) -> Var:
    """The op's scalar body on scalars: 16-bit floats are widened before it and the result is rounded once."""
    scalar: Callable[..., Any] | None = node.op.scalar
    assert scalar is not None
    plain = ScalarOps(recorder, operands[0].dtype)
    if "storage" in node.op.traits:
        result = scalar(plain, *operands, **node.attrs)
    else:
        wide = [plain.cast(operand, accumulator(operand.dtype)) for operand in operands]
        result = plain.cast(scalar(ScalarOps(recorder, wide[0].dtype), *wide, **node.attrs), node.output.dtype)
    assert isinstance(result, Var)
    return result


def converted(recorder: KernelRecorder, number: Var, dtype: DType) -> Var:
    """An int64 scalar in another dtype; 16-bit floats by way of float32."""
    ops = ScalarOps(recorder, number.dtype)
    return ops.cast(ops.cast(number, dtypes.float32) if dtype in HALF else number, dtype)
