"""Chebyshev coefficients of the special functions of ``jitgraph/ops/special_tables.py``, by mpmath.

``python bench/fit_special.py`` prints the tables. Each function is expanded on a finite range of a variable t in
[-1, 1]: coefficients c[k] with f = sum of c[k] T_k(t), those below 2^-60 of the greatest left out.
"""

from __future__ import annotations

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

if __name__ == "__main__":
    print('"""Chebyshev coefficients of special functions; ``bench/fit_special.py`` wrote them and says of what."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    for name, f in TABLES.items():
        print(f"{name}: Final = (")
        for c in expansion(f):
            print(f"    {c!r},")
        print(")")
