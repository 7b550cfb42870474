"""Functions of libc's mathematics, and LLVM's own for 16-bit floats, for host code that calls them."""

from __future__ import annotations

import ctypes
import ctypes.util
from functools import cache
from typing import Any, Final

from jitgraph.codegen.cpu import linker
from jitgraph.codegen.llvm import machine
from jitgraph.errors import UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.runtime.loader.abi import function_address

_OF_TWO: Final = ("pow", "fmod", "fmin", "fmax", "atan2", "ldexp", "fminimum", "fmaximum")
_OF_ONE: Final = (
    "exp", "exp2", "log", "log2", "log10", "sin", "cos", "tan", "tanh", "round", "roundeven", "floor", "ceil", "trunc",
    "rint", "nearbyint", "sqrt",
)  # fmt: skip

# To the nearest bfloat, ties to even, in integers: bits above the lower half, which adds what rounds them.
_TO_BFLOAT: Final = """
define hidden bfloat @__truncsfbf2(float %x) nounwind {
  %bits = bitcast float %x to i32
  %top = lshr i32 %bits, 16
  %odd = and i32 %top, 1
  %bias = add i32 %odd, 32767
  %up = add i32 %bits, %bias
  %rounded = lshr i32 %up, 16
  %quiet = or i32 %top, 64
  %nan = fcmp uno float %x, %x
  %kept = select i1 %nan, i32 %quiet, i32 %rounded
  %short = trunc i32 %kept to i16
  %r = bitcast i16 %short to bfloat
  ret bfloat %r
}
"""

# Rounded to odd on the way to float, so that rounding again is exact.
_DOUBLE_TO_SHORT: Final = """
define internal float @odd(double %x) alwaysinline nounwind {
  %y = fptrunc double %x to float
  %back = fpext float %y to double
  %exact = fcmp ueq double %back, %x
  %bits = bitcast float %y to i32
  %size = call double @llvm.fabs.f64(double %x)
  %got = call double @llvm.fabs.f64(double %back)
  %grown = fcmp ogt double %got, %size
  %less = sub i32 %bits, 1
  %cut = select i1 %grown, i32 %less, i32 %bits
  %sticky = or i32 %cut, 1
  %chosen = select i1 %exact, i32 %bits, i32 %sticky
  %r = bitcast i32 %chosen to float
  ret float %r
}
declare double @llvm.fabs.f64(double)
"""
_SHORTENED: Final = {"__truncdfbf2": "bfloat", "__truncdfhf2": "half"}


def objects(code: bytes, target: Target) -> list[bytes]:
    """Objects that define what the object ``code`` calls; UnsupportedOp for what none defines."""
    undefined = frozenset(
        symbol.name
        for symbol in linker.parse(code).symbols
        if symbol.section == linker.SHN_UNDEF and symbol.name and symbol.name not in linker.LIBRARY_SYMBOLS
    )
    return [_stubs(undefined, target)] if undefined else []


@cache
def _library() -> Any:
    return ctypes.CDLL(ctypes.util.find_library("m"))


@cache
def _stubs(undefined: frozenset[str], target: Target) -> bytes:
    text = _DOUBLE_TO_SHORT if undefined & set(_SHORTENED) else ""
    text += _TO_BFLOAT if undefined & {"__truncsfbf2", "__truncdfbf2"} else ""
    for name in sorted(undefined):
        if kind := _SHORTENED.get(name):
            text += f"define hidden {kind} @{name}(double %x) nounwind {{\n  %y = call float @odd(double %x)\n"
            text += f"  %r = fptrunc float %y to {kind}\n  ret {kind} %r\n}}\n"
        elif name != "__truncsfbf2":
            text += _to_library(name)
    return machine.assemble(text, target)


def _to_library(name: str) -> str:
    plain, kind = (name[:-1], "float") if name.endswith("f") and name != "f" else (name, "double")
    if plain not in _OF_ONE and plain not in _OF_TWO:
        raise UnsupportedOp(f"host code of a kernel calls {name}, which the simulator has not")
    types = [kind, kind] if plain in _OF_TWO else [kind]
    if plain == "ldexp":
        types[1] = "i32"
    address = function_address(getattr(_library(), name))
    parameters = ", ".join(f"{each} %a{i}" for i, each in enumerate(types))
    return (
        f"define hidden {kind} @{name}({parameters}) nounwind {{\n"
        f"  %r = tail call {kind} inttoptr (i64 {address} to ptr)({parameters})\n  ret {kind} %r\n}}\n"
    )
