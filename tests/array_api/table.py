"""The functions of the Python Array API 2024.12, each with calls on samples of every dtype that it takes.

A call is a function of a namespace and of tensors, so that it runs with ``jitgraph`` and with ``array_api_strict``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.ops.sampling import edges

SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = SIGNED + UNSIGNED
FLOATS: Final = ("float32", "float64")
NUMBERS: Final = INTEGERS + FLOATS
ALL: Final = ("bool", *NUMBERS)


class Case(NamedTuple):
    """One call of a function, the dtypes for which it holds, and the relative error that rounding may make."""

    call: Callable[..., Any]
    dtypes: tuple[str, ...]
    inputs: Callable[[str], tuple[Any, ...]]
    tolerance: float = 0.0
    zeros: bool = True  # whether the sign of a zero is the standard's to say


def _edges(dtype: str) -> Any:
    return edges(np.dtype(dtype))


def _one(dtype: str) -> tuple[Any, ...]:
    return (_edges(dtype),)


def _pairs(dtype: str) -> tuple[Any, ...]:
    x = _edges(dtype)
    return np.repeat(x, len(x)), np.tile(x, len(x))


def _no_zero_divisors(dtype: str) -> tuple[Any, ...]:
    x, y = _pairs(dtype)
    return (x[y != 0], y[y != 0]) if np.dtype(dtype).kind in "iu" else (x, y)


def _shifts(dtype: str) -> tuple[Any, ...]:
    x = _edges(dtype)
    steps = np.arange(np.dtype(dtype).itemsize * 8 - 1).astype(dtype)
    return np.repeat(x, len(steps)), np.tile(steps, len(x))


def _powers(dtype: str) -> tuple[Any, ...]:
    x, y = _pairs(dtype)
    return (x[y >= 0], y[y >= 0] % 7) if np.dtype(dtype).kind in "iu" else (x, y)


def _grid(dtype: str) -> tuple[Any, ...]:
    """A 3 by 4 tensor of small numbers, some of them equal, zero among them."""
    numbers = np.array([[3, 1, 2, 1], [0, 5, 2, 2], [4, 1, 0, 7]])
    return (numbers.astype(dtype),)


def _elementwise(name: str, dtypes: tuple[str, ...], inputs: Any, tolerance: float = 0.0) -> Case:
    zeros = name not in ("maximum", "minimum")
    return Case(lambda xp, *xs: getattr(xp, name)(*xs), dtypes, inputs, tolerance, zeros)


_EXACT_OF_ONE = {
    **dict.fromkeys(("abs", "positive", "sign", "square"), NUMBERS),
    **dict.fromkeys(("ceil", "floor", "round", "trunc", "isfinite", "isinf", "isnan"), NUMBERS),
    "negative": SIGNED + FLOATS,
    **dict.fromkeys(("sqrt", "reciprocal", "signbit"), FLOATS),
    "bitwise_invert": ("bool", *INTEGERS),
    "logical_not": ("bool",),
}
_NEAR = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p"),
    *("log2", "sin", "sinh", "tan", "tanh"),
)
_EXACT_OF_TWO = {
    **dict.fromkeys(("add", "subtract", "multiply", "maximum", "minimum"), NUMBERS),
    **dict.fromkeys(("equal", "not_equal"), ALL),
    **dict.fromkeys(("greater", "greater_equal", "less", "less_equal"), NUMBERS),
    **dict.fromkeys(("copysign", "nextafter", "divide"), FLOATS),
    **dict.fromkeys(("bitwise_and", "bitwise_or", "bitwise_xor"), ("bool", *INTEGERS)),
    **dict.fromkeys(("logical_and", "logical_or", "logical_xor"), ("bool",)),
}


def _f(
    call: Callable[..., Any],
    dtypes: tuple[str, ...] = ALL,
    inputs: Any = _grid,
    tolerance: float = 0.0,
    zeros: bool = True,
) -> Case:
    return Case(call, dtypes, inputs, tolerance, zeros)


def _none(dtype: str) -> tuple[Any, ...]:
    return (np.zeros((2, 0), dtype),)


def _with_indices(dtype: str) -> tuple[Any, ...]:
    return (*_grid(dtype), np.array([[0, 2, 1, 0], [1, 1, 2, 0]]))


def _sorted_and_wanted(dtype: str) -> tuple[Any, ...]:
    x = np.sort(np.tile(_edges(dtype), 2))
    return x[x == x], np.array(_edges(dtype)[::-1])[_edges(dtype)[::-1] == _edges(dtype)[::-1]]


def _of_edges_too(call: Callable[..., Any]) -> list[Case]:
    """Of small numbers, and of special ones, where either zero stands for both."""
    return [_f(call), _f(call, FLOATS, _one, zeros=False)]


MANIPULATION: Final[Mapping[str, list[Case]]] = {
    "broadcast_arrays": [_f(lambda xp, x: xp.broadcast_arrays(x, x[:1, :], x[:, :1]))],
    "broadcast_to": [_f(lambda xp, x: xp.broadcast_to(x, (2, 3, 4)))],
    "concat": [
        _f(lambda xp, x: xp.concat([x, x[1:, :]], axis=0)),
        _f(lambda xp, x: xp.concat((x, x[:, :1]), axis=-1)),
        _f(lambda xp, x: xp.concat([x, x[0, :]], axis=None)),
    ],
    "expand_dims": [_f(lambda xp, x: [xp.expand_dims(x, axis=axis) for axis in (-3, -1, 0, 1, 2)])],
    "flip": [_f(lambda xp, x: [xp.flip(x), xp.flip(x, axis=0), xp.flip(x, axis=(-1, 0))])],
    "moveaxis": [_f(lambda xp, x: [xp.moveaxis(x, 0, -1), xp.moveaxis(x, (0, 1), (1, 0))])],
    "permute_dims": [_f(lambda xp, x: xp.permute_dims(x, (1, 0)))],
    "repeat": [
        _f(lambda xp, x: [xp.repeat(x, 2), xp.repeat(x, 3, axis=1), xp.repeat(x, 0, axis=-2)]),
    ],
    "reshape": [
        _f(lambda xp, x: [xp.reshape(x, (4, 3)), xp.reshape(x, (-1,)), xp.reshape(x, shape=(2, -1), copy=True)])
    ],
    "roll": [
        _f(lambda xp, x: [xp.roll(x, 2), xp.roll(x, -1, axis=1), xp.roll(x, (1, 5), axis=(0, -1)), xp.roll(x, 7)])
    ],
    "squeeze": [_f(lambda xp, x: xp.squeeze(x[:1, None, :], axis=(0, 1)))],
    "stack": [_f(lambda xp, x: [xp.stack([x, x], axis=axis) for axis in (0, 1, 2, -1)])],
    "tile": [_f(lambda xp, x: [xp.tile(x, (2, 1)), xp.tile(x, (2,)), xp.tile(x, (2, 1, 3))])],
    "unstack": [_f(lambda xp, x: [*xp.unstack(x), *xp.unstack(x, axis=-1)])],
    "meshgrid": [
        _f(lambda xp, x: [*xp.meshgrid(x[0, :], x[:, 0]), *xp.meshgrid(x[0, :], x[:, 0], x[1, :], indexing="ij")])
    ],
    "tril": [_f(lambda xp, x: [xp.tril(x), xp.tril(x, k=1), xp.tril(x, k=-5)])],
    "triu": [_f(lambda xp, x: [xp.triu(x), xp.triu(x, k=-1), xp.triu(x, k=9)])],
    "diff": [
        _f(
            lambda xp, x: [
                *(xp.diff(x), xp.diff(x, axis=0, n=2), xp.diff(x, n=0), xp.diff(x, n=9)),
                xp.diff(x, prepend=x[:, :1], append=x[:, :2]),
            ],
            NUMBERS,
        )
    ],
    "astype": [_f(lambda xp, x: [xp.astype(x, getattr(xp, name)) for name in ALL])],
    "where": [_f(lambda xp, x: [xp.where(x > 1, x, x[:1, :]), xp.where(x > 1, x, 1)], NUMBERS)],
    "clip": [
        _f(lambda xp, x: [xp.clip(x, 1, 3), xp.clip(x, min=2), xp.clip(x, max=x[0, :]), xp.clip(x)], NUMBERS),
    ],
    "__getitem__": [
        _f(
            lambda xp, x: [
                *(x[0, 1], x[-1, ...], x[::2, ::-1], x[None, 1:, -3:-1], x[..., None], x[3:, 3::-2]),
                *(x[x > 1]),
            ],
            NUMBERS,
        ),
        _f(lambda xp, x, i: [x[i, i], x[i, 1], x[0, i], x[i[:, :1], i[:1, :]]], ALL, _with_indices),
    ],
}

SEARCHING: Final[Mapping[str, list[Case]]] = {
    "argmax": [_f(lambda xp, x: [xp.argmax(x), xp.argmax(x, axis=1), xp.argmax(x, axis=0, keepdims=True)], NUMBERS)],
    "argmin": [_f(lambda xp, x: [xp.argmin(x), xp.argmin(x, axis=-1), xp.argmin(x, keepdims=True)], NUMBERS)],
    "argsort": [
        _f(lambda xp, x: [xp.argsort(x), xp.argsort(x, axis=0, descending=True), xp.argsort(x, stable=True)], NUMBERS)
    ],
    "sort": [_f(lambda xp, x: [xp.sort(x), xp.sort(x, axis=0, descending=True), xp.sort(x, stable=False)], NUMBERS)],
    "count_nonzero": [
        _f(lambda xp, x: [xp.count_nonzero(x), xp.count_nonzero(x, axis=0), xp.count_nonzero(x, axis=1, keepdims=True)])
    ],
    "nonzero": [_f(lambda xp, x: xp.nonzero(x)), _f(lambda xp, x: xp.nonzero(x[0, 0] * x), FLOATS)],
    "searchsorted": [
        _f(
            lambda xp, x, y: [xp.searchsorted(x, y, side=side) for side in ("left", "right")],
            NUMBERS,
            _sorted_and_wanted,
        ),
        _f(lambda xp, x, y: xp.searchsorted(xp.flip(x), y, sorter=xp.argsort(xp.flip(x))), NUMBERS, _sorted_and_wanted),
    ],
    "take": [_f(lambda xp, x, i: [xp.take(x, i[0, :], axis=1), xp.take(x[0, :], i[1, :])], ALL, _with_indices)],
    "take_along_axis": [
        _f(lambda xp, x, i: [xp.take_along_axis(x, i, axis=0), xp.take_along_axis(x[:2, :], i)], ALL, _with_indices)
    ],
    "unique_all": _of_edges_too(lambda xp, x: [*xp.unique_all(x)]),
    "unique_counts": _of_edges_too(lambda xp, x: [*xp.unique_counts(x)]),
    "unique_inverse": [_f(lambda xp, x: [*xp.unique_inverse(x)])],
    "unique_values": _of_edges_too(lambda xp, x: xp.unique_values(x)),
    "isin": [
        _f(lambda xp, x: [xp.isin(x, x[0, :]), xp.isin(x, x[:0, :])], INTEGERS),
    ],
}

_AXES: Final[tuple[dict[str, Any], ...]] = (
    *({}, {"axis": 0}, {"axis": -1, "keepdims": True}),
    *({"axis": (1, 0)}, {"keepdims": True}),
)


def _reduced(name: str) -> Callable[..., Any]:
    return lambda xp, x: [getattr(xp, name)(x, **options) for options in _AXES]


REDUCTIONS: Final[Mapping[str, list[Case]]] = {
    **{
        name: [_f(_reduced(name)), _f(_reduced(name), ALL, lambda dtype: (np.zeros((2, 0), dtype),))]
        for name in ("all", "any")
    },
    **{name: [_f(_reduced(name), NUMBERS)] for name in ("max", "min")},
    **{name: [_f(_reduced(name), NUMBERS, tolerance=1e-6)] for name in ("sum", "prod")},
    **{name: [_f(_reduced(name), FLOATS, tolerance=1e-6)] for name in ("mean", "std", "var")},
    "dtype= of reductions": [
        _f(lambda xp, x: [xp.sum(x, dtype=xp.float64), xp.prod(x, dtype=xp.float64)], FLOATS),
        _f(lambda xp, x: [xp.sum(x, dtype=xp.int16), xp.prod(x, dtype=x.dtype, axis=0)], INTEGERS),
    ],
    "correction": [
        _f(lambda xp, x: [xp.std(x, correction=1.0), xp.var(x, axis=0, correction=0.5)], FLOATS, tolerance=1e-6)
    ],
    "cumulative_sum": [
        _f(
            lambda xp, x: [
                *(xp.cumulative_sum(x, axis=0), xp.cumulative_sum(x[0, :], include_initial=True)),
                xp.cumulative_sum(x, axis=-1, include_initial=True, dtype=x.dtype),
            ],
            NUMBERS,
            tolerance=1e-6,
        )
    ],
    "cumulative_prod": [
        _f(
            lambda xp, x: [
                *(xp.cumulative_prod(x, axis=0), xp.cumulative_prod(x[0, :], include_initial=True)),
                xp.cumulative_prod(x, axis=-1, include_initial=True, dtype=x.dtype),
            ],
            NUMBERS,
            tolerance=1e-6,
        )
    ],
}

ELEMENTWISE: Final[Mapping[str, list[Case]]] = {
    **{name: [_elementwise(name, dtypes, _one)] for name, dtypes in _EXACT_OF_ONE.items()},
    **{name: [_elementwise(name, FLOATS, _one, 1e-6)] for name in _NEAR},
    **{name: [_elementwise(name, dtypes, _pairs)] for name, dtypes in _EXACT_OF_TWO.items()},
    **{name: [_elementwise(name, FLOATS, _pairs, 1e-6)] for name in ("atan2", "hypot", "logaddexp")},
    **{name: [_elementwise(name, NUMBERS, _no_zero_divisors)] for name in ("floor_divide", "remainder")},
    **{name: [_elementwise(name, INTEGERS, _shifts)] for name in ("bitwise_left_shift", "bitwise_right_shift")},
    "pow": [_elementwise("pow", INTEGERS, _powers), _elementwise("pow", FLOATS, _powers, 1e-6)],
    "scalars": [
        _f(lambda xp, x: [x + 1, 1 - x, x * 2, 7 % (x + 1), xp.maximum(x, 2), xp.add(1, x), x == 2, x < 3], NUMBERS),
        _f(lambda xp, x: [x & True, True | x, x ^ False, ~x, xp.logical_and(x, True)], ("bool",)),
        _f(lambda xp, x: [x & 3, 5 | x, 6 ^ x, x << 1, 1 << x, x >> 1, -(~x), +x, abs(x), x // 2], SIGNED),
        _f(
            lambda xp, x: [x / 2, 2.5 / (x + 1), x**2, 2**x, x // 0.5, x % 1.5, xp.atan2(x, 1.0)],
            FLOATS,
            tolerance=1e-6,
        ),
    ],
}

COMPLEX: Final[Mapping[str, list[Case]]] = {
    name: [
        _f(lambda xp, x, name=name: getattr(xp, name)(xp.astype(x, xp.complex64) * (1 - 2j)), FLOATS),
        _f(lambda xp, x, name=name: getattr(xp, name)(x), FLOATS if name == "conj" else (), _one),
    ]
    for name in ("conj", "imag", "real")
}

FAMILIES: Final = {
    "complex": COMPLEX,
    "elementwise": ELEMENTWISE,
    "manipulation": MANIPULATION,
    "searching": SEARCHING,
    "reductions": REDUCTIONS,
}
