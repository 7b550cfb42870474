"""Distribution functions of statistics, in SciPy's names: all by the incomplete beta and gamma functions.

Gradients flow to the variable, not to degrees and counts, which ValueError says.
"""

from __future__ import annotations

from typing import Final

from jitgraph.special.incomplete import gammainc, gammaincc, of_pair
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.elementwise import floor, sqrt, where
from jitgraph.tensor.functions.method import array_function
from jitgraph.tensor.functions.operands import in_float64
from jitgraph.tensor.functions.special_functions import ndtr
from jitgraph.tensor.lifting import TensorLike

_NAN: Final = float("nan")
_NEARLY_NORMAL: Final = 1e8
"""Degrees above which Student's distribution is computed as a normal one (Abramowitz and Stegun 26.7.8)."""


def _shares(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """x and y over their sum."""
    return x / (x + y), y / (x + y)


@array_function
def betaincc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """1 - betainc(a, b, x), to full precision where it is small."""
    return in_float64(lambda a, b, x: of_pair("betaincc", b, a, 1 - x, x), a, b, x)


@array_function
def chdtr(v: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a chi-square number of v degrees is at most x."""
    return in_float64(lambda v, x: gammainc(v * 0.5, x * 0.5), v, x)


@array_function
def chdtrc(v: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a chi-square number of v degrees is above x; NaN for x < 0."""
    return in_float64(lambda v, x: gammaincc(v * 0.5, x * 0.5), v, x)


@array_function
def gdtr(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a gamma number of the rate a and the concentration b is at most x."""
    return in_float64(lambda a, b, x: gammainc(b, a * x), a, b, x)


@array_function
def gdtrc(a: TensorLike, b: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a gamma number of the rate a and the concentration b is above x."""
    return in_float64(lambda a, b, x: gammaincc(b, a * x), a, b, x)


@array_function
def pdtr(k: TensorLike, m: TensorLike) -> Tensor:
    """The probability that a Poisson number of the rate m is at most k."""
    return in_float64(lambda k, m: gammaincc(floor(k) + 1, m), k, m)


@array_function
def pdtrc(k: TensorLike, m: TensorLike) -> Tensor:
    """The probability that a Poisson number of the rate m is above k."""
    return in_float64(lambda k, m: gammainc(floor(k) + 1, m), k, m)


@array_function
def bdtr(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of at most k successes in n trials that each succeed with probability p."""

    def body(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        least = floor(k)
        inside = least < n
        probability = of_pair("bdtr", where(inside, n - least, 1.0), least + 1, 1 - p, p)
        return where(inside, probability, where(least == n, 1.0, _NAN))

    return in_float64(body, k, n, p)


@array_function
def bdtrc(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of more than k successes in n trials that each succeed with probability p."""

    def body(k: Tensor, n: Tensor, p: Tensor) -> Tensor:
        least = floor(k)
        below, inside = least < 0, (least >= 0) & (least < n)
        tail = of_pair("bdtrc", where(inside, least, 0.0) + 1, where(inside, n - least, 1.0), p, 1 - p)
        return where(below, 1.0, where(inside, tail, where(least == n, 0.0, _NAN)))

    return in_float64(body, k, n, p)


@array_function
def nbdtr(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of at most k failures before n successes of trials that succeed with probability p."""
    return in_float64(lambda k, n, p: of_pair("nbdtr", n, floor(k) + 1, p, 1 - p), k, n, p)


@array_function
def nbdtrc(k: TensorLike, n: TensorLike, p: TensorLike) -> Tensor:
    """The probability of more than k failures before n successes of trials that succeed with probability p."""
    return in_float64(lambda k, n, p: of_pair("nbdtrc", floor(k) + 1, n, 1 - p, p), k, n, p)


@array_function
def fdtr(dfn: TensorLike, dfd: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a quotient of chi-square numbers over their degrees is at most x."""
    return in_float64(lambda n, d, x: of_pair("fdtr", n * 0.5, d * 0.5, *_shares(n * x, d)), dfn, dfd, x)


@array_function
def fdtrc(dfn: TensorLike, dfd: TensorLike, x: TensorLike) -> Tensor:
    """The probability that a quotient of chi-square numbers over their degrees is above x."""
    return in_float64(lambda n, d, x: of_pair("fdtrc", d * 0.5, n * 0.5, *_shares(d, n * x)), dfn, dfd, x)


@array_function
def stdtr(df: TensorLike, t: TensorLike) -> Tensor:
    """The probability that a number of Student's distribution of df degrees is at most t."""

    def body(degrees: Tensor, t: Tensor) -> Tensor:
        square = t * t
        near = square < 1  # there by the part around the middle, else by the tail
        normal = degrees > _NEARLY_NORMAL
        v = where(normal, 1.0, degrees)
        first, second = where(near, 0.5, v * 0.5), where(near, v * 0.5, 0.5)
        part = of_pair("stdtr", first, second, *_shares(where(near, square, v), where(near, v, square))) * 0.5
        below = where(near, 0.5 - part, part)
        cdf = where(t < 0, below, 1 - below)
        return where(normal, ndtr(t * (1 - 0.25 / degrees) / sqrt(1 + square * 0.5 / degrees)), cdf)

    return in_float64(body, df, t)
