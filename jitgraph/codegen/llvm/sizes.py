"""Sizes at the entry: dims evaluated in 64 bits with every overflow noticed."""

from __future__ import annotations

from jitgraph.codegen.llvm.builder import LlvmFunction, LlvmValue
from jitgraph.ir.dims import Atom, DimLike, Mod


class Sizes:
    """Evaluates dims over the named sizes in ``dims``, an array of int64 in the order of ``names``."""

    def __init__(self, function: LlvmFunction, names: tuple[str, ...], dims: LlvmValue) -> None:
        self.function = function
        self.values: dict[str, str] = {}
        for index, name in enumerate(names):
            address = function.emit("ptr", f"getelementptr i64, {dims}, i64 {index}")
            self.values[name] = function.emit("i64", f"load i64, {address}, align 8").name
        self._known: dict[DimLike, str] = {}
        self._overflows: list[str] = []

    def value(self, dim: DimLike) -> str:
        """``dim`` as an i64; wrong where ``overflow`` is true."""
        if isinstance(dim, int):
            return self._constant(dim)
        if dim not in self._known:
            total = "0"
            for monomial, coefficient in dim.terms.items():
                product = self._constant(coefficient)
                for atom in monomial:
                    product = self._checked("smul", product, self._atom(atom))
                total = self._checked("sadd", total, product)
            self._known[dim] = total
        return self._known[dim]

    def note(self, overflow: str) -> None:
        """Count an i1 among the overflows."""
        self._overflows.append(overflow)

    def overflow(self) -> str:
        """Whether any value asked for so far left 64 bits, or divided by zero, as an i1."""
        flag = "false"
        for bit in self._overflows:
            flag = bit if flag == "false" else self.function.emit("i1", f"or i1 {flag}, {bit}").name
        return flag

    def _constant(self, number: int) -> str:
        """A literal, which LLVM would cut to 64 bits without a word."""
        if -(1 << 63) <= number < 1 << 63:
            return str(number)
        self._overflows.append("true")
        return "0"

    def _checked(self, operation: str, x: str, y: str) -> str:
        if {"smul": "1", "sadd": "0"}[operation] == x:
            return y
        if operation == "smul" and y == "1":
            return x
        function = self.function
        pair = function.emit("{ i64, i1 }", f"call {{ i64, i1 }} @llvm.{operation}.with.overflow.i64(i64 {x}, i64 {y})")
        self._overflows.append(function.emit("i1", f"extractvalue {pair}, 1").name)
        return function.emit("i64", f"extractvalue {pair}, 0").name

    def _atom(self, atom: Atom) -> str:
        """A name, or floor division; dividing by zero or the minimum by -1 counts as overflow."""
        if isinstance(atom, str):
            return self.values[atom]
        function = self.function
        x, y = self.value(atom.numerator), self.value(atom.denominator)
        lowest = function.emit("i1", f"icmp eq i64 {x}, {-(1 << 63)}").name
        minus = function.emit("i1", f"icmp eq i64 {y}, -1").name
        wraps = function.emit("i1", f"and i1 {lowest}, {minus}").name
        zero = function.emit("i1", f"icmp eq i64 {y}, 0").name
        bad = function.emit("i1", f"or i1 {wraps}, {zero}").name
        self._overflows.append(bad)
        safe = function.emit("i64", f"select i1 {bad}, i64 1, i64 {y}").name
        quotient = function.emit("i64", f"sdiv i64 {x}, {safe}").name
        remainder = function.emit("i64", f"srem i64 {x}, {safe}").name
        mixed = function.emit("i64", f"xor i64 {remainder}, {safe}").name
        signs_differ = function.emit("i1", f"icmp slt i64 {mixed}, 0").name
        uneven = function.emit("i1", f"icmp ne i64 {remainder}, 0").name
        adjust = function.emit("i1", f"and i1 {signs_differ}, {uneven}").name
        if isinstance(atom, Mod):
            up = function.emit("i64", f"add i64 {remainder}, {safe}").name
            return function.emit("i64", f"select i1 {adjust}, i64 {up}, i64 {remainder}").name
        down = function.emit("i64", f"sub i64 {quotient}, 1").name
        return function.emit("i64", f"select i1 {adjust}, i64 {down}, i64 {quotient}").name
