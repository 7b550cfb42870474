"""Python numbers that vary from call to call: expressions that each call works out again, in Python.

A traced function reads counters, epochs and rates as Python ints and floats. One that was seen to vary is replaced,
while a trace records, by a ``SymbolicNumber``: arithmetic on it gives expressions over what is read at each call, with
Python's own meaning; beside a tensor it becomes a 0-d input. What Python wants to know about it (a comparison,
``bool()``, ``range()``, an index, a text) is answered with the number of this call and recorded as a question, so that
the graph serves only calls with the same answer.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from jitgraph import dtypes, lifting
from jitgraph.errors import DTypeError, NumberError
from jitgraph.ir import context
from jitgraph.location import Location
from jitgraph.tensor import Tensor
from jitgraph.tracing.guard import Equals, Guard
from jitgraph.tracing.log import Log
from jitgraph.tracing.source import Place
from jitgraph.tracing.symbolic.sizes import SymbolicDim

if TYPE_CHECKING:
    from jitgraph.tracing.record.trace import Trace

_LONGEST: Final = 400  # characters of an expression; a longer one is held to its value
_MOST_QUESTIONS: Final = 64  # about numbers that vary; then they are held to their values
_LEAF: Final = re.compile(r"\bn(\d+)\b")


class Origin(NamedTuple):
    """Where a number is read at each call: at ``place``, or as the leaf ``leaf`` of the arguments; exactly a ``kind``.

    In expressions it is ``n0``, ``n1``, ... by ``number``.
    """

    number: int
    place: Place | None
    leaf: int
    text: str
    kind: type


class Question(NamedTuple):
    """An expression with the answer that the graph needs: a bool, a number, or a type for the type of the number."""

    text: str
    answer: Any
    what: str
    location: Location | None

    def condition(self) -> str:
        """The question as a Python condition; ``same_float`` stands for the function of ``values``."""
        answer = self.answer
        if isinstance(answer, type):
            return f"type({self.text}) is {answer.__name__}"
        if isinstance(answer, bool):
            return f"({self.text})" if answer else f"not ({self.text})"
        if isinstance(answer, float):
            return f"same_float({self.text}, {_text(answer)})"
        return f"({self.text}) == {_text(answer)}"


class Held(NamedTuple):
    """A number that was to vary and that Python needs itself: it is part of the key by its value."""

    origin: Origin
    what: str
    location: Location | None


class Numbers:
    """The numbers of one trace that vary."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.origins: list[Origin] = []
        self.questions: dict[str, Question] = {}
        self.held: dict[int, Held] = {}
        self.used: set[int] = set()

    def at_place(self, place: Place, value: int | float) -> SymbolicNumber:
        """The number that stands at ``place``."""
        return self._new(place, -1, place.text, value)

    def at_leaf(self, leaf: int, text: str, value: int | float) -> SymbolicNumber:
        """The number that is a leaf of the arguments."""
        return self._new(None, leaf, text, value)

    def _new(self, place: Place | None, leaf: int, text: str, value: int | float) -> SymbolicNumber:
        number = len(self.origins)
        self.origins.append(Origin(number, place, leaf, text, type(value)))
        return SymbolicNumber(self, f"n{number}", value)

    def ask(self, text: str, answer: Any, what: str) -> None:
        """Record a question; one about numbers that are all held says nothing new."""
        leaves = self.use(text)
        if leaves <= self.held.keys():
            return
        if len(self.questions) >= _MOST_QUESTIONS:
            self.refuse(text, what)
            return
        if not isinstance(answer, bool | type) and f"({text} == {_text(answer)})" in self.questions:
            return
        question = Question(text, answer, self.shown(what), Location.of_user())
        self.questions.setdefault(question.condition(), question)
        if _LEAF.fullmatch(text) and not isinstance(answer, bool | type):
            (leaf,) = leaves
            self.held.setdefault(leaf, Held(self.origins[leaf], self.shown(what), question.location))

    def refuse(self, text: str, what: str) -> None:
        """Hold all numbers in an expression: ``what`` takes no stand-in."""
        for leaf in self.use(text):
            self.held.setdefault(leaf, Held(self.origins[leaf], self.shown(what), Location.of_user()))

    def use(self, text: str) -> set[int]:
        """Note that the expression is part of the program; the numbers in it."""
        leaves = {int(leaf) for leaf in _LEAF.findall(text)}
        self.used |= leaves
        return leaves

    def shown(self, text: str) -> str:
        """An expression with the names that the user knows."""
        return _shown(text, self.origins)


class SymbolicNumber:
    """A Python int or float that varies; ``plain`` is its value in the call being traced."""

    __slots__ = ("numbers", "plain", "text")
    __array_ufunc__ = None  # NumPy's operators leave the work to those below

    def __init__(self, numbers: Numbers, text: str, plain: int | float) -> None:
        self.numbers = numbers
        self.text = text
        self.plain = plain

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """As ``isinstance`` sees it, an int or a float."""
        return type(self.plain)

    @property
    def is_live(self) -> bool:
        """Whether its trace is being recorded here; elsewhere, as in another thread, it is just its value."""
        trace = context.current().trace
        while trace is not None:
            if trace is self.numbers.trace:
                return not trace.ended
            trace = getattr(trace, "parent", None)
        return False

    def value_in(self, dtype: np.dtype[Any]) -> Any:
        """An input of the graph, in ``dtype``; None where the number itself has to be in the graph."""
        if dtypes.is_bool(dtype) or not self.is_live:
            return None
        try:
            lifting.require_representable(self.plain, dtype)
        except (NumberError, DTypeError):
            self.hold(f"{{}} in {dtype.name}")
            raise
        self.numbers.use(self.text)
        return self.numbers.trace.number_value(self.text, dtype)

    def hold(self, what: str) -> Any:
        """The plain number, to which the expression is held from now on."""
        if self.is_live:
            self.numbers.ask(self.text, self.plain, what.format(self.text))
        return self.plain

    def through(self, name: str) -> Any:
        """``math.<name>`` of it, as an expression."""
        return self._apply(f"math.{name}({{}})", getattr(math, name), self)

    # --- arithmetic that stays open ---------------------------------------------------------------------------------

    def _apply(self, form: str, function: Callable[..., Any], *operands: Any) -> Any:
        """``function(*operands)`` as an expression; ``form`` is its text with a ``{}`` for each operand."""
        plain = [x.plain if type(x) is SymbolicNumber else x for x in operands]
        if not self.is_live:
            return function(*plain)
        known = all(type(x) in _PLAIN or (type(x) is SymbolicNumber and x.is_live) for x in operands)
        text = form.format(*map(_text, operands)) if known else ""
        try:
            result = function(*plain)
        except ArithmeticError:
            self._hold_all(operands)
            raise
        if not known or type(result) not in (int, float) or len(text) > _LONGEST:
            self._hold_all(operands)
            return result
        made = SymbolicNumber(self.numbers, f"({text})", result)
        if function is operator.pow and not any(type(x) is float for x in plain):
            self.numbers.ask(made.text, type(result), text)  # 2 ** -1 is a float
        return made

    @staticmethod
    def _hold_all(operands: Sequence[Any]) -> None:
        for x in operands:
            if type(x) is SymbolicNumber:
                x.hold("an operation on {}")

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            return pow(self.hold("pow({}, ...)"), other, modulus)
        return NotImplemented if _is_ours(other) else self._apply("{} ** {}", operator.pow, self, other)

    def __neg__(self) -> Any:
        return self._apply("-{}", operator.neg, self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self._apply("abs({})", abs, self)

    def __invert__(self) -> Any:
        return self._apply("~{}", operator.invert, self)

    def __round__(self, digits: Any = None) -> Any:
        if digits is None:
            return self._apply("round({})", round, self)
        return self._apply("round({}, {})", round, self, digits)

    def __floor__(self) -> Any:
        return self._apply("({} // 1).__int__()", math.floor, self)

    def __ceil__(self) -> Any:
        return self._apply("-(-{} // 1).__int__()", math.ceil, self)

    # --- what Python needs to know now ------------------------------------------------------------------------------

    def _compare(self, form: str, function: Callable[[Any, Any], Any], other: Any) -> Any:
        theirs = other.plain if type(other) is SymbolicNumber else other
        if type(theirs) not in _PLAIN:
            return NotImplemented if _is_ours(other) else function(self.hold("a comparison of {}"), theirs)
        answer = function(self.plain, theirs)
        if self.is_live:
            text = form.format(self.text, _text(other))
            self.numbers.ask(text, answer, text)
        return answer

    def __eq__(self, other: object) -> Any:
        if isinstance(other, complex | np.ndarray | np.generic):
            return self.hold("a comparison of {}") == other
        return self._compare("{} == {}", operator.eq, other) if _is_number(other) else NotImplemented

    def __ne__(self, other: object) -> Any:
        if isinstance(other, complex | np.ndarray | np.generic):
            return self.hold("a comparison of {}") != other
        return self._compare("{} != {}", operator.ne, other) if _is_number(other) else NotImplemented

    def __lt__(self, other: Any) -> Any:
        return self._compare("{} < {}", operator.lt, other)

    def __le__(self, other: Any) -> Any:
        return self._compare("{} <= {}", operator.le, other)

    def __gt__(self, other: Any) -> Any:
        return self._compare("{} > {}", operator.gt, other)

    def __ge__(self, other: Any) -> Any:
        return self._compare("{} >= {}", operator.ge, other)

    def __bool__(self) -> bool:
        answer = bool(self.plain)
        if self.is_live:
            self.numbers.ask(f"{self.text} != 0", answer, f"bool({self.text})")
        return answer

    def __hash__(self) -> int:
        return hash(self.hold("hash({}), as of the key of a dict,"))

    def __int__(self) -> int:
        return int(self.hold("int({})"))

    def __float__(self) -> float:
        return float(self.hold("float({}), as for a function of math,"))

    def __trunc__(self) -> int:
        return int(self.hold("trunc({})"))

    def __index__(self) -> int:
        return int(self.hold("{} used as a Python int, as in range(), a shape or an index,"))

    def __complex__(self) -> complex:
        return complex(self.hold("complex({})"))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self.hold("a NumPy array of {}"), dtype=dtype)

    def __repr__(self) -> str:
        return self._text("r")

    def __str__(self) -> str:
        return self._text("s")

    def __format__(self, spec: str) -> str:
        return self._text("", spec)

    def _text(self, conversion: str, form: str = "") -> str:
        """The text of the plain number; in that of a print what stands for the number at each call."""
        trace = context.current().trace
        if self.is_live and trace.text is not None and _fits(self.plain):
            return str(trace.text.mark(self, conversion, form))
        return format(self.hold("the text of {}"), form)

    def __getattr__(self, name: str) -> Any:
        """What ints and floats have besides, such as ``bit_length``."""
        if name.startswith("_"):
            raise AttributeError(f"{type(self.plain).__name__!r} object has no attribute {name!r}")
        return getattr(self.hold(f"{{}}.{name}"), name)

    def __copy__(self) -> SymbolicNumber:
        return self

    def __deepcopy__(self, memo: Any) -> SymbolicNumber:
        return self

    def __reduce__(self) -> Any:
        return type(self.plain), (self.hold("pickling {}"),)


_PLAIN: Final = frozenset({int, float, bool})


def _binary(form: str, function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: SymbolicNumber, other: Any) -> Any:
        return NotImplemented if _is_ours(other) else self._apply(form, function, self, other)

    def backward(self: SymbolicNumber, other: Any) -> Any:
        return NotImplemented if _is_ours(other) else self._apply(form, function, other, self)

    return forward, backward


for _name, _symbol in {
    "add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
    "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^",
}.items():  # fmt: skip
    _forward, _backward = _binary(f"{{}} {_symbol} {{}}", getattr(operator, f"__{_name}__"))
    if _name != "pow":
        setattr(SymbolicNumber, f"__{_name}__", _forward)
    setattr(SymbolicNumber, f"__r{_name}__", _backward)


def _is_ours(other: Any) -> bool:
    """Whether the other operand knows how to compute with a number itself."""
    return isinstance(other, Tensor | SymbolicDim)


def _is_number(other: Any) -> bool:
    return type(other) in _PLAIN or type(other) is SymbolicNumber


def _fits(plain: int | float) -> bool:
    """Whether an input of the graph can hold the number."""
    return isinstance(plain, float) or -(2**63) <= plain < 2**63


def _text(x: Any) -> str:
    if type(x) is SymbolicNumber:
        return x.text
    if isinstance(x, float) and not math.isfinite(x):
        return f"float('{x}')"
    return f"({x!r})" if x < 0 or (x == 0 and math.copysign(1.0, x) < 0) else repr(x)


def _shown(text: str, origins: Sequence[Origin]) -> str:
    names = {origin.number: origin.text for origin in origins}
    return _LEAF.sub(lambda found: names.get(int(found.group(1)), found.group(0)), text)


def plain_of(value: Any) -> Any:
    """``value``; of a number of another trace, the number."""
    return value.plain if type(value) is SymbolicNumber and not value.is_live else value


def without_numbers(value: Any) -> Any:
    """An attribute of an op with plain numbers, to which they are held."""
    if type(value) is SymbolicNumber:
        return value.hold("{} as a parameter of an operation")
    if type(value) is tuple and any(type(x) in (SymbolicNumber, tuple) for x in value):
        return tuple(map(without_numbers, value))
    return value


# --- numbers in their places ---------------------------------------------------------------------------------------


def is_numeric(guard: Guard) -> bool:
    """Whether a guard holds a place to the value of a Python int or float."""
    return isinstance(guard.predicate, Equals) and guard.predicate.plain.kind in ("int", "float")


def varies(guard: Guard, place: Place) -> bool:
    """Whether a number of the same kind and another value stands at the place of the guard now."""
    predicate, now = guard.predicate, place.get_or(None)
    return isinstance(predicate, Equals) and type(now).__name__ == predicate.plain.kind and not predicate.holds(now)


def stand_in(places: Sequence[Place], numbers: Numbers, log: Log) -> None:
    """Put numbers that vary at ``places``, where that can be without running code of the user's."""
    for place in places:
        plain, put = place.get_or(None), place.setter
        if put is not None and type(plain) in (int, float):
            log.keep(place, place.text)
            put(numbers.at_place(place, plain))


def shown_question(question: Question, origins: Sequence[Origin]) -> str:
    """A question with its answer, for people."""
    text = _shown(question.text, origins)
    if isinstance(question.answer, type):
        return f"{text} is {question.answer.__name__}"
    if isinstance(question.answer, bool):
        return text if question.answer else f"not {text}"
    return f"{text} == {question.answer!r}"
