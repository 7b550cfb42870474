"""Integer polynomials as data: from each monomial to its coefficient. What the atoms of a monomial are is left open.

Monomials are ordered by degree, then by the text of their atoms; this gives the text and long division one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias, TypeVar

from jitgraph.errors import GraphError

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


def shared(monomials: Iterable[tuple[_A, ...]]) -> tuple[_A, ...]:
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
