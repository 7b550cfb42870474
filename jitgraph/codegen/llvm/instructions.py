"""The instructions that the scalar ops are written in, folded where their operands are literals."""

from __future__ import annotations

from jitgraph.codegen.llvm import folding
from jitgraph.codegen.llvm.builder import LlvmFunction
from jitgraph.codegen.llvm.operand import LlvmScalar, element_type, lanes_of, literal, overload
from jitgraph.dtypes import DType, bool_, float32, float64

_FAST = "reassoc nsz arcp contract afn "


class LlvmInstructions:
    """Instructions that are written into ``function``. ``dtype`` is the default of ``const``."""

    def __init__(self, function: LlvmFunction, dtype: DType = float32, fastmath: bool = False) -> None:
        self.function = function
        self.dtype = dtype
        self.fastmath = fastmath
        self._flags = _FAST if fastmath else ""

    def type(self, dtype: DType, lanes: int = 1) -> str:
        """The LLVM type of ``lanes`` values of ``dtype``."""
        return lanes_of(element_type(dtype, self.fastmath), lanes)

    def make(self, instruction: str, dtype: DType, lanes: int, type: str | None = None) -> LlvmScalar:
        """``instruction`` as a scalar; its LLVM type follows from dtype and lanes where not given."""
        type = type or self.type(dtype, lanes)
        return LlvmScalar(self.function.emit(type, instruction).name, type, dtype, lanes)

    def splat(self, x: LlvmScalar, lanes: int) -> LlvmScalar:
        """``x`` in ``lanes`` lanes."""
        if x.lanes == lanes:
            return x
        assert x.lanes == 1, (x, lanes)
        type = f"<{lanes} x {x.type}>"
        if x.is_literal:
            return LlvmScalar(f"splat ({x.type} {x.name})", type, x.dtype, lanes)
        one = self.function.emit(type, f"insertelement {type} poison, {x}, i64 0")
        return self.make(
            f"shufflevector {one}, {type} poison, <{lanes} x i32> zeroinitializer", x.dtype, lanes, type=type
        )

    def align(self, *xs: LlvmScalar) -> list[LlvmScalar]:
        """``xs`` with the same number of lanes."""
        lanes = max(x.lanes for x in xs)
        return [self.splat(x, lanes) for x in xs]

    def intrinsic(self, name: str, *xs: LlvmScalar, flags: str = "") -> LlvmScalar:
        """``llvm.name`` of operands of one type, overloaded on it."""
        x = xs[0]
        return self.make(
            f"call {flags}{x.type} @llvm.{name}.{overload(x.type)}({', '.join(map(str, xs))})", x.dtype, x.lanes, x.type
        )

    def _same(self, instruction: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        """A binary instruction on operands of one type."""
        if x.is_literal and y.is_literal and (folded := folding.binary(instruction, x, y)) is not None:
            return folded
        return self.make(f"{instruction} {x}, {y.name}", x.dtype, x.lanes, x.type)

    def _convert(self, instruction: str, x: LlvmScalar, element: str, dtype: DType) -> LlvmScalar:
        type = lanes_of(element, x.lanes)
        if instruction == "bitcast" and x.is_literal and (bits := folding.float_bits(x, element)) is not None:
            return folding.like(bits, LlvmScalar("", type, dtype, x.lanes))
        return self.make(f"{instruction} {x} to {type}", dtype, x.lanes, type)

    def raw(self, value: int | float, x: LlvmScalar) -> LlvmScalar:
        """A literal with the LLVM type and lanes of ``x``."""
        element = folding.element_of(x.type)
        text = (
            literal(value, {"float": float32, "double": float64}[element]) if isinstance(value, float) else str(value)
        )
        name = text if x.lanes == 1 else f"splat ({element} {text})"
        return LlvmScalar(name, x.type, x.dtype, x.lanes)

    def _fcmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        return self.make(f"fcmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _icmp(self, relation: str, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if x.is_literal and y.is_literal and (known := folding.compare(relation, x, y)) is not None:
            return folding.like("true" if known else "false", LlvmScalar("", self.type(bool_, x.lanes), bool_, x.lanes))
        return self.make(f"icmp {relation} {x}, {y.name}", bool_, x.lanes)

    def _pick(self, condition: LlvmScalar, x: LlvmScalar, y: LlvmScalar) -> LlvmScalar:
        if condition.is_literal and (known := folding.truth_of(condition)) is not None:
            return x if known else y
        return self.make(f"select {condition}, {x}, {y}", x.dtype, x.lanes, x.type)
