"""NVVM's intrinsics of one thread's arithmetic, as LLVM IR over plain instructions and libm.

Approximations (``ex2.approx``) give the exact result, rounded: an approximation of hardware may not be relied upon.
"""

from __future__ import annotations

import re
from typing import Final

_LIBM: Final = {"ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos", "sqrt": "sqrt"}
_TYPES: Final = {"f": ("float", "f32"), "d": ("double", "f64")}
_APPROXIMATE: Final = re.compile(r"(ex2|lg2|sin|cos|sqrt|rsqrt|rcp)\.(?:approx|rn)(?:\.ftz)?\.(?:f|d|f32|f64)")
_DIVIDE: Final = re.compile(r"div\.(?:approx|full|rn|rz)(?:\.ftz)?(?:\.(f|d))?")
_TWO: Final = re.compile(r"(add|mul)\.rn(?:\.ftz)?\.(f|d)")
_FMA: Final = re.compile(r"fma\.rn(?:\.ftz)?\.(f|d)")
_EXTREME: Final = re.compile(r"f(min|max)(?:\.ftz)?(\.nan)?(?:\.ftz)?(?:\.nan)?\.(f|d)")
_HIGH: Final = re.compile(r"mulhi\.(s|us|i|ui|ll|ull)")

# Bits of a float rounded to the nearest of the higher half, ties to even; a NaN stays one.
_TO_BFLOAT: Final = """
  %bits.{n} = bitcast float %{x} to i32
  %top.{n} = lshr i32 %bits.{n}, 16
  %odd.{n} = and i32 %top.{n}, 1
  %bias.{n} = add i32 %odd.{n}, 32767
  %up.{n} = add i32 %bits.{n}, %bias.{n}
  %short.{n} = lshr i32 %up.{n}, 16
  %nan.{n} = fcmp uno float %{x}, %{x}
  %rounded.{n} = select i1 %nan.{n}, i32 32767, i32 %short.{n}
"""


def formula(short: str, result: str, types: tuple[str, ...]) -> str | None:
    """The body of the function for an intrinsic's name without ``llvm.nvvm.``; None where it is not one of these."""
    if match := _APPROXIMATE.fullmatch(short):
        return _of_one(match[1], types[0])
    if _DIVIDE.fullmatch(short):
        return f"  %r = fdiv {result} %a0, %a1\n  ret {result} %r\n"
    if match := _TWO.fullmatch(short):
        return f"  %r = f{match[1]} {result} %a0, %a1\n  ret {result} %r\n"
    if match := _FMA.fullmatch(short):
        kind, suffix = _TYPES[match[1]]
        return f"  %r = call {kind} @llvm.fma.{suffix}({kind} %a0, {kind} %a1, {kind} %a2)\n  ret {kind} %r\n"
    if match := _EXTREME.fullmatch(short):
        kind, suffix = _TYPES[match[3]]
        name = f"{match[1]}imum" if ".nan" in short else f"{match[1]}num"
        return f"  %r = call {kind} @llvm.{name}.{suffix}({kind} %a0, {kind} %a1)\n  ret {kind} %r\n"
    if match := _HIGH.fullmatch(short):
        return _high_product(result, "zext" if match[1].startswith("u") else "sext")
    return _FIXED.get(short)


def _of_one(name: str, kind: str) -> str | None:
    suffix = {"float": "f32", "double": "f64"}.get(kind)
    if suffix is None:
        return None
    if name == "rcp":
        return f"  %r = fdiv {kind} 1.0, %a0\n  ret {kind} %r\n"
    root = f"  %s = call {kind} @llvm.sqrt.{suffix}({kind} %a0)\n"
    if name == "rsqrt":
        return f"{root}  %r = fdiv {kind} 1.0, %s\n  ret {kind} %r\n"
    return f"  %r = call {kind} @llvm.{_LIBM[name]}.{suffix}({kind} %a0)\n  ret {kind} %r\n"


def _high_product(kind: str, extend: str) -> str:
    bits = int(kind[1:])
    wide = f"i{2 * bits}"
    return (
        f"  %x = {extend} {kind} %a0 to {wide}\n  %y = {extend} {kind} %a1 to {wide}\n  %p = mul {wide} %x, %y\n"
        f"  %h = lshr {wide} %p, {bits}\n  %r = trunc {wide} %h to {kind}\n  ret {kind} %r\n"
    )


def _bfloats(values: tuple[str, ...]) -> str:
    text = "".join(_TO_BFLOAT.format(n=i, x=value) for i, value in enumerate(values))
    if len(values) == 1:
        return text + "  %s = trunc i32 %rounded.0 to i16\n  %r = bitcast i16 %s to bfloat\n  ret bfloat %r\n"
    return text + (  # the first operand is the upper half
        "  %h = shl i32 %rounded.0, 16\n  %w = or i32 %h, %rounded.1\n"
        "  %r = bitcast i32 %w to <2 x bfloat>\n  ret <2 x bfloat> %r\n"
    )


_TF32: Final = """  %bits = bitcast float %a0 to i32
  %up = add i32 %bits, 4096
  %cut = and i32 %up, -8192
  %magnitude = and i32 %bits, 2147483647
  %special = icmp uge i32 %magnitude, 2139095040
  %r = select i1 %special, i32 %bits, i32 %cut
  ret i32 %r
"""
"""To the nearest of 10 bits, ties away from zero; what the lower 13 bits then hold is not specified, here 0."""

_HALVES: Final = (
    "  %h = fptrunc float %a0 to half\n  %l = fptrunc float %a1 to half\n"
    "  %v = insertelement <2 x half> poison, half %l, i32 0\n  %r = insertelement <2 x half> %v, half %h, i32 1\n"
    "  ret <2 x half> %r\n"
)

# Each of the four lower hex digits of the selector chooses a byte of the eight; its upper bit spreads the sign.
_PERMUTE: Final = (
    "  %l = zext i32 %a0 to i64\n  %h = zext i32 %a1 to i64\n  %s = shl i64 %h, 32\n  %b = or i64 %s, %l\n"
    "  %w.0 = add i32 0, 0\n"
    + "".join(
        f"  %d.{i} = lshr i32 %a2, {4 * i}\n  %n.{i} = and i32 %d.{i}, 7\n  %m.{i} = zext i32 %n.{i} to i64\n"
        f"  %p.{i} = mul i64 %m.{i}, 8\n  %q.{i} = lshr i64 %b, %p.{i}\n  %c.{i} = trunc i64 %q.{i} to i8\n"
        f"  %e.{i} = ashr i8 %c.{i}, 7\n  %f.{i} = and i32 %d.{i}, 8\n  %g.{i} = icmp ne i32 %f.{i}, 0\n"
        f"  %k.{i} = select i1 %g.{i}, i8 %e.{i}, i8 %c.{i}\n  %x.{i} = zext i8 %k.{i} to i32\n"
        f"  %y.{i} = shl i32 %x.{i}, {8 * i}\n  %w.{i + 1} = or i32 %w.{i}, %y.{i}\n"
        for i in range(4)
    )
    + "  ret i32 %w.4\n"
)

_FIXED: Final = {
    "prmt": _PERMUTE,
    "f2bf16.rn": _bfloats(("a0",)),
    "ff2bf16x2.rn": _bfloats(("a0", "a1")),
    "ff2f16x2.rn": _HALVES,
    "f2tf32.rna": _TF32,
    "fabs.f32": "  %r = call float @llvm.fabs.f32(float %a0)\n  ret float %r\n",
    "fabs.f64": "  %r = call double @llvm.fabs.f64(double %a0)\n  ret double %r\n",
    "d2i.lo": "  %b = bitcast double %a0 to i64\n  %r = trunc i64 %b to i32\n  ret i32 %r\n",
    "d2i.hi": "  %b = bitcast double %a0 to i64\n  %s = lshr i64 %b, 32\n  %r = trunc i64 %s to i32\n  ret i32 %r\n",
    "lohi.i2d": (
        "  %l = zext i32 %a0 to i64\n  %h = zext i32 %a1 to i64\n  %s = shl i64 %h, 32\n  %b = or i64 %s, %l\n"
        "  %r = bitcast i64 %b to double\n  ret double %r\n"
    ),
}

DECLARATIONS: Final = "".join(
    f"declare {kind} @llvm.{name}.{suffix}({', '.join([kind] * count)})\n"
    for kind, suffix in _TYPES.values()
    for name, count in (
        ("exp2", 1), ("log2", 1), ("sin", 1), ("cos", 1), ("sqrt", 1), ("fabs", 1), ("fma", 3),
        ("minnum", 2), ("maxnum", 2), ("minimum", 2), ("maximum", 2),
    )
)  # fmt: skip
"""What the bodies call; LLVM drops those that none does."""
