"""Which op is a function of complex numbers: itself where it works part by part, another one, or none."""

from __future__ import annotations

from typing import Final

from jitgraph.errors import DTypeError
from jitgraph.ir.op import Op
from jitgraph.ops import complex_functions

_ORDERS: Final = frozenset({"lt", "le", "gt", "ge", "maximum", "minimum", "reduce_max", "reduce_min", "sort"})


def of_complex(op: Op) -> Op:
    """The op that does to complex numbers what ``op`` does to real ones; DTypeError where there is none."""
    if "planewise" in op.traits:
        return op
    if op.name in _ORDERS:
        raise DTypeError(f"{op.name}: complex numbers have no order", hint="compare x.real, x.imag or jg.abs(x)")
    complex_op = getattr(complex_functions, f"complex_{op.name}", None)
    if isinstance(complex_op, Op):
        return complex_op
    raise DTypeError(f"{op.name} is not defined for complex numbers", hint="take x.real, x.imag or jg.abs(x)")
