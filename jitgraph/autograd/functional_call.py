"""functional_call: a module called with other tensors in place of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from jitgraph.errors import DTypeError, JitgraphError, ShapeError
from jitgraph.ir import context
from jitgraph.tensor import Tensor, lifting

# ----------------------------------------------------------------------
# Other values for the tensors of a module, for as long as a function runs.


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


# ----------------------------------------------------------------------
# functional_call: a module called with other tensors in place of its own.


def functional_call(
    module: Any,
    parameters: Mapping[str, Any] | Sequence[Mapping[str, Any]],
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
) -> Any:
    """``module(*args, **kwargs)`` with these tensors, by dotted name, in place of its parameters and buffers.

    ``parameters`` is a dict of tensors, or several, of the shapes and dtypes of the module's own, else ShapeError or
    DTypeError; tensors that it does not name are the module's. Gradients flow to the tensors given, and the module is
    left as it was: what it writes into them is dropped. ``args`` is a tuple, or one argument. JitgraphError for names
    that the module does not have.
    """
    if not is_module(module):
        raise JitgraphError(f"functional_call takes a module first, not a {type(module).__name__}")
    overrides: dict[str, Any] = {}
    for part in [parameters] if isinstance(parameters, Mapping) else parameters:
        overrides |= part
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    unknown = [name for name in overrides if name not in own]
    if unknown:
        raise JitgraphError(
            f"functional_call: {type(module).__name__} has no tensor {unknown[0]!r}\n"
            f"  hint: its tensors are {', '.join(own) or 'none'}"
        )
    values = []
    for name, tensor in overrides.items():
        value = lifting.value_of(tensor)
        if tuple(value.type.shape) != tuple(own[name].shape):
            shape = tuple(own[name].shape)
            raise ShapeError(f"functional_call: {name} has the shape {shape}, not {tuple(value.type.shape)}")
        if value.type.dtype != own[name].dtype:
            raise DTypeError(f"functional_call: {name} is {own[name].dtype.name}, not {value.type.dtype.name}")
        values.append(value)
    with standing_for([own[name] for name in overrides], values):
        return module(*(args if isinstance(args, tuple) else (args,)), **(kwargs or {}))
