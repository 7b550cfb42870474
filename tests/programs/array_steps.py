"""The steps of ``array_texts``: each gives an expression over the variables, and the bound of its result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.programs.array_texts import DTYPES, Builder, Value

Step = Callable[[Builder], "tuple[str, Any] | None"]

_EPS = {"float16": 2e-3, "float32": 4e-6, "float64": 1e-13, "complex64": 1e-5, "complex128": 1e-13}


def kind(value: Value) -> str:
    return value.array.dtype.kind


def _is(kinds: str) -> Callable[[Value], bool]:
    return lambda value: kind(value) in kinds


def _has_minus_zero(array: Any) -> bool:
    return array.dtype.kind == "f" and bool(((array == 0) & np.signbit(array)).any())


def _has_nan(array: Any) -> bool:
    """NaN has no sign that counts: of NaNs that meet, NumPy passes on now this one, now that one."""
    return array.dtype.kind == "f" and bool(np.isnan(array).any())


def _tame(value: Value, most: float = 30.0) -> bool:
    """Finite numbers of moderate size."""
    array = value.array
    return kind(value) in "fc" and bool(np.isfinite(array).all()) and float(np.abs(array).max(initial=0)) < most


def _near(scale: float) -> Callable[[Any], Any]:
    """A bound of some roundings of numbers as large as ``scale`` and the result."""
    return lambda found: _EPS[str(found.dtype)] * max(1.0, scale, float(np.abs(found).max(initial=0)))


def unary(b: Builder) -> Any:
    """Exact functions of one operand."""
    x = b.pick()
    if x is None:
        return None
    names = {
        "b": ("logical_not",),
        "i": ("negative", "abs", "sign", "square", "bitwise_invert", "positive"),
        "u": ("sign", "square", "bitwise_invert", "positive"),
        "f": (
            *("negative", "abs", "sign", "square", "sqrt", "floor", "ceil", "trunc", "round", "isnan", "isinf"),
            *("isfinite", "signbit", "reciprocal"),
        ),
        "c": ("negative", "conj", "real", "imag", "isnan", "isfinite"),
    }[kind(x)]
    name = b.choice(names)
    if (name == "sign" and _has_minus_zero(x.array)) or (name == "signbit" and _has_nan(x.array)):
        return None
    return f"m.{name}({x.name})", None


def binary(b: Builder) -> Any:
    """Exact functions of two operands of one dtype that broadcast, or of a number."""
    x = b.pick()
    if x is None:
        return None
    y = b.pick(lambda value: value.array.dtype == x.array.dtype)
    names = {
        "b": ("logical_and", "logical_or", "logical_xor", "equal", "not_equal"),
        "i": (
            *("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"),
            *("less", "greater_equal", "equal", "not_equal"),
        ),
        "u": ("add", "subtract", "multiply", "maximum", "minimum", "bitwise_and", "less", "equal"),
        "f": (
            *("add", "subtract", "multiply", "divide", "maximum", "minimum", "less", "less_equal", "greater"),
            *("equal", "not_equal", "copysign"),
        ),
        "c": ("add", "subtract", "equal", "not_equal"),
    }[kind(x)]
    name = b.choice(names)
    if name in ("maximum", "minimum") and (_has_minus_zero(x.array) or (y is not None and _has_minus_zero(y.array))):
        return None
    if name == "copysign" and y is not None and _has_nan(y.array):
        return None
    if b.integer(0, 4) == 0 and kind(x) in "if":
        number = b.choice((2, 3, 1)) if kind(x) == "i" else b.choice((2.0, 0.5, -1.0, 3))
        return (f"m.{name}({x.name}, {number})", None) if name != "copysign" else None
    return f"m.{name}({x.name}, {y.name})", None  # type: ignore[union-attr]


def operator(b: Builder) -> Any:
    """Operators with numbers, shifts, remainders and quotients."""
    x = b.pick(_is("iuf"))
    if x is None:
        return None
    if kind(x) == "f":
        form = b.choice(("2.0 - {x}", "{x} * 0.25", "1.5 / {x}", "-{x}", "abs({x})", "{x} + 1"))
        return form.format(x=x.name), None
    form = b.choice(("{x} // 3", "{x} % 5", "{x} << 1", "{x} >> 2", "{x} & 6", "{x} ^ 3", "{x} * 3", "{x} - 1"))
    return form.format(x=x.name), None


def select(b: Builder) -> Any:
    """``where`` and ``clip``."""
    x = b.pick(exact=False)
    if x is None:
        return None
    condition = b.pick(_is("b"))
    if condition is not None and b.integer(0, 2):
        y = b.pick(lambda value: value.array.dtype == x.array.dtype, exact=False)
        bounds = [value.bound for value in (x, y) if value is not None and value.bound is not None]
        return f"m.where({condition.name}, {x.name}, {y.name})", max(bounds) if bounds else None  # type: ignore[union-attr]
    if kind(x) in "if" and x.bound is None and not _has_minus_zero(x.array):
        return f"m.clip({x.name}, -2, 3)", None
    return None


def _axis(b: Builder, x: Value) -> int | None:
    return None if x.array.ndim == 0 else b.integer(-x.array.ndim, x.array.ndim)


def move(b: Builder) -> Any:
    """Movements, of exact and of rounded values alike."""
    x = b.pick(exact=False)
    if x is None:
        return None
    shape, axis = x.array.shape, _axis(b, x)
    forms = ["m.reshape({x}, (-1,))", "m.expand_dims({x}, axis=0)", "{x}[None, ...]", "m.flip({x})", "{x}[...]"]
    if axis is not None:
        order = tuple(map(int, b.rng.permutation(len(shape))))
        start, stop, step = b.integer(-3, 3), b.integer(-3, 5), b.choice((1, 2, -1, -2))
        forms += [
            f"m.flip({{x}}, axis={axis})",
            f"m.roll({{x}}, {b.integer(-3, 4)}, axis={axis})",
            f"m.permute_dims({{x}}, {order})",
            f"m.moveaxis({{x}}, {axis}, 0)",
            f"{{x}}[{start}:{stop}:{step}]",
            f"{{x}}[..., ::{step}]",
            f"m.stack([{{x}}, {{x}}], axis={axis})",
            f"m.concat([{{x}}, {{x}}], axis={axis})",
            f"m.repeat({{x}}, 2, axis={axis})",
            f"m.tile({{x}}, ({b.integer(1, 3)},))",
            f"m.broadcast_to({{x}}, {(2, *shape)})",
            "m.squeeze({x}[None], axis=0)",
            f"m.reshape({{x}}, {(*shape[::-1],)})",
        ]
        if shape[axis]:
            size = shape[axis]
            positions = [b.integer(-size, size) for _ in range(b.integer(1, 4))]
            forms += [f"m.take({{x}}, m.asarray({[p % size for p in positions]}), axis={axis})"]
            if shape[0]:
                forms += [f"{{x}}[{b.integer(-shape[0], shape[0])}]"]
                forms += [f"{{x}}[m.asarray({[p % shape[0] for p in positions]})]"]
        if len(shape) > 1:
            forms += ["m.tril({x})", "m.triu({x}, k=1)", "m.matrix_transpose({x})"]
    bound = x.bound
    return b.choice(forms).format(x=x.name), bound


def join(b: Builder) -> Any:
    """Two values of one dtype side by side."""
    x = b.pick(exact=False)
    if x is None or x.array.ndim == 0:
        return None
    y = b.pick(lambda value: value.array.dtype == x.array.dtype and value.array.ndim == x.array.ndim, exact=False)
    bounds = [value.bound for value in (x, y) if value is not None and value.bound is not None]
    return f"m.concat([{x.name}, {y.name}], axis={_axis(b, x)})", max(bounds) if bounds else None  # type: ignore[union-attr]


def reduce_exactly(b: Builder) -> Any:
    """Reductions whose result does not depend on an order."""
    x = b.pick()
    if x is None:
        return None
    axis = b.choice((None, _axis(b, x)))
    keep = b.choice((True, False))
    names = {"b": ("any", "all", "sum", "count_nonzero"), "i": ("sum", "prod", "max", "min", "argmax", "any"),
             "u": ("sum", "max", "argmin", "all"), "f": ("max", "min", "argmax", "argmin", "any", "count_nonzero"),
             "c": ("any", "all")}[kind(x)]  # fmt: skip
    name = b.choice(names)
    if name in ("max", "min") and _has_minus_zero(x.array):
        return None
    return f"m.{name}({x.name}, axis={axis}, keepdims={keep})", None


def reduce_nearly(b: Builder) -> Any:
    """Sums, products, means and spreads of floats and complex numbers."""
    x = b.pick(lambda value: _tame(value, 30.0))
    if x is None or x.array.dtype == np.float16 or x.array.size == 0:
        return None
    axis, keep = b.choice((None, _axis(b, x))), b.choice((True, False))
    name = b.choice(("sum", "mean", "var", "std") if kind(x) == "f" else ("sum", "mean"))
    return f"m.{name}({x.name}, axis={axis}, keepdims={keep})", _near(float((np.abs(x.array) ** 2).sum()) + 1)


def running(b: Builder) -> Any:
    """Running sums of integers, sorts, and places in an order."""
    x = b.pick(_is("iuf"))
    if x is None or x.array.ndim == 0:
        return None
    axis = _axis(b, x)
    if kind(x) != "f" and b.integer(0, 2):
        return f"m.cumulative_sum({x.name}, axis={axis})", None
    if _has_minus_zero(x.array):
        return None
    return f"m.sort({x.name}, axis={axis})", None


def transcendental(b: Builder) -> Any:
    """Functions that round in their own way."""
    x = b.pick(lambda value: _tame(value, 20.0))
    if x is None or x.array.dtype == np.float16:
        return None
    names = ("exp", "sin", "cos", "tanh", "atan", "expm1", "sinh") if kind(x) == "f" else ("exp", "sin", "cos")
    return f"m.{b.choice(names)}({x.name})", _near(1.0)


def product(b: Builder) -> Any:
    """Matrix products and what is like them."""
    x = b.pick(lambda value: _tame(value, 30.0) and value.array.ndim in (1, 2))
    if x is None or x.array.dtype == np.float16:
        return None
    y = b.pick(lambda value: value.array.dtype == x.array.dtype and _tame(value, 30.0) and value.array.ndim in (1, 2))
    forms = (
        "{x} @ {y}",
        "m.tensordot({x}, {y}, axes=1)",
        "m.matmul({x}, m.matrix_transpose({x}))",
        "m.vecdot({x}, {y})",
    )
    form = b.choice(forms)
    return form.format(x=x.name, y=y.name), _near(1000.0 * max(1, x.array.size))  # type: ignore[union-attr]


def cast(b: Builder) -> Any:
    """Another dtype that holds the numbers."""
    x = b.pick()
    if x is None:
        return None
    target = b.choice(DTYPES)
    if kind(x) == "c" and np.dtype(target).kind != "c":
        return None
    if (
        kind(x) == "f"
        and np.dtype(target).kind in "iu"
        and not (_tame(x, 100.0) and (np.dtype(target).kind == "i" or (x.array > -1).all()))
    ):
        return None
    return f"m.astype({x.name}, m.{target})", None


STEPS: list[Step] = [
    *(unary,) * 3, *(binary,) * 4, operator, *(select,) * 2, *(move,) * 6, join, *(reduce_exactly,) * 2,
    reduce_nearly, running, transcendental, product, *(cast,) * 2,
]  # fmt: skip
