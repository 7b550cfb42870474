"""Numbers of matrix kernels: real ones, or complex ones as their two parts, in the scalar ops of kernels."""

from __future__ import annotations

from typing import Final, TypeAlias

from jitgraph import dtypes
from jitgraph.codegen.kernels.kernel import Var
from jitgraph.codegen.lower.scalar_ops import ScalarOps
from jitgraph.codegen.lower.statements import StatementRecorder
from jitgraph.dtypes import DType
from jitgraph.records import dataclass

Number: TypeAlias = "tuple[Var, ...]"
"""The parts of a number: itself, or its real and its imaginary part."""


@dataclass(frozen=True)
class MatrixNumbers:
    """Arithmetic on numbers of ``parts`` parts, 1 or 2, of one dtype."""

    recorder: StatementRecorder
    dtype: DType
    parts: int

    @property
    def ops(self) -> ScalarOps:
        """The scalar ops of the parts."""
        return ScalarOps(self.recorder, self.dtype)

    @property
    def is_complex(self) -> bool:
        """Whether there are two parts."""
        return self.parts == 2

    def real(self, x: Var) -> Number:
        """The number whose real part is ``x``."""
        return (x, self.ops.const(0.0)) if self.is_complex else (x,)

    def const(self, value: float) -> Number:
        """A real constant."""
        return self.real(self.ops.const(value))

    def add(self, x: Number, y: Number) -> Number:
        """x + y."""
        return tuple(map(self.ops.add, x, y))

    def sub(self, x: Number, y: Number) -> Number:
        """x - y."""
        return tuple(map(self.ops.sub, x, y))

    def neg(self, x: Number) -> Number:
        """-x."""
        return tuple(map(self.ops.neg, x))

    def conj(self, x: Number) -> Number:
        """The conjugate of x."""
        return (x[0], self.ops.neg(x[1])) if self.is_complex else x

    def scale(self, x: Number, r: Var) -> Number:
        """x * r, of real r."""
        return tuple(self.ops.mul(part, r) for part in x)

    def select(self, condition: Var, x: Number, y: Number) -> Number:
        """x where the condition holds, else y."""
        return tuple(self.ops.select(condition, one, other) for one, other in zip(x, y, strict=True))

    def mul(self, x: Number, y: Number) -> Number:
        """x * y."""
        s = self.ops
        if not self.is_complex:
            return (s.mul(x[0], y[0]),)
        return (
            s.fma(x[0], y[0], s.neg(s.mul(x[1], y[1]))),
            s.fma(x[0], y[1], s.mul(x[1], y[0])),
        )

    def add_product(self, total: Number, x: Number, y: Number) -> Number:
        """total + x * y, each part by fused multiply-adds."""
        s = self.ops
        if not self.is_complex:
            return (s.fma(x[0], y[0], total[0]),)
        return (
            s.fma(s.neg(x[1]), y[1], s.fma(x[0], y[0], total[0])),
            s.fma(x[1], y[0], s.fma(x[0], y[1], total[1])),
        )

    def squared(self, x: Number) -> Var:
        """|x|**2."""
        s = self.ops
        total = s.mul(x[0], x[0])
        return s.fma(x[1], x[1], total) if self.is_complex else total

    def size(self, x: Number) -> Var:
        """|x| of a real number, and |re| + |im| of a complex one, as LAPACK compares pivots."""
        s = self.ops
        total = s.abs(x[0])
        return s.add(total, s.abs(x[1])) if self.is_complex else total

    def polar(self, x: Number) -> tuple[Var, Number]:
        """|x|, and x / |x|: 0 of 0."""
        s = self.ops
        zero = s.const(0.0)
        if not self.is_complex:
            length = s.abs(x[0])
            sign = s.select(s.cmp("lt", x[0], zero), s.const(-1.0), s.const(1.0))
            known = s.select(s.cmp("eq", x[0], x[0]), sign, x[0])
            return length, (s.select(s.cmp("eq", x[0], zero), zero, known),)
        greater = s.max(s.abs(x[0]), s.abs(x[1]))
        none = s.cmp("eq", greater, zero)
        scale = s.select(none, s.const(1.0), greater)
        near = tuple(s.div(part, scale) for part in x)
        length = s.sqrt(self.squared(near))
        safe = s.select(none, s.const(1.0), length)
        return s.mul(length, greater), tuple(s.div(part, safe) for part in near)

    def div(self, x: Number, y: Number) -> Number:
        """x / y: of real numbers rounded once."""
        if not self.is_complex:
            return (self.ops.div(x[0], y[0]),)
        return self.mul(x, self.inverse(y))

    def inverse(self, x: Number) -> Number:
        """1 / x; of complex numbers by their greater part, so that no square overflows (Smith, 1962)."""
        s = self.ops
        one = s.const(1.0)
        if not self.is_complex:
            return (s.div(one, x[0]),)
        turned = s.cmp("gt", s.abs(x[1]), s.abs(x[0]))
        big, small = s.select(turned, x[1], x[0]), s.select(turned, x[0], x[1])
        ratio = s.div(small, big)
        scale = s.div(one, s.fma(small, ratio, big))
        straight = (scale, s.neg(s.mul(ratio, scale)))
        crossed = (s.mul(ratio, scale), s.neg(scale))
        return self.select(turned, crossed, straight)


LEAST_NORMAL: Final = {dtypes.float32: 2.0**-126, dtypes.float64: 2.0**-1022}
EPSILON: Final = {dtypes.float32: 2.0**-23, dtypes.float64: 2.0**-52}
