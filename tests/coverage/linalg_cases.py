"""Linear algebra: all of jg.linalg, of real and of complex matrices. Vectors of free sign or phase are squared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.coverage.case import Case, case, integers

S, B, TALL, WIDE = (2, 3, 3), (2, 3, 2), (2, 4, 3), (2, 3, 4)
ZEROS = np.array([[0.0, 0.0, 0.0], [0.0, 3.0, -4.0], [-0.0, 1.0, 1.0]])
SINGULAR = np.array([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 0.0, 1.0]])
INF = float("inf")


def _apart(shape: tuple[int, ...]) -> Callable[[np.random.Generator], Any]:
    """Singular values and eigenvalues that lie apart."""
    rows, columns = shape[-2:]
    return lambda rng: rng.normal(size=shape) + 3 * np.diag(np.arange(1.0, 8))[:rows, :columns]


def _of(m: Any, name: str) -> Any:
    """What PyTorch has outside of its linalg."""
    return getattr(m.linalg, name, None) or getattr(m, name)


def _condition(m: Any, x: Any, p: Any) -> Any:
    """PyTorch's own cannot be differentiated for norms that need the inverse."""
    if m.__name__ == "jitgraph" or p in (None, 2, -2):
        return m.linalg.cond(x, p)
    return m.linalg.norm(x, p, (-2, -1)) * m.linalg.norm(m.linalg.inv(x), p, (-2, -1))


def _sorted(m: Any, x: Any) -> Any:
    result = m.sort(x)
    return result if m.__name__ == "jitgraph" else result[0]


def _triangle(m: Any, x: Any, upper: bool) -> Any:
    return (m.triu if upper else m.tril)(x)


def _sizes(m: Any, z: Any) -> Any:
    return m.abs(z) ** 2


def _both(name: str, call: Callable[..., Any], *operands: Any, **options: Any) -> list[Case]:
    """A case of real matrices, and one of complex ones, whose results come as parts."""

    def parted(m: Any, actual: Any) -> Any:
        actual = actual if isinstance(actual, tuple) else (actual,)
        return tuple(m.stack([x.real, x.imag]) if "complex" in str(x.dtype) else x for x in actual)

    def joined(m: Any, *parts: Any) -> Any:
        return parted(m, call(m, *(m.complex(x, y) for x, y in zip(parts[::2], parts[1::2], strict=True))))

    twice = [inputs for operand in operands for inputs in (operand, operand)]
    return [
        case(f"linalg.{name}", lambda m, *xs: parted(m, call(m, *xs)), None, *operands, **options),
        case(f"linalg.{name}, complex", joined, None, *twice, **options),
    ]


def _same(name: str, *operands: Any, **keywords: Any) -> list[Case]:
    def call(m: Any, *xs: Any) -> Any:
        result = getattr(m.linalg, name)(*xs, **keywords)
        return tuple(result) if isinstance(result, tuple) else result

    told = "".join(f", {key}={value}" for key, value in keywords.items())
    return _both(f"{name}{told}", call, *operands)


def _norms(name: str, orders: tuple[Any, ...], shape: Any) -> list[Case]:
    return [
        actual
        for order in orders
        for actual in _both(f"{name}, {order}", lambda m, x, order=order: m.linalg.norm(x, order, (-2, -1)), shape)
    ]


def _vectors(order: float, x: Any, what: str) -> Case:
    def call(key: str) -> Any:
        return lambda m, x: m.linalg.vector_norm(x, ord=order, **{key: -1})

    # PyTorch's second order at a vector of zeros is NaN, ours is 0
    return case(f"linalg.vector_norm, {order}{what}", call("axis"), call("dim"), x, second=not what)


CASES = [
    *_same("inv", _apart(S)),
    *_same("det", S),
    *_same("slogdet", S),
    *_same("solve", _apart(S), B),
    *_both("solve, a batch of right sides", lambda m, a, b: m.linalg.solve(a, b), _apart(S), (5, 1, 3, 2)),
    *_both("solve, a vector", lambda m, a, b: m.linalg.solve(a, b), _apart((3, 3)), (3,)),
    *_same("pinv", TALL),
    *_same("pinv", WIDE),
    case("linalg.pinv of a singular matrix", lambda m, x: m.linalg.pinv(x), None, SINGULAR, gradient=False),
    *_both("cholesky", lambda m, x: m.linalg.cholesky(x @ m.conj(x.mT)), _apart(S)),
    *_both("cholesky, upper", lambda m, x: m.linalg.cholesky(x @ m.conj(x.mT), upper=True), _apart(S)),
    *(
        found
        for upper in (True, False)
        for found in _both(
            f"cholesky_solve, upper={upper}",
            lambda m, b, x, upper=upper: _of(m, "cholesky_solve")(b, _triangle(m, x, upper), upper=upper),
            B,
            _apart(S),
        )
    ),
    *_both("cholesky_inverse", lambda m, x: _of(m, "cholesky_inverse")(m.linalg.cholesky(x @ m.conj(x.mT))), _apart(S)),
    *_same("qr", _apart(S)),
    *_same("qr", _apart(TALL)),
    *_same("qr", _apart(WIDE)),
    *_same("qr", _apart(WIDE), mode="complete"),
    *_both("eigvalsh", lambda m, x: m.linalg.eigvalsh(x + m.conj(x.mT)), _apart(S)),
    *_both("eigh", lambda m, x: _sizes(m, m.linalg.eigh(x + m.conj(x.mT))[1]), _apart(S)),
    *_both("svdvals", lambda m, x: m.linalg.svdvals(x), _apart(TALL)),
    *(
        found
        for shape in (S, TALL, WIDE)
        for found in _both(
            f"svd of {shape}",
            lambda m, x: (lambda u, s, v: (_sizes(m, u), s, _sizes(m, v)))(*m.linalg.svd(x, full_matrices=False)),
            _apart(shape),
        )
    ),
    *_both("svd, a product of vectors", lambda m, x: (lambda u, s, v: u @ v)(*m.linalg.svd(x)), _apart(S)),
    *_both("eigvals", lambda m, x: _sorted(m, m.abs(m.linalg.eigvals(x))), _apart(S)),
    *_both("eig", lambda m, x: (lambda w, v: (v * w[..., None, :]) @ m.conj(v.mT))(*m.linalg.eig(x)), _apart(S)),
    *_both(
        "lstsq",
        lambda m, a, b: m.linalg.lstsq(a, b)[0] if m.__name__ == "jitgraph" else m.linalg.pinv(a) @ b,
        TALL,
        (2, 4, 2),
    ),
    *_both("matrix_rank", lambda m, x: m.linalg.matrix_rank(x), TALL),
    case("linalg.matrix_rank, singular", lambda m, x: m.linalg.matrix_rank(x), None, SINGULAR),
    case("linalg.matrix_rank, atol", lambda m, x: m.linalg.matrix_rank(x, atol=4.5, rtol=0.0), None, SINGULAR),
    case("linalg.matrix_rank, hermitian", lambda m, x: m.linalg.matrix_rank(x @ x.mT, hermitian=True), None, SINGULAR),
    *(
        found
        for upper in (True, False)
        for unit in (True, False)
        for found in _same("solve_triangular", _apart(S), B, upper=upper, unitriangular=unit)
    ),
    *_same("solve_triangular", _apart(S), (2, 4, 3), upper=False, left=False),
    *_same("lu", S),
    *_same("lu", TALL),
    *_same("lu", WIDE),
    *_both("lu_factor", lambda m, x: tuple(m.linalg.lu_factor(x)), S),
    *(
        found
        for left in (True, False)
        for adjoint in (True, False)
        for found in _both(
            f"lu_solve, left={left}, adjoint={adjoint}",
            lambda m, a, b, left=left, adjoint=adjoint: m.linalg.lu_solve(
                *m.linalg.lu_factor(a), b, left=left, adjoint=adjoint
            ),
            S,
            S,
        )
    ),
    *_same("matrix_exp", S),
    case("linalg.matrix_exp, far", lambda m, x: m.linalg.matrix_exp(30 * x), None, S, tolerance=1e-8),
    *(
        found
        for n in (-2, 0, 1, 3, 6)
        for found in _both(f"matrix_power, {n}", lambda m, x, n=n: m.linalg.matrix_power(x, n), S)
    ),
    *_both("multi_dot", lambda m, *xs: m.linalg.multi_dot(xs), (2, 5), (5, 1), (1, 6), (6, 2)),
    *_both("multi_dot of vectors", lambda m, *xs: m.linalg.multi_dot(xs), (5,), (5, 3), (3,)),
    *_both("vander", lambda m, x: m.linalg.vander(x, N=4), (2, 3)),
    *_both("householder_product", lambda m, x, tau: m.linalg.householder_product(x, tau), (2, 4, 3), (2, 2)),
    *_both("cross", lambda m, x, y: m.linalg.cross(x, y), (1, 2, 3), (4, 1, 3)),
    *_both("diagonal", lambda m, x: m.linalg.diagonal(x, offset=1), TALL),
    *_both("matrix_norm", lambda m, x: m.linalg.matrix_norm(x), S),
    *_norms("norm of matrices", ("fro", "nuc", 2, -2, 1, -1, INF, -INF), _apart(TALL)),
    *(_vectors(order, (2, 4), "") for order in (2, 1, 0, INF, -INF, 3, 1.5, 0.5, -1)),
    *(_vectors(order, ZEROS, ", zeros") for order in (2, 1, 0, INF, 3, 1.5)),
    *_both("norm", lambda m, x: m.linalg.norm(x), S),
    case("linalg.norm of zeros", lambda m, x: m.linalg.norm(x), None, np.zeros((2, 2)), second=False),
    case("linalg.norm, equal elements", lambda m, x: m.linalg.norm(x, INF), None, np.array([2.0, -2.0, 1.0])),
    *(
        found
        for p in (None, 2, -2, 1, -1, INF, -INF, "fro", "nuc")
        for found in _both(f"cond, {p}", lambda m, x, p=p: _condition(m, x, p), _apart(S))
    ),
    case(
        "linalg.cond of a singular matrix", lambda m, x: m.linalg.cond(x, 1), None, SINGULAR * 0 + 1.0, gradient=False
    ),
    *_both("vecdot", lambda m, x, y: m.linalg.vecdot(x, y), (2, 3), (2, 3)),
    case("linalg.matrix_power of integers", lambda m, x: m.linalg.matrix_power(x, 3), None, integers((3, 3), -4, 5)),
]
