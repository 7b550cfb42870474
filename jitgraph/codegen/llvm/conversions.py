"""The scalar ops that change dtypes: ``cast``, ``bitcast``, and the rounding of 16-bit floats."""

from __future__ import annotations

from jitgraph.codegen.llvm import folding
from jitgraph.codegen.llvm.instructions import LlvmInstructions
from jitgraph.codegen.llvm.operand import LlvmScalar, element_type
from jitgraph.dtypes import DType, bfloat16, float16, float32, float64, int32, is_bool, is_float, is_signed


class LlvmConversions(LlvmInstructions):
    """From one dtype to another, and 16-bit floats between memory and registers."""

    # --- 16-bit floats ---

    def widen(self, x: LlvmScalar) -> LlvmScalar:
        """A 16-bit float as float32; others unchanged."""
        if x.dtype.itemsize != 2 or not is_float(x.dtype) or x.type.endswith(("float", "float>")):
            return LlvmScalar(x.name, x.type, float32, x.lanes) if x.dtype in (float16, bfloat16) else x
        if x.dtype == float16:
            return self._convert("fpext", x, "float", float32)
        bits = self._convert("zext", x, "i32", int32)
        return self._convert("bitcast", self._same("shl", bits, self.raw(16, bits)), "float", float32)

    def narrow(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 rounded to the 16-bit float ``dtype``; under fastmath it stays a float. Others unchanged."""
        if dtype == x.dtype:
            return x
        if self.fastmath:
            return LlvmScalar(x.name, x.type, dtype, x.lanes)
        return self.round16(x, dtype)

    def round16(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 rounded half to even to float16 or bfloat16, as stored."""
        if dtype == float16:
            return self._convert("fptrunc", x, "half", dtype)
        # The bits above 16 are the result; adding 0x7FFF, and 1 where it is odd, carries where rounding goes up.
        bits = self._convert("bitcast", x, "i32", int32)
        high = self._same("lshr", bits, self.raw(16, bits))
        odd = self._same("and", high, self.raw(1, bits))
        rounded = self._same("add", self._same("add", bits, self.raw(0x7FFF, bits)), odd)
        rounded = self._same("lshr", rounded, self.raw(16, bits))
        nan = self._same("or", high, self.raw(0x40, bits))
        ordered = self._fcmp("ord", x, x)
        return self._convert("trunc", self._pick(ordered, rounded, nan), "i16", dtype)

    def _to_odd(self, x: LlvmScalar) -> LlvmScalar:
        """A float64 as float32 rounded to odd, from which rounding to 16 bits is right (Boldo and Melquiond, 2008)."""
        near = self._convert("fptrunc", x, "float", float32)
        back = self._convert("fpext", near, "double", float64)
        bits = self._convert("bitcast", near, "i32", int32)
        above = self._fcmp("ogt", self.intrinsic("fabs", back), self.intrinsic("fabs", x))
        toward_zero = self._same("sub", bits, self._convert("zext", above, "i32", int32))
        inexact = self._convert("zext", self._fcmp("one", back, x), "i32", int32)
        return self._convert("bitcast", self._same("or", toward_zero, inexact), "float", float32)

    def stored(self, x: LlvmScalar) -> LlvmScalar:
        """``x`` as it lies in memory: 16-bit floats rounded."""
        if self.fastmath and x.dtype in (float16, bfloat16):
            return self.round16(LlvmScalar(x.name, x.type, float32, x.lanes), x.dtype)
        return x

    def loaded(self, x: LlvmScalar) -> LlvmScalar:
        """``x`` from memory as these ops keep it: 16-bit floats widened under fastmath."""
        if self.fastmath and x.dtype in (float16, bfloat16):
            wide = self.widen(x)
            return LlvmScalar(wide.name, wide.type, x.dtype, x.lanes)
        return x

    # --- any dtype ---

    def bitcast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if self.fastmath and x.dtype.itemsize == 2:
            x = self.stored(x)
        if is_bool(x.dtype):
            return self._convert("zext", x, "i8", dtype) if not is_bool(dtype) else x
        if is_bool(dtype):
            return self._icmp("ne", x, self.raw(0, x))
        plain = element_type(dtype)
        source = folding.element_of(x.type)
        y = self._convert("bitcast", x, plain, dtype) if plain != source else LlvmScalar(x.name, x.type, dtype, x.lanes)
        return self.loaded(y)

    def cast(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if x.dtype == dtype:
            return x
        if is_bool(dtype):
            return self._is_nonzero(x)
        if is_float(x.dtype):
            return self._float_to_float(x, dtype) if is_float(dtype) else self.float_to_int(self.widen(x), dtype)
        if is_float(dtype):
            wide = float64 if dtype == float64 else float32
            instruction = "sitofp" if is_signed(x.dtype) else "uitofp"
            return self.narrow(self._convert(instruction, x, element_type(wide), wide), dtype)
        return self._resize(x, dtype)

    def zero_like(self, x: LlvmScalar) -> LlvmScalar:
        """Zero of the dtype, type and lanes of ``x``."""
        return LlvmScalar("false" if x.type == "i1" else "0.0" if x.type in ("float", "double", "half") else "0"
                      if x.lanes == 1 else "zeroinitializer", x.type, x.dtype, x.lanes)  # fmt: skip

    def _resize(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        source, target = (1 if is_bool(x.dtype) else 8 * x.dtype.itemsize), 8 * dtype.itemsize
        if source == target:
            return LlvmScalar(x.name, x.type, dtype, x.lanes)
        instruction = "trunc" if source > target else "sext" if is_signed(x.dtype) else "zext"
        return self._convert(instruction, x, f"i{target}", dtype)

    def _float_to_float(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        if x.dtype == float64:  # to bfloat16 by way of float32, as ml_dtypes; to float16 in one rounding, as NumPy
            near = self._to_odd(x) if dtype == float16 else self._convert("fptrunc", x, "float", float32)
            return self.narrow(near, dtype)
        x = self.widen(x)
        return self._convert("fpext", x, "double", float64) if dtype == float64 else self.narrow(x, dtype)

    def float_to_int(self, x: LlvmScalar, dtype: DType) -> LlvmScalar:
        """A float32 or float64 toward zero, saturated; NaN is 0."""
        # llvm.fptosi.sat means the same, but its vectors are taken apart lane by lane on x86.
        signed, bits = is_signed(dtype), 8 * dtype.itemsize
        limit = self.raw(2.0 ** (bits - signed), x)
        lowest = self.raw(-(2.0 ** (bits - 1)) if signed else 0.0, x)
        inside = self._pick(self._fcmp("olt", x, limit), x, self.raw(0.0, x))
        inside = self._pick(self._fcmp("ogt", inside, lowest), inside, lowest)
        through = max(32, bits)
        instruction = "fptosi" if signed or bits < 32 else "fptoui"
        value = self._convert(instruction, inside, f"i{through}", dtype)
        if through != bits:
            value = self._convert("trunc", value, f"i{bits}", dtype)
        return self._pick(self._fcmp("oge", x, limit), self.raw((1 << (bits - signed)) - 1, value), value)

    def _is_nonzero(self, x: LlvmScalar) -> LlvmScalar:
        zero = self.zero_like(x)
        return self._fcmp("une", self.widen(x), self.widen(zero)) if is_float(x.dtype) else self._icmp("ne", x, zero)
