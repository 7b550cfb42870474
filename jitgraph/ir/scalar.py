"""The scalar ops, in which elementwise ops, reductions and math functions say what they compute.

Every target has them (LLVM vectors, PTX, the slow executor), so N ops and M targets need N + M definitions. A scalar
``S`` is opaque and knows its dtype as ``.dtype``. Every op is total: no trap and no poison for any input.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from jitgraph.dtypes import DType

Comparison: TypeAlias = Literal["eq", "ne", "lt", "le", "gt", "ge"]


class Scalar(Protocol):
    """One scalar in a kernel, or one vector of them: opaque but for its dtype."""

    @property
    def dtype(self) -> DType: ...


class Scalars(Protocol):
    """The scalar ops. ``dtype`` is the dtype of the op's first operand and the default of ``const``."""

    dtype: DType

    def const(self, value: float | int | bool, dtype: DType | None = None) -> Scalar: ...
    def add(self, x: Scalar, y: Scalar) -> Scalar: ...  # integers wrap
    def sub(self, x: Scalar, y: Scalar) -> Scalar: ...
    def mul(self, x: Scalar, y: Scalar) -> Scalar: ...
    def div(self, x: Scalar, y: Scalar) -> Scalar: ...  # floats IEEE; integers floor, x // 0 == 0, minimum // -1 wraps
    def rem(self, x: Scalar, y: Scalar) -> Scalar: ...  # sign of the divisor, as NumPy; integers: x % 0 == 0
    def neg(self, x: Scalar) -> Scalar: ...
    def abs(self, x: Scalar) -> Scalar: ...
    def min(self, x: Scalar, y: Scalar) -> Scalar: ...  # a NaN on either side gives NaN; min(-0.0, 0.0) is x
    def max(self, x: Scalar, y: Scalar) -> Scalar: ...
    def sqrt(self, x: Scalar) -> Scalar: ...
    def floor(self, x: Scalar) -> Scalar: ...
    def ceil(self, x: Scalar) -> Scalar: ...
    def rint(self, x: Scalar) -> Scalar: ...  # half to even
    def trunc(self, x: Scalar) -> Scalar: ...
    def fma(self, x: Scalar, y: Scalar, z: Scalar) -> Scalar: ...  # one rounding; for math polynomials and contractions
    def cmp(self, relation: Comparison, x: Scalar, y: Scalar) -> Scalar: ...  # bool; ne is true for NaN, others false
    def select(self, condition: Scalar, x: Scalar, y: Scalar) -> Scalar: ...
    def cast(self, x: Scalar, dtype: DType) -> Scalar: ...  # float to int truncates, saturates, NaN gives 0; int wraps
    def bitcast(self, x: Scalar, dtype: DType) -> Scalar: ...
    def and_(self, x: Scalar, y: Scalar) -> Scalar: ...  # bool and integers
    def or_(self, x: Scalar, y: Scalar) -> Scalar: ...
    def xor(self, x: Scalar, y: Scalar) -> Scalar: ...
    def not_(self, x: Scalar) -> Scalar: ...
    def shl(self, x: Scalar, y: Scalar) -> Scalar: ...  # by the width or more: 0; by a negative count: 0
    def shr(self, x: Scalar, y: Scalar) -> Scalar: ...  # arithmetic for signed: fills with the sign; past the width too
    def call(self, function: str, *args: Scalar) -> Scalar: ...  # a math function of ops/math_functions/functions.py
