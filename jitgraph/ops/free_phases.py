"""Phases of complex eigenvectors and singular vectors are free: a loss that depends on one has no gradient.

Turning a vector by a small angle leaves the decomposition one, so that the loss must stay the same: the imaginary part
of the vector's product with its cotangent is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from jitgraph import dtypes
from jitgraph.dtypes import DType
from jitgraph.ir.op import Op, Sample
from jitgraph.ops.arithmetic import abs, add, mul
from jitgraph.ops.broadcasting import reduce_sum
from jitgraph.ops.comparison import eq, gt
from jitgraph.ops.complex_parts import imag, real
from jitgraph.ops.composite import composite
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.effects import check
from jitgraph.ops.matrices import adjoint, diagonal_of, product
from jitgraph.ops.sampling import generator

_ROUNDING: Final = 1e-4  # of the sum of a cotangent's magnitudes: far above what rounding in float32 makes


def _vjp(ct: Any, out: Any, *vectors: Any, of: str) -> tuple[Any, ...]:
    given = ct if len(vectors) > 1 else (ct,)
    pairs = [(v, c) for v, c in zip(vectors, given, strict=True) if c is not None]
    if pairs and dtypes.is_complex(vectors[0].dtype):
        _require_no_turn(of, pairs)
    return tuple(given)


def _require_no_turn(of: str, pairs: Sequence[tuple[Any, Any]]) -> None:
    """A check that raises ValueError where vectors, which turn together, have a cotangent along their turn."""
    turns = sizes = None
    for vectors, ct in pairs:
        rows = len(ct.shape) - 2
        turn = reduce_sum(imag(diagonal_of(product(adjoint(vectors), ct))), axes=(rows,))
        size = reduce_sum(add(abs(real(ct)), abs(imag(ct))), axes=(rows,))
        turns = turn if turns is None else add(turns, turn)
        sizes = size if sizes is None else add(sizes, size)
    beyond = cast(gt(abs(turns), mul(full_like(_ROUNDING, sizes), sizes)), dtype=dtypes.int64)
    count = reduce_sum(beyond, axes=tuple(range(len(beyond.shape))))
    message = (
        f"{of}: a loss that depends on the phase of complex vectors, which is free, has no gradient"
        "\n  hint: take jg.abs of them, or products in which phases cancel, as v * jg.conj(v)"
    )
    check(eq(count, zeros_like(count)), kind="ValueError", message=message)


def _samples(dtype: DType) -> Sequence[Sample]:
    if not dtypes.is_float(dtype):
        return ()
    rng = generator("up_to_phase", dtype)
    pair = [rng.uniform(-1, 1, shape).astype(dtype) for shape in ((3, 2), (4, 2))]
    return [Sample(tuple(pair), {"of": "svd"}), Sample((pair[0],), {"of": "eigh"})]


up_to_phase: Op = composite(
    "up_to_phase",
    lambda *vectors, of: vectors,
    vjp=_vjp,
    samples=_samples,
    doc="Columns of matrices that turn together, as they are; ValueError for a complex gradient along their turn.",
)
