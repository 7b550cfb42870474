"""Symbolic sizes as the user sees them in a trace, and what the trace assumes when a program asks about one.

``SymbolicDim`` behaves as an int in arithmetic. A comparison, ``bool()``, ``int()`` or ``range()`` needs an answer now:
it is taken from the sizes of the call being traced, and recorded as a constraint with the user's line, so that the
graph serves only calls with the same answer. A trace of types alone (``lower(TensorSpec(...))``) has no sizes; there
the question is an error unless every size gives the same answer.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from jitgraph import dtypes, lifting
from jitgraph.errors import JitgraphError, NumberError, ShapeError, TraceError, note
from jitgraph.ir import context, dims
from jitgraph.ir.constraints import Constraint, Constraints
from jitgraph.ir.dims import Dim, DimLike
from jitgraph.location import Location

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder


class SizeConflictError(JitgraphError):
    """A size that was named because it varies had to be equal to another, and is not in this call."""

    def __init__(self, constraint: Constraint, location: Location | None) -> None:
        super().__init__(f"{constraint} does not hold for this call")
        self.names = dims.names(constraint.left) | dims.names(constraint.right)
        self.location = location
        note(self)


class Pin(NamedTuple):
    """An assumption about sizes with the line that made it."""

    constraint: Constraint
    location: Location | None
    what: str


class TraceConstraints(Constraints):
    """Constraints of a trace that knows the sizes of its call: what does not hold for them is never assumed."""

    def __init__(self, sizes: Mapping[str, int] | None, declared: frozenset[str]) -> None:
        super().__init__()
        self.sizes = sizes
        self.declared = declared
        self.pins: list[Pin] = []
        self.denied = False  # whether sizes with names were told not to fit

    def same(self, left: DimLike, right: DimLike) -> bool:
        """As the base class; SizeConflictError, or ShapeError for declared names, where this call's sizes differ."""
        return self._answered(Constraint(left, "==", right), operator.eq, super().same, "equal sizes")

    def at_least(self, left: DimLike, bound: DimLike) -> bool:
        """As the base class; False where this call's sizes are smaller."""
        what = "a size that is large enough"
        return self._answered(Constraint(left, ">=", bound), operator.ge, super().at_least, what)

    def _answered(
        self, asked: Constraint, relation: Any, assume: Callable[[DimLike, DimLike], bool], what: str
    ) -> bool:
        before = len(self._list)
        conflict = self._conflicts(asked.left, asked.right, relation)
        if conflict and self._is_open(asked):
            raise SizeConflictError(asked, Location.of_user())
        found = not conflict and assume(asked.left, asked.right)
        self._note_new(before, what)
        if not found and (isinstance(asked.left, Dim) or isinstance(asked.right, Dim)):
            self.denied = True
        return found

    def ratio(self, left: DimLike, right: DimLike) -> int | None:
        """As the base class; where it is open, the ratio of this call's sizes is assumed and recorded."""
        found = super().ratio(left, right)
        if found is not None or self.sizes is None or not (dims.names(left) | dims.names(right)) <= self.sizes.keys():
            return found
        whole, part = dims.evaluate(left, self.sizes), dims.evaluate(right, self.sizes)
        if part == 0 or whole % part:
            return None
        return whole // part if self.same(left, whole // part * right) else None

    def _conflicts(self, left: DimLike, right: DimLike, relation: Any) -> bool:
        if self.sizes is None or not (dims.names(left) | dims.names(right)) <= self.sizes.keys():
            return False
        return not relation(dims.evaluate(left, self.sizes), dims.evaluate(right, self.sizes))

    def _is_open(self, constraint: Constraint) -> bool:
        """Whether the conflict is of names that this module chose, so that a trace with plain sizes may go on."""
        names = dims.names(constraint.left) | dims.names(constraint.right)
        return bool(names - self.declared)

    def _note_new(self, before: int, what: str) -> None:
        self.pins.extend(Pin(constraint, Location.of_user(), what) for constraint in self._list[before:])

    def pinned(self) -> dict[str, Pin]:
        """The names that are held to one int, each with what holds it."""
        found: dict[str, Pin] = {}
        for pin in self.pins:
            for name in dims.names(pin.constraint.left) | dims.names(pin.constraint.right):
                if isinstance(self.reduce(Dim.name(name)), int):
                    found.setdefault(name, pin)
        return found

    def decide(self, left: DimLike, relation: str, right: DimLike, what: str) -> bool:
        """The truth of ``left relation right`` in this call, which is recorded as a constraint.

        TraceError where the sizes of the call are not known and the answer depends on them.
        """
        a, b = self.reduce(left), self.reduce(right)
        difference = a - b
        if isinstance(difference, int):
            return bool(_RELATIONS[relation](difference, 0))
        names = dims.names(difference)
        if self.sizes is None or not names <= self.sizes.keys():
            if (always := _always(difference, relation)) is not None:
                return always
            raise TraceError(
                f"{what} asks about the size {', '.join(sorted(names))}, unknown while types alone are traced",
                hint="lower with concrete arrays, or avoid the question (jg.where works for every size)",
            )
        x, y = dims.evaluate(a, self.sizes), dims.evaluate(b, self.sizes)
        answer = bool(_RELATIONS[relation](x, y))
        self._assume(left, right, x, y, relation, answer, what)
        return answer

    def _assume(self, left: DimLike, right: DimLike, x: int, y: int, relation: str, answer: bool, what: str) -> None:
        before = len(self._list)
        if x == y and (relation in ("==", "!=")):
            super().same(left, right)
        elif relation in ("==", "!="):  # no constraint says "differs": keep to the side of this call
            super().at_least(left, right + 1) if x > y else super().at_least(right, left + 1)
        elif relation in ("<", ">="):
            super().at_least(right, left + 1) if (relation == "<") == answer else super().at_least(left, right)
        else:
            super().at_least(left, right + 1) if (relation == ">") == answer else super().at_least(right, left)
        self.pins.extend(Pin(constraint, Location.of_user(), what) for constraint in self._list[before:])

    def value(self, dim: DimLike, what: str) -> int:
        """The value of ``dim`` in this call, to which it is then held; TraceError for declared names."""
        reduced = self.reduce(dim)
        if isinstance(reduced, int):
            return reduced
        names = dims.names(reduced)
        if self.sizes is None or not names <= self.sizes.keys():
            raise TraceError(
                f"{what} needs the value of the size {reduced}, which is not known while types alone are traced",
                hint="lower with concrete arrays, or keep the size symbolic (x.shape, jg.arange(n), jg.scan)",
            )
        if held := names & self.declared:
            raise TraceError(
                f"{what} needs the value of the size {reduced}, but {', '.join(sorted(held))} is declared dynamic",
                hint="keep the size symbolic (jg.arange(n), jg.scan), or leave it out of dynamic_shapes",
            )
        value = dims.evaluate(reduced, self.sizes)
        self._assume(dim, value, value, value, "==", True, what)
        return value


_RELATIONS: Final[dict[str, Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


_COMPARISONS: Final = frozenset(_RELATIONS.values())


def _always(difference: Dim, relation: str) -> bool | None:
    """The truth of ``difference relation 0`` where it is the same for all sizes (names are at least 0), else None."""
    not_below, above = dims.is_natural(difference), dims.is_natural(difference - 1)
    not_above, below = dims.is_natural(-difference), dims.is_natural(-difference - 1)
    yes, no = {
        ">=": (not_below, below),
        "<": (below, not_below),
        "<=": (not_above, above),
        ">": (above, not_above),
        "!=": (above or below, False),
        "==": (False, above or below),
    }[relation]
    return True if yes else False if no else None


def to_dim(x: Any) -> DimLike:
    """The size that ``x`` (an int, a SymbolicDim or a Dim) means; ShapeError for anything else."""
    if isinstance(x, SymbolicDim):
        return x.dim
    if isinstance(x, Dim):
        return x
    if isinstance(x, bool) or not isinstance(x, int | np.integer):
        raise ShapeError(f"a size must be an integer, not {x!r}")
    return int(x)


def _is_size(x: Any) -> bool:
    return isinstance(x, SymbolicDim | np.integer) or (isinstance(x, int) and not isinstance(x, bool))


class SymbolicDim:
    """A size that is a name, or an expression over names, in the trace being recorded."""

    __slots__ = ("dim", "trace")
    __array_ufunc__ = None
    dtype = dtypes.int64
    shape = ()
    _weak = True  # among operands it stands for a Python int

    def __init__(self, dim: Dim, trace: Recorder) -> None:
        self.dim = dim
        self.trace = trace

    def __repr__(self) -> str:
        return self._text("r")

    def __format__(self, spec: str) -> str:
        return self._text("", spec)

    def _text(self, conversion: str, form: str = "") -> str:
        """The expression; in the text of a print what stands for its value at each call."""
        text = getattr(context.current().trace, "text", None)
        return format(str(self.dim), form) if text is None else str(text.mark(self, conversion, form))

    def __hash__(self) -> int:
        return hash(self.dim)

    def value_in(self, dtype: dtypes.DType) -> Any:
        """The size as a 0-d value of ``dtype``, held to what an integer dtype has room for; floats round it."""
        if dtypes.is_integer(dtype):
            (least, greatest), known = dtypes.LIMITS[dtype], self.trace.constraints
            small = dtype.itemsize == 8 or known.at_least(greatest, self.dim)
            if not small or not known.at_least(self.dim, least):
                hint = "cast the tensor to a wider dtype with .astype(...)"
                raise NumberError(f"the size {self.dim} does not fit {dtype.name}", hint=hint)
        return lifting.cast(self.trace.size_value(self.dim), dtype)

    # --- arithmetic that stays symbolic -----------------------------------------------------------------------------

    def _made(self, dim: DimLike) -> Any:
        return dim if isinstance(dim, int) else SymbolicDim(dim, self.trace)

    def _arithmetic(self, name: str, other: Any, *, swapped: bool = False) -> Any:
        function = getattr(operator, name)
        if _is_size(other):
            theirs = to_dim(other)
            return self._made(function(theirs, self.dim) if swapped else function(self.dim, theirs))
        return self._as_numbers(function, other, swapped)

    def _as_numbers(self, function: Any, other: Any, swapped: bool) -> Any:
        """With a tensor or a float the size is a 0-d tensor, weak as a Python number is."""
        if isinstance(other, float):
            mine = self._weak_float()
        elif hasattr(other, "dtype") and hasattr(other, "shape"):
            compared = function in _COMPARISONS  # exact in int64, whatever the other's dtype
            dtype = dtypes.int64 if compared or dtypes.is_bool(other.dtype) else other.dtype
            mine = lifting.wrap(self.value_in(dtype))
        else:
            return NotImplemented
        result = function(other, mine) if swapped else function(mine, other)
        if isinstance(other, float):
            result._weak = True
        return result

    def _weak_float(self) -> Any:
        handle = lifting.wrap(lifting.cast(self.trace.size_value(self.dim), dtypes.float64))
        handle._weak = True
        return handle

    def __add__(self, other: Any) -> Any:
        return self._arithmetic("add", other)

    def __radd__(self, other: Any) -> Any:
        return self._arithmetic("add", other, swapped=True)

    def __sub__(self, other: Any) -> Any:
        return self._arithmetic("sub", other)

    def __rsub__(self, other: Any) -> Any:
        return self._arithmetic("sub", other, swapped=True)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, tuple | list):
            return other * int(self)
        return self._arithmetic("mul", other)

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, tuple | list):
            return other * int(self)
        return self._arithmetic("mul", other, swapped=True)

    def __floordiv__(self, other: Any) -> Any:
        return self._arithmetic("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._arithmetic("floordiv", other, swapped=True)

    def __mod__(self, other: Any) -> Any:
        return self._arithmetic("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return self._arithmetic("mod", other, swapped=True)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __truediv__(self, other: Any) -> Any:
        other = float(other) if isinstance(other, int) else other
        return self._as_numbers(
            operator.truediv, other._weak_float() if isinstance(other, SymbolicDim) else other, False
        )

    def __rtruediv__(self, other: Any) -> Any:
        return self._as_numbers(operator.truediv, float(other) if isinstance(other, int) else other, True)

    def __pow__(self, other: Any) -> Any:
        if isinstance(other, int) and 0 <= other <= 8:
            return self._made(dims.product([self.dim] * other))
        return self._as_numbers(operator.pow, other, False)

    def __rpow__(self, other: Any) -> Any:
        return self._as_numbers(operator.pow, float(other) if isinstance(other, int) else other, True)

    def __neg__(self) -> Any:
        return self._made(-self.dim)

    def __pos__(self) -> SymbolicDim:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    # --- questions that need an answer now --------------------------------------------------------------------------

    def _compare(self, relation: str, other: Any) -> Any:
        if issubclass(type(other), float):
            return self._compare_float(relation, float(other))
        if not _is_size(other):
            return self._as_numbers(_RELATIONS[relation], other, False)
        return self.trace.constraints.decide(self.dim, relation, to_dim(other), f"{self.dim} {relation} {other}")

    def _compare_float(self, relation: str, other: float) -> bool:
        if not math.isfinite(other) or (relation in ("==", "!=") and not other.is_integer()):
            return bool(_RELATIONS[relation](0.0, other))  # the same for every size
        bound = math.floor(other) if relation in (">", "<=") else math.ceil(other)
        return bool(self._compare(relation, bound))

    def __eq__(self, other: object) -> Any:
        return self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return self._compare("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __bool__(self) -> bool:
        return bool(self._compare("!=", 0))

    def __int__(self) -> int:
        return self.trace.constraints.value(self.dim, f"int({self.dim})")

    def __index__(self) -> int:
        return self.trace.constraints.value(self.dim, f"{self.dim} used as a Python int, as in range() or an index,")

    def __float__(self) -> float:
        return float(self.trace.constraints.value(self.dim, f"float({self.dim})"))
