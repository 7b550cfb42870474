"""Symbolic sizes and indices: integer polynomials over names, with floor division and modulo as atoms.

A dim is an ``int`` or a ``Dim``. A ``Dim`` is kept in normal form (a sum of integer multiples of products of atoms), so
two dims are equal as polynomials exactly where ``==`` says so; arithmetic that comes out constant gives an ``int``.
The same algebra serves shapes (names are sizes, each at least 0) and index maps (names are loop axes).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import gcd
from typing import Final, TypeAlias

from jitgraph.errors import GraphError
from jitgraph.ir import polynomial
from jitgraph.once import cached_property

DimLike: TypeAlias = "int | Dim"
Atom: TypeAlias = "str | FloorDiv | Mod"
Monomial: TypeAlias = tuple[Atom, ...]  # sorted by text; a power is a repetition

MAX_ATOM_TEXT: Final = 4096  # as long as the loaders take a size


class FloorDiv:
    """The atom ``floor(numerator / denominator)``, kept where it does not divide evenly."""

    __slots__ = ("denominator", "numerator", "text")
    symbol = "//"

    def __init__(self, numerator: DimLike, denominator: DimLike) -> None:
        self.numerator = numerator
        self.denominator = denominator
        self.text = f"({_factor_text(numerator)} {self.symbol} {_factor_text(denominator)})"
        if len(self.text) > MAX_ATOM_TEXT:
            raise GraphError(f"a quotient of sizes is too long to be written: {self.text[:80]}...")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text


class Mod(FloorDiv):
    """The atom ``numerator - denominator * floor(numerator / denominator)``."""

    __slots__ = ()
    symbol = "%"


class Dim:
    """A non-constant integer expression in normal form; immutable and hashable."""

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        """Use ``Dim.name`` and arithmetic; ``terms`` must be in normal form already."""
        self.terms: Mapping[Monomial, int] = terms

    @staticmethod
    @lru_cache(maxsize=4096)
    def name(name: str) -> Dim:
        """The dim that is the bare name ``name``."""
        return Dim({(name,): 1})

    @cached_property
    def text(self) -> str:
        return polynomial.text_of(self.terms)

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that the dim depends on."""
        dim_names: set[str] = set()
        for monomial in self.terms:
            for atom in monomial:
                if isinstance(atom, str):
                    dim_names.add(atom)
                else:
                    dim_names |= names(atom.numerator) | names(atom.denominator)
        return frozenset(dim_names)

    @property
    def as_name(self) -> str | None:
        """The name where the dim is one bare name, else None."""
        if len(self.terms) == 1:
            ((monomial, coefficient),) = self.terms.items()
            if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], str):
                return monomial[0]
        return None

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Dim) and self.terms == other.terms)

    @cached_property
    def _hash(self) -> int:
        return hash(frozenset(self.terms.items()))

    def __hash__(self) -> int:
        return self._hash

    def __bool__(self) -> bool:
        raise GraphError(f"the size {self} is symbolic; its value is not known here")

    __int__ = __index__ = __bool__

    def __add__(self, other: DimLike) -> DimLike:
        if other.__class__ is int and other == 0:
            return self
        return of_terms(polynomial.add(self.terms, terms_of(other)))

    __radd__ = __add__

    def __neg__(self) -> DimLike:
        return self * -1

    def __sub__(self, other: DimLike) -> DimLike:
        return self + -other

    def __rsub__(self, other: DimLike) -> DimLike:
        return -self + other

    def __mul__(self, other: DimLike) -> DimLike:
        if other.__class__ is int and other == 1:
            return self
        return of_terms(polynomial.multiply(self.terms, terms_of(other)))

    __rmul__ = __mul__

    def __floordiv__(self, other: DimLike) -> DimLike:
        return divide(self, other)[0]

    def __rfloordiv__(self, other: int) -> DimLike:
        return divide(other, self)[0]

    def __mod__(self, other: DimLike) -> DimLike:
        return divide(self, other)[1]

    def __rmod__(self, other: int) -> DimLike:
        return divide(other, self)[1]


def _factor_text(dim: DimLike) -> str:
    return str(dim) if isinstance(dim, int) or dim.as_name else f"({dim})"


def terms_of(dim: DimLike) -> Mapping[Monomial, int]:
    """The terms of a dim; of an int, the constant one."""
    return dim.terms if isinstance(dim, Dim) else {(): int(dim)}


def of_terms(terms: Mapping[Monomial, int]) -> DimLike:
    """The dim that is the sum of these terms, some of which may be 0; nobody changes them afterwards."""
    nonzero = terms
    if not all(terms.values()):
        nonzero = {monomial: coefficient for monomial, coefficient in terms.items() if coefficient}
    if not nonzero:
        return 0
    if len(nonzero) == 1 and () in nonzero:
        return nonzero[()]
    return Dim(nonzero)


def divide(numerator: DimLike, denominator: DimLike) -> tuple[DimLike, DimLike]:
    """Floor quotient and remainder. Terms that the denominator divides leave the floor; the rest becomes an atom.

    What numerator and denominator have in common is cancelled first: ``6*n // (4*m)`` is the atom ``3*n // (2*m)``.
    """
    if isinstance(denominator, int):
        if denominator == 0:
            raise GraphError(f"the size {numerator} is divided by zero")
        if isinstance(numerator, int):
            return divmod(numerator, denominator)
        quotient = {m: c // denominator for m, c in numerator.terms.items() if c % denominator == 0}
        rest = of_terms({m: c for m, c in numerator.terms.items() if c % denominator})
        if isinstance(rest, int):
            return of_terms(quotient) + rest // denominator, rest % denominator
        if denominator == 1:
            return numerator, 0
        return _atoms(of_terms(quotient), rest, denominator)
    if numerator == denominator:
        return 1, 0
    if numerator == 0:
        return 0, 0
    quotient, leftover = polynomial.long_division(terms_of(numerator), denominator.terms)
    rest = of_terms(leftover)
    if rest == 0:
        return of_terms(quotient), 0
    if len(denominator.terms) > 1:  # a quotient that leaves a rest may have terms of either sign: none is taken out
        return _atoms(0, numerator, denominator)
    return _atoms(of_terms(quotient), rest, denominator)


def _atoms(integral: DimLike, rest: DimLike, denominator: DimLike) -> tuple[DimLike, DimLike]:
    """``integral`` plus the atom ``rest // denominator``, and the remainder, in lowest terms."""
    sides = [*terms_of(rest).items(), *terms_of(denominator).items()]
    unit = gcd(*(coefficient for _, coefficient in sides))
    shared = polynomial.shared(monomial for monomial, _ in sides)
    if unit == 1 and not shared:
        quotient, remainder = FloorDiv(rest, denominator), Mod(rest, denominator)
        return integral + Dim({(quotient,): 1}), Dim({(remainder,): 1})
    rest, denominator = cancelled(rest, unit, shared), cancelled(denominator, unit, shared)
    quotient_of_rest, remainder_of_rest = divide(rest, denominator)
    return integral + quotient_of_rest, of_terms({shared: unit}) * remainder_of_rest


def cancelled(dim: DimLike, unit: int, shared: Monomial) -> DimLike:
    """``dim`` divided by ``unit`` times ``shared``, which divide each of its terms."""
    return of_terms({polynomial.without(monomial, shared) or (): c // unit for monomial, c in terms_of(dim).items()})


def is_natural(dim: DimLike) -> bool:
    """Whether ``dim`` is at least 0 for all sizes, each of which is, as far as the signs of its terms show it."""
    if isinstance(dim, int):
        return dim >= 0
    return all(c >= 0 and all(map(_is_natural_atom, monomial)) for monomial, c in dim.terms.items())


def _is_natural_atom(atom: Atom) -> bool:
    if isinstance(atom, str):
        return True
    if isinstance(atom, Mod) and is_natural(atom.denominator):
        return True  # towards the divisor's sign
    return is_natural(atom.numerator) and is_natural(atom.denominator)


def replaced(dim: DimLike, value_of: Callable[[Atom], DimLike]) -> DimLike:
    """``dim`` with every atom of its terms replaced by ``value_of(atom)`` and put in normal form again."""
    if isinstance(dim, int):
        return dim
    total: dict[Monomial, int] = {}
    for monomial, coefficient in dim.terms.items():
        product: DimLike = 1
        for atom in monomial:
            value = value_of(atom)
            product = value if product == 1 else product * value
        polynomial.accumulate(total, terms_of(product), coefficient)
    return of_terms(total)


def transform(dim: DimLike, leaf: Callable[[str], DimLike]) -> DimLike:
    """``dim`` with every name, inside of atoms too, replaced by ``leaf(name)`` and put in normal form again."""
    return replaced(dim, lambda atom: _transform_atom(atom, leaf))


def _transform_atom(atom: Atom, leaf: Callable[[str], DimLike]) -> DimLike:
    if isinstance(atom, str):
        return leaf(atom)
    numerator, denominator = transform(atom.numerator, leaf), transform(atom.denominator, leaf)
    return divide(numerator, denominator)[isinstance(atom, Mod)]


def substitute(dim: DimLike, values: Mapping[str, DimLike]) -> DimLike:
    """``dim`` with the names in ``values`` replaced; other names stay."""
    return transform(dim, lambda name: values[name] if name in values else Dim.name(name))


def evaluate(dim: DimLike, sizes: Mapping[str, int]) -> int:
    """The value of ``dim`` where every name has the value in ``sizes``; GraphError for a name without one."""
    value = substitute(dim, sizes)
    if not isinstance(value, int):
        raise GraphError(f"the size {dim} names {', '.join(sorted(names(value)))}, which has no value here")
    return value


def names(dim: DimLike) -> frozenset[str]:
    """The names that ``dim`` depends on."""
    return _NO_NAMES if isinstance(dim, int) else dim.names


_NO_NAMES: Final[frozenset[str]] = frozenset()


def product(dims: Iterable[DimLike]) -> DimLike:
    """The product of ``dims``; 1 for none."""
    total: DimLike = 1
    for dim in dims:
        total = total * dim
    return total
