"""One op as compiled code, with which a profile measures this machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jitgraph.ir.builder import GraphBuilder
from jitgraph.ir.graph import Attrs
from jitgraph.ir.op import Op
from jitgraph.ir.types import TensorType
from jitgraph.tracing.backend import Runnable, compile_graph


def compiled(
    op: Op, arrays: Sequence[Any], attrs: Attrs | None = None, donate: Sequence[tuple[int, int]] = ()
) -> Runnable:
    """Code for ``op`` on arrays like these; ``donate`` as of ``compile_graph``."""
    builder = GraphBuilder()
    inputs = [builder.input(TensorType(array.dtype, array.shape)) for array in arrays]
    return compile_graph(builder.graph(builder.emit(op, inputs, attrs or {}, ()), op.name), donate=donate)
