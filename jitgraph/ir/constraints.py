"""What a graph assumes about its symbolic sizes, and a value for every name from the shapes of the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from jitgraph.errors import GraphError, ShapeError
from jitgraph.ir import dims
from jitgraph.ir.dims import (
    Atom,
    Dim,
    DimLike,
    Mod,
    factors,
    is_quotient,
    parse_dim,
    simplest_zero,
    without_multiples,
    without_quotients,
)
from jitgraph.ir.types import TensorType, Type
from jitgraph.records import dataclass

# ----------------------------------------------------------------------
# What a graph assumes about its symbolic sizes: equalities and lower bounds, checked once at entry.
#
# That a number divides a size is the equality ``n % 4 == 0``; ``4*(n // 4)`` is ``n`` from then on.

Relation = Literal["==", ">="]


@dataclass(frozen=True, slots=True)
class SizeConstraint:
    """``left == right`` or ``left >= right`` between sizes."""

    left: DimLike
    relation: Relation
    right: DimLike

    def __str__(self) -> str:
        return f"{_bare(self.left)} {self.relation} {_bare(self.right)}"

    @staticmethod
    def parse(text: str) -> SizeConstraint:
        """The constraint that ``str`` printed."""
        for relation in ("==", ">="):
            left, separator, right = text.partition(relation)
            if separator:
                return SizeConstraint(parse_dim(left), relation, parse_dim(right))
        raise GraphError(f"{text!r} is not a constraint; expected 'a == b' or 'a >= b'")

    def holds(self, sizes: dict[str, int]) -> bool:
        """Whether the constraint is true for these values of the names."""
        left, right = dims.evaluate(self.left, sizes), dims.evaluate(self.right, sizes)
        return left == right if self.relation == "==" else left >= right


def _bare(dim: DimLike) -> str:
    """A size as text, without the parentheses around a quotient or remainder that stands alone."""
    text = str(dim)
    return text[1:-1] if isinstance(dim, Dim) and is_quotient(dim) else text


class Constraints:
    """A growing list of constraints that decides questions about sizes, recording what it has to assume.

    With ``frozen`` (the verifier), nothing may be assumed beyond what was given, and an open question is a ShapeError.
    """

    def __init__(self, constraints: Iterable[SizeConstraint] = (), *, frozen: bool = False) -> None:
        self._list: list[SizeConstraint] = []
        self._values: dict[str, DimLike] = {}
        self._zeros: list[Dim] = []  # products that are 0, such as ``n % 4``
        self._frozen = frozen
        for constraint in constraints:
            self._note(constraint)

    def __iter__(self) -> Iterator[SizeConstraint]:
        return iter(self._list)

    def _note(self, constraint: SizeConstraint) -> None:
        self._list.append(constraint)
        if constraint.relation != "==":
            return
        left, right = self.reduce(constraint.left), self.reduce(constraint.right)
        difference = without_quotients(left - right)
        if isinstance(difference, Dim) and len(difference.terms) == 1 and not difference.as_name:
            self._zeros.append(difference)
            return
        for side, other in ((right, left), (left, right)):
            if isinstance(side, Dim) and (name := side.as_name) and name not in dims.names(other):
                self._values = {n: dims.substitute(v, {name: other}) for n, v in self._values.items()}
                self._values[name] = other
                zeros = [dims.substitute(zero, {name: other}) for zero in self._zeros]
                self._zeros = [zero for zero in zeros if isinstance(zero, Dim) and len(zero.terms) == 1]
                return

    def reduce(self, dim: DimLike) -> DimLike:
        """``dim`` with every name replaced by what the known equalities say it is."""
        known = dims.substitute(dim, self._values) if self._values and isinstance(dim, Dim) else dim
        if not self._zeros or isinstance(known, int):
            return known
        exact = without_quotients(known)
        left = without_multiples(exact, self._zeros)
        return known if left == exact else left

    def difference(self, left: DimLike, right: DimLike) -> DimLike:
        """``left - right`` by what is known, with remainders in place of ``q * (p // q)``."""
        simplified = without_quotients(self.reduce(left) - self.reduce(right))
        return without_multiples(simplified, self._zeros)

    def same(self, left: DimLike, right: DimLike) -> bool:
        """Whether two sizes are equal: decided where possible, else assumed and recorded as a constraint."""
        if left == right:
            return True
        difference = self.difference(left, right)
        if isinstance(difference, int):
            return difference == 0
        if SizeConstraint(left, "==", right) in self._list or SizeConstraint(right, "==", left) in self._list:
            return True
        if self._frozen:
            return False
        if len(difference.terms) == 1:
            left, right = simplest_zero(difference), 0
        self._note(SizeConstraint(left, "==", right))
        return True

    def ratio(self, left: DimLike, right: DimLike) -> int | None:
        """The int that ``right`` times it is ``left``; None where there is none, or none is known."""
        a, b = self.reduce(left), self.reduce(right)
        if b == 0 or a % b != 0:
            return None
        return quotient if isinstance(quotient := a // b, int) else None

    def at_least(self, left: DimLike, bound: DimLike) -> bool:
        """Whether ``left >= bound``: decided where possible, else assumed and recorded. Names are at least 0."""
        difference = self.difference(left, bound)
        if isinstance(difference, int):
            return difference >= 0
        if self._is_natural(difference, {}):
            return True
        product = difference + 1
        if bound == 1 and isinstance(product, Dim) and not product.as_name and (names := factors(product)):
            return all(Constraints.at_least(self, Dim.name(name), 1) for name in names)  # positive where each is
        constraint = SizeConstraint(left, ">=", bound)
        if constraint in self._list:
            return True
        if self._frozen:
            return False
        self._list.append(constraint)
        return True

    def _is_natural(self, dim: DimLike, seen: dict[Atom, bool]) -> bool:
        """Whether ``dim`` is at least 0 by its form, or by its form and one of the lower bounds."""
        if self._is_natural_sum(dim, seen):
            return True
        bounds = [self.difference(c.left, c.right) for c in self._list if c.relation == ">="]
        return any(self._is_natural_sum(dim - bound, seen) for bound in bounds)

    def _is_natural_sum(self, dim: DimLike, seen: dict[Atom, bool]) -> bool:
        if isinstance(dim, int):
            return dim >= 0
        return all(
            coefficient >= 0 and all(self._is_natural_atom(atom, seen) for atom in monomial)
            for monomial, coefficient in dim.terms.items()
        )

    def _is_natural_atom(self, atom: Atom, seen: dict[Atom, bool]) -> bool:
        """A name, a quotient of naturals, or a remainder by one; no call goes on where something is divided by zero."""
        if isinstance(atom, str):
            return True
        if atom not in seen:
            seen[atom] = False  # unknown, where a bound of its divisor mentions the atom itself
            natural = self._is_natural(atom.denominator, seen)
            seen[atom] = natural and (isinstance(atom, Mod) or self._is_natural(atom.numerator, seen))
        return seen[atom]


def require_same(known: Constraints, left: DimLike, right: DimLike, what: str) -> DimLike:
    """``left``, after making sure that both sizes are equal; else a ShapeError that starts with ``what``."""
    if not known.same(left, right):
        raise ShapeError(f"{what}: {left} and {right} differ")
    return left if isinstance(left, int) or not isinstance(right, int) else right


# ----------------------------------------------------------------------
# Binding named sizes: from the shapes of the arguments to a value for every name, with every assumption checked.


def bind_sizes(
    types: Sequence[Type], shapes: Sequence[Sequence[int] | None], constraints: Iterable[SizeConstraint] = ()
) -> dict[str, int]:
    """The value of every name in ``types`` for arguments of these shapes (None for tokens and stacks).

    A name is read off where it stands alone or in ``factor*name + constant``. ShapeError where a shape does not fit its
    type, a name cannot be found from the shapes, or a constraint does not hold.
    """
    equations: list[tuple[int, DimLike, int]] = []
    for position, (type, shape) in enumerate(zip(types, shapes, strict=True)):
        if not isinstance(type, TensorType):
            continue
        assert shape is not None
        if len(shape) != type.ndim:
            raise ShapeError(f"argument {position} has shape {tuple(shape)}; expected {type}")
        equations.extend((position, dim, extent) for dim, extent in zip(type.shape, shape, strict=True))
    sizes: dict[str, int] = {}
    pending = equations
    while pending:
        rest = []
        for position, dim, extent in pending:
            left = dims.substitute(dim, sizes)
            if isinstance(left, int):
                if left != extent:
                    known = "" if isinstance(dim, int) else f" (from {_bindings(dim, sizes)})"
                    raise ShapeError(f"argument {position} has size {extent} where {dim} is expected{known}")
            elif (solved := _solve(left, extent)) is not None:
                name, value = solved
                if value < 0:
                    raise ShapeError(f"argument {position} has size {extent}; {dim} cannot be that with {name} >= 0")
                sizes[name] = value
            else:
                rest.append((position, dim, extent))
        if len(rest) == len(pending):
            position, dim, extent = rest[0]
            raise ShapeError(f"argument {position}: no value for the names in {dim} makes it {extent}")
        pending = rest
    for constraint in constraints:
        if not constraint.holds(sizes):
            known = ", ".join(f"{name} = {size}" for name, size in sizes.items())
            raise ShapeError(f"the sizes {known} break {constraint}, which the graph assumes")
    return sizes


def _solve(dim: Dim, extent: int) -> tuple[str, int] | None:
    """The name and value for which ``factor*name + constant`` is ``extent``; None where ``dim`` is not so simple."""
    names = dims.names(dim)
    if len(names) != 1:
        return None
    (name,) = names
    factor = dim.terms.get((name,), 0)
    rest = dim - factor * Dim.name(name)
    if not isinstance(rest, int) or factor == 0 or (extent - rest) % factor:
        return None
    return name, (extent - rest) // factor


def _bindings(dim: DimLike, sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} = {sizes[name]}" for name in sorted(dims.names(dim)) if name in sizes)
