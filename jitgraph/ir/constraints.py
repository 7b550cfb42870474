"""What a graph assumes about its symbolic sizes: equalities and lower bounds, checked once at entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from jitgraph.errors import GraphError, ShapeError
from jitgraph.ir import dims
from jitgraph.ir.dims import Atom, Dim, DimLike, Mod
from jitgraph.records import dataclass

Relation = Literal["==", ">="]


@dataclass(frozen=True, slots=True)
class Constraint:
    """``left == right`` or ``left >= right`` between sizes."""

    left: DimLike
    relation: Relation
    right: DimLike

    def __str__(self) -> str:
        return f"{self.left} {self.relation} {self.right}"

    @staticmethod
    def parse(text: str) -> Constraint:
        """The constraint that ``str`` printed."""
        for relation in ("==", ">="):
            left, found, right = text.partition(relation)
            if found:
                return Constraint(dims.parse_dim(left), relation, dims.parse_dim(right))
        raise GraphError(f"{text!r} is not a constraint; expected 'a == b' or 'a >= b'")

    def holds(self, sizes: dict[str, int]) -> bool:
        """Whether the constraint is true for these values of the names."""
        left, right = dims.evaluate(self.left, sizes), dims.evaluate(self.right, sizes)
        return left == right if self.relation == "==" else left >= right


class Constraints:
    """A growing list of constraints that decides questions about sizes, recording what it has to assume.

    With ``frozen`` (the verifier), nothing may be assumed beyond what was given, and an open question is a ShapeError.
    """

    def __init__(self, given: Iterable[Constraint] = (), *, frozen: bool = False) -> None:
        self._list: list[Constraint] = []
        self._values: dict[str, DimLike] = {}
        self._frozen = frozen
        for constraint in given:
            self._note(constraint)

    def __iter__(self) -> Iterator[Constraint]:
        return iter(self._list)

    def _note(self, constraint: Constraint) -> None:
        self._list.append(constraint)
        if constraint.relation != "==":
            return
        left, right = self.reduce(constraint.left), self.reduce(constraint.right)
        for side, other in ((right, left), (left, right)):
            if isinstance(side, Dim) and (name := side.as_name) and name not in dims.names(other):
                self._values = {n: dims.substitute(v, {name: other}) for n, v in self._values.items()}
                self._values[name] = other
                return

    def reduce(self, dim: DimLike) -> DimLike:
        """``dim`` with every name replaced by what the known equalities say it is."""
        return dims.substitute(dim, self._values) if self._values and isinstance(dim, Dim) else dim

    def same(self, left: DimLike, right: DimLike) -> bool:
        """Whether two sizes are equal: decided where possible, else assumed and recorded as a constraint."""
        if left == right:
            return True
        a, b = self.reduce(left), self.reduce(right)
        difference = a - b
        if isinstance(difference, int):
            return difference == 0
        if Constraint(left, "==", right) in self._list or Constraint(right, "==", left) in self._list:
            return True
        if self._frozen:
            return False
        self._note(Constraint(left, "==", right))
        return True

    def at_least(self, left: DimLike, bound: DimLike) -> bool:
        """Whether ``left >= bound``: decided where possible, else assumed and recorded. Names are at least 0."""
        difference = self.reduce(left) - self.reduce(bound)
        if isinstance(difference, int):
            return difference >= 0
        constraint = Constraint(left, ">=", bound)
        if self._is_natural(difference, {}) or constraint in self._list:
            return True
        if self._frozen:
            return False
        self._list.append(constraint)
        return True

    def _is_natural(self, dim: DimLike, seen: dict[Atom, bool]) -> bool:
        """Whether ``dim`` is at least 0 by its form, or by its form and one of the lower bounds."""
        if self._is_natural_sum(dim, seen):
            return True
        bounds = [self.reduce(c.left) - self.reduce(c.right) for c in self._list if c.relation == ">="]
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
            natural = self._is_natural(atom.denominator, seen)
            seen[atom] = natural and (isinstance(atom, Mod) or self._is_natural(atom.numerator, seen))
        return seen[atom]


def require_same(known: Constraints, left: DimLike, right: DimLike, what: str) -> DimLike:
    """``left``, after making sure that both sizes are equal; else a ShapeError that starts with ``what``."""
    if not known.same(left, right):
        raise ShapeError(f"{what}: {left} and {right} differ")
    return left if isinstance(left, int) or not isinstance(right, int) else right
