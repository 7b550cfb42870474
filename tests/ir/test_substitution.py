"""Sizes replaced by expressions: the value, the normal form and the order of terms that plain arithmetic gives."""

from __future__ import annotations

import random

from jitgraph.ir import dims
from jitgraph.ir.dims import Dim, DimLike

NAMES = ("a", "b", "c")


def expression(generator: random.Random, depth: int) -> DimLike:
    if depth == 0:
        return generator.choice([Dim.name(generator.choice(NAMES)), generator.randint(-3, 3)])
    left, right = (expression(generator, depth - 1) for _ in range(2))
    match generator.randrange(5):
        case 0 | 1:
            return left + right
        case 2:
            return left * right
        case 3:
            return left - right
    divided = dims.divide(left, generator.randint(2, 5))
    return divided[generator.randrange(2)]


def by_arithmetic(dim: DimLike, values: dict[str, DimLike]) -> DimLike:
    """The definition: products of what replaces the atoms, added one after the other."""
    if isinstance(dim, int):
        return dim
    total: DimLike = 0
    for monomial, coefficient in dim.terms.items():
        product: DimLike = coefficient
        for atom in monomial:
            if isinstance(atom, str):
                product = product * values.get(atom, Dim.name(atom))
            else:
                sides = by_arithmetic(atom.numerator, values), by_arithmetic(atom.denominator, values)
                product = product * dims.divide(*sides)[isinstance(atom, dims.Mod)]
        total = total + product
    return total


def test_substitution_is_arithmetic() -> None:
    generator = random.Random(5)
    replaced = 0
    for _ in range(2000):
        dim = expression(generator, generator.randint(1, 4))
        values = {name: expression(generator, generator.randint(0, 2)) for name in NAMES if generator.random() < 0.8}
        expected, result = by_arithmetic(dim, values), dims.substitute(dim, values)
        assert result == expected, (dim, values)
        if isinstance(result, Dim) and isinstance(expected, Dim):
            assert [*result.terms.items()] == [*expected.terms.items()], (dim, values)
            assert hash(result) == hash(expected) and all(result.terms.values())
            replaced += result != dim
        sizes = dict.fromkeys(NAMES, 7)
        known = {name: dims.evaluate(value, sizes) for name, value in values.items()}
        assert dims.evaluate(result, sizes) == dims.evaluate(dim, {**sizes, **known})
    assert replaced > 500


def test_an_expression_stays_as_it_is_where_nothing_is_added() -> None:
    n = Dim.name("n") * 3 + 1
    assert n + 0 is n and n * 1 is n and 0 + n is n
    assert (n - n, n * 0, n + -1) == (0, 0, Dim.name("n") * 3)
