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
from jitgraph.runtime import forks
from jitgraph.tensor.tensor import Tensor

Hook = Callable[[Any], Any]
_NUMBERS = itertools.count(1)
_CHANGING = forks.lock()


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
    api = x._api
    return entered(x if is_leaf else value.record, value.output, lambda ct: changed(hook, ct, api))


def registered_after(x: Tensor, hook: Callable[[Any], Any]) -> HookHandle:
    """Call ``hook(x)`` whenever a backward has accumulated ``x.grad``, in traces as part of the code.

    JitgraphError where x is no leaf that requires a gradient, TraceError in a trace.
    """
    if not x._requires_grad:
        raise JitgraphError("a hook after the accumulation of .grad is for leaves that require a gradient")
    if context.current().trace is not None:
        raise TraceError("a hook of .grad is registered in a trace", hint="register it before the traced function runs")
    return entered(x, tape.ACCUMULATED, hook)


def entered(owner: Any, when: int, hook: Callable[..., Any]) -> HookHandle:
    """The handle of a hook that ``owner``, a leaf or a record of the tape, has from now on (``tape.Hooks``).

    The owner alone refers to the hook, which may refer to the owner: the collector sees that circle.
    """
    key = next(_NUMBERS)
    with _CHANGING:
        hooks = _hooks_of(owner)
        _change(hooks, lambda entries: (*entries, (key, when, hook)))
        if isinstance(owner, ValueHandle):
            owner._hooks = hooks
    reference, leaf = weakref.ref(hooks), weakref.ref(owner)

    def remove() -> None:
        hooks = reference()
        if hooks is not None:
            with _CHANGING:
                _change(hooks, lambda entries: tuple([entry for entry in entries if entry[0] != key]))
                handle = leaf()
                if isinstance(handle, ValueHandle) and handle._hooks is hooks and not hooks.entries:
                    handle._hooks = None  # as traces expect that were recorded before

    return HookHandle(remove)


def _hooks_of(owner: Any) -> tape.Hooks:
    """The hooks of a leaf or a record; those of a leaf are its record's, too."""
    is_leaf = isinstance(owner, ValueHandle)
    record = owner.value.record if is_leaf else owner
    hooks = (owner._hooks if is_leaf else None) or record.hooks or tape.Hooks()
    record.hooks = hooks
    return hooks


def _change(hooks: tape.Hooks, change: Callable[[Any], Any]) -> None:
    """Change the entries; a hook that ends meanwhile may have ``remove()`` called."""
    while True:
        before = hooks.entries
        after = change(before)
        if hooks.entries is before:
            hooks.entries = after
            hooks.number = next(_NUMBERS)
            return


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
