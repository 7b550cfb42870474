"""Index arithmetic: row-major offsets, and simplification of index expressions by the ranges of the names in them.

An axis ``i`` of extent ``n`` is known to satisfy ``0 <= i < n``, so ``(10*i + j) // 10`` is ``i`` where ``j < 10``.
Sizes are at least 0, and at least 1 where they are the extent of a loop whose body is being written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import gcd
from typing import TypeAlias

from jitgraph.ir import dims
from jitgraph.ir.dims import Atom, Dim, DimLike, FloorDiv, Mod

Bounds: TypeAlias = "tuple[DimLike | None, DimLike | None]"


def strides(shape: Sequence[DimLike]) -> tuple[DimLike, ...]:
    """Elements between neighbours along each axis of a dense row-major array."""
    steps: list[DimLike] = []
    step: DimLike = 1
    for extent in reversed(shape):
        steps.append(step)
        step = step * extent
    return tuple(reversed(steps))


def offset(index: Sequence[DimLike], shape: Sequence[DimLike]) -> DimLike:
    """The position of ``index`` in a dense row-major array of ``shape``, in elements."""
    total: DimLike = 0
    for position, step in zip(index, strides(shape), strict=True):
        total = total + position * step
    return total


def has_atoms(dim: DimLike) -> bool:
    """Whether a floor division or a modulo stands in ``dim``."""
    return isinstance(dim, Dim) and any(not isinstance(atom, str) for monomial in dim.terms for atom in monomial)


def coefficient(dim: DimLike, axis: str) -> DimLike | None:
    """``c`` where ``dim == c*axis + rest`` and neither mentions ``axis``; None where ``dim`` is not linear in it."""
    if isinstance(dim, int):
        return 0
    total: DimLike = 0
    for monomial, factor in dim.terms.items():
        plain = [atom for atom in monomial if atom != axis]
        if any(not isinstance(atom, str) and axis in dims.names(Dim({(atom,): 1})) for atom in plain):
            return None
        if len(monomial) - len(plain) > 1:
            return None
        if len(plain) < len(monomial):
            total = total + (Dim({tuple(plain): factor}) if plain else factor)
    return total


def divisions(dim: DimLike, axis: str) -> Iterator[FloorDiv]:
    """The divisions and remainders in ``dim`` of something that ``axis`` is part of."""
    if isinstance(dim, int) or axis not in dims.names(dim):
        return
    atoms: Iterator[Atom] = (atom for monomial in dim.terms for atom in monomial)
    for atom in atoms:
        if not isinstance(atom, str) and axis in dims.names(Dim({(atom,): 1})):
            yield atom
            yield from divisions(atom.numerator, axis)


class Ranges:
    """What is known of the names in a kernel's index expressions, and simplification by it."""

    def __init__(self) -> None:
        self._extents: dict[str, DimLike] = {}
        self._positive: set[str] = set()
        self._simplified: dict[DimLike, DimLike] = {}

    def declare(self, name: str, extent: DimLike) -> None:
        """``0 <= name < extent`` holds wherever ``name`` is used."""
        self._extents[name] = extent
        if isinstance(extent, Dim) and len(extent.terms) == 1:
            self._positive |= {atom for monomial in extent.terms for atom in monomial if isinstance(atom, str)}

    def simplify(self, dim: DimLike) -> DimLike:
        """An expression with the same value wherever the declared ranges hold, with as few divisions as are found."""
        if isinstance(dim, int) or not has_atoms(dim):
            return dim
        if dim not in self._simplified:
            plain = self._rewrite(dim, expand=False)
            if has_atoms(plain):
                # With every x % a written as x - a*(x // a), what a reshape took apart cancels when put together.
                expanded = self._rewrite(dim, expand=True)
                plain = min(plain, expanded, key=_count_atoms)
            self._simplified[dim] = plain
        return self._simplified[dim]

    def split(self, position: DimLike, shape: Sequence[DimLike]) -> tuple[DimLike, ...]:
        """The index in a dense row-major array of ``shape`` whose offset is ``position``."""
        if 0 in shape:  # it has no element, and its strides are no divisors
            return (0,) * len(shape)
        indices: list[DimLike] = []
        for extent, step in zip(shape, strides(shape), strict=True):
            if isinstance(extent, int) and extent == 1:
                indices.append(0)
                continue
            quotient = self._floordiv(position, step, expand=False)
            outermost = not any(before != 1 for before in shape[: len(indices)])
            indices.append(self.simplify(quotient if outermost else self._mod(quotient, extent, expand=False)))
        return tuple(indices)

    def _rewrite(self, dim: DimLike, *, expand: bool) -> DimLike:
        return dims.replaced(
            dim, lambda atom: Dim.name(atom) if isinstance(atom, str) else self._atom(atom, expand=expand)
        )

    def _atom(self, atom: FloorDiv, *, expand: bool) -> DimLike:
        numerator = self._rewrite(atom.numerator, expand=expand)
        denominator = self._rewrite(atom.denominator, expand=expand)
        if isinstance(atom, Mod):
            return self._mod(numerator, denominator, expand=expand)
        return self._floordiv(numerator, denominator, expand=expand)

    def _floordiv(self, numerator: DimLike, denominator: DimLike, *, expand: bool) -> DimLike:
        if denominator == 1:
            return numerator
        exact, rest = _divide_terms(numerator, denominator)
        inside = self._quotient(rest, denominator)
        if inside is not None:
            return exact + inside
        rest, denominator = _without_factor(rest, denominator)
        only = _only_atom(rest)
        if type(only) is FloorDiv and self.nonnegative(denominator):
            return exact + self._floordiv(only.numerator, only.denominator * denominator, expand=expand)
        return exact + (rest // denominator)

    def _mod(self, numerator: DimLike, denominator: DimLike, *, expand: bool) -> DimLike:
        if denominator == 1:
            return 0
        _, rest = _divide_terms(numerator, denominator)
        inside = self._quotient(rest, denominator)
        if inside is not None:
            return rest - inside * denominator
        if expand:
            return rest - denominator * self._floordiv(rest, denominator, expand=True)
        only = _only_atom(rest)
        if isinstance(only, Mod) and (only.denominator % denominator) == 0:
            return self._mod(only.numerator, denominator, expand=expand)
        return rest % denominator

    def _quotient(self, rest: DimLike, denominator: DimLike) -> DimLike | None:
        """The floor quotient of what is left of a division, where the ranges alone decide it."""
        low, high = self.bounds(rest)
        if low is None or high is None:
            return None
        if isinstance(denominator, int):
            if isinstance(low, int) and isinstance(high, int) and low // denominator == high // denominator:
                return low // denominator
            return None
        fits = self.nonnegative(low) and self.nonnegative(denominator - 1 - high)
        return 0 if fits else None

    def nonnegative(self, dim: DimLike) -> bool:
        """Whether ``dim``, over sizes alone, is proved to be at least 0."""
        if isinstance(dim, int):
            return dim >= 0
        divisions = (atom for monomial in dim.terms for atom in monomial if not isinstance(atom, str))
        if not all(self.nonnegative(atom.numerator) and self.nonnegative(atom.denominator) for atom in divisions):
            return False
        if all(factor >= 0 for factor in dim.terms.values()):
            return True
        if has_atoms(dim):
            return False
        shifted = dims.substitute(dim, {name: Dim.name(name) + 1 for name in self._positive})
        return shifted >= 0 if isinstance(shifted, int) else all(factor >= 0 for factor in shifted.terms.values())

    def bounds(self, dim: DimLike) -> Bounds:
        """The least and the greatest value that ``dim`` can have, as expressions over sizes; None where unknown."""
        if isinstance(dim, int):
            return dim, dim
        low: DimLike | None = 0
        high: DimLike | None = 0
        for monomial, factor in dim.terms.items():
            least, most = self._monomial_bounds(monomial)
            if factor < 0:
                least, most = most, least
            low = None if low is None or least is None else low + least * factor
            high = None if high is None or most is None else high + most * factor
        return low, high

    def _monomial_bounds(self, monomial: Iterable[Atom]) -> Bounds:
        low: DimLike = 1
        high: DimLike | None = 1
        for atom in monomial:
            least, most = self._atom_bounds(atom)
            if least is None or not self.nonnegative(least):
                return None, None
            low = low * least
            high = None if high is None or most is None else high * most
        return low, high

    def _atom_bounds(self, atom: Atom) -> Bounds:
        if isinstance(atom, str):
            if atom in self._extents:
                return 0, self._extents[atom] - 1
            return (None, None) if atom.startswith("_") else (Dim.name(atom), Dim.name(atom))
        if isinstance(atom, Mod):
            return 0, self.bounds(atom.denominator - 1)[1]
        low, high = self.bounds(atom.numerator)
        least: DimLike | None = 0 if low is not None and self.nonnegative(low) else None
        if isinstance(atom.denominator, int):
            least = low // atom.denominator if isinstance(low, int) else least
            return least, high // atom.denominator if isinstance(high, int) else None
        return least, None


def _count_atoms(dim: DimLike) -> int:
    if isinstance(dim, int):
        return 0
    count = 0
    for monomial in dim.terms:
        for atom in monomial:
            if not isinstance(atom, str):
                count += 1 + _count_atoms(atom.numerator) + _count_atoms(atom.denominator)
    return count


def _only_atom(dim: DimLike) -> Atom | None:
    if isinstance(dim, Dim) and len(dim.terms) == 1:
        ((monomial, factor),) = dim.terms.items()
        if factor == 1 and len(monomial) == 1:
            return monomial[0]
    return None


def _without_factor(rest: DimLike, denominator: DimLike) -> tuple[DimLike, DimLike]:
    """Both without the integer factor that the denominator and every term of ``rest`` share."""
    if not isinstance(denominator, int) or isinstance(rest, int):
        return rest, denominator
    common = denominator
    for monomial, factor in rest.terms.items():
        if monomial:
            common = gcd(common, factor)
    if common <= 1:
        return rest, denominator
    terms: dict[tuple[Atom, ...], int] = {monomial: factor // common for monomial, factor in rest.terms.items()}
    return Dim({monomial: factor for monomial, factor in terms.items() if factor}), denominator // common


def _divide_terms(numerator: DimLike, denominator: DimLike) -> tuple[DimLike, DimLike]:
    """``exact`` and ``rest`` with ``numerator == exact*denominator + rest``, by the terms that divide evenly."""
    if isinstance(numerator, int):
        if isinstance(denominator, int):
            return divmod(numerator, denominator)
        return 0, numerator
    exact: DimLike = 0
    rest: DimLike = 0
    terms: Mapping[tuple[Atom, ...], int] = numerator.terms
    divisor: tuple[Atom, ...] = ()
    unit = denominator if isinstance(denominator, int) else 0
    if isinstance(denominator, Dim):
        if len(denominator.terms) != 1:
            return (1, 0) if numerator == denominator else (0, numerator)
        ((divisor, unit),) = denominator.terms.items()
    for monomial, factor in terms.items():
        term: DimLike = Dim({monomial: factor}) if monomial else factor
        left = list(monomial)
        for atom in divisor:
            if atom in left:
                left.remove(atom)
        if factor % unit or len(left) != len(monomial) - len(divisor):
            rest = rest + term
        else:
            quotient = factor // unit
            exact = exact + (Dim({tuple(left): quotient}) if left else quotient)
    return exact, rest
