"""The scalar ops that compute with numbers; ``division`` has those that divide integers or leave a rest."""

from __future__ import annotations

from jitgraph.codegen.llvm import folding
from jitgraph.codegen.llvm.logic import LlvmLogic
from jitgraph.codegen.llvm.operand import LlvmScalar, literal
from jitgraph.dtypes import DType, is_float, is_signed


class LlvmArithmetic(LlvmLogic):
    """Numbers: literals, arithmetic but for ``div`` and ``rem``, and extremes."""

    def const(self, value: float | int | bool, dtype: DType | None = None) -> LlvmScalar:
        dtype = dtype or self.dtype
        return LlvmScalar(literal(value, dtype, self.fastmath), self.type(dtype), dtype, 1)

    def _binary(self, float_instruction: str, int_instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if is_float(x.dtype):
            return self.narrow(self._same(f"{float_instruction} {self._flags}", self.widen(x), self.widen(y)), x.dtype)
        return self._same(int_instruction, x, y)

    def add(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._binary("fadd", "add", x, y), merges=self._are_ands(x, y) == 2)

    def sub(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._binary("fsub", "sub", x, y)

    def mul(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._binary("fmul", "mul", x, y)

    def fdiv(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        """The quotient of floats."""
        return self._binary("fdiv", "", x, y)

    def neg(self, x: LlvmScalar) -> LlvmScalar:
        if not is_float(x.dtype):
            return self._same("sub", self.raw(0, x), x)
        if x.type.endswith(("i16", "i16>")):
            return self._same("xor", x, self.raw(0x8000, x))
        if x.is_literal and (negative := folding.negated(x)) is not None:
            return negative
        return self.make(f"fneg {x}", x.dtype, x.lanes, x.type)

    def abs(self, x: LlvmScalar) -> LlvmScalar:
        if is_float(x.dtype):
            if x.type.endswith(("i16", "i16>")):
                return self._same("and", x, self.raw(0x7FFF, x))
            return self.intrinsic("fabs", x)
        if not is_signed(x.dtype):
            return x
        return self._pick(self._icmp("slt", x, self.raw(0, x)), self.neg(x), x)

    def min(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("lt", x, y)

    def max(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self._extremum("gt", x, y)

    def _extremum(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if not is_float(x.dtype):
            return self._pick(self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{relation}", y, x), y, x)
        wide_x, wide_y = self.widen(x), self.widen(y)
        if x.is_literal and folding.is_ordinary(wide_x):  # a NaN can be the other operand alone
            return self._pick(self._fcmp(f"u{relation}", wide_y, wide_x), y, x)
        if y.is_literal and folding.is_ordinary(wide_y):
            return self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        better = self._pick(self._fcmp(f"o{relation}", wide_y, wide_x), y, x)
        return self._pick(self._fcmp("uno", wide_y, wide_y), y, better)

    def _rounded(self, name: str, x: LlvmScalar) -> LlvmScalar:
        return self.narrow(self.intrinsic(name, self.widen(x)), x.dtype) if is_float(x.dtype) else x

    def sqrt(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("sqrt", x)

    def floor(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("floor", x)

    def ceil(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("ceil", x)

    def rint(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("roundeven", x)

    def trunc(self, x: LlvmScalar) -> LlvmScalar:
        return self._rounded("trunc", x)

    def fma(self, x: LlvmScalar, y: LlvmScalar, z: LlvmScalar) -> LlvmScalar:
        x, y, z = self.align(x, y, z)
        if not is_float(x.dtype):
            return self.add(self.mul(x, y), z)
        return self.narrow(self.intrinsic("fma", self.widen(x), self.widen(y), self.widen(z)), x.dtype)
