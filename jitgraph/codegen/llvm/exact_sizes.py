"""Dims as exact integers at the entry, in as many bits as they can ever need, and what a kernel is given of them.

Sums and products of named sizes leave 64 bits: n**3 does from 2,097,152 on. Their width follows from their form alone
(``dim_bounds.magnitude``), so that nothing here wraps and nothing has to be checked but what a result is put into.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.kernels.schedule import SizeNumber
from jitgraph.codegen.llvm.builder import LlvmFunction
from jitgraph.codegen.llvm.sizes import Sizes
from jitgraph.ir.dim_bounds import atom_magnitude, magnitude
from jitgraph.ir.dims import Atom, DimLike, FloorDiv, Mod

_WORD: Final = 64
_DIVIDED: Final = 3 * _WORD  # LLVM divides 128 bits by a call, which generated code has nobody to answer
_EXPONENT_BIAS: Final = 1023
_GREATEST_EXPONENT: Final = 1023
_FRACTION: Final = 52


def width_of(bound: int) -> int:
    """The bits, in whole words, that hold every number from ``-bound`` to ``bound``."""
    return -(-(bound.bit_length() + 1) // _WORD) * _WORD


class ExactSizes:
    """Dims over the names of ``sizes``, exact; what no result has room for counts there as an overflow."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._known: dict[tuple[DimLike, int], str] = {}

    @property
    def _function(self) -> LlvmFunction:
        return self._sizes.function

    def number(self, number: SizeNumber) -> str:
        """What kernels read, as an i64; an overflow where there is no such number."""
        width = self._width(number.dim)
        width += _WORD if number.kind == "uint" and width == _WORD else 0
        value = self._value(number.dim, width)
        if number.kind == "float":
            rounded = self._rounded(value, width)
            return self._emit("i64", f"bitcast double {rounded} to i64")
        if width == _WORD:
            return value
        short = self._emit("i64", f"trunc i{width} {value} to i64")
        back = f"{'sext' if number.kind == 'int' else 'zext'} i64 {short} to i{width}"
        self._sizes.note(self._emit("i1", f"icmp ne i{width} {self._emit(f'i{width}', back)}, {value}"))
        return short

    def holds(self, left: DimLike, relation: str, right: DimLike) -> str:
        """Whether ``left == right`` or ``left >= right``, as an i1."""
        width = max(self._width(left), self._width(right))
        x, y = self._value(left, width), self._value(right, width)
        return self._emit("i1", f"icmp {'eq' if relation == '==' else 'sge'} i{width} {x}, {y}")

    def _width(self, dim: DimLike) -> int:
        return width_of(magnitude(dim))

    def _value(self, dim: DimLike, width: int) -> str:
        """``dim`` in ``width`` bits, which are at least its own."""
        if isinstance(dim, int):
            return str(dim)
        key = (dim, width)
        if key not in self._known:
            total = "0"
            for monomial, coefficient in dim.terms.items():
                term = self._product(monomial, coefficient, width)
                total = term if total == "0" else self._emit(f"i{width}", f"add i{width} {total}, {term}")
            self._known[key] = total
        return self._known[key]

    def _product(self, monomial: tuple[Atom, ...], coefficient: int, width: int) -> str:
        """A term in ``width`` bits; what is multiplied first takes fewer."""
        product, bound, bits = str(coefficient), abs(coefficient), _WORD
        for atom in monomial:
            bound *= atom_magnitude(atom)
            wider = width_of(bound)
            factor = self._atom(atom, wider)
            if product == "1":
                product = factor
            else:
                product = self._extended(product, bits, wider)
                product = self._emit(f"i{wider}", f"mul i{wider} {product}, {factor}")
            bits = wider
        return self._extended(product, bits, width)

    def _atom(self, atom: Atom, width: int) -> str:
        if isinstance(atom, str):
            return self._extended(self._sizes.values[atom], _WORD, width)
        quotient, own = self._divided(atom)
        if own > width:
            return self._emit(f"i{width}", f"trunc i{own} {quotient} to i{width}")
        return self._extended(quotient, own, width)

    def _divided(self, atom: FloorDiv) -> tuple[str, int]:
        """A quotient or remainder, and its width; dividing by zero is an overflow."""
        # one bit more than either side has, so that minus the least number is one, too
        width = width_of(2 * max(magnitude(atom.numerator), magnitude(atom.denominator)))
        width = width if width == _WORD else max(_DIVIDED, width)
        x, y, type = self._value(atom.numerator, width), self._value(atom.denominator, width), f"i{width}"
        zero = self._emit("i1", f"icmp eq {type} {y}, 0")
        self._sizes.note(zero)
        safe = self._emit(type, f"select i1 {zero}, {type} 1, {type} {y}")
        quotient = self._emit(type, f"sdiv {type} {x}, {safe}")
        rest = self._emit(type, f"sub {type} {x}, {self._emit(type, f'mul {type} {quotient}, {safe}')}")
        signs = self._emit("i1", f"icmp slt {type} {self._emit(type, f'xor {type} {rest}, {safe}')}, 0")
        uneven = self._emit("i1", f"icmp ne {type} {rest}, 0")
        adjust = self._emit("i1", f"and i1 {signs}, {uneven}")
        if isinstance(atom, Mod):
            up = self._emit(type, f"add {type} {rest}, {safe}")
            return self._emit(type, f"select i1 {adjust}, {type} {up}, {type} {rest}"), width
        down = self._emit(type, f"sub {type} {quotient}, 1")
        return self._emit(type, f"select i1 {adjust}, {type} {down}, {type} {quotient}"), width

    def _rounded(self, value: str, width: int) -> str:
        """The nearest float64, ties to even: of the leading 64 bits, the last of which stands for all behind it."""
        if width == _WORD:
            return self._emit("double", f"sitofp i64 {value} to double")
        type = f"i{width}"
        negative = self._emit("i1", f"icmp slt {type} {value}, 0")
        opposite = self._emit(type, f"sub {type} 0, {value}")
        size = self._emit(type, f"select i1 {negative}, {type} {opposite}, {type} {value}")
        none = self._emit("i1", f"icmp eq {type} {size}, 0")
        zeros = self._emit(type, f"call {type} @llvm.ctlz.{type}({type} {size}, i1 false)")
        shift = self._emit(type, f"select i1 {none}, {type} 0, {type} {zeros}")
        leading = self._emit(type, f"shl {type} {size}, {shift}")
        top = self._emit("i64", f"trunc {type} {self._emit(type, f'lshr {type} {leading}, {width - _WORD}')} to i64")
        rest = self._emit(type, f"and {type} {leading}, {(1 << (width - _WORD)) - 1}")
        inexact = self._emit("i64", f"zext i1 {self._emit('i1', f'icmp ne {type} {rest}, 0')} to i64")
        sticky = self._emit("i64", f"or i64 {top}, {inexact}")
        fraction = self._emit("double", f"uitofp i64 {sticky} to double")
        # size == top * 2**(width - 64 - shift)
        known = self._emit("i64", f"trunc {type} {shift} to i64")
        exponent = self._emit("i64", f"sub i64 {width - _WORD}, {known}")
        if width - _WORD > _GREATEST_EXPONENT:
            most = f"call i64 @llvm.smin.i64(i64 {exponent}, i64 {_GREATEST_EXPONENT})"
            exponent = self._emit("i64", most)  # which takes every number of 64 bits to infinity
        biased = self._emit("i64", f"add i64 {exponent}, {_EXPONENT_BIAS}")
        scale = self._emit("double", f"bitcast i64 {self._emit('i64', f'shl i64 {biased}, {_FRACTION}')} to double")
        rounded = self._emit("double", f"fmul double {fraction}, {scale}")
        if width > _GREATEST_EXPONENT:
            self._sizes.note(self._emit("i1", f"fcmp oeq double {rounded}, 0x7FF0000000000000"))
        minus = self._emit("double", f"fneg double {rounded}")
        return self._emit("double", f"select i1 {negative}, double {minus}, double {rounded}")

    def _extended(self, value: str, width: int, wider: int) -> str:
        if width == wider or value.lstrip("-").isdecimal():
            return value
        return self._emit(f"i{wider}", f"sext i{width} {value} to i{wider}")

    def _emit(self, type: str, text: str) -> str:
        return self._function.emit(type, text).name
