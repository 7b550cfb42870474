"""Other values for the tensors of a module, for as long as a function runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgraph.ir import context
from jitgraph.tensor import Tensor


def is_module(leaf: object) -> bool:
    """Whether a leaf is a module: its parameters and buffers are tensors of its own."""
    return hasattr(type(leaf), "named_parameters")


@contextmanager
def standing_for(handles: Sequence[Tensor], values: Sequence[Any]) -> Iterator[None]:
    """A block in which ``handles`` have these values, through which gradients flow; afterwards those of before.

    What the block writes into them is dropped. In a trace the values stand in its shadow of the handles.
    """
    trace = context.current().trace
    saved: list[tuple[Any, dict[str, Any]]] = []

    def put(owner: Any, **changes: Any) -> None:
        saved.append((owner, {name: getattr(owner, name) for name in changes}))
        for name, value in changes.items():
            setattr(owner, name, value)

    try:
        for handle, value in zip(handles, values, strict=True):
            if trace is None:
                put(handle, _value=value, _requires_grad=False)
                continue
            own = trace.own(value)
            if trace.is_own(handle):
                put(handle, _value=own, _requires_grad=False)
            else:
                put(trace.state_of(handle), value=own, initial=own, written=False)
                put(handle, _requires_grad=False)
        yield
    finally:
        for owner, before in reversed(saved):
            for name, value in before.items():
                setattr(owner, name, value)
