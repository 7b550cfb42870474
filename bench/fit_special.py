"""Chebyshev coefficients of the special functions of ``jitgraph/ops/special_tables.py``, by mpmath.

``python bench/fit_special.py`` prints the tables, ``python bench/fit_special.py temme`` those of the incomplete gamma
functions. Each function is expanded on a finite range of a variable t in [-1, 1]: coefficients c[k] with f = sum of
c[k] T_k(t), those below 2^-60 of the greatest left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import mpmath as mp

mp.mp.dps = 50
POINTS = 80


def expansion(f: Callable[[Any], Any]) -> list[float]:
    """The coefficients of f on [-1, 1], by the discrete orthogonality of Chebyshev polynomials at their zeros."""
    nodes = [mp.cos(mp.pi * (j + mp.mpf(1) / 2) / POINTS) for j in range(POINTS)]
    values = [f(t) for t in nodes]
    found = [
        2 * mp.fsum(v * mp.cos(mp.pi * k * (j + mp.mpf(1) / 2) / POINTS) for j, v in enumerate(values)) / POINTS
        for k in range(POINTS)
    ]
    found[0] /= 2
    top = max(map(abs, found))
    while abs(found[-1]) < top * mp.mpf(2) ** -60:
        found.pop()
    return [float(c) for c in found]


def far(order: int) -> Callable[[Any], Any]:
    """sqrt(x) exp(-x) I_order(x) for x = 8 .. infinity, t = 16 / x - 1."""

    def f(t: Any) -> Any:
        x = 16 / (1 + t)
        return mp.sqrt(x) * mp.exp(-x) * mp.besseli(order, x)

    return f


TABLES: dict[str, Callable[[Any], Any]] = {
    # x = 4 (1 + t)
    "I0_NEAR": lambda t: mp.exp(-4 * (1 + t)) * mp.besseli(0, 4 * (1 + t)),
    "I0_FAR": far(0),
    "I1_NEAR": lambda t: mp.exp(-4 * (1 + t)) * (mp.besseli(1, 4 * (1 + t)) / (4 * (1 + t))),
    "I1_FAR": far(1),
    # t = (x - 3.75) / (x + 3.75); (1 + 2 x) erfcx(x), after Shepherd and Laframboise, Math. Comp. 36 (1981)
    "ERFCX": lambda t: (lambda x: (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x))(mp.mpf(3.75) * (1 + t) / (1 - t)),
}


def temme(orders: int = 9, powers: int = 16) -> list[list[float]]:
    """Taylor coefficients in eta of c_k(eta), k below ``orders``, in Q = erfc / 2 + ... sum of c_k / a^k (Temme 1979).

    With eta^2 / 2 = mu - log(1 + mu) is c_0 = 1 / mu - 1 / eta, and c_k = (c'_(k-1) + g) / eta + g c_0, where g is such
    that there is no pole.
    """
    length = powers + 2 * orders + 2
    mu = [mp.mpf(0), mp.mpf(1)]  # mu' mu = eta (1 + mu), coefficient by coefficient
    for n in range(2, length + 2):
        product = mp.fsum((i + 1) * mu[i + 1] * mu[n - i] for i in range(1, n - 1))
        mu.append((mu[n - 1] - product) / (n + 1))
    inverse = [mp.mpf(1)]  # eta / mu
    for n in range(1, length + 1):
        inverse.append(-mp.fsum(mu[i + 1] * inverse[n - i] for i in range(1, n + 1)))
    row = first = inverse[1:]
    found = []
    for _ in range(orders):
        found.append([float(c) for c in row[:powers]])
        g = -row[1]
        row = [(n + 2) * row[n + 2] + g * first[n] for n in range(len(row) - 2)]
    return found


def write_temme() -> None:
    print('"""Coefficients of Temme\'s uniform expansion; ``bench/fit_special.py temme`` wrote them."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    print("TEMME: Final = (")
    for row in temme():
        print("    (")
        for c in row:
            print(f"        {c!r},")
        print("    ),")
    print(")")


if __name__ == "__main__" and sys.argv[1:] == ["temme"]:
    write_temme()
elif __name__ == "__main__":
    print('"""Chebyshev coefficients of special functions; ``bench/fit_special.py`` wrote them and says of what."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    for name, f in TABLES.items():
        print(f"{name}: Final = (")
        for c in expansion(f):
            print(f"    {c!r},")
        print(")")
