"""Diagonals, triangles, blocks, and distances between rows."""

from __future__ import annotations

import math

import numpy as np

from tests.coverage.case import case

M, V, STACK = (3, 5), (4,), (2, 3, 4)
SAME = np.array([[1.0, 2.0, 0.5], [1.0, 2.0, 0.5], [0.0, 2.0, 1.5]])
DISTANCES = [0.0, 1.0, 2.0, 2.5, math.inf]

CASES = [
    case("diag of a vector", lambda m, x: m.diag(x), None, V),
    case("diag of a vector, above", lambda m, x: m.diag(x, 2), None, V),
    case("diag of a matrix", lambda m, x: m.diag(x), None, M),
    case("diag of a matrix, below", lambda m, x: m.diag(x, -1), None, M),
    case("diag of a matrix, beyond", lambda m, x: m.diag(x, 7), None, M),
    case("diagonal", lambda m, x: m.diagonal(x), None, STACK),
    case("diagonal, axes and offset", lambda m, x: m.diagonal(x, 1, 0, 2), None, STACK),
    case("diagonal, negative axes", lambda m, x: m.diagonal(x, -1, -1, -2), None, STACK),
    case("diag_embed", lambda m, x: m.diag_embed(x), None, STACK),
    case("diag_embed, offset and axes", lambda m, x: m.diag_embed(x, -1, 0, 2), None, STACK),
    case("diag_embed, above", lambda m, x: m.diag_embed(x, 2), None, V),
    case("diagflat", lambda m, x: m.diagflat(x, 1), None, (2, 2)),
    case("block_diag", lambda m, x, y, z: m.block_diag(x, y, z), None, (2, 3), (3,), ()),
    case("tril_indices", lambda m, x: m.tril_indices(3, 4, 1), None, ()),
    case("triu_indices", lambda m, x: m.triu_indices(3, 4, -1), None, ()),
    *(
        case(
            f"cdist, p={p}",
            lambda m, x, y, p=p: m.cdist(x, y, p=p),
            None,
            (2, 4, 3),
            (2, 5, 3),
            gradient=p != 0,
            second=False,
        )
        for p in DISTANCES
    ),
    case("cdist of equal rows", lambda m, x: m.cdist(x, x), None, SAME, second=False),
    *(
        case(f"pdist, p={p}", lambda m, x, p=p: m.pdist(x, p=p), None, (5, 3), gradient=p != 0, second=False)
        for p in DISTANCES
    ),
    case("dist", lambda m, x, y: m.dist(x, y, 3.0), None, M, (5,)),
    case("renorm", lambda m, x: m.renorm(x, 2.0, 1, 1.0), None, M),
    case("renorm, p=1", lambda m, x: m.renorm(x, 1.0, 0, 2.0), None, STACK),
]
