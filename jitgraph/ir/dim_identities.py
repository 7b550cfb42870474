"""What dims equal where quotients are exact or products are zero: constraints reduce sizes by these identities."""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd

from jitgraph.ir.dims import Dim, DimLike, FloorDiv, Mod, Monomial, cancelled, of_terms, product, terms_of
from jitgraph.ir.polynomial import long_division, without


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
