"""The scalar ops that compare, choose, and work on bits."""

from __future__ import annotations

from jitgraph.codegen.llvm.conversions import LlvmConversions
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import bool_, float32, float64, is_bool, is_float, is_signed
from jitgraph.ir.scalar import Comparison


class LlvmLogic(LlvmConversions):
    """What compares, chooses, and works on bits."""

    def cmp(self, relation: Comparison, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        if is_float(x.dtype):
            x, y = self.widen(x), self.widen(y)
            return self._fcmp("une" if relation == "ne" else f"o{relation}", x, y)
        if relation in ("eq", "ne"):
            return self._icmp(relation, x, y)
        return self._icmp(f"{'s' if is_signed(x.dtype) else 'u'}{relation}", x, y)

    def select(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.lanes == 1 and (x.lanes > 1 or y.lanes > 1):
            x, y = self.align(x, y)  # one i1 chooses between vectors
        else:
            condition, x, y = self.align(condition, x, y)
        return self._pick(condition, x, y)

    def and_(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        result = self._same("and", *self.align(x, y))
        self.function.ands.add(result.name)
        return result

    def or_(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._same("or", x, y), merges=self._are_ands(x, y) == 2)

    def xor(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        return self._fenced(self._same("xor", x, y), merges=self._are_ands(x, y) > 0)

    def _are_ands(self, x: LlvmScalar, y: LlvmScalar) -> int:
        return len({x.name, y.name} & self.function.ands)

    def _fenced(self, x: LlvmScalar, merges: bool) -> LlvmScalar:
        """``x``, hidden from the selection of instructions where it may be two values merged by the bits of a mask.

        For AVX-512, LLVM 20 folds a merge by constant bits and a select of it and one of the two into one masked
        vpternlog whose table is that of other operands (llvm-project issue 157929).
        """
        if not merges or x.lanes == 1 or x.dtype.itemsize not in (4, 8) or is_bool(x.dtype):
            return x
        element = "float" if x.dtype.itemsize == 4 else "double"
        floats = self._convert("bitcast", x, element, float32 if element == "float" else float64)
        back = self.intrinsic("arithmetic.fence", floats)
        return self.make(f"bitcast {back} to {x.type}", x.dtype, x.lanes, x.type)

    def not_(self, x: LlvmScalar) -> LlvmScalar:
        ones = self.raw(-1, x) if not is_bool(x.dtype) else self.splat(LlvmScalar("true", "i1", bool_, 1), x.lanes)
        return self._same("xor", x, ones)

    def shl(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        inside, count = self._count(x, y)
        return self._pick(inside, self._same("shl", x, count), self.raw(0, x))

    def shr(self, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        x, y = self.align(x, y)
        inside, count = self._count(x, y)
        if is_signed(x.dtype):
            return self._same("ashr", x, self._pick(inside, y, self.raw(8 * x.dtype.itemsize - 1, y)))
        return self._pick(inside, self._same("lshr", x, count), self.raw(0, x))

    def _count(self, x: LlvmScalar, y: LlvmScalar) -> tuple[LlvmScalar, LlvmScalar]:
        """Whether the count is below the width (negative ones are not), and a count that always is."""
        width = 8 * x.dtype.itemsize
        return self._icmp("ult", y, self.raw(width, y)), self._same("and", y, self.raw(width - 1, y))
