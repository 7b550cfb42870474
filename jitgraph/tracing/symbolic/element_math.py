"""The functions of ``math`` and ``cmath``, and ``int``, ``float`` and ``bool``, of one element of ``jg.elementwise``.

They are the ops of tensors: they compute in the dtype of their operands, and where Python raises they give what NumPy
gives without its warnings.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from jitgraph import dtypes, ops
from jitgraph.errors import UnsupportedOp
from jitgraph.location import Location
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor, element_numbers, functions, lifting, wrap
from jitgraph.tensor.tensor import elementwise
from jitgraph.tracing.symbolic.staged_number import StagedNumber


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """A function of ``math`` or ``cmath``; itself where it meets plain numbers alone."""
    if not any(isinstance(x, Tensor) or type(x) is StagedNumber for x in (*args, *kwargs.values())):
        return function(*args, **kwargs)
    name = function.__name__
    own = _FUNCTIONS.get(name)
    if own is None:
        raise UnsupportedOp(
            f"{function.__module__}.{name} of an element",
            location=Location.of_user(),
            hint='write it with jg\'s functions, or have numba compile the function: @jg.elementwise(compiler="numba")',
        )
    tensors = _as_tensors(args)
    return own(*(tensors if name in _OF_INTS else map(_as_float, tensors)), **kwargs)


def _as_tensors(args: tuple[Any, ...]) -> list[Any]:
    """Numbers that the graph computes as tensors: in the dtype of the tensors beside them, where there are any."""
    tensors = [x for x in args if isinstance(x, Tensor)]
    if not tensors:
        return [x.as_tensor() if type(x) is StagedNumber else x for x in args]
    dtype = lifting.common_dtype(*args)
    return [wrap(x.value_in(dtype)) if type(x) is StagedNumber else x for x in args]


def to_float(x: Any) -> Any:
    """``float`` of an element: itself where it is a float."""
    tensor = x.as_tensor() if type(x) is StagedNumber else x
    return tensor if dtypes.is_float(tensor.dtype) else tensor.astype(element_numbers.floating())


def _as_float(x: Any) -> Any:
    return to_float(x) if isinstance(x, Tensor) and not dtypes.is_inexact(x.dtype) else x


def to_int(x: Any) -> Any:
    """``int`` of an element: towards zero, the nearest int64 beyond it, 0 of NaN."""
    return StagedNumber((x.as_tensor() if type(x) is StagedNumber else x).astype(dtypes.int64).value)


def to_bool(x: Any) -> Any:
    """``bool`` of an element: whether it is not 0."""
    return (x.as_tensor() if type(x) is StagedNumber else x) != 0


def _plain(name: str) -> Callable[..., Any]:
    return lambda *args: getattr(functions, name)(*args)


def _op(name: str) -> Callable[[Any], Any]:
    return lambda x: elementwise(getattr(ops, name), x, floating=True)


def _to_int(name: str) -> Callable[[Any], Any]:
    return lambda x: to_int(getattr(functions, name)(x))


def _log(x: Any, base: Any = None) -> Any:
    return functions.log(x) if base is None else functions.log(x) / functions.log(base)


def _modf(x: Any) -> tuple[Any, Any]:
    integral = functions.trunc(x)
    fraction = functions.where(functions.isinf(x), 0.0, x - integral)
    return functions.copysign(fraction, x), integral


def _hypot(*coordinates: Any) -> Any:
    total = functions.abs(coordinates[0])
    for x in coordinates[1:]:
        total = functions.hypot(total, x)
    return total


def _pow(x: Any, y: Any) -> Any:
    return functions.pow(to_float(x) if isinstance(x, Tensor) else float(x), y)


_SAME: Final = (
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cos", "cosh", "exp", "exp2"),
    *("expm1", "fmod", "gcd", "isclose", "isfinite", "isinf", "isnan", "lcm", "ldexp", "log10", "log1p", "log2"),
    *("nextafter", "sin", "sinh", "sqrt", "tan", "tanh"),
)
_OF_INTS: Final = frozenset({"ceil", "floor", "gcd", "lcm", "ldexp", "trunc"})
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    **{name: _plain(name) for name in _SAME},
    "ceil": _to_int("ceil"),
    "degrees": lambda x: x * (180.0 / math.pi),
    "erf": _op("erf"),
    "erfc": _op("erfc"),
    "fabs": lambda x: functions.abs(to_float(x)),
    "floor": _to_int("floor"),
    "fma": lambda x, y, z: x * y + z,
    "gamma": lambda x: imports.provided("the package").special.gamma(x),
    "hypot": _hypot,
    "lgamma": _op("lgamma"),
    "log": _log,
    "modf": _modf,
    "phase": lambda z: functions.angle(z),
    "pow": _pow,
    "radians": lambda x: x * (math.pi / 180.0),
    "trunc": _to_int("trunc"),
}
