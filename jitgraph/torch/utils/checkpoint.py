"""``torch.utils.checkpoint``: functions whose insides are computed again in the backward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jitgraph as jg
from jitgraph.torch.tensors import adopted


class CheckpointError(RuntimeError):
    """PyTorch's error for a function that computes something else the second time, which does not happen here."""


def noop_context_fn() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
    """The contexts in which PyTorch's two runs of a function stand unless told otherwise."""
    return nullcontext(), nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], Any] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """``function(*args, **kwargs)``, for whose gradient only arguments and results are saved, as ``jg.checkpoint``.

    The other keywords choose among PyTorch's implementations and change nothing; RuntimeError for a ``context_fn``.
    """
    if context_fn is not noop_context_fn:
        raise RuntimeError("checkpoint(context_fn=) is not there: what is saved are arguments and results alone")

    def call(*inputs: Any, **named: Any) -> Any:
        return function(*adopted(inputs), **adopted(named))

    return adopted(jg.checkpoint(call)(*args, **kwargs))


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """Functions one after another, a ``Sequential`` or a list, of which every segment but the last is checkpointed."""
    parts = list(functions.children() if isinstance(functions, jg.nn.Module) else functions)
    size = len(parts) // segments
    for number in range(segments - 1):
        input = checkpoint(_in_a_row(parts[number * size : (number + 1) * size]), input, **kwargs)
    return _in_a_row(parts[(segments - 1) * size :])(input)


def _in_a_row(functions: Iterable[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def run(input: Any) -> Any:
        for function in functions:
            input = function(input)
        return input

    return run


def set_checkpoint_early_stop(enable: bool) -> AbstractContextManager[None]:
    """A block that changes nothing: the second run computes what the gradient needs alone."""
    return nullcontext()


def set_checkpoint_debug_enabled(enabled: bool | None) -> AbstractContextManager[None]:
    """A block that changes nothing: both runs are one graph here."""
    return nullcontext()
