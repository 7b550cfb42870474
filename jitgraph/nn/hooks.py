"""Calls of modules that have hooks, and the handles that take hooks away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from jitgraph import migration_hints
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor

_passed: Any = imports.function("jitgraph.transforms.custom", "passing")

if TYPE_CHECKING:
    from jitgraph.nn.module import Module

Hook = tuple[str, Callable[..., Any], bool]  # when it runs, the function, and what it takes beside


class RemovableHandle:
    """What registering a hook gives; ``remove()``, or the end of a ``with`` block, takes the hook away."""

    def __init__(self, module: Any, hook: Hook, attribute: str = "_hooks") -> None:
        self._module, self._hook, self._place = module, hook, attribute

    def remove(self) -> None:
        """Take the hook away; nothing where that has been done."""
        left = tuple(hook for hook in getattr(self._module, self._place) if hook is not self._hook)
        setattr(self._module, self._place, left)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def registered(
    module: Any, when: str, function: Callable[..., Any], flag: bool = False, first: bool = False, at: str = "_hooks"
) -> RemovableHandle:
    """The handle of a hook that now stands first or last among those of the attribute ``at``.

    ``when`` is "before", "after", "always", "results" or "gradients" of a call, or "saving", "saved", "loading" or
    "loaded" of a state dict; ``flag`` is what the function takes beside, as the methods of ``Hooked`` say.
    """
    if not callable(function):
        raise JitgraphError(f"a hook is a function, not a {type(function).__name__}")
    hook: Hook = (when, function, flag)
    there = getattr(module, at)
    setattr(module, at, (hook, *there) if first else (*there, hook))
    return RemovableHandle(module, hook, at)


class _Everywhere:
    """What has the hooks of all modules, which run before those of a module."""

    _hooks: tuple[Hook, ...] = ()


EVERYWHERE: Final = _Everywhere()


class Elsewhere:
    """Stands for a method of PyTorch's that is none here: AttributeError with what to write instead."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, module: Any, kind: type) -> Any:
        hint = migration_hints.advice("module", self._name)
        raise AttributeError(f"a {kind.__name__} has no attribute {self._name!r}{hint}")


class Hooked:
    """What registers functions around calls, gradients and state dicts of a module."""

    _hooks: tuple[Hook, ...]
    _state_hooks: tuple[Hook, ...] = ()

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> RemovableHandle:
        """Call ``hook(module, args)`` before each forward; what it returns replaces the arguments.

        With ``with_kwargs`` it is ``hook(module, args, kwargs)`` and returns (args, kwargs). ``prepend`` puts it before
        the hooks that are there. Returns a handle with ``remove()``.
        """
        return registered(self, "before", hook, with_kwargs, prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> RemovableHandle:
        """Call ``hook(module, args, result)`` after each forward; what it returns replaces the result.

        With ``with_kwargs`` it is ``hook(module, args, kwargs, result)``; with ``always_call`` it is called with a
        result of None, too, where forward raises. Returns a handle with ``remove()``.
        """
        return registered(self, "always" if always_call else "after", hook, with_kwargs, prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_input, grad_output)`` when gradients of arguments and results are known.

        Both are tuples, with None for an argument that needs no gradient; what the hook returns replaces
        ``grad_input``. Returns a handle with ``remove()``. TraceError where the module is called in a trace.
        """
        return registered(self, "gradients", hook, False, prepend)

    register_backward_hook = register_full_backward_hook  # PyTorch's older hook saw other gradients for some modules

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Call ``hook(module, grad_output)`` before the gradients of results go into the module.

        What it returns replaces ``grad_output``. Returns a handle with ``remove()``. TraceError where the module is
        called in a trace.
        """
        return registered(self, "results", hook, False, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before the module's part of a state dict is made."""
        return registered(self, "saving", hook, at="_state_hooks")

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` when the module's part is there, to change it.

        ``local_metadata`` is an empty dict.
        """
        return registered(self, "saved", hook, at="_state_hooks")

    _register_state_dict_hook = register_state_dict_post_hook  # as older code names it

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors)`` before a load.

        It may change the dict, which is a copy; texts that it adds to the list ``errors`` make the load fail.
        """
        return registered(self, "loading", hook, True, at="_state_hooks")

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> RemovableHandle:
        """As ``register_load_state_dict_pre_hook``, of a function without the module; as older code names it."""
        return registered(self, "loading", hook, with_module, at="_state_hooks")

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(module, keys)`` after a load; it may change the lists ``missing_keys`` and ``unexpected_keys``.

        With ``strict`` keys that are left in them are an error, and the load is undone.
        """
        return registered(self, "loaded", hook, at="_state_hooks")


def _of(module: Any, when: str) -> list[Hook]:
    return [hook for hook in (*EVERYWHERE._hooks, *module._hooks) if hook[0] == when]


def called(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """``forward`` with what the hooks make of its arguments, its result and its gradients."""
    for _, function, with_kwargs in _of(module, "before"):
        changed = function(module, args, kwargs) if with_kwargs else function(module, args)
        if changed is not None and with_kwargs:
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise JitgraphError("a forward pre-hook with kwargs returns None or (args, kwargs)")
            args, kwargs = changed
        elif changed is not None:
            args = changed if isinstance(changed, tuple) else (changed,)
    watch = _Watch(module, args) if _of(module, "gradients") or _of(module, "results") else None
    if watch:
        args = watch.arguments(args)
    try:
        result = module.forward(*args, **kwargs)
    except Exception:
        for _, function, with_kwargs in _of(module, "always"):
            function(module, args, kwargs, None) if with_kwargs else function(module, args, None)
        raise
    for when, function, with_kwargs in (*EVERYWHERE._hooks, *module._hooks):
        if when not in ("after", "always"):
            continue
        changed = function(module, args, kwargs, result) if with_kwargs else function(module, args, result)
        result = result if changed is None else changed
    return watch.results(result) if watch else result


class _Watch:
    """The gradients of one call: those of its results are kept until those of its arguments are there."""

    def __init__(self, module: Module, args: tuple[Any, ...]) -> None:
        if context.current().trace is not None:
            raise TraceError(
                f"{type(module).__name__} has a full backward hook, which is Python code that runs with backward()",
                hint="call it outside of traces, or take jg.grad of what the hook would see",
            )
        self._module = module
        self._of_results: tuple[Any, ...] = ()
        self._watched = [isinstance(x, Tensor) and bool(x.requires_grad) for x in args]

    def arguments(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments, behind which gradients pass the hooks."""
        watched = [x for x, flag in zip(args, self._watched, strict=True) if flag]
        if not watched:
            return args

        def on_gradients(cts: tuple[Any, ...]) -> tuple[Any, ...]:
            filled = iter(cts)
            inputs = tuple(next(filled) if flag else None for flag in self._watched)
            changed = self._run(inputs)
            return tuple(ct for ct, flag in zip(changed, self._watched, strict=True) if flag)

        passed = iter(_passed(on_gradients, *watched))
        return tuple(next(passed) if flag else x for x, flag in zip(args, self._watched, strict=True))

    def results(self, result: Any) -> Any:
        """The results, whose gradients are remembered; JitgraphError for what is neither a tensor nor a tuple."""
        outputs = result if isinstance(result, tuple) else (result,)
        if not all(isinstance(x, Tensor) for x in outputs):
            raise JitgraphError("a module with a full backward hook returns a tensor or a tuple of tensors")

        def on_gradients(cts: tuple[Any, ...]) -> tuple[Any, ...]:
            for _, function, _ in _of(self._module, "results"):
                changed = function(self._module, cts)
                if changed is not None:
                    cts = changed if isinstance(changed, tuple) else (changed,)
                    if len(cts) != len(outputs):
                        raise JitgraphError(f"a full backward pre-hook gives {len(cts)} of {len(outputs)} gradients")
            self._of_results = cts
            if not any(self._watched):
                self._run((None,) * len(self._watched))
            return cts

        if not any(x.requires_grad for x in outputs):
            return result
        passed = _passed(on_gradients, *outputs)
        return passed if isinstance(result, tuple) else passed[0]

    def _run(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for _, function, _ in _of(self._module, "gradients"):
            changed = function(self._module, inputs, self._of_results)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
                if len(inputs) != len(self._watched):
                    raise JitgraphError(f"a full backward hook gives {len(inputs)} of {len(self._watched)} gradients")
        return inputs
