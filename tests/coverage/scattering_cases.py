"""Elements picked and placed by indices."""

from __future__ import annotations

import numpy as np

from tests.coverage.case import case, integers, positive

M = (3, 4)
MASK = np.arange(12).reshape(3, 4) % 3 == 1
INDEX = integers((2, 4), 0, 3)
ROWS = np.array([2, 0])
ZERO = np.array([[1.5, 0.0, 2.0, 0.5], [0.7, 1.0, 0.0, 1.2]])


def _reduced(how: str, include_self: bool):  # type: ignore[no-untyped-def]
    return lambda m, x, i, y: m.scatter_reduce(x, 0, i, y, how, include_self=include_self)


CASES = [
    case("gather, axis 0", lambda m, x, i: m.gather(x, 0, i), None, M, INDEX),
    case("gather, axis 1", lambda m, x, i: m.gather(x, 1, i), None, M, integers((2, 6), 0, 4)),
    case("gather, rank 0", lambda m, x, i: m.gather(x, 0, i), None, (), np.array(0)),
    case("scatter", lambda m, x, i, y: m.scatter(x, 1, i, y), None, M, np.array([[0, 2], [3, 1]]), (2, 2)),
    case("scatter, a number", lambda m, x, i: m.scatter(x, 0, i, 2.5), None, M, INDEX),
    case(
        "scatter, a larger source",
        lambda m, x, i, y: m.scatter(x, 0, i, y),
        None,
        M,
        np.array([[0, 1], [1, 0]]),
        (5, 5),
        gradient=False,
    ),
    case("scatter_add", lambda m, x, i, y: m.scatter_add(x, 0, i, y), None, M, INDEX, (2, 4)),
    *(
        case(
            f"scatter_reduce, {how}{'' if own else ', include_self=False'}",
            _reduced(how, own),
            None,
            M,
            INDEX,
            (2, 4),
            second=how != "prod" or own,
        )
        for how in ("sum", "mean", "amax", "amin", "prod")
        for own in (True, False)
    ),
    case("scatter_reduce, prod with zeros", _reduced("prod", True), None, positive(M), INDEX, ZERO, second=False),
    case("index_select", lambda m, x, i: m.index_select(x, 1, i), None, M, ROWS),
    case("index_add", lambda m, x, i, y: m.index_add(x, 0, i, y), None, M, ROWS, (2, 4)),
    case("index_copy", lambda m, x, i, y: m.index_copy(x, 0, i, y), None, M, ROWS, (2, 4)),
    case("index_fill", lambda m, x, i: m.index_fill(x, 1, i, 2.0), None, M, ROWS),
    case("index_put", lambda m, x, i, j, y: m.index_put(x, (i, j), y), None, M, ROWS, ROWS, (2,)),
    case(
        "index_put, accumulate", lambda m, x, i, y: m.index_put(x, (i, i), y, True), None, M, integers((5,), 0, 2), (5,)
    ),
    case("masked_fill", lambda m, x, k: m.masked_fill(x, k, 1.5), None, M, MASK),
    case("masked_select", lambda m, x, k: m.masked_select(x, k), None, M, MASK, traced=False),
    case("masked_scatter", lambda m, x, k, y: m.masked_scatter(x, k, y), None, M, MASK, (5, 3)),
    case(
        "take_along_axis",
        lambda m, x, i: m.take_along_axis(x, i, 0),
        lambda t, x, i: t.take_along_dim(x, i, 0),
        M,
        INDEX,
    ),
    case("take", lambda m, x, i: m.take(x.reshape(-1), i), lambda t, x, i: t.take(x, i), M, integers((2, 3), 0, 12)),
]
