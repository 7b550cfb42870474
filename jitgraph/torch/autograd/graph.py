"""``torch.autograd.graph``: hooks of several gradients; what gradients save is decided here when they are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any


class _Handles:
    """The hooks of several tensors, which are removed at once."""

    def __init__(self, handles: list[Any]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Call the hook no more."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *failure: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Any], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Call ``fn(gradients)`` once the gradients of all tensors are known; with ``mode="any"`` ``fn`` of the first one.

    All of them are expected to get a gradient in every backward; the next one begins when they have.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    known: dict[int, Any] = {}

    def note(number: int, gradient: Any) -> None:
        if mode == "any" and not known:
            fn(gradient)
        known[number] = gradient
        if len(known) == len(tensors):
            found = [known[i] for i in range(len(tensors))]
            known.clear()
            if mode == "all":
                fn(found)

    def hook_of(number: int) -> Callable[[Any], None]:
        return lambda gradient: note(number, gradient)

    return _Handles([tensor.register_hook(hook_of(number)) for number, tensor in enumerate(tensors)])


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[None]:
    """A block in which tensors may be written that a gradient needs: always so here, as it has the values of before."""
    yield
