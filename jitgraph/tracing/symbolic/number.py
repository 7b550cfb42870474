"""SymbolicNumber: a Python number that varies from call to call, or a size that is a name, while a trace records."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import DTypeError, GraphError, NumberError, ShapeError, TraceError
from jitgraph.ir import context, dims
from jitgraph.ir.dims import Dim, DimLike, magnitude
from jitgraph.location import Location
from jitgraph.records import NamedTuple
from jitgraph.tensor import Tensor, lifting, scalars, wrap
from jitgraph.tracing.guards.source import Slot, Source

if TYPE_CHECKING:
    from jitgraph.tracing.symbolic.numbers import Numbers

# ----------------------------------------------------------------------
# Arithmetic on numbers that vary: which functions stay open, which may raise, and of what kind their results are.

BINARY: Final = {
    "+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "<<": "lshift",
    ">>": "rshift", "&": "and", "|": "or", "^": "xor",
}  # fmt: skip
"""The name in Python's special methods of each operator on two numbers."""

COMPARISONS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
"""What each comparison asks."""

OF_SIZES: Final = frozenset(
    [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.pow, operator.neg]
)
"""Functions of sizes that give a size."""

OF_GRAPHS: Final = OF_SIZES | {operator.truediv, abs}
"""Functions that a graph can compute of floats."""

DIVISIONS: Final = frozenset({operator.truediv, operator.floordiv, operator.mod})
"""Functions that raise where the second operand is 0, and there alone."""

NEVER_RAISE: Final = frozenset(
    [operator.add, operator.sub, operator.mul, operator.neg, operator.and_, operator.or_, operator.xor]
) | {abs, operator.invert}
"""Functions that give a number of the same kind for all numbers of the kinds that they take."""


def kind_of(function: Callable[..., Any], plain: Sequence[Any], kinds: Sequence[type]) -> type | None:
    """The kind of a result: an int or a float; None where types alone are traced, and the kind needs a value."""
    if float in kinds or function is operator.truediv:
        return float
    if None not in plain:
        return int
    negative = function is operator.pow and type(plain[1]) is int and plain[1] < 0
    return float if negative else None


def form_of(text: str, names: Sequence[str]) -> str:
    """A formula over numbers by their names as a form with their places: ``x + y`` is ``{0} + {1}``.

    The kind of its result is that of the first: formulas of the package give ints alone or floats alone.
    """
    fields = {name: f"{{{index}}}" for index, name in enumerate(names)}
    return re.sub(_WORD, lambda found: fields.get(found[0], found[0]), text)


_WORD: Final = r"\b[a-z]\w*"


# ----------------------------------------------------------------------
# Plain data about Python numbers that vary: where they are read at a call, what must be true of them, what is held.

LEAF: Final = r"\bn(\d+)\b"


class Origin(NamedTuple):
    """Where a number is read at each call: at ``slot``, or as the leaf ``leaf`` of the arguments; exactly a ``kind``.

    With an ``axis`` it is the size of that leaf on the axis. In expressions it is ``n0``, ``n1``, ... by ``number``.
    """

    number: int
    slot: Slot | None
    leaf: int
    text: str
    kind: type
    axis: int = -1


class NumberAssumption(NamedTuple):
    """An expression with the answer that the graph needs: a bool, a number, or a type for the type of the number."""

    text: str
    answer: Any
    what: str
    location: Location | None

    def condition(self) -> str:
        """The assumption as a Python condition; ``same_float`` stands for the function of ``guards/plain.py``."""
        answer = self.answer
        if isinstance(answer, type):
            return f"type({self.text}) is {answer.__name__}"
        if isinstance(answer, bool):
            return f"({self.text})" if answer else f"not ({self.text})"
        if isinstance(answer, float):
            return f"same_float({self.text}, {literal(answer)})"
        return f"({self.text}) == {literal(answer)}"


class PinnedNumber(NamedTuple):
    """A number that was to vary and that Python needs itself: it is part of the key by its value."""

    origin: Origin
    what: str
    location: Location | None


def source_of(origin: Origin, leaves: Sequence[Source]) -> Source:
    """Where a number among the arguments, or the size of one, is found again; ``leaves`` are theirs."""
    source = leaves[origin.leaf]
    return source if origin.axis < 0 else source.then("attribute", "shape").then("item", origin.axis)


def literal(x: Any) -> str:
    """A plain number as an operand in an expression."""
    if isinstance(x, float) and not math.isfinite(x):
        return f"float('{'-' if math.copysign(1.0, x) < 0 else ''}{abs(x)}')"
    return f"({x!r})" if x < 0 or (x == 0 and math.copysign(1.0, x) < 0) else repr(x)


def shown(text: str, origins: Sequence[Origin]) -> str:
    """An expression with the names that the user knows."""
    names = {origin.number: origin.text for origin in origins}
    return re.sub(LEAF, lambda found: names.get(int(found.group(1)), found.group(0)), text)


def shown_assumption(assumption: NumberAssumption, origins: Sequence[Origin]) -> str:
    """A assumption with its answer, for people."""
    text = shown(assumption.text, origins)
    if isinstance(assumption.answer, type):
        return f"{text} is {assumption.answer.__name__}"
    if isinstance(assumption.answer, bool):
        return text if assumption.answer else f"not {text}"
    return f"{text} == {assumption.answer!r}"


# ----------------------------------------------------------------------
# SymbolicNumber: a Python number that varies from call to call, or a size that is a name, while a trace records.
#
# A traced function reads counters, rates and sizes as Python ints and floats. One that may be another at the next call
# is a ``SymbolicNumber``: arithmetic on it gives expressions over what is read at each call, with Python's own meaning;
# beside a tensor it becomes a 0-d input. What Python wants to know about it (a comparison, ``bool()``, ``range()``, an
# index, a text) is answered with the number of this call and recorded as an assumption, so that the graph serves only
# calls with the same answer. What needs the object itself (a key of a dict, its type) holds it to its value: the
# function is recorded once more with the plain number.

_LONGEST: Final = 2000  # characters of an expression; a longer one is held to its value
_LARGEST_POWER: Final = 8  # of a size that is written out as a product
_GREATEST_SIZE: Final = 2**1023  # what float64 holds; beyond it sizes are expressions as other numbers are
_PLAIN: Final = frozenset({int, float, bool})
_NEVER_EQUAL: Final = frozenset({str, bytes, list, tuple, dict, set, frozenset, type, slice, range})


class EndOfRecording(BaseException):
    """The recording is of no use: the function is recorded once more with the plain numbers that are held by then."""


class SymbolicNumber:
    """A Python int or float that varies; ``plain`` is its value in the call being traced.

    It is an expression over what each call reads, by its ``text``, or a size, by its ``dim``. ``plain`` is None where
    types alone are traced.
    """

    __slots__ = ("_made", "_text", "dim", "kind", "numbers", "plain")

    def __init__(
        self,
        numbers: Numbers,
        kind: type,
        plain: int | float | None,
        text: str = "",
        dim: Dim | None = None,
        expression: tuple[Callable[..., Any], Sequence[Any]] | None = None,
    ) -> None:
        self.numbers = numbers
        self.kind = kind
        self.plain = plain
        self.dim = dim
        self._text = text
        self._made = expression  # the function and the operands, where it is an expression

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """As ``isinstance`` sees it, an int or a float."""
        return self.kind

    @property
    def text(self) -> str:
        """The expression over what each call reads."""
        return self._text if self.dim is None else self.numbers.size_text(self.dim)

    @property
    def _shown(self) -> str:
        return self._text if self.dim is None else self.numbers.size_shown(self.dim)

    @property
    def is_live(self) -> bool:
        """Whether its trace is being recorded here; elsewhere, as in another thread, it is just its value."""
        trace, own = context.current().trace, self.numbers.trace
        return trace is not None and not own.ended and any(recorder is own for recorder in trace.outwards())

    @property
    def is_size(self) -> bool:
        """Whether it is a size that is a name, or an expression over names, in the trace being recorded."""
        return self.dim is not None and self.is_live

    # --- beside tensors ---------------------------------------------------------------------------------------------

    def value_in(self, dtype: np.dtype[Any]) -> Any:
        """An input of the graph, in ``dtype``; None where the number itself has to be in the graph."""
        if not self.is_live:
            return None
        if self.dim is not None:
            return self._size_in(self.dim, dtype)
        if dtypes.is_bool(dtype):
            return None
        if self.numbers.portable:
            scalars.require_representable(self.kind(), dtype)
            return lifting.cast(self._handle().value, dtype)
        try:
            scalars.require_representable(self.plain, dtype)
        except (NumberError, DTypeError):
            self.hold(f"{{}} in {dtype.name}")
            raise
        self.numbers.use(self.text)
        return self.numbers.trace.number_value(self.text, dtype)

    def _size_in(self, dim: Dim, dtype: np.dtype[Any]) -> Any:
        """A size as a 0-d value, held to what an integer dtype has room for; floats round it, as they round an int."""
        if dtypes.is_integer(dtype):
            (least, greatest), known = dtypes.LIMITS[dtype], self.numbers.trace.constraints
            if not known.at_least(greatest, dim) or not known.at_least(dim, least):
                hint = "cast the tensor to a wider dtype with .astype(...)"
                raise NumberError(f"the size {dim} does not fit {dtype.name}", hint=hint)
        size_dtype = dtypes.float64 if dtypes.is_bool(dtype) else dtype
        return lifting.cast(context.current().trace.size_value(dim, size_dtype), dtype)

    def _handle(self) -> Tensor:
        """A weak float64 tensor that the graph itself computes."""
        if self.dim is not None:
            tensor = wrap(self._size_in(self.dim, dtypes.float64))
            tensor._weak = True
        elif self._made is None:
            tensor = self.numbers.trace.argument_float(self.numbers.origins[int(self._text[1:])])
        else:
            function, operands = self._made
            tensor = function(*[x._handle() if type(x) is SymbolicNumber else x for x in operands])
        return tensor

    # --- what Python needs to know now ------------------------------------------------------------------------------

    def hold(self, what: str) -> Any:
        """The plain number, to which the expression is held from now on."""
        if not self.is_live:
            return self._value()
        if self.dim is not None:
            return self.numbers.hold_size(self.dim, what.format(self._shown))
        self.numbers.ask(self._text, self.plain, what.format(self._text))
        return self._value()

    def refuse(self, what: str) -> Any:
        """The plain number; the function is recorded once more with it, as ``what`` takes no stand-in."""
        if self.is_live:
            self.numbers.refuse(self.text, what.format(self._shown))
        return self._value()

    def _value(self) -> Any:
        if self.plain is None:
            raise TraceError(
                f"the size {self._shown} is used outside of its trace, where it has no value",
                hint="return it from the function, or keep to tensors",
            )
        return self.plain

    def _compare(self, symbol: str, other: Any) -> Any:
        function = COMPARISONS[symbol]
        if not self.is_live:
            return function(self._value(), resolved(other))
        if self.dim is not None:
            if _is_size(other):
                text = f"{self.dim} {symbol} {other.dim if type(other) is SymbolicNumber else other}"
                return self.numbers.trace.constraints.decide(self.dim, symbol, _dim_of(other), text)
            if type(other) is float:
                return self._compare_float(symbol, other)
        if type(other) not in _PLAIN and type(other) is not SymbolicNumber:
            return NotImplemented if _is_of_graph(other) else function(self.hold("a comparison of {}"), other)
        text = f"{self.text} {symbol} {_text(other)}"
        theirs = other.plain if type(other) is SymbolicNumber else other
        if self.plain is None or theirs is None:
            self.numbers.refuse(text, text)
        answer = function(self.plain, theirs)
        self.numbers.ask(text, answer, text)
        return answer

    def _compare_float(self, symbol: str, other: float) -> bool:
        if not math.isfinite(other) or (symbol in ("==", "!=") and not other.is_integer()):
            return bool(COMPARISONS[symbol](0.0, other))  # the same for every size
        return bool(self._compare(symbol, math.floor(other) if symbol in (">", "<=") else math.ceil(other)))

    def __eq__(self, other: object) -> Any:
        return NotImplemented if other is None or type(other) in _NEVER_EQUAL else self._compare("==", other)

    def __ne__(self, other: object) -> Any:
        return NotImplemented if other is None or type(other) in _NEVER_EQUAL else self._compare("!=", other)

    def __lt__(self, other: Any) -> Any:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Any:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._compare(">=", other)

    def __bool__(self) -> bool:
        if self.dim is not None:
            return bool(self._compare("!=", 0))
        if self.is_live:
            self.numbers.ask(f"{self._text} != 0", bool(self.plain), f"bool({self._text})")
        return bool(self.plain)

    def __hash__(self) -> int:
        plain = self.refuse("hash({}), as of the key of a dict,")
        if self.is_live:  # what asks would keep this object: a dict, a set, a cache that outlives the recording
            raise EndOfRecording
        return hash(plain)

    def __int__(self) -> int:
        return int(self.hold("int({})"))

    def __float__(self) -> float:
        return float(self.hold("float({}), as for a function of math,"))

    def __index__(self) -> int:
        if self.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        return int(self.hold("{} used as a Python int, as in range(), a shape or an index,"))

    def __complex__(self) -> complex:
        return complex(self.hold("complex({})"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.hold("a NumPy array of {}"), dtype=dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [x.hold(f"numpy.{ufunc.__name__} of {{}}") if type(x) is SymbolicNumber else x for x in inputs]
        return getattr(ufunc, method)(*plain, **options)

    def __repr__(self) -> str:
        return self._as_text("r")

    def __str__(self) -> str:
        return self._as_text("s")

    def __format__(self, spec: str) -> str:
        return self._as_text("", spec)

    def _as_text(self, conversion: str, form: str = "") -> str:
        """The text of the plain number; in that of a print what stands for the number at each call."""
        trace = context.current().trace
        if self.is_live and trace.text is not None and _fits(self.plain):
            return str(trace.text.mark(self, conversion, form))
        return format(self.hold("the text of {}"), form)

    def __getattr__(self, name: str) -> Any:
        """What ints and floats have besides, such as ``bit_length``."""
        if not hasattr(self.kind(), name):  # not that of the class, which has a __dict__
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        return getattr(self.hold(f"{{}}.{name}"), name)

    def __copy__(self) -> SymbolicNumber:
        return self

    def __deepcopy__(self, memo: Any) -> SymbolicNumber:
        return self

    def __reduce__(self) -> Any:
        return self.kind, (self.refuse("pickling {}"),)

    # --- arithmetic that stays open ---------------------------------------------------------------------------------

    def _apply(self, form: str, function: Callable[..., Any], *operands: Any, asks: bool = True) -> Any:
        """``function(*operands)`` as an expression; ``form`` is its text with a ``{}`` for each operand.

        Without ``asks`` the kind of its result is known to be the same for all numbers of these kinds.
        """
        if not self.is_live:
            return function(*map(resolved, operands))
        if any(type(x) not in _PLAIN and not (type(x) is SymbolicNumber and x.is_live) for x in operands):
            return function(*_pinned(operands))
        if function in OF_SIZES and (size := self._size(function, operands)) is not None:
            return size
        plain = [x.plain if type(x) is SymbolicNumber else x for x in operands]
        text = form.format(*map(_text, operands))
        kind = kind_of(function, plain, [x.kind if type(x) is SymbolicNumber else type(x) for x in operands])
        if kind is None or len(text) > _LONGEST or (self.numbers.portable and function not in OF_GRAPHS):
            return function(*_pinned(operands))
        if None in plain:
            return SymbolicNumber(self.numbers, kind, None, f"({text})", expression=(function, operands))
        try:
            result = function(*plain)
        except (ArithmeticError, ValueError, MemoryError):  # what it is about the numbers that raises is not known
            for x in operands:
                if type(x) is SymbolicNumber:
                    x._settle()
            raise
        if type(result) not in (int, float):
            return function(*_pinned(operands))
        number = SymbolicNumber(self.numbers, type(result), result, f"({text})", expression=(function, operands))
        if asks and (not self.numbers.portable or kind is int):
            number._ask_whether_there_is_one(function, operands, text)
        return number

    def _ask_whether_there_is_one(self, function: Callable[..., Any], operands: Sequence[Any], what: str) -> None:
        """Record that the expression raises no error, and what its type is: ``2 ** -1`` is a float."""
        if function in DIVISIONS:
            if type(operands[1]) is SymbolicNumber:
                text = f"{operands[1].text} != 0"
                self.numbers.ask(text, True, text)
        elif function not in NEVER_RAISE:
            self.numbers.ask(self._text, self.kind, what)

    def _settle(self) -> None:
        """Record the value of this call, also that of a size which is declared dynamic: there is no other way here."""
        if self.dim is None:
            self.hold("an operation on {}")
        else:
            assert self.plain is not None
            self.numbers.trace.constraints.decide(self.dim, "==", int(self.plain), f"an operation on {self.dim}")

    def _size(self, function: Callable[..., Any], operands: Sequence[Any]) -> Any:
        """The size that ``function`` gives, where all operands are sizes or ints; None where it is no size."""
        if not all(map(_is_size, operands)) or all(type(x) in _PLAIN for x in operands):
            return None
        terms = list(map(_dim_of, operands))
        if function is operator.pow:
            power = terms[1]
            if not isinstance(power, int) or not 0 <= power <= _LARGEST_POWER:
                return None
            function, terms = dims.product, [[terms[0]] * power]  # type: ignore[list-item]
        if function in (operator.floordiv, operator.mod):
            divisor, decide = terms[1], self.numbers.trace.constraints.decide
            needs_check = isinstance(divisor, Dim) and not self.numbers.portable
            if divisor == 0 or (needs_check and not decide(divisor, "!=", 0, f"a division by {divisor}")):
                return None
        try:
            dim = function(*terms)
        except GraphError:  # more terms than a size may have
            return None
        if magnitude(dim) > _GREATEST_SIZE:
            return None
        return dim if isinstance(dim, int) else self.numbers.of_size(dim)

    def through(self, name: str) -> Any:
        """``math.<name>`` of it, as an expression."""
        return self._apply(f"math.{name}({{}})", getattr(math, name), self)

    def formula(self, text: str, function: Callable[..., Any], numbers: Mapping[str, Any]) -> Any:
        """``function(*numbers)``, as an expression; ``text`` is that of the function, over the numbers' names."""
        return self._apply(form_of(text, tuple(numbers)), function, *numbers.values(), asks=False)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(self.hold("pow({}, ...)"), other, modulus)
        return NotImplemented if _is_of_graph(other) else self._apply("{} ** {}", operator.pow, self, other)

    def __neg__(self) -> Any:
        return self._apply("-{}", operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        if self.dim is not None:
            return self if self >= 0 else -self
        return self._apply("abs({})", abs, self)

    def __invert__(self) -> Any:
        return -self - 1 if self.dim is not None else self._apply("~{}", operator.invert, self)

    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return self if self.dim is not None else self._apply("round({})", round, self)
        return self._apply("round({}, {})", round, self, digits)

    def __floor__(self) -> Any:
        return self if self.dim is not None else self._apply("({} // 1).__int__()", math.floor, self)

    def __ceil__(self) -> Any:
        return self if self.dim is not None else self._apply("-(-{} // 1).__int__()", math.ceil, self)

    def __trunc__(self) -> Any:
        return self if self.kind is int else int(self.hold("trunc({})"))


def _binary(form: str, function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: SymbolicNumber, other: Any) -> Any:
        return NotImplemented if _is_of_graph(other) else self._apply(form, function, self, other)

    def backward(self: SymbolicNumber, other: Any) -> Any:
        return NotImplemented if _is_of_graph(other) else self._apply(form, function, other, self)

    return forward, backward


for _symbol, _name in BINARY.items():
    _forward, _backward = _binary(f"{{}} {_symbol} {{}}", getattr(operator, f"__{_name}__"))
    if _name != "pow":
        setattr(SymbolicNumber, f"__{_name}__", _forward)
    setattr(SymbolicNumber, f"__r{_name}__", _backward)


def _pinned(operands: Sequence[Any]) -> list[Any]:
    """The operands with plain numbers, to which they are held."""
    return [x.hold("an operation on {}") if type(x) is SymbolicNumber else x for x in operands]


def _is_of_graph(x: Any) -> bool:
    """Whether an operand is computed by the graph: it knows how to take a number beside it."""
    return isinstance(x, Tensor) or scalars.is_computed(x)


def _is_size(x: Any) -> bool:
    """Whether an operand is a size or a plain int."""
    return type(x) in (int, bool) or (type(x) is SymbolicNumber and x.dim is not None)


def _dim_of(x: Any) -> DimLike:
    return x.dim if type(x) is SymbolicNumber else int(x)  # type: ignore[return-value]


def _text(x: Any) -> str:
    return x.text if type(x) is SymbolicNumber else literal(x)


def _fits(plain: int | float | None) -> bool:
    """Whether an input of the graph can hold the number."""
    return not isinstance(plain, int) or -(2**63) <= plain < 2**63


def resolved(value: Any) -> Any:
    """``value``; of a number that varies, but whose trace is not being recorded here, the plain number."""
    return value._value() if type(value) is SymbolicNumber and not value.is_live else value


# ----------------------------------------------------------------------
# Numbers that vary where a graph needs a size, or a parameter of an op.


def to_dim(x: Any) -> DimLike:
    """The size that ``x`` (an int, a number that varies or a Dim) means; ShapeError for anything else."""
    if isinstance(x, Dim):
        return x
    if scalars.is_named_size(x):
        return x.dim  # type: ignore[no-any-return]
    if isinstance(x, bool) or not isinstance(x, int | np.integer):
        raise ShapeError(f"a size must be an integer, not {x!r}")
    return int(x)


def without_numbers(value: Any) -> Any:
    """An attribute of an op with plain numbers, to which they are held."""
    if scalars.is_computed(value):
        value.__index__()  # raises
    if type(value) is SymbolicNumber:
        return value.hold("{} as a parameter of an operation")
    if type(value) is tuple and any(type(x) in (SymbolicNumber, tuple) for x in value):
        return tuple(map(without_numbers, value))
    return value
