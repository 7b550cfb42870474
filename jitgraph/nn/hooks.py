"""Calls of modules that have hooks, and the handles that take hooks away."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.runtime import imports
from jitgraph.tensor import Tensor

if TYPE_CHECKING:
    from jitgraph.nn.module import Module

Hook = tuple[str, Callable[..., Any], bool]  # when it runs, the function, and whether it takes keyword arguments


class RemovableHandle:
    """What registering a hook gives; ``remove()``, or the end of a ``with`` block, takes the hook away."""

    def __init__(self, module: Module, hook: Hook) -> None:
        self._module, self._hook = module, hook

    def remove(self) -> None:
        """Take the hook away; nothing where that has been done."""
        self._module._hooks = tuple(hook for hook in self._module._hooks if hook is not self._hook)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *raised: object) -> None:
        self.remove()


def registered(
    module: Module, when: str, function: Callable[..., Any], with_kwargs: bool, first: bool
) -> RemovableHandle:
    """The handle of a hook that now stands first or last; ``when`` is "before", "after", "results" or "gradients"."""
    if not callable(function):
        raise JitgraphError(f"a hook is a function, not a {type(function).__name__}")
    hook: Hook = (when, function, with_kwargs)
    module._hooks = (hook, *module._hooks) if first else (*module._hooks, hook)
    return RemovableHandle(module, hook)


def _of(module: Module, when: str) -> list[Hook]:
    return [hook for hook in module._hooks if hook[0] == when]


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
    result = module.forward(*args, **kwargs)
    for _, function, with_kwargs in _of(module, "after"):
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
        given = [x for x, flag in zip(args, self._watched, strict=True) if flag]
        if not given:
            return args

        def on_gradients(cts: tuple[Any, ...]) -> tuple[Any, ...]:
            filled = iter(cts)
            inputs = tuple(next(filled) if flag else None for flag in self._watched)
            changed = self._run(inputs)
            return tuple(ct for ct, flag in zip(changed, self._watched, strict=True) if flag)

        passed = iter(_passed(on_gradients, given))
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
        passed = _passed(on_gradients, outputs)
        return passed if isinstance(result, tuple) else passed[0]

    def _run(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        for _, function, _ in _of(self._module, "gradients"):
            changed = function(self._module, inputs, self._of_results)
            if changed is not None:
                inputs = changed if isinstance(changed, tuple) else (changed,)
                if len(inputs) != len(self._watched):
                    raise JitgraphError(f"a full backward hook gives {len(inputs)} of {len(self._watched)} gradients")
        return inputs


def _passed(on_gradients: Callable[[tuple[Any, ...]], tuple[Any, ...]], xs: Any) -> tuple[Any, ...]:
    """The same tensors, whose gradients pass through a function."""
    function: Any = imports.module("jitgraph.transforms.function").Function

    class Passing(function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *given: Tensor) -> tuple[Tensor, ...]:
            return tuple(x.detach() for x in given)

        @staticmethod
        def backward(ctx: Any, *cts: Tensor) -> tuple[Any, ...]:
            return on_gradients(cts)

    found: tuple[Any, ...] = Passing.apply(*xs)
    return found
