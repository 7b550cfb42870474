"""Arithmetic of 32 bits: numbers of threads, and places in shared memory, which are never negative."""

from __future__ import annotations

from collections.abc import Callable

from jitgraph.codegen.llvm.builder import LlvmFunction
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.dtypes import int32

Fold = Callable[[int, int], int]


def word(value: int) -> LlvmScalar:
    """A literal."""
    return LlvmScalar(str(value), "i32", int32, 1)


class Int32Writer:
    """Writes arithmetic on int32; what literals alone say is folded."""

    def __init__(self, function: LlvmFunction) -> None:
        self._function = function

    def add(self, x: LlvmScalar, y: LlvmScalar | int) -> LlvmScalar:
        return self._made("add", x, y, lambda a, b: a + b, nothing=0)

    def times(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("mul", x, y, lambda a, b: a * b, nothing=1)

    def divided(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("udiv", x, y, lambda a, b: a // b, nothing=1)

    def rest(self, x: LlvmScalar, y: int) -> LlvmScalar:
        return self._made("urem", x, y, lambda a, b: a % b)

    def xor(self, x: LlvmScalar, y: LlvmScalar | int) -> LlvmScalar:
        return self._made("xor", x, y, lambda a, b: a ^ b, nothing=0)

    def bits(self, x: LlvmScalar, first: int, mask: int) -> LlvmScalar:
        """The bits of ``x`` from number ``first`` on that are in ``mask``."""
        shifted = self._made("lshr", x, first, lambda a, b: a >> b, nothing=0)
        return self._made("and", shifted, mask, lambda a, b: a & b)

    def chosen(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        value = self._function.emit("i32", f"select {condition}, {x}, {y}")
        return LlvmScalar(value.name, "i32", int32, 1)

    def low(self, x: LlvmScalar) -> LlvmScalar:
        """The low half of an int64."""
        if x.is_literal:
            return word(int(x.name))
        return LlvmScalar(self._function.emit("i32", f"trunc {x} to i32").name, "i32", int32, 1)

    def _made(
        self, name: str, x: LlvmScalar, y: LlvmScalar | int, fold: Fold, nothing: int | None = None
    ) -> LlvmScalar:
        y = word(y) if isinstance(y, int) else y
        if x.is_literal and y.is_literal:
            return word(fold(int(x.name), int(y.name)))
        if nothing is not None and y.name == str(nothing):
            return x
        if name == "add" and x.name == "0":
            return y
        return LlvmScalar(self._function.emit("i32", f"{name} {x}, {y.name}").name, "i32", int32, 1)
