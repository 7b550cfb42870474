"""Hard matrices, and code for functions of matrices that calls no Python, as files hold it."""

from __future__ import annotations

from functools import cache

import numpy as np

import jitgraph as jg
from jitgraph import compiler
from jitgraph.ir.target import Target

RNG = np.random.default_rng(17)
DTYPES = ("float32", "float64", "complex64", "complex128")
SIZES = (1, 2, 7, 8, 9, 25)
KINDS = ("normal", "graded", "ill", "deficient", "repeated", "zero", "huge", "tiny")


def orthogonal(rows, columns, dtype):
    x = RNG.normal(size=(rows, columns)) + (1j * RNG.normal(size=(rows, columns)) if dtype[0] == "c" else 0)
    return np.linalg.qr(x)[0]


def hard(kind, rows, columns, dtype):
    """A matrix of a kind that is hard in some way, of singular values that are known up to rounding."""
    size = min(rows, columns)
    values = {
        "normal": RNG.uniform(0.5, 2, size), "graded": np.logspace(0, -30, size), "ill": np.logspace(0, -14, size),
        "deficient": np.where(np.arange(size) < (size + 1) // 2, 1.0, 0.0), "repeated": np.ones(size),
        "zero": np.zeros(size), "huge": RNG.uniform(0.5, 2, size), "tiny": RNG.uniform(0.5, 2, size),
    }[kind]  # fmt: skip
    x = orthogonal(rows, size, dtype) * values @ orthogonal(columns, size, dtype).conj().T
    if kind == "graded":  # by rows: what is small stands in rows of its own
        x = np.logspace(0, -30, rows)[:, None] * orthogonal(rows, columns, dtype)[:rows] if rows >= columns else x
    info = np.finfo(dtype)
    scale = {"huge": float(info.max) / 8 / max(rows, columns), "tiny": float(info.tiny) * 8}.get(kind, 1.0)
    return (x * scale).astype(dtype)


@cache
def native(function, *types, names=(), level=None):
    """Code for a function that calls no Python, as a file holds it; ``names`` are those of sizes by operand."""
    specs = [jg.TensorSpec(shape, dtype) for shape, dtype in types]
    dynamic = {name: dict(sizes) for name, sizes in names}
    compiled = compiler.compile(
        jg.trace(function, dynamic_shapes=dynamic or None).lower(*specs).graph,
        (Target.named(level) if level else Target.host()).without_python(),
    )
    assert not compiled.stages.schedule.calls
    return compiled


def run(function, *arrays):
    return native(function, *((x.shape, x.dtype.name) for x in arrays)).run(arrays)


def named(function, names, *arrays):
    """The same by one code for all sizes of the last two axes, of which ``names`` has a text for each operand."""
    examples = [((*x.shape[:-2], *("abcdefghijklmnopqrstuvw".index(n) + 2 for n in text)), x.dtype.name)
                for text, x in zip(names, arrays, strict=True)]  # fmt: skip
    axes = tuple((f"x{i}", tuple((x.ndim - 2 + j, n) for j, n in enumerate(text)))
                 for i, (text, x) in enumerate(zip(names, arrays, strict=True)))  # fmt: skip
    return native(function, *examples, names=axes).run(arrays)


def close(x, y, scale, eps, bound):
    """|x - y| <= bound eps scale for every element, without overflow on the way."""
    if not np.size(x):
        return True
    unit = max(float(np.abs(scale).max()), 1e-300)
    difference = np.abs(np.asarray(x, "complex128") / unit - np.asarray(y, "complex128") / unit).max()
    return difference <= bound * eps


def is_orthonormal(q, bound, eps):
    return close(q.conj().T @ q, np.eye(q.shape[1]), 1.0, eps, bound)


def wide(*arrays):
    return [x.astype("complex128" if np.iscomplexobj(x) else "float64") for x in arrays]
