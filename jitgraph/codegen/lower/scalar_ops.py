"""The scalar ops over a recorder: each becomes a statement of the kernel being written."""

from __future__ import annotations

import numpy as np

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.statements import StatementRecorder
from jitgraph.dtypes import DType
from jitgraph.ir.scalar import Comparison, Scalar


class ScalarOps:
    """The scalar ops over a recorder: each becomes a ``Let``."""

    def __init__(self, recorder: StatementRecorder, dtype: DType) -> None:
        self.recorder = recorder
        self.dtype = dtype

    def const(self, value: float | int | bool, dtype: DType | None = None) -> Var:
        dtype = dtype if dtype is not None else self.dtype
        return self.recorder.let(dtype, "const", (), constant_of(value, dtype))

    def _same(self, op: str, *args: Scalar) -> Var:
        operands = tuple(_var(arg) for arg in args)
        return self.recorder.let(operands[0].dtype, op, operands)

    def add(self, x: Scalar, y: Scalar) -> Var:
        return self._same("add", x, y)

    def sub(self, x: Scalar, y: Scalar) -> Var:
        return self._same("sub", x, y)

    def mul(self, x: Scalar, y: Scalar) -> Var:
        return self._same("mul", x, y)

    def div(self, x: Scalar, y: Scalar) -> Var:
        return self._same("div", x, y)

    def rem(self, x: Scalar, y: Scalar) -> Var:
        return self._same("rem", x, y)

    def neg(self, x: Scalar) -> Var:
        return self._same("neg", x)

    def abs(self, x: Scalar) -> Var:
        return self._same("abs", x)

    def min(self, x: Scalar, y: Scalar) -> Var:
        return self._same("min", x, y)

    def max(self, x: Scalar, y: Scalar) -> Var:
        return self._same("max", x, y)

    def sqrt(self, x: Scalar) -> Var:
        return self._same("sqrt", x)

    def floor(self, x: Scalar) -> Var:
        return self._same("floor", x)

    def ceil(self, x: Scalar) -> Var:
        return self._same("ceil", x)

    def rint(self, x: Scalar) -> Var:
        return self._same("rint", x)

    def trunc(self, x: Scalar) -> Var:
        return self._same("trunc", x)

    def fma(self, x: Scalar, y: Scalar, z: Scalar) -> Var:
        return self._same("fma", x, y, z)

    def cmp(self, relation: Comparison, x: Scalar, y: Scalar) -> Var:
        return self.recorder.let(dtypes.bool_, "cmp", (_var(x), _var(y)), relation)

    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Var:
        return self.recorder.let(x.dtype, "select", (_var(condition), _var(x), _var(y)))

    def cast(self, x: Scalar, dtype: DType) -> Var:
        return _var(x) if x.dtype == dtype else self.recorder.let(dtype, "cast", (_var(x),))

    def bitcast(self, x: Scalar, dtype: DType) -> Var:
        return _var(x) if x.dtype == dtype else self.recorder.let(dtype, "bitcast", (_var(x),))

    def and_(self, x: Scalar, y: Scalar) -> Var:
        return self._same("and_", x, y)

    def or_(self, x: Scalar, y: Scalar) -> Var:
        return self._same("or_", x, y)

    def xor(self, x: Scalar, y: Scalar) -> Var:
        return self._same("xor", x, y)

    def not_(self, x: Scalar) -> Var:
        return self._same("not_", x)

    def shl(self, x: Scalar, y: Scalar) -> Var:
        return self._same("shl", x, y)

    def shr(self, x: Scalar, y: Scalar) -> Var:
        return self._same("shr", x, y)

    def call(self, function: str, *args: Scalar) -> Var:
        operands = tuple(_var(arg) for arg in args)
        return self.recorder.let(operands[0].dtype, "call", operands, function)


def _var(x: Scalar) -> Var:
    assert isinstance(x, Var), x
    return x


def constant_of(value: float | int | bool | np.generic, dtype: DType) -> float | int | bool:
    """``value`` as a Python number that ``dtype`` holds exactly: what a ``const`` statement carries."""
    if dtypes.is_bool(dtype):
        return bool(value)
    if dtypes.is_integer(dtype):
        info = np.iinfo(dtype)
        return (int(value) - int(info.min)) % (1 << (8 * dtype.itemsize)) + int(info.min)
    with np.errstate(over="ignore"):
        return float(np.asarray(value).astype(dtype))
