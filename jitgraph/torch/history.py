"""What becomes of a computed tensor's history when the tensor is written in place."""

from __future__ import annotations

import weakref
from typing import Any

import jitgraph as jg
from jitgraph.eager.handle import stopped
from jitgraph.ir import context
from jitgraph.tensor.tensor import wrap
from jitgraph.torch.writing import RETAINING


def with_history_of(old: Any, value: Any) -> Any:
    """The elements of ``value`` with the gradient of ``old``, a value of the same shape and dtype, eager or traced."""
    value = stopped(value)
    if context.current().trace is None:
        return value.part_of(old.record, old.output)
    with context.using(grad_enabled=True):
        return _elements_of(wrap(old), wrap(value)).value


@jg.custom_vjp
def _elements_of(old: jg.Tensor, new: jg.Tensor) -> jg.Tensor:
    return new


_elements_of.defvjp(lambda old, new: (new, ()), lambda residuals, cotangent: (cotangent, None))


def retain(x: jg.Tensor) -> None:
    """Keep the gradient of ``x`` as it is now in ``x.grad``, and no more that of what it was before a write."""
    stop = RETAINING.get(id(x))
    this = weakref.ref(x)
    if stop is None:
        weakref.finalize(x, RETAINING.pop, id(x), None).atexit = False
    else:
        stop()  # in a trace the hook of a result cannot be removed
    watched = [this]

    def keep(gradient: Any) -> None:
        handle = this() if watched else None
        if handle is not None:
            handle._grad = gradient if handle._grad is None else handle._grad + gradient

    RETAINING[id(x)] = watched.clear
    if x.requires_grad:
        x.register_hook(keep)
