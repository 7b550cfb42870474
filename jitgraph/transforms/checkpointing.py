"""checkpoint: functions whose insides are computed anew in the backward pass instead of kept for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from jitgraph import ops, tree
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.transforms.recording import Closed, at_once, own_value


def checkpoint(function: Callable[..., Any], *misplaced: Any, **settings: Any) -> Callable[..., Any]:
    """``function``, of which a gradient keeps what it takes and gives alone, and computes the rest once more.

    It has the values and gradients of ``function``; random numbers are the same the second time, and prints are not
    repeated. Tensors that it closes over, parameters of modules among them, get their gradients. Outside of traces it
    is recorded as in a trace, so that Python cannot branch on values in it.
    JitgraphError for anything beside a function.
    """
    if not callable(function) or misplaced or settings:
        what = "jg.checkpoint takes a function alone"
        hint = "jg.checkpoint(f)(x); use_reentrant and its like choose among ways of PyTorch's"
        raise JitgraphError(f"{what}\n  hint: {hint}")

    @functools.wraps(function, updated=())
    def recomputed(*args: Any, **kwargs: Any) -> Any:
        if not context.current().grad_enabled:
            return function(*args, **kwargs)
        return at_once("checkpoint", lambda: _record(function, args, kwargs))

    return recomputed


def _record(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    trace = context.current().trace
    leaves, structure = tree.flatten((args, kwargs))
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor | np.ndarray | np.generic)]
    values = [own_value(leaves[i]) for i in positions]
    name = getattr(function, "__name__", type(function).__name__)
    closed = Closed(name, trace, [value.type for value in values], [value.requires_grad for value in values])
    new_leaves = list(leaves)
    for i, parameter in zip(positions, closed.parameters, strict=True):
        new_leaves[i] = parameter
    call_args, call_kwargs = structure.unflatten(new_leaves)
    closed.record(lambda: function(*call_args, **call_kwargs))
    outputs = context.emitter().emit(ops.recompute, [*values, *closed.outer], {}, (closed.graph,))
    for handle, value in zip(closed.written, outputs[len(closed.kept) :], strict=True):
        trace.write(handle, value)
    return closed.rebuilt(outputs[: len(closed.kept)])
