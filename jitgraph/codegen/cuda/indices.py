"""Indices in 32 bits, where every buffer has fewer elements than they count: half the registers of 64.

Sums and products may wrap on the way, since what they end in fits. A division does so only where its operands are known
to fit as they are; others are divided in 64 bits.

Elements that a thread has at constant distances from each other share one index, that of a first place, to which each
adds its distance in 64 bits: the assembler makes that a part of the instruction that loads or stores, where an address
for each element would take two registers.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import NamedTuple

from jitgraph.codegen.kernels.kernel import Attend, Contract, Kernel, Loop, statements_of
from jitgraph.codegen.llvm.builder import LlvmScalar
from jitgraph.codegen.llvm.environment import Environment, constant_of, integer
from jitgraph.codegen.llvm.index import add, index_value
from jitgraph.dtypes import int32, int64
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv, Mod, names

_LIMIT = 1 << 31


class AxisPosition(NamedTuple):
    """A value of an axis: that of a thread's first element, and how far the element lies from it."""

    first: LlvmScalar
    distance: int

    def value(self, env: Environment) -> LlvmScalar:
        return add(env, self.first, integer(self.distance))


class Indices:
    """The index expressions of a kernel: in 32 bits where all of its buffers are known to be small enough."""

    def __init__(self, kernel: Kernel) -> None:
        sizes = [param.size for param in kernel.params]
        self.narrow = all(isinstance(size, int) and size < _LIMIT for size in sizes)
        self._largest = max((size for size in sizes if isinstance(size, int)), default=0)
        self._extents = _extents(kernel)

    def element(self, env: Environment, dim: DimLike, positions: Mapping[str, AxisPosition]) -> LlvmScalar:
        """The index of an element in a buffer; ``positions`` are axes of which a thread has several values."""
        distance = self._distance(dim, positions)
        if distance is not None:
            env = env.at({axis: position.first for axis, position in positions.items()})
        index = self._value(env, dim) if self.narrow else index_value(env, dim)
        return add(env, _wide(env, index), integer(distance)) if distance else index

    def _distance(self, dim: DimLike, positions: Mapping[str, AxisPosition]) -> int | None:
        """How far the element lies from that of the first places; None where nothing constant does."""
        if isinstance(dim, int):
            return None
        total, others = 0, []
        for monomial, coefficient in dim.terms.items():
            position = positions.get(monomial[0]) if len(monomial) == 1 and isinstance(monomial[0], str) else None
            if position is None:
                others.append(monomial)
            else:
                total += coefficient * position.distance
        if any(not positions.keys().isdisjoint(names(Dim({monomial: 1}))) for monomial in others):
            return None
        # the index of the first place, which may lie beside the buffer, has to fit as well
        return None if self.narrow and self._largest + abs(total) >= _LIMIT else total

    def value(self, env: Environment, dim: DimLike) -> LlvmScalar:
        """An index expression as an int64."""
        if not self.narrow or isinstance(dim, int) or dim.as_name is not None or not self._fits(dim):
            return index_value(env, dim)
        small = self._value(env, dim)
        return env.ops.make(f"sext {small} to i64", int64, 1)

    def _value(self, env: Environment, dim: DimLike) -> LlvmScalar:
        s = env.ops
        if isinstance(dim, int):
            return _literal(dim)
        total = _literal(0)
        for monomial, coefficient in dim.terms.items():
            product = _literal(coefficient)
            for atom in monomial:
                factor = self._atom(env, atom)
                product = factor if product.name == "1" else s.mul(product, factor)
            total = product if total.name == "0" else s.add(total, product)
        return total

    def _atom(self, env: Environment, atom: Atom) -> LlvmScalar:
        if isinstance(atom, str):
            return _low(env, env[atom])
        most = self._most(atom.numerator), self._most(atom.denominator)
        if None in most:
            return _low(env, index_value(env, Dim({(atom,): 1})))
        x, y = self._value(env, atom.numerator), self._value(env, atom.denominator)
        if not isinstance(atom.denominator, int):
            y = env.ops.max(y, _literal(1))  # a size may be 0, where nothing runs
        name = "urem" if isinstance(atom, Mod) else "udiv"
        return env.ops.make(f"{name} {x}, {y.name}", int32, 1)

    def _fits(self, dim: Dim) -> bool:
        """Whether 32 bits hold every value of ``dim``."""
        bounds = [self._product(monomial) for monomial in dim.terms]
        if None in bounds:
            return False
        pairs = zip(dim.terms.values(), bounds, strict=True)
        return sum(abs(coefficient) * (bound or 0) for coefficient, bound in pairs) < _LIMIT

    def _most(self, dim: DimLike) -> int | None:
        """The greatest value of ``dim`` where it is a sum of natural numbers that 32 bits hold; None elsewhere."""
        if isinstance(dim, int):
            return dim if 0 <= dim < _LIMIT else None
        total = 0
        for monomial, coefficient in dim.terms.items():
            bound = self._product(monomial)
            if coefficient < 0 or bound is None:
                return None
            total += coefficient * bound
        return total if total < _LIMIT else None

    def _product(self, monomial: tuple[Atom, ...]) -> int | None:
        bounds = [self._most_of(atom) for atom in monomial]
        return None if None in bounds else prod(bound or 0 for bound in bounds)

    def _most_of(self, atom: Atom) -> int | None:
        if isinstance(atom, str):
            return self._extents.get(atom)
        return self._of_division(atom)

    def _of_division(self, atom: FloorDiv) -> int | None:
        numerator, denominator = self._most(atom.numerator), self._most(atom.denominator)
        if numerator is None or denominator is None:
            return None
        if isinstance(atom, Mod):
            return min(numerator, max(denominator - 1, 0))
        return numerator // atom.denominator if isinstance(atom.denominator, int) else numerator


def _extents(kernel: Kernel) -> Mapping[str, int]:
    """The greatest value of every axis whose extent is known."""
    by_axis: dict[str, DimLike] = {}
    for statement in statements_of(kernel.body):
        match statement:
            case Loop(axis=axis, extent=extent, slots=slots):
                by_axis[axis] = extent
                if slots is not None:
                    by_axis[slots.axis] = statement.lanes
            case Contract(m=m, n=n, k=k, extents=extents):
                by_axis.update(zip((m, n, k), extents, strict=True))
            case Attend(m=m, n=n, extents=(rows, columns)):
                by_axis |= {m: rows, n: columns}
                by_axis |= {factor.axis: factor.extent for factor in (*statement.rows, *statement.columns)}
    return {axis: max(extent - 1, 0) for axis, extent in by_axis.items() if isinstance(extent, int)}


def alignment(dim: DimLike, axis: str, steps: int) -> int:
    """What divides ``dim`` wherever ``axis`` is a multiple of ``steps``, up to 16."""
    if isinstance(dim, int):
        return gcd(dim, 16)
    parts = [coefficient * (steps if axis in monomial else 1) for monomial, coefficient in dim.terms.items()]
    return gcd(*parts, 16)


def _literal(value: int) -> LlvmScalar:
    """A literal int32, wrapped as sums and products are."""
    wrapped = (value + _LIMIT) % (2 * _LIMIT) - _LIMIT
    return LlvmScalar(str(wrapped), "i32", int32, 1)


def _wide(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """An index in 64 bits."""
    return x if x.dtype == int64 else env.ops.make(f"sext {x} to i64", int64, 1)


def _low(env: Environment, x: LlvmScalar) -> LlvmScalar:
    """The low half of an int64."""
    known = constant_of(x)
    return _literal(known) if known is not None else env.ops.make(f"trunc {x} to i32", int32, 1)
