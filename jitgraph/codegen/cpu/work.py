"""An estimate of the work of a body on the processor, by which loops are shared among threads or not."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cpu.widths import vector_lanes
from jitgraph.codegen.kernels.kernel import Body, Contract, Let, Load, Loop, Store
from jitgraph.codegen.llvm.environment import Environment
from jitgraph.ir.dims import DimLike

_CALL_WORK: Final = 20.0
_SLOW_WORK: Final = {"div": 8.0, "rem": 16.0, "sqrt": 8.0}
_ACCESS_WORK: Final = 3.0

Work = list[tuple[float, tuple[DimLike, ...]]]
"""A sum of terms: a number times extents."""


def work(body: Body, env: Environment, extents: tuple[DimLike, ...] = (), lanes: float = 1.0) -> Work:
    """The work of one run of ``body``, in vector instructions (about half a nanosecond each), as a sum of terms."""
    own = 0.0
    terms: Work = []
    for statement in body:
        match statement:
            case Let(op=op):
                own += _CALL_WORK if op == "call" else _SLOW_WORK.get(op, 1.0) if op != "const" else 0.0
            case Load() | Store():
                own += _ACCESS_WORK
            case Loop():
                width = float(vector_lanes(statement, env)) if statement.kind == "vector" else float(statement.lanes)
                width = min(width, 16.0)
                extent = statement.extent if statement.span is None else statement.span
                terms += work(statement.body, env, (*extents, extent), lanes / width)
            case Contract():
                m, n, k = statement.extents
                terms.append((lanes / 8.0, (*extents, m, n, k)))
                terms += work(statement.epilogue, env, (*extents, m, n), lanes / 8.0)
            case _:
                own += 1.0
    terms.append((own * lanes, extents))
    return terms
