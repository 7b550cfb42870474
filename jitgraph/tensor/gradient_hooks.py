"""Functions that see the gradient of one tensor on its way, and may change it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Self

from jitgraph import dtypes, ops
from jitgraph.eager import tape
from jitgraph.eager.handle import Api, ValueHandle, class_of_tensors
from jitgraph.errors import JitgraphError, ShapeError, TraceError
from jitgraph.ir import context
from jitgraph.tensor import gradients
from jitgraph.tensor.tensor import Tensor

Hook = Callable[[Any], Any]
_STATES = itertools.count(1)
_leaf_hooks: set[int] = set()  # the ids of the entries of leaves, which traces that are recorded now contain


class HookHandle:
    """What ``register_hook`` gives; ``remove()``, or the end of a ``with`` block, takes the hook away."""

    def __init__(self, remove: Callable[[], None]) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Take the hook away; nothing where that has been done."""
        self._remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def registered(x: Tensor, hook: Hook) -> HookHandle:
    """As ``Tensor.register_hook``."""
    if not callable(hook):
        raise JitgraphError(f"a hook is a function, not a {type(hook).__name__}")
    if not x.requires_grad:
        raise JitgraphError("register_hook of a tensor that requires no gradient\n  hint: x.requires_grad_() before")
    trace = context.current().trace
    if trace is not None:
        remove: Callable[[], None] = trace.watch_gradient(x, hook)
        return HookHandle(remove)
    value = x.value
    is_leaf = x._requires_grad
    if (
        isinstance(value.record, tape.LeafRecord) and not is_leaf
    ):  # a second handle on a leaf's value: a tensor of its own
        one = ops.full_like(1.0, value) if not dtypes.is_complex(value.dtype) else None
        x._rebind((x * 1.0).value if one is None else ops.mul(value, one))
        value = x.value
    api = x._api  # the hook lives as long as x, and x shall not live as long as the hook
    entry = value.output, lambda ct: changed(hook, ct, api)
    return entered(tape.HOOKS, x if is_leaf else value.record, entry, is_leaf)


def registered_after(x: Tensor, hook: Callable[[Any], Any]) -> HookHandle:
    """Call ``hook(x)`` whenever a backward has accumulated ``x.grad``, in traces as part of the code.

    JitgraphError where x is no leaf that requires a gradient, TraceError in a trace.
    """
    if not x._requires_grad:
        raise JitgraphError("a hook after the accumulation of .grad is for leaves that require a gradient")
    if context.current().trace is not None:
        raise TraceError("a hook of .grad is registered in a trace", hint="register it before the traced function runs")
    return entered(gradients.AFTER, x, hook, True)


def entered(table: dict[int, list[Any]], watched: Any, entry: Any, is_leaf: bool) -> HookHandle:
    """The handle of an entry that ``table`` has for an object from now on, until the object goes."""
    key = id(watched)
    if key not in table:
        table[key] = []
        weakref.finalize(watched, _forget, table, key).atexit = False
    entries = table[key]
    entries.append(entry)
    if is_leaf:
        _leaf_hooks.add(id(entry))
        _tell_traces()

    def remove() -> None:
        if entry in entries:
            entries.remove(entry)
        if id(entry) in _leaf_hooks:
            _leaf_hooks.discard(id(entry))
            _tell_traces()

    return HookHandle(remove)


def _forget(table: dict[int, list[Any]], key: int) -> None:
    """Drop the hooks of what is gone; when no leaf has any left, traces may be stored again.

    In a recording, which goes by the context that it began under, that waits for the next change.
    """
    _leaf_hooks.difference_update(map(id, table.pop(key, ())))
    if not _leaf_hooks and context.OUTERMOST[0].hooks is not None and context.current().trace is None:
        _tell_traces()


def _tell_traces() -> None:
    """A trace contains the hooks of the leaves at its recording: with others it is recorded anew."""
    context.set_everywhere(hooks=next(_STATES) if _leaf_hooks else None)


def changed(hook: Hook, ct: Any, api: Api) -> Any:
    """The value of the gradient behind a hook, which gets a tensor of this API; errors for what is no gradient of the
    tensor."""
    replacement = hook(class_of_tensors(api)._of(ct))
    if replacement is None:
        return ct
    if not isinstance(replacement, ValueHandle):
        raise JitgraphError(f"a hook gives a tensor or None, not a {type(replacement).__name__}")
    value = replacement.value
    if value.type != ct.type:
        raise ShapeError(f"a hook gives {value.type} for the gradient {ct.type}")
    return value
