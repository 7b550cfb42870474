"""Functions that see the gradient of one tensor on its way, and may change it."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any, Self

from jitgraph import dtypes, ops
from jitgraph.eager import tape
from jitgraph.eager.handle import Api, ValueHandle, class_of_tensors
from jitgraph.errors import JitgraphError, ShapeError
from jitgraph.ir import context
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
    return _entered(x if is_leaf else value.record, value.output, hook, is_leaf, x._api)


def _entered(watched: Any, output: int, hook: Hook, is_leaf: bool, api: Api) -> HookHandle:
    key, entry = id(watched), (output, lambda ct: changed(hook, ct, api))
    if key not in tape.HOOKS:
        tape.HOOKS[key] = []
        weakref.finalize(watched, _forget, key).atexit = False
    entries = tape.HOOKS[key]
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


def _forget(key: int) -> None:
    """Drop the hooks of what is gone; when no leaf has any left, traces may be stored again.

    In a recording, which goes by the context that it began under, that waits for the next change.
    """
    _leaf_hooks.difference_update(map(id, tape.HOOKS.pop(key, ())))
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
