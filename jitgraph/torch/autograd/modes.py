"""Blocks under another context, which are decorators too: the form of PyTorch's grad and anomaly modes."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ClassVar, Self

from jitgraph.ir import context


class Mode:
    """A block, or a decorator with or without parentheses, in which fields of the context have other values."""

    def __init__(self, **changes: Any) -> None:
        self._changes = changes
        self._blocks: list[Any] = []

    def __enter__(self) -> None:
        block = context.using(**self._changes)
        block.__enter__()
        self._blocks.append(block)

    def __exit__(self, *failure: object) -> None:
        self._blocks.pop().__exit__(*failure)

    def clone(self) -> Mode:
        """A mode of the same kind, for a call of what it decorates."""
        return Mode(**self._changes)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function):
            return _steps_in(self.clone, function)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return call


def _steps_in(mode: Callable[[], Mode], function: Callable[..., Any]) -> Callable[..., Any]:
    """A generator function whose generators run in the mode, and whose callers do not."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = functools.partial(next, generator)
        while True:
            try:
                with mode():
                    item = step()
            except StopIteration as end:
                return end.value
            try:
                step = functools.partial(generator.send, (yield item))
            except GeneratorExit:
                with mode():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)

    return call


class FixedMode(Mode):
    """A mode without arguments: ``@torch.no_grad`` and ``@torch.no_grad()`` decorate alike."""

    changes: ClassVar[dict[str, Any]] = {}

    def __new__(cls, orig_func: Callable[..., Any] | None = None) -> Self:
        mode = super().__new__(cls)
        if orig_func is None:
            return mode
        mode.__init__()  # type: ignore[misc]
        return mode(orig_func)  # type: ignore[return-value]

    def __init__(self, orig_func: Callable[..., Any] | None = None) -> None:
        super().__init__(**self.changes)


class SetMode(Mode):
    """A mode that is in force from the call on; as a block until its end, as a decorator in the function alone."""

    def __init__(self, **changes: Any) -> None:
        super().__init__(**changes)
        super().__enter__()

    def __enter__(self) -> None:
        """The mode is in force already."""

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        self.__exit__()
        return super().__call__(function)
