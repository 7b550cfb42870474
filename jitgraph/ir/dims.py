"""Symbolic sizes and indices: integer polynomials over names, with floor division and modulo as atoms; their text
and bounds.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Final, TypeAlias, TypeVar

from jitgraph.errors import GraphError
from jitgraph.once import cached_property

# ----------------------------------------------------------------------
# Integer polynomials as data: from each monomial to its coefficient. What the atoms of a monomial are is left open.
#
# Monomials are ordered by degree, then by the text of their atoms; this gives the text and long division one order.

_A = TypeVar("_A")
Terms: TypeAlias = Mapping[tuple[_A, ...], int]  # monomials sorted by text; a power is a repetition

# Short texts can multiply out to more than any memory holds; no program comes near these limits.
MAX_PRODUCTS: Final = 10_000  # of terms, in one multiplication
MAX_DEGREE: Final = 256


def text_of(terms: Terms[_A]) -> str:
    """The polynomial, not 0, as text: terms of high degree first."""
    ordered = sorted(terms.items(), key=lambda term: (-len(term[0]), _key(term[0])))
    parts = [_term_text(monomial, coefficient) for monomial, coefficient in ordered]
    return parts[0] + "".join(f" - {part[1:]}" if part[0] == "-" else f" + {part}" for part in parts[1:])


def add(left: Terms[_A], right: Terms[_A]) -> dict[tuple[_A, ...], int]:
    """The sum; terms may come out 0."""
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return total


def accumulate(total: dict[tuple[_A, ...], int], terms: Terms[_A], factor: int) -> None:
    """Add ``factor`` times ``terms`` to ``total``, which never has terms of 0; a constant that was alone goes last."""
    pending = [(monomial, coefficient * factor) for monomial, coefficient in terms.items()]
    if len(total) == 1 and () in total:
        pending.append(((), total.pop(())))
    for monomial, coefficient in pending:
        added = total.get(monomial, 0) + coefficient
        if added:
            total[monomial] = added
        else:
            total.pop(monomial, None)


def multiply(left: Terms[_A], right: Terms[_A]) -> dict[tuple[_A, ...], int]:
    """The product; terms may come out 0. GraphError for what no program comes near."""
    if len(left) * len(right) > MAX_PRODUCTS:
        raise GraphError(f"the product of two sizes has too many terms ({len(left)} by {len(right)})")
    product: dict[tuple[_A, ...], int] = {}
    for one, a in left.items():
        for other, b in right.items():
            monomial = tuple(sorted(one + other, key=str)) if one and other else one + other
            if len(monomial) > MAX_DEGREE:
                raise GraphError(f"a size is a product of more than {MAX_DEGREE} sizes")
            product[monomial] = product.get(monomial, 0) + a * b
    return product


def long_division(
    numerator: Terms[_A], denominator: Terms[_A]
) -> tuple[dict[tuple[_A, ...], int], dict[tuple[_A, ...], int]]:
    """Polynomial quotient and rest: terms that the denominator's leading term divides go to the quotient."""
    divisor, unit = max(denominator.items(), key=_order)
    quotients: dict[tuple[_A, ...], int] = {}
    left, rest = dict(numerator), {}
    while left:
        monomial, coefficient = max(left.items(), key=_order)
        quotient = without(monomial, divisor)
        if quotient is None or coefficient % unit:
            rest[monomial] = left.pop(monomial)
            continue
        quotients[quotient] = factor = coefficient // unit
        for other, c in denominator.items():
            product = tuple(sorted(quotient + other, key=str))
            changed = left.get(product, 0) - factor * c
            if changed:
                left[product] = changed
            else:
                left.pop(product, None)
    return quotients, rest


def _order(term: tuple[tuple[_A, ...], int]) -> tuple[int, tuple[str, ...]]:
    """A monomial order: by degree, then by text."""
    return len(term[0]), _key(term[0])


def without(monomial: tuple[_A, ...], divisor: tuple[_A, ...]) -> tuple[_A, ...] | None:
    """The quotient of two monomials; None where it is none."""
    left = list(monomial)
    for atom in divisor:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def common_monomial(monomials: Iterable[tuple[_A, ...]]) -> tuple[_A, ...]:
    """The greatest monomial that divides all."""
    first, *others = monomials
    common: list[_A] = []
    for atom in first:
        if all(other.count(atom) > common.count(atom) for other in others):
            common.append(atom)
    return tuple(common)


def _key(monomial: tuple[_A, ...]) -> tuple[str, ...]:
    return tuple(str(atom) for atom in monomial)


def _term_text(monomial: tuple[_A, ...], coefficient: int) -> str:
    if not monomial:
        return str(coefficient)
    product = "*".join(str(atom) for atom in monomial)
    if coefficient == 1:
        return product
    return f"-{product}" if coefficient == -1 else f"{coefficient}*{product}"


# ----------------------------------------------------------------------
# Symbolic sizes and indices: integer polynomials over names, with floor division and modulo as atoms.
#
# A dim is an ``int`` or a ``Dim``. A ``Dim`` is kept in normal form (a sum of integer multiples of products of atoms),
# so two dims are equal as polynomials exactly where ``==`` says so; arithmetic that comes out constant gives an
# ``int``. The same algebra serves shapes (names are sizes, each at least 0) and index maps (names are loop axes).

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
        return text_of(self.terms)

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
        return of_terms(add(self.terms, terms_of(other)))

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
        return of_terms(multiply(self.terms, terms_of(other)))

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
    quotient, leftover = long_division(terms_of(numerator), denominator.terms)
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
    shared = common_monomial(monomial for monomial, _ in sides)
    if unit == 1 and not shared:
        quotient, remainder = FloorDiv(rest, denominator), Mod(rest, denominator)
        return integral + Dim({(quotient,): 1}), Dim({(remainder,): 1})
    rest, denominator = cancelled(rest, unit, shared), cancelled(denominator, unit, shared)
    quotient_of_rest, remainder_of_rest = divide(rest, denominator)
    return integral + quotient_of_rest, of_terms({shared: unit}) * remainder_of_rest


def cancelled(dim: DimLike, unit: int, shared: Monomial) -> DimLike:
    """``dim`` divided by ``unit`` times ``shared``, which divide each of its terms."""
    return of_terms({without(monomial, shared) or (): c // unit for monomial, c in terms_of(dim).items()})


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
        accumulate(total, terms_of(product), coefficient)
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


ASSUMED_SIZE: Final = 128
"""What a named size counts as where costs are compared: about a batch. No result depends on it."""


def assumed(dim: DimLike) -> int:
    """The value of ``dim`` where every name has the value ``ASSUMED_SIZE``."""
    return evaluate(transform(dim, lambda _: ASSUMED_SIZE), {})


def quotients(dim: DimLike) -> int:
    """How deep quotients stand in quotients: 2 for ``(n // 2 + 1) // 2``."""
    if isinstance(dim, int):
        return 0
    atoms = [atom for monomial in dim.terms for atom in monomial if not isinstance(atom, str)]
    return max((1 + max(quotients(atom.numerator), quotients(atom.denominator)) for atom in atoms), default=0)


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


# ----------------------------------------------------------------------
# Dims from their text.


def parse_dim(text: str) -> DimLike:
    """The dim that ``str(dim)`` printed; GraphError for anything but names, ints and ``+ - * // %``."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        raise GraphError(f"{text!r} is not a size") from None
    return _from_ast(tree, text)


def _from_ast(tree: ast.expr, text: str) -> DimLike:
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return Dim.name(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_from_ast(operand, text)
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _from_ast(left, text), _from_ast(right, text)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return divide(a, b)[0]
                case ast.Mod():
                    return divide(a, b)[1]
    raise GraphError(f"{text!r} is not a size: only names, ints and + - * // % may stand in one")


# ----------------------------------------------------------------------
# What dims equal where quotients are exact or products are zero: constraints reduce sizes by these identities.


def without_quotients(dim: DimLike) -> DimLike:
    """``dim`` with each ``q * (p // q)`` written as ``p - p % q``, which it is for all sizes."""
    if isinstance(dim, int):
        return dim
    for quotient in dict.fromkeys(a for monomial in dim.terms for a in monomial if type(a) is FloorDiv):
        factor = of_terms({without(m, (quotient,)) or (): c for m, c in dim.terms.items() if quotient in m})
        cofactor, rest = long_division(terms_of(factor), terms_of(quotient.denominator))
        if cofactor and not rest:
            other = of_terms({monomial: c for monomial, c in dim.terms.items() if quotient not in monomial})
            exact = quotient.numerator - Dim({(Mod(quotient.numerator, quotient.denominator),): 1})
            return without_quotients(other + of_terms(cofactor) * exact)
    return dim


def without_multiples(dim: DimLike, zeros: Sequence[Dim]) -> DimLike:
    """``dim`` without the terms that are multiples of one of ``zeros``, products that are 0.

    Where ``p % q`` is 0, so is each ``(a * p) % b`` with b a divisor of q.
    """
    if isinstance(dim, int) or not zeros:
        return dim
    products = [next(iter(zero.terms)) for zero in zeros]
    rests = [product[0] for product in products if len(product) == 1 and isinstance(product[0], Mod)]

    def is_zero(monomial: Monomial) -> bool:
        if any(without(monomial, product) is not None for product in products):
            return True
        return any(_is_rest_of(rest, atom) for atom in monomial if isinstance(atom, Mod) for rest in rests)

    return of_terms({monomial: c for monomial, c in dim.terms.items() if not is_zero(monomial)})


def _is_rest_of(known: Mod, query: Mod) -> bool:
    """Whether ``query`` is 0 where ``known`` is."""
    if not isinstance(known.denominator, int) or not isinstance(query.denominator, int):
        return False
    if known.denominator % query.denominator or isinstance(query.numerator, int):
        return False
    return not long_division(query.numerator.terms, terms_of(known.numerator))[1]


def simplest_zero(dim: Dim) -> DimLike:
    """For a dim of one term, the plainest one that is 0 where it is: ``n % 2`` for ``6*((3*n) % 2)``."""
    (monomial,) = dim.terms
    return product(_simplest_rest(atom) if isinstance(atom, Mod) else Dim({(atom,): 1}) for atom in monomial)


def _simplest_rest(atom: Mod) -> DimLike:
    if isinstance(atom.numerator, int) or not isinstance(atom.denominator, int):
        return Dim({(atom,): 1})
    return cancelled(atom.numerator, gcd(*atom.numerator.terms.values()), ()) % atom.denominator


def is_quotient(dim: Dim) -> bool:
    """Whether ``dim`` is one quotient or remainder and nothing else."""
    ((monomial, coefficient), *more) = dim.terms.items()
    return not more and coefficient == 1 and len(monomial) == 1 and not isinstance(monomial[0], str)


def factors(dim: DimLike) -> list[str]:
    """The names of which ``dim`` is the product, times a positive int; empty where it is none."""
    if isinstance(dim, int) or len(dim.terms) != 1:
        return []
    ((monomial, coefficient),) = dim.terms.items()
    atoms = [atom for atom in monomial if isinstance(atom, str)]
    return atoms if coefficient > 0 and len(atoms) == len(monomial) else []


# ----------------------------------------------------------------------
# How large a dim can be, whatever the sizes: by intervals over its names, each of which is from 0 to 2**63 - 1.

Interval: TypeAlias = "tuple[int, int]"

_LEAST: Final = -(1 << 63)
_GREATEST: Final = (1 << 63) - 1


def stays_in_64_bits(dim: DimLike) -> bool:
    """Whether ``dim``, and all that is divided in it, is an int64 for all sizes, with no divisor that may be 0.

    Then 64-bit arithmetic that wraps computes it: sums and products are right wherever their results fit.
    """
    interval = _interval(dim)
    return interval is not None and _fits(interval)


def _fits(interval: Interval) -> bool:
    return interval[0] >= _LEAST and interval[1] <= _GREATEST


def _interval(dim: DimLike) -> Interval | None:
    """The least and the greatest value of a dim, or values beyond these; None where 64 bits cannot divide in it."""
    if isinstance(dim, int):
        return dim, dim
    least = greatest = 0
    for monomial, coefficient in dim.terms.items():
        term = (coefficient, coefficient)
        for atom in monomial:
            factor = _atom_interval(atom)
            if factor is None:
                return None
            corners = [a * b for a in term for b in factor]
            term = min(corners), max(corners)
        least, greatest = least + term[0], greatest + term[1]
    return least, greatest


def _atom_interval(atom: Atom) -> Interval | None:
    if isinstance(atom, str):
        return 0, _GREATEST
    inner, divisor = _interval(atom.numerator), atom.denominator
    if inner is None or not _fits(inner) or not isinstance(divisor, int) or not 0 < divisor <= _GREATEST:
        return None
    return (0, divisor - 1) if isinstance(atom, Mod) else (inner[0] // divisor, inner[1] // divisor)


def magnitude(dim: DimLike) -> int:
    """A number that the absolute value of ``dim``, and of each term and factor in it, never exceeds."""
    if isinstance(dim, int):
        return abs(dim)
    total = 0
    for monomial, coefficient in dim.terms.items():
        product = abs(coefficient)
        for atom in monomial:
            product *= atom_magnitude(atom)
        total += product
    return total


def atom_magnitude(atom: Atom) -> int:
    """As ``magnitude``, of an atom; at least 1."""
    if isinstance(atom, str):
        return _GREATEST
    return max(1, magnitude(atom.denominator if isinstance(atom, Mod) else atom.numerator))
