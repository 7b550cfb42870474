"""What this machine can do at its best: measured once in a process, by jitgraph's own code on all of its threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph import ops
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.profiler.events import Total
from jitgraph.tracing.call.backend import Runnable, compile_graph

# ----------------------------------------------------------------------
# One op as compiled code, with which a profile measures this machine.


def compiled(
    op: Op, arrays: Sequence[Any], attrs: Attrs | None = None, donate: Sequence[tuple[int, int]] = ()
) -> Runnable:
    """Code for ``op`` on arrays like these; ``donate`` as of ``compile_graph``."""
    builder = GraphBuilder()
    inputs = [builder.input(TensorType(array.dtype, array.shape)) for array in arrays]
    return compile_graph(builder.graph(builder.emit(op, inputs, attrs or {}, ()), op.name), donate=donate)


# ----------------------------------------------------------------------
# What this machine can do at its best: measured once in a process, by jitgraph's own code on all of its threads.

_ROUNDS: Final = 5
_COPIED: Final = 256 << 20  # bytes, of which no cache holds much
_SIDE: Final = 768  # of square matrices, which caches do hold
_PRODUCT: Final[Attrs] = {"batch": ((), ()), "contract": ((1,), (0,))}


class Limits(NamedTuple):
    """Bytes a second between memory and processor, and operations a second of a product of float32 matrices."""

    bytes: float
    flops: float

    def share(self, total: Total) -> float | None:
        """The time that the limits allow for what was done, as a share of what it took; None where neither is known."""
        if not (total.bytes or total.flops) or not total.nanoseconds:
            return None
        arithmetic = total.flops * max(1.0, total.bits / 32) / self.flops
        return max(total.bytes / self.bytes, arithmetic) / (1e-9 * total.nanoseconds)


@lru_cache(maxsize=1)
def limits() -> Limits:
    """Those of this machine, which takes some tenths of a second the first time."""
    long, square = np.ones(_COPIED // 4, np.float32), np.ones((_SIDE, _SIDE), np.float32)
    with context.using(profile=None):
        negative = compiled(ops.neg, [long], donate=((0, 0),))
        product = compiled(ops.dot, [square, square], _PRODUCT)
        return Limits(
            2 * _COPIED / _best(lambda: negative.run([long], donate=[0])),  # in place: no page of memory is new
            2 * _SIDE**3 / _best(lambda: product.run([square, square])),
        )


def _best(function: Callable[[], Any]) -> float:
    """The seconds of the fastest of some calls; compiled before."""
    function()
    times = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return min(times)
