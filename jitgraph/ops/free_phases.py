"""Phases of complex eigenvectors and singular vectors are free: a loss that depends on one has no gradient.

Turning a vector by a small angle leaves the decomposition one, so that the loss must stay the same: the imaginary part
of the vector's product with its cotangent is 0.
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
from jitgraph.ops.matrices import diagonal_of

_ROUNDING: Final = 1e-4  # of the sum of a cotangent's magnitudes: far above what rounding in float32 makes


def require_no_phase(name: str, turn: Any, cotangents: Any) -> None:
    """A check that raises ValueError where a column turns.

    ``turn`` has on its diagonal the product of each vector with its cotangent, which is a column of ``cotangents``.
    """
    if not dtypes.is_complex(turn.dtype):
        return
    rows = len(turn.shape) - 2
    size = reduce_sum(abs(imag(diagonal_of(turn))), axes=(rows,))
    scale = reduce_sum(add(abs(real(cotangents)), abs(imag(cotangents))), axes=(rows,))
    beyond = cast(gt(size, mul(full_like(_ROUNDING, scale), scale)), dtype=dtypes.int64)
    count = reduce_sum(beyond, axes=tuple(range(len(beyond.shape))))
    message = (
        f"{name}: a loss that depends on the phase of complex vectors, which is free, has no gradient"
        "\n  hint: take jg.abs of them, or products in which phases cancel, as v * jg.conj(v)"
    )
    check(eq(count, zeros_like(count)), kind="ValueError", message=message)
