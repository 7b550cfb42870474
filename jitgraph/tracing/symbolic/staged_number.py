"""StagedNumber: a Python int, float or bool that a graph computes, such as the variable of a loop under ``@jg.script``.

It answers each operation of Python's number as Python does: exactly, with a check of the graph that raises Python's
error, or with an error while recording that names the line. It has no hash, no truth and no text of its own, and it is
no tensor: beside one it is a weak operand, as the plain number is.
"""

from __future__ import annotations

import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from jitgraph import dtypes, ops
from jitgraph.dtypes import DType
from jitgraph.errors import DTypeError
from jitgraph.ir import context
from jitgraph.ir.op import Op
from jitgraph.tensor import Tensor, lifting, scalars, weak_ints, wrap
from jitgraph.tensor.weak_ints import GREATEST, LEAST
from jitgraph.tracing.capture.kinds import SIMPLE
from jitgraph.tracing.symbolic import staged_floats, staged_integers
from jitgraph.tracing.symbolic.staged_integers import Int, quotient, refuse, unsupported

_KINDS: Final[dict[DType, type]] = {dtypes.int64: int, dtypes.float64: float, dtypes.bool_: bool}
_SAMPLE: Final[dict[type, Any]] = {int: 1, float: 1.0, bool: True}
_UFUNCS: Final[dict[Any, Callable[..., Any]]] = {
    np.add: operator.add, np.subtract: operator.sub, np.multiply: operator.mul, np.true_divide: operator.truediv,
    np.floor_divide: operator.floordiv, np.remainder: operator.mod, np.power: operator.pow, np.equal: operator.eq,
    np.not_equal: operator.ne, np.less: operator.lt, np.less_equal: operator.le, np.greater: operator.gt,
    np.greater_equal: operator.ge, np.bitwise_and: operator.and_, np.bitwise_or: operator.or_,
    np.bitwise_xor: operator.xor, np.left_shift: operator.lshift, np.right_shift: operator.rshift,
}  # fmt: skip


class StagedNumber(scalars.ComputedNumber):
    """A Python number that is the 0-d ``value`` of a graph, in int64, float64 or bool."""

    __slots__ = ("_handle", "_value", "kind")

    is_size: Final = False
    __array_priority__: Final = 1000

    def __init__(self, value: Any) -> None:
        self._value = value
        self._handle: Tensor | None = None
        self.kind = _KINDS[value.dtype]
        value.trace.outermost.has_staged = True

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """As ``isinstance`` sees it, an int, a float or a bool."""
        return self.kind

    @property
    def value(self) -> Any:
        """The value in the graph that is being recorded."""
        trace = context.current().trace
        if trace is None:
            raise self._value.leaked()
        return trace.own(self._value)

    @property
    def dtype(self) -> DType:
        """int64, float64 or bool."""
        dtype: DType = self._value.dtype
        return dtype

    @property
    def handle(self) -> Tensor:
        """The weak tensor that stands for the number among results; the same one each time."""
        if self._handle is None:
            self._handle = wrap(self._value)
            self._handle._weak = True
        return self._handle

    def as_tensor(self) -> Tensor:
        """The number as an operand that takes no dtype from others."""
        return wrap(self.value)

    def value_in(self, dtype: DType) -> Any:
        """The number in the dtype of a tensor beside it; a check raises OverflowError where that does not hold it."""
        value = self.value
        if self.kind is float and dtypes.is_integer(dtype):
            hint = "cast the tensor with .astype(jg.float32)"
            raise DTypeError(f"a Python float does not fit {dtype.name}", hint=hint)
        if self.kind is int and dtypes.is_integer(dtype):
            weak_ints.require_room(value, dtype)
        elif self.kind is int and dtypes.is_inexact(dtype):
            value = lifting.cast(value, dtypes.float64)  # rounded by ``float()``, then by the dtype
        return lifting.cast(value, dtype)

    # --- what only the number itself can answer --------------------------------------------------------------------

    def __hash__(self) -> NoReturn:
        refuse("hash(), as of a key of a dict or an element of a set,")

    def __bool__(self) -> NoReturn:
        refuse("bool()")

    def __int__(self) -> NoReturn:
        refuse("int()")

    def __float__(self) -> NoReturn:
        if self.kind is not float:
            refuse("float()")
        refuse("float(), as for a function of a library,")

    def __complex__(self) -> NoReturn:
        refuse("complex()")

    def __index__(self) -> int:
        if self.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        refuse("an index, a shape or a count")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        refuse("a NumPy array")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        python = _UFUNCS.get(ufunc)
        if python is None or method != "__call__" or options:
            refuse(f"numpy.{ufunc.__name__}")
        return python(*map(_lifted, inputs))

    def __repr__(self) -> str:
        return self._as_text("r")

    def __str__(self) -> str:
        return self._as_text("s")

    def __format__(self, spec: str) -> str:
        return self._as_text("", spec)

    def _as_text(self, conversion: str, form: str = "") -> str:
        """A mark in the text of a print, which writes the number at each call."""
        trace = context.current().trace
        if trace is not None and trace.text is not None:
            return str(trace.text.mark(self, conversion, form))
        return refuse(
            "a text (str(), repr(), an f-string)",
            'let a print make it, in its arguments: print("n", n), print(f"n {n}"), or jg.debug.print("n {}", n)',
        )

    def __reduce__(self) -> NoReturn:
        refuse("pickling")

    def __copy__(self) -> StagedNumber:
        return self

    def __deepcopy__(self, memo: Any) -> StagedNumber:
        return self

    def __getattr__(self, name: str) -> Any:
        """What ints and floats have besides, none of which a graph computes."""
        if not hasattr(_SAMPLE[self.kind], name):  # the class has more than its instances
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute {name!r}")
        refuse(f"{self.kind.__name__}.{name}")

    # --- as an operand -----------------------------------------------------------------------------------------------

    def as_int(self) -> Int:
        """An int or a bool as an operand of arithmetic on ints."""
        value = self.value
        if self.kind is bool:
            return staged_integers.of_bool(value)
        return staged_integers.of_value(value)

    def as_float(self) -> Any:
        """The number as a double."""
        return self.value if self.kind is float else staged_floats.of_int(self.as_int())

    def truth(self) -> Any:
        """Whether it is not 0, as a 0-d bool value."""
        value = self.value
        if self.kind is bool:
            return value
        return ops.ne(value, lifting.constant(0, value.dtype))

    def is_bool(self, other: bool) -> Any:
        """Whether it is this very bool."""
        if self.kind is not bool:
            return False
        return self if other else of_bool(ops.logical_not(self.value))

    # --- signs, rounding, parts --------------------------------------------------------------------------------------

    def __neg__(self) -> StagedNumber:
        return of_float(ops.neg(self.value)) if self.kind is float else of_int(staged_integers.neg(self.as_int()))

    def __pos__(self) -> StagedNumber:
        return of_int(self.as_int()) if self.kind is bool else self

    def __abs__(self) -> StagedNumber:
        return of_float(ops.abs(self.value)) if self.kind is float else of_int(staged_integers.absolute(self.as_int()))

    def __invert__(self) -> StagedNumber:
        if self.kind is float:
            raise TypeError("bad operand type for unary ~: 'float'")
        if self.kind is bool and sys.version_info >= (3, 12):
            text = "~ of a bool is deprecated, and an error from Python 3.16 on: write not, or ~int(x)"
            warnings.warn(text, DeprecationWarning, stacklevel=2)
        return of_int(staged_integers.invert(self.as_int()))

    def __round__(self, digits: Any = None) -> StagedNumber:
        if isinstance(digits, StagedNumber):
            refuse("the digits of round()")
        if self.kind is not float:
            return of_int(staged_integers.round_to(self.as_int(), 0 if digits is None else operator.index(digits)))
        if digits is None:
            return of_int(staged_floats.as_int(ops.rint(self.value)))
        return of_float(staged_floats.round_to(self.value, operator.index(digits)))

    def __floor__(self) -> StagedNumber:
        return self._whole(ops.floor)

    def __ceil__(self) -> StagedNumber:
        return self._whole(ops.ceil)

    def __trunc__(self) -> StagedNumber:
        return self._whole(ops.trunc)

    def _whole(self, op: Op) -> StagedNumber:
        return of_int(staged_floats.as_int(op(self.value)) if self.kind is float else self.as_int())

    @property
    def real(self) -> StagedNumber:
        return +self

    @property
    def imag(self) -> Any:
        return 0.0 if self.kind is float else 0

    @property
    def numerator(self) -> StagedNumber:
        self._require_int("numerator")
        return +self

    @property
    def denominator(self) -> int:
        self._require_int("denominator")
        return 1

    def conjugate(self) -> StagedNumber:
        return +self

    def bit_length(self) -> StagedNumber:
        self._require_int("bit_length")
        return of_int(staged_integers.bit_length(self.as_int()))

    def bit_count(self) -> StagedNumber:
        self._require_int("bit_count")
        return of_int(staged_integers.bit_count(self.as_int()))

    def as_integer_ratio(self) -> Any:
        if self.kind is float:
            refuse("float.as_integer_ratio")
        return +self, 1

    def is_integer(self) -> Any:
        if self.kind is float:
            value = self.value
            return of_bool(ops.logical_and(ops.isfinite(value), ops.eq(ops.floor(value), value)))
        if not hasattr(int, "is_integer"):  # it came with CPython 3.12
            raise AttributeError(f"{self.kind.__name__!r} object has no attribute 'is_integer'")
        return True

    def _require_int(self, name: str) -> None:
        if self.kind is float:
            raise AttributeError(f"'float' object has no attribute {name!r}")

    # --- arithmetic --------------------------------------------------------------------------------------------------

    def __divmod__(self, other: Any) -> Any:
        return (self // other, self % other) if is_number(other) else NotImplemented

    def __rdivmod__(self, other: Any) -> Any:
        return (other // self, other % self) if is_number(other) else NotImplemented

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if modulus is not None:
            refuse("pow() with a modulus, where the script does not call it itself,")
        return _apply(operator.pow, self, other)

    def __rpow__(self, other: Any) -> Any:
        return _apply(operator.pow, other, self)

    def __eq__(self, other: object) -> Any:
        return _compare(operator.eq, self, other)

    def __ne__(self, other: object) -> Any:
        return _compare(operator.ne, self, other)

    def __lt__(self, other: Any) -> Any:
        return _compare(operator.lt, self, other)

    def __le__(self, other: Any) -> Any:
        return _compare(operator.le, self, other)

    def __gt__(self, other: Any) -> Any:
        return _compare(operator.gt, self, other)

    def __ge__(self, other: Any) -> Any:
        return _compare(operator.ge, self, other)


def _binary(function: Callable[[Any, Any], Any]) -> tuple[Any, Any]:
    def forward(self: StagedNumber, other: Any) -> Any:
        return _apply(function, self, other)

    def backward(self: StagedNumber, other: Any) -> Any:
        return _apply(function, other, self)

    return forward, backward


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod, "lshift": operator.lshift, "rshift": operator.rshift,
    "and": operator.and_, "or": operator.or_, "xor": operator.xor,
}  # fmt: skip
for _name, _function in _OPERATORS.items():
    _forward, _backward = _binary(_function)
    setattr(StagedNumber, f"__{_name}__", _forward)
    setattr(StagedNumber, f"__r{_name}__", _backward)


# --- numbers of values ----------------------------------------------------------------------------------------------


def of_int(integer: Int) -> StagedNumber:
    """The number of an int."""
    return StagedNumber(integer.value)


def of_float(value: Any) -> StagedNumber:
    """The number of a double."""
    return StagedNumber(value)


def of_bool(value: Any) -> StagedNumber:
    """The number of a bool."""
    return StagedNumber(value)


SIMPLE.add(StagedNumber)


def stop_gradient(value: Any) -> Any:
    """A value as a Python number has it: without a gradient."""
    return ops.stop_gradient(value) if value.requires_grad else value


# --- operations of two ----------------------------------------------------------------------------------------------


def is_number(x: Any) -> bool:
    """Whether x is an operand of Python's arithmetic on reals: an int, float or bool, plain, varying or staged."""
    return isinstance(x, int | float) and not isinstance(x, np.generic)


def _kind(x: Any) -> type:
    return float if isinstance(x, float) else bool if isinstance(x, bool) else int


def int_of(x: Any) -> Int:
    """An int or bool, plain, varying or staged, as an operand of arithmetic on ints."""
    if type(x) is StagedNumber:
        return x.as_int()
    if scalars.is_varying(x):
        return staged_integers.of_value(x.value_in(dtypes.int64))
    return staged_integers.of_constant(int(x))


def float_of(x: Any) -> Any:
    """A number, plain, varying or staged, as a double."""
    if type(x) is StagedNumber:
        return x.as_float()
    if scalars.is_varying(x):
        return x.value_in(dtypes.float64)
    return staged_floats.constant(float(x))


def _apply(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """``function(x, y)``, of which at least one is staged; NotImplemented beside what is no real number."""
    if not (is_number(x) and is_number(y)):
        return _beside_others(function, x, y)
    kinds = _kind(x), _kind(y)
    if float in kinds or function is operator.truediv:
        return _of_floats(function, x, y, kinds)
    if kinds == (bool, bool) and function in _OF_BOOLS:
        return of_bool(_OF_BOOLS[function](*map(_bool_of, (x, y))))
    if function is operator.pow and type(y) is int and y < 0:
        return of_float(staged_floats.power(float_of(x), float_of(y)))
    return of_int(_OF_INTS[function](int_of(x), int_of(y)))


def _beside_others(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    if any(isinstance(other, np.ndarray | np.generic) for other in (x, y)):
        return function(_lifted(x), _lifted(y))
    if isinstance(x, complex) or isinstance(y, complex):
        raise unsupported("an operation with a complex number")
    return NotImplemented


def _lifted(x: Any) -> Any:
    """An operand, of which an array of NumPy's becomes a tensor."""
    return wrap(lifting.value_of(x)) if isinstance(x, np.ndarray | np.generic) else x


def _bool_of(x: Any) -> Any:
    if type(x) is StagedNumber:
        return x.value
    return lifting.constant(bool(x), dtypes.bool_)


def _of_floats(function: Callable[[Any, Any], Any], x: Any, y: Any, kinds: tuple[type, type]) -> StagedNumber:
    if float not in kinds:
        a, b = int_of(x), int_of(y)
        staged_integers.require_divisor(b, "division by zero")
        return of_float(quotient(a, b))
    op = _OF_FLOATS.get(function)
    if op is None:
        function(*[_SAMPLE[kind] for kind in kinds])  # the TypeError of Python
    assert op is not None
    return of_float(op(float_of(x), float_of(y)))


_OF_BOOLS: Final[dict[Any, Op]] = {
    operator.and_: ops.logical_and, operator.or_: ops.logical_or, operator.xor: ops.logical_xor,
}  # fmt: skip
_OF_INTS: Final[dict[Any, Callable[[Int, Int], Int]]] = {
    operator.add: staged_integers.add, operator.sub: staged_integers.sub, operator.mul: staged_integers.mul,
    operator.floordiv: staged_integers.floordiv, operator.mod: staged_integers.mod, operator.pow: staged_integers.power,
    operator.lshift: staged_integers.shift_left, operator.rshift: staged_integers.shift_right,
    operator.and_: staged_integers.bit_and,
    operator.or_: staged_integers.bit_or, operator.xor: staged_integers.bit_xor,
}  # fmt: skip
_OF_FLOATS: Final[dict[Any, Callable[[Any, Any], Any]]] = {
    operator.add: ops.add, operator.sub: ops.sub, operator.mul: ops.mul, operator.truediv: staged_floats.truediv,
    operator.floordiv: staged_floats.floordiv, operator.mod: staged_floats.mod, operator.pow: staged_floats.power,
}  # fmt: skip
_COMPARISONS: Final[dict[Any, Op]] = {
    operator.eq: ops.eq, operator.ne: ops.ne, operator.lt: ops.lt, operator.le: ops.le, operator.gt: ops.gt,
    operator.ge: ops.ge,
}  # fmt: skip


def _compare(function: Callable[[Any, Any], Any], x: Any, y: Any) -> Any:
    """A comparison, which is exact between ints and floats too."""
    if not is_number(y):
        return _beside_others(function, x, y)
    op = _COMPARISONS[function]
    if _kind(x) is not float and _kind(y) is not float:
        if not scalars.is_varying(y) and not LEAST <= y <= GREATEST:
            return function(0, y)  # beyond all that x can be
        return of_bool(op(int_of(x).value, int_of(y).value))
    if _kind(x) is _kind(y):
        return of_bool(op(float_of(x), float_of(y)))
    if _kind(x) is float:
        return _compare_with_int(function, op, x, y)
    return _compare_with_int(function, ops.SWAPPED[op], y, x)


def _compare_with_int(function: Any, op: Op, x: Any, y: Any) -> Any:
    """A comparison of a float with an int."""
    if not scalars.is_varying(y) and not LEAST <= y <= GREATEST:
        raise unsupported(f"a comparison with {y}, which int64 does not hold,")
    if function in (operator.eq, operator.ne):
        equal = staged_floats.equals_int(float_of(x), int_of(y))
        return of_bool(equal if function is operator.eq else ops.logical_not(equal))
    return of_bool(staged_floats.order_with_int(op, float_of(x), int_of(y)))


def table_kind(numbers: Sequence[Any]) -> type | None:
    """The kind that all of these numbers have; None where one is no number or they differ."""
    kinds = {_kind(x) if is_number(x) else None for x in numbers}
    return kinds.pop() if len(kinds) == 1 else None
