"""Random programs at ties, kinks, NaN, infinities and the ends of the range, with the gradient that is due.

A program is a list of elementwise functions of what came before, of constants too, and a reduction with weights. Next
to each function stands its slope in NumPy, by the definition and the conventions of docs/accuracy.md. The reverse sweep
over these is the reference: where it is finite that number is due, and where it is NaN no finite number is right.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

import jitgraph as jg

INF, NAN = np.inf, np.nan
POOL = (
    0.0,
    -0.0,
    1.0,
    1.0,
    -1.0,
    2.0,
    2.0,
    -2.0,
    0.5,
    3.0,
    INF,
    -INF,
    NAN,
    5e-324,
    1e-310,
    1e-300,
    -1e-200,
    1e200,
    -1e300,
)
TAME = (0.0, 1.0, 1.0, -1.0, 2.0, 2.0, 0.5, 3.0, -2.0)
SIZE = 5
Function = Callable[..., Any]


def _slope_of_erfcx(x: Any) -> Any:
    return np.where(x > 1e6, -special.erfcx(x) / x, 2 * x * special.erfcx(x) - 2 / np.sqrt(np.pi))


def _i1(x: Any) -> Any:
    return np.where(np.abs(x) > 1e3, np.sign(x) * INF, special.i1(x))


def _slope_of_i1(x: Any) -> Any:
    size = np.abs(x)
    middle = np.where((size > 1e-9) & (size < 700), x, 1.0)
    return np.where(size <= 1e-9, 0.5, np.where(size >= 700, INF, special.ivp(1, middle) + x * 0))


def _slope_of_entr(x: Any) -> Any:
    lost = np.where(np.abs(x) < 1e-320, INF, 1.0)  # where x times a cotangent rounds
    return np.where(x < 0, INF, np.where(x == 0, INF, (-np.log(np.abs(x)) - 1) * lost))


# name: the function, its value, and its slope
UNARY: dict[str, tuple[Function, Function, Function]] = {
    "abs": (jg.abs, np.abs, np.sign),
    "sqrt": (jg.sqrt, np.sqrt, lambda x: 0.5 / np.sqrt(x)),
    "square": (jg.square, np.square, lambda x: 2 * x),
    "exp": (jg.exp, np.exp, np.exp),
    "atan": (jg.atan, np.arctan, lambda x: 1 / (1 + x * x)),
    "relu": (jg.relu, lambda x: np.where(x < 0, 0.0, x), lambda x: ~(x <= 0) * 1.0),
    "clip": (lambda x: jg.clip(x, -1.0, 2.0), lambda x: np.clip(x, -1, 2), lambda x: ~((x < -1) | (x > 2)) * 1.0),
    "clip by nan": (lambda x: jg.clip(x, NAN, 2.0), lambda x: x * NAN, np.zeros_like),
    "sign": (jg.sign, np.sign, np.zeros_like),  # of NaN, too, as in PyTorch
    "negative": (lambda x: -x, np.negative, lambda x: np.full_like(x, -1.0)),
    "entr": (jg.special.entr, special.entr, _slope_of_entr),
    "i1": (jg.special.i1, _i1, _slope_of_i1),
    "erfcx": (jg.special.erfcx, special.erfcx, _slope_of_erfcx),
}  # fmt: skip


def _share(first: Any, second: Any) -> Any:
    """What the first of two has of the gradient of their maximum: half where they are equal, all beside NaN."""
    return np.where(first == second, 0.5, np.where(first < second, 0.0, 1.0))


def _direction(x: Any, y: Any) -> Any:
    """x over the distance, 0 at the origin; of infinities the limit."""
    endless = np.isinf(x) | np.isinf(y)
    u, v = (np.where(endless, np.where(np.isinf(a), np.sign(a), a * 0), a) for a in (x, y))
    size = np.hypot(u, v)
    return np.where(size == 0, 0.0, u / np.where(size == 0, 1, size))


def _slope_of_atan2(y: Any, x: Any) -> Any:
    """By y: x over the square of the distance; 0 at the origin and at infinities."""
    size = np.maximum(np.abs(x), np.abs(y))
    flat = (size == 0) | np.isinf(size)
    size = np.where(flat, 1.0, size)
    u, v = x / size, y / size
    return np.where(flat, 0.0, u / (u * u + v * v) / size)


# name: the function, its value, and its slopes
BINARY: dict[str, tuple[Function, Function, tuple[Function, Function]]] = {
    "maximum": (jg.maximum, np.maximum, (_share, lambda x, y: _share(y, x))),
    "minimum": (jg.minimum, np.minimum, (lambda x, y: _share(-x, -y), lambda x, y: _share(-y, -x))),
    "hypot": (jg.hypot, np.hypot, (_direction, lambda x, y: _direction(y, x))),
    "atan2": (jg.atan2, np.arctan2, (_slope_of_atan2, lambda y, x: -_slope_of_atan2(x, y))),
    "add": (jg.add, np.add, (lambda x, y: np.ones_like(x), lambda x, y: np.ones_like(x))),
    "multiply": (jg.multiply, np.multiply, (lambda x, y: y, lambda x, y: x)),
    "divide": (jg.divide, np.divide, (lambda x, y: 1 / y, lambda x, y: -(x / y) / y)),
    "where": (
        lambda x, y: jg.where(x > y, x, y), lambda x, y: np.where(x > y, x, y),
        (lambda x, y: (x > y) * 1.0, lambda x, y: ~(x > y) * 1.0),
    ),
}  # fmt: skip


def _extreme(x: Any, weights: Any, greatest: bool) -> Any:
    """The gradient is shared by equal elements; NaN of all beside NaN."""
    is_one = x == (np.max if greatest else np.min)(x)
    return np.where(np.isnan(x).any(), NAN, is_one / max(1, is_one.sum())) * weights[0]


def _sorted(x: Any, weights: Any) -> Any:
    """Equal elements stay in order; NaN stands last."""
    gradient = np.empty_like(x)
    gradient[np.argsort(x, kind="stable")] = weights
    return gradient


def _median(x: Any, weights: Any) -> Any:
    """One element has it all: of equal ones that in the middle by a stable order; the first NaN."""
    location = np.argmax(np.isnan(x)) if np.isnan(x).any() else np.argsort(x, kind="stable")[SIZE // 2]
    return np.where(np.arange(SIZE) == location, weights[0], 0.0)


def _norm(x: Any, weights: Any) -> Any:
    greatest = np.max(np.abs(x))
    scale = greatest if 0 < greatest < INF else 1.0
    size = np.sqrt(np.sum((x / scale) ** 2))
    return weights[0] * (np.zeros_like(x) if size == 0 else x / scale / size)


def _product(x: Any, weights: Any) -> Any:
    before = np.cumprod(np.concatenate([[1.0], x[:-1]]))
    after = np.cumprod(np.concatenate([[1.0], x[:0:-1]]))[::-1]
    return weights[0] * (before * after)


# name: the function of x and the weights, and its gradient
REDUCTIONS: dict[str, tuple[Function, Function]] = {
    "sum": (lambda x, w: (x * w).sum(), lambda x, w: w),
    "max": (lambda x, w: x.max() * w[0], lambda x, w: _extreme(x, w, True)),
    "min": (lambda x, w: x.min() * w[0], lambda x, w: _extreme(x, w, False)),
    "sort": (lambda x, w: (jg.sort(x) * w).sum(), _sorted),
    "median": (lambda x, w: jg.median(x) * w[0], _median),
    "norm": (lambda x, w: jg.linalg.norm(x) * w[0], _norm),
    "prod": (lambda x, w: x.prod() * w[0], _product),
}


class Program:
    """The program of a seed, its input, and ``reference``: the gradient, which elements tell nothing, and sizes."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        pool = POOL if seed % 3 else TAME  # without NaN and infinities ties are told from one another
        draw = lambda: np.array([rng.choice(pool) for _ in range(SIZE)])
        self.input, self.constants = draw(), [draw() for _ in range(2)]
        self.weights = np.array([rng.choice([0.5, 1.5, -2.0, 3.0]) for _ in range(SIZE)])
        self.steps: list[tuple[str, tuple[int, ...]]] = []
        for i in range(rng.randint(0, 2)):
            count = rng.choice([1, 2])
            name = rng.choice(sorted(UNARY if count == 1 else BINARY))
            # values are numbered: -1 and -2 are the constants, 0 the input, and then what the steps gave
            self.steps.append((name, (i, *(rng.randint(-2, i) for _ in range(count - 1)))))
        self.reduction = rng.choice(sorted(REDUCTIONS))

    @property
    def names(self) -> list[str]:
        return [*(name for name, _ in self.steps), self.reduction]

    def __call__(self, x: Any) -> Any:
        values, constants = [x], [jg.asarray(c) for c in self.constants]
        for name, sources in self.steps:
            function = UNARY[name][0] if len(sources) == 1 else BINARY[name][0]
            values.append(function(*(values[i] if i >= 0 else constants[i] for i in sources)))
        return REDUCTIONS[self.reduction][0](values[-1], jg.asarray(self.weights))

    def reference(self) -> tuple[Any, Any, Any]:
        """And sizes of what is added up; where a cotangent of 0 meets an infinite slope, 0 and NaN are both right."""
        with np.errstate(all="ignore"):
            values: list[Any] = [self.input]
            for name, sources in self.steps:
                operands = [values[i] if i >= 0 else self.constants[i] for i in sources]
                function, exact = (UNARY if len(sources) == 1 else BINARY)[name][:2]
                values.append(function(*map(jg.asarray, operands)).numpy())  # what is equal depends on its last bit
                np.testing.assert_allclose(
                    values[-1], exact(*operands), rtol=1e-13, atol=1e-307, err_msg=f"{name} of {operands}"
                )
            cts = [np.zeros(SIZE) for _ in values]
            unknown = [np.zeros(SIZE, bool) for _ in values]
            sizes = [np.zeros(SIZE) for _ in values]
            cts[-1] = cts[-1] + REDUCTIONS[self.reduction][1](values[-1], self.weights)
            for number in range(len(self.steps), 0, -1):
                name, sources = self.steps[number - 1]
                operands = [values[i] if i >= 0 else self.constants[i] for i in sources]
                slopes = (UNARY[name][2],) if len(sources) == 1 else BINARY[name][2]
                for source, slope in zip(sources, slopes, strict=True):
                    if source < 0:
                        continue
                    factor, ct = np.asarray(slope(*operands), float), cts[number]
                    moot = ((ct == 0) & ~np.isfinite(factor)) | (~np.isfinite(ct) & (factor == 0))
                    both = np.isnan(operands).any(0) & np.isinf(operands).any(0)  # hypot of infinity and NaN
                    steep = np.isinf(factor) & np.isfinite(operands).all(0) & (np.abs(operands).min(0) > 0)  # overflown
                    unknown[source] |= unknown[number] | moot | both | steep
                    cts[source] = cts[source] + ct * factor
                    sizes[source] += np.abs(ct * factor) + sizes[number] * np.abs(factor)
            return cts[0], unknown[0], np.nan_to_num(sizes[0], nan=0.0, posinf=0.0)
