"""Phases of complex eigenvectors and singular vectors are free: a loss that depends on one has no gradient.

Turning a vector by a small angle leaves the decomposition one, so that the loss must stay the same: the imaginary part
of the vector's product with its cotangent is 0. Rules ask for that where their op's attribute ``checked`` is true, as
what users call has it; tests of rules draw cotangents at random.
"""

from __future__ import annotations

from typing import Any, Final

from jitgraph import dtypes
from jitgraph.ops.arithmetic import abs, add, mul
from jitgraph.ops.broadcasting import reduce_sum
from jitgraph.ops.comparison import eq, gt
from jitgraph.ops.complex_parts import imag, real
from jitgraph.ops.conversion import cast
from jitgraph.ops.creation import full_like, zeros_like
from jitgraph.ops.effects import check
from jitgraph.ops.matrices import adjoint, diagonal_of, product

_ROUNDING: Final = 1e-4  # of the sum of a cotangent's magnitudes: far above what rounding in float32 makes
_NOTHING: Final = {dtypes.float32: 1e-5, dtypes.float64: 1e-11}  # a turn that cancellation leaves of cotangents of 1


def require_no_turn(name: str, *pairs: tuple[Any, Any]) -> None:
    """A check that raises ValueError where complex vectors, which turn together, have a cotangent along their turn.

    Each pair is a matrix with the vectors as columns, and its cotangent, or None.
    """
    turns = sizes = None
    for vectors, ct in pairs:
        if ct is None or not dtypes.is_complex(vectors.dtype):
            continue
        rows = len(ct.shape) - 2
        turn = reduce_sum(imag(diagonal_of(product(adjoint(vectors), ct))), axes=(rows,))
        size = reduce_sum(add(abs(real(ct)), abs(imag(ct))), axes=(rows,))
        turns = turn if turns is None else add(turns, turn)
        sizes = size if sizes is None else add(sizes, size)
    if turns is None or sizes is None:
        return
    allowed = add(mul(full_like(_ROUNDING, sizes), sizes), full_like(_NOTHING[sizes.dtype], sizes))
    beyond = cast(gt(abs(turns), allowed), dtype=dtypes.int64)
    count = reduce_sum(beyond, axes=tuple(range(len(beyond.shape))))
    message = (
        f"{name}: a loss that depends on the phase of complex vectors, which is free, has no gradient"
        "\n  hint: take jg.abs of them, or products in which phases cancel, as v * jg.conj(v)"
    )
    check(eq(count, zeros_like(count)), kind="ValueError", message=message)
