"""Chebyshev coefficients of the special functions of ``jitgraph/ops/special_tables.py``, by mpmath.

``python bench/fit_special.py`` prints the tables, ``python bench/fit_special.py bessel`` those of the Bessel functions
J, Y and K, ``python bench/fit_special.py temme`` those of the incomplete gamma functions, ``airy`` of Ai. Each function
is expanded on a finite range of a variable t in [-1, 1]: coefficients c[k] with f = sum of c[k] T_k(t), those below
2^-60 of the greatest left out.
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
    results = [
        2 * mp.fsum(v * mp.cos(mp.pi * k * (j + mp.mpf(1) / 2) / POINTS) for j, v in enumerate(values)) / POINTS
        for k in range(POINTS)
    ]
    results[0] /= 2
    top = max(map(abs, results))
    while abs(results[-1]) < top * mp.mpf(2) ** -60:
        results.pop()
    return [float(c) for c in results]


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


def factored(order: int) -> Callable[[Any], Any]:
    """J_order(x) over its zeros below 8 (and over x, for order 1), t = x^2 / 32 - 1."""
    first, second = mp.besseljzero(order, 1), mp.besseljzero(order, 2)

    def f(t: Any) -> Any:
        x = mp.sqrt(32 * (1 + t))
        return mp.besselj(order, x) / x**order / ((x * x - first**2) * (x * x - second**2))

    return f


def regular(order: int) -> Callable[[Any], Any]:
    """What is left of Y_order(x) without its logarithm and pole, over x for order 1; t = x^2 / 32 - 1."""

    def f(t: Any) -> Any:
        x = mp.sqrt(32 * (1 + t))
        pole = 2 / (mp.pi * x) if order else 0
        return (mp.bessely(order, x) - 2 / mp.pi * mp.log(x) * mp.besselj(order, x) + pole) / x**order

    return f


def wave(order: int, quadrature: bool) -> Callable[[Any], Any]:
    """Hankel's P, or Q times x / 8, for x = 8 .. infinity, t = 2 (8 / x)^2 - 1."""

    def f(t: Any) -> Any:
        x = 8 / mp.sqrt((1 + t) / 2)
        angle = x - (2 * order + 1) * mp.pi / 4
        size, j, y = mp.sqrt(mp.pi * x / 2), mp.besselj(order, x), mp.bessely(order, x)
        if quadrature:
            return size * (y * mp.cos(angle) - j * mp.sin(angle)) * x / 8
        return size * (j * mp.cos(angle) + y * mp.sin(angle))

    return f


SECOND_ZEROS = {order: [mp.besselyzero(order, k) for k in range(1, 4 - order)] for order in (0, 1)}


def around_zero(order: int, zero: Any) -> Callable[[Any], Any]:
    """Y_order(x) / (x - zero) within 1/8 of one of its zeros, t = 8 (x - zero)."""
    return lambda t: mp.bessely(order, zero + t / 8) / (t / 8) if t else mp.bessely(order, zero, derivative=1)


def second_kind(order: int) -> Callable[[Any], Any]:
    """What is left of K_order(x) without its logarithm and pole, over x for order 1; t = x^2 / 2 - 1."""

    def f(t: Any) -> Any:
        x = mp.sqrt(2 * (1 + t))
        sign, pole = (-1, 1 / x) if order else (1, 0)
        return (mp.besselk(order, x) + sign * mp.log(x / 2) * mp.besseli(order, x) - pole) / x**order

    return f


def first_kind(order: int) -> Callable[[Any], Any]:
    """I_order(x), over x for order 1; t = x^2 / 2 - 1."""
    return lambda t: (lambda x: mp.besseli(order, x) / x**order)(mp.sqrt(2 * (1 + t)))


def decaying(order: int) -> Callable[[Any], Any]:
    """sqrt(x) exp(x) K_order(x) for x = 2 .. infinity, t = 4 / x - 1."""
    return lambda t: (lambda x: mp.sqrt(x) * mp.exp(x) * mp.besselk(order, x))(4 / (1 + t))


# Ai within -1 .. 1.5, over its zeros within -6 .. -1, times its leading exponential above 1.5, and by modulus and phase
# below -6; t goes linearly through the range, with z = 2/3 abs(x)^(3/2) through the least z over z, or its square.
AIRY_ZEROS = [mp.airyaizero(k) for k in (1, 2, 3)]


def _of_z(z: Any) -> Any:
    return (mp.mpf(3) / 2 * z) ** (mp.mpf(2) / 3)


def _airy_waves(t: Any) -> Any:
    x = mp.mpf(-7) / 2 + mp.mpf(5) / 2 * t
    return mp.airyai(x) / mp.fprod(x - zero for zero in AIRY_ZEROS)


def _airy_above(t: Any) -> Any:
    z = mp.mpf(2) / 3 * mp.mpf(1.5) ** mp.mpf(1.5) / ((t + 1) / 2)
    return mp.airyai(_of_z(z)) * mp.exp(z) * 2 * mp.sqrt(mp.pi) * mp.root(_of_z(z), 4)


def _airy_below(quadrature: bool) -> Callable[[Any], Any]:
    def f(t: Any) -> Any:
        ratio = mp.sqrt((t + 1) / 2)
        z = mp.mpf(2) / 3 * mp.mpf(6) ** mp.mpf(1.5) / ratio
        y = _of_z(z)
        size, cosine, sine = mp.sqrt(mp.pi) * mp.root(y, 4), mp.cos(z - mp.pi / 4), mp.sin(z - mp.pi / 4)
        if quadrature:
            return size * (mp.airyai(-y) * sine + mp.airybi(-y) * cosine) / ratio
        return size * (mp.airyai(-y) * cosine - mp.airybi(-y) * sine)

    return f


AIRY: dict[str, Callable[[Any], Any]] = {
    "WAVES": _airy_waves,
    "NEAR": lambda t: mp.airyai(mp.mpf(1) / 4 + mp.mpf(5) / 4 * t),
    "ABOVE": _airy_above,
    "P": _airy_below(quadrature=False),
    "Q": _airy_below(quadrature=True),
}

BESSEL: dict[str, Callable[[Any], Any]] = {
    name: f
    for order in (0, 1)
    for name, f in {
        f"J{order}_NEAR": factored(order),
        f"Y{order}_NEAR": regular(order),
        f"P{order}_FAR": wave(order, quadrature=False),
        f"Q{order}_FAR": wave(order, quadrature=True),
        f"K{order}_NEAR": second_kind(order),
        f"I{order}_LOW": first_kind(order),
        f"K{order}_FAR": decaying(order),
    }.items()
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
    results = []
    for _ in range(orders):
        results.append([float(c) for c in row[:powers]])
        g = -row[1]
        row = [(n + 2) * row[n + 2] + g * first[n] for n in range(len(row) - 2)]
    return results


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


def write(tables: dict[str, Callable[[Any], Any]], subject: str, command: str) -> None:
    print(f'"""Chebyshev coefficients of {subject}; ``{command}`` wrote them and says of what."""\n')
    print("from __future__ import annotations\n\nfrom typing import Final\n")
    for name, f in tables.items():
        print(f"{name}: Final = (")
        for c in expansion(f):
            print(f"    {c!r},")
        print(")")


if __name__ == "__main__":
    if sys.argv[1:] == ["temme"]:
        write_temme()
    elif sys.argv[1:] == ["bessel"]:
        write(BESSEL, "Bessel functions", "bench/fit_special.py bessel")
        for order in (0, 1):
            exact = [mp.besseljzero(order, k) for k in (1, 2)]
            pairs = [(float(z), float(z - mp.mpf(float(z)))) for z in exact]
            print(f"J{order}_ZEROS: Final = (  # below 8, each as the sum of two numbers")
            for pair in pairs:
                print(f"    {pair!r},")
            print(")")
            print(f"Y{order}_ZEROS: Final = (  # below 8, each as the sum of two numbers, and the expansion around it")
            for zero in SECOND_ZEROS[order]:
                coefficients = expansion(around_zero(order, zero))
                print(f"    ({float(zero)!r}, {float(zero - mp.mpf(float(zero)))!r}, (")
                for c in coefficients:
                    print(f"        {c!r},")
                print("    )),")
            print(")")
    elif sys.argv[1:] == ["airy"]:
        write(AIRY, "the Airy function", "bench/fit_special.py airy")
        pairs = [(float(z), float(z - mp.mpf(float(z)))) for z in AIRY_ZEROS]
        print(f"ZEROS: Final = {tuple(pairs)!r}")
    else:
        write(TABLES, "special functions", "bench/fit_special.py")
