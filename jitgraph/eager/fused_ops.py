"""Compounds: what a function outside of traces does by several ops, run and differentiated by one kernel.

A compound is an op that no graph holds: its kernel has the ops that define it. It comes to be where calls came back,
and has the bits of those ops one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder, decomposition
from jitgraph.ir.graph import Attrs, Value
from jitgraph.ir.op import Op, OpenShape, Trait
from jitgraph.ir.types import Type

_BASES: Final[dict[Op, Op]] = {}


def fused_op(
    base: Op,
    what: str,
    body: Callable[..., Any],
    traits: Iterable[Trait] = (),
    open_shapes: Callable[..., tuple[OpenShape, ...]] | None = None,
) -> Op:
    """``body(*values, **attrs)`` over Op calls as one op. ``what`` and ``base``, an op of the table, name its code.

    ``open_shapes`` is as that of an op.
    """

    def infer(*types: Type, **attrs: Any) -> tuple[Type, ...]:
        return tuple([value.type for value in decomposition(composite, types, attrs, context.constraints()).outputs])

    composite = Op(
        name=f"{base.name}_{what}",
        kind="composite",
        infer=infer,
        decompose=body,
        traits=frozenset({"fused_op", *traits}),
        open_shapes=open_shapes,
    )
    _BASES[composite] = base
    return composite


def base_of(op: Op) -> Op:
    """The op of the table that an op is, or is a fused op of."""
    return _BASES.get(op, op)


def applied(builder: GraphBuilder, op: Op, inputs: Sequence[Value], attrs: Attrs) -> tuple[Value, ...]:
    """The outputs of an op in a graph; of a fused op, of the ops that define it."""
    if "fused_op" not in op.traits:
        return builder.emit(op, inputs, attrs, ())
    assert op.decompose is not None
    with context.using(emitter=builder, constraints=builder.constraints):
        result = op.decompose(*inputs, **attrs)
    return tuple(result) if isinstance(result, tuple | list) else (result,)
