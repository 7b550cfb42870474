"""``torch.autograd.grad_mode``: what of the ops in a block is recorded for gradients."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, ClassVar, Final, Self

from jitgraph.ir import context
from jitgraph.torch.autograd.modes import FixedMode, Mode, SetMode

_inference: Final[ContextVar[bool]] = ContextVar("jitgraph_torch_inference", default=False)


class no_grad(FixedMode):  # noqa: N801 - PyTorch's name
    """A block or decorator in which nothing is recorded for gradients."""

    changes: ClassVar[dict[str, Any]] = {"grad_enabled": False}


class enable_grad(FixedMode):  # noqa: N801 - PyTorch's name
    """A block or decorator in which ops are recorded for gradients, also inside ``no_grad``."""

    changes: ClassVar[dict[str, Any]] = {"grad_enabled": True}


class set_grad_enabled(SetMode):  # noqa: N801 - PyTorch's name
    """Record ops for gradients from here on, or not; a block, in which that holds, and a decorator, too."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        super().__init__(grad_enabled=bool(mode))


class inference_mode(Mode):  # noqa: N801 - PyTorch's name
    """A block or decorator for code whose results no gradient ever passes: nothing is recorded in it."""

    def __new__(cls, mode: Any = True) -> Self:
        new = super().__new__(cls)
        if isinstance(mode, bool):
            return new
        new.__init__()  # type: ignore[misc]
        return new(mode)  # type: ignore[return-value]

    def __init__(self, mode: bool | Callable[..., Any] = True) -> None:
        self.mode = mode is not False
        super().__init__(grad_enabled=not self.mode)
        self._tokens: list[Any] = []

    def __enter__(self) -> None:
        super().__enter__()
        self._tokens.append(_inference.set(self.mode))

    def __exit__(self, *failure: object) -> None:
        _inference.reset(self._tokens.pop())
        super().__exit__(*failure)

    def clone(self) -> Mode:
        """Another such block."""
        return inference_mode(self.mode)


class set_multithreading_enabled(Mode):  # noqa: N801 - PyTorch's name
    """Taken and not used: a gradient is one compiled call, whose threads are the pool's."""

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        super().__init__()


def is_grad_enabled() -> bool:
    """Whether ops are recorded for gradients just now."""
    return context.current().grad_enabled


def is_inference_mode_enabled() -> bool:
    """Whether an ``inference_mode`` is in force."""
    return _inference.get()
