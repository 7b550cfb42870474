"""Gradients in PyTorch's terms: where they are recorded, and the derivatives of outputs by inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from jitgraph.eager import tape
from jitgraph.errors import JitgraphError
from jitgraph.ir import context
from jitgraph.tensor import Tensor, TensorLike, wrap_as
from jitgraph.tensor.gradients import cotangent

# ----------------------------------------------------------------------
# Blocks, which are decorators too, that say what of the ops in them is recorded for gradients and checked.


@contextmanager
def set_grad_enabled(enabled: bool) -> Iterator[None]:
    """Record ops for gradients inside the block, or not; also a decorator."""
    with context.using(grad_enabled=enabled):
        yield


def no_grad() -> Any:
    """A block (or decorator) in which nothing is recorded for gradients."""
    return set_grad_enabled(False)


def enable_grad() -> Any:
    """A block (or decorator) in which ops are recorded for gradients, also inside ``no_grad``."""
    return set_grad_enabled(True)


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """A block in which an op that gives NaN or infinity from finite operands raises AnomalyError.

    In a gradient the error names the op that is differentiated and its line. Traced functions run eagerly in it; the
    gradient of what was compiled before is computed op by op, for which the forward runs once more.
    """
    with context.using(anomaly=True):
        yield


# ----------------------------------------------------------------------
# ``backward`` and ``grad`` of tensors, eager and traced, in PyTorch's terms.


def backward(
    tensor: Tensor, gradient: TensorLike | None = None, *, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Accumulate d tensor / d leaf into ``.grad`` of every leaf handle that requires a gradient.

    ``tensor`` has one element unless ``gradient`` (its cotangent, of its shape and dtype) is given.
    """
    tensor.backward(gradient, retain_graph=retain_graph, create_graph=create_graph)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of the sum of ``outputs`` (weighted by ``grad_outputs``) with respect to ``inputs``, as a tuple.

    Leaves ``.grad`` alone. An input on which nothing depends is an error, or None under ``allow_unused``.
    """
    ys = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    xs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs or [None] * len(ys))
    if len(seeds) != len(ys):
        raise JitgraphError(f"grad(): {len(seeds)} grad_outputs for {len(ys)} outputs")
    for x in xs:
        if not x.requires_grad:
            raise JitgraphError("grad() with respect to a tensor without requires_grad\n  hint: x.requires_grad_()")
    keep = create_graph if retain_graph is None else retain_graph or create_graph
    trace = context.current().trace
    if trace is not None:
        return tuple(trace.grad(ys, seeds, xs, create_graph=create_graph, retain_graph=keep, allow_unused=allow_unused))
    targets = [x.value for x in xs]
    gradients = tape.sweep(
        [y.value for y in ys],
        [cotangent(y, weight) for y, weight in zip(ys, seeds, strict=True)],
        targets=targets,
        create_graph=create_graph,
        retain_graph=keep,
    )
    results: list[Tensor | None] = []
    for number, target in enumerate(targets):
        value = gradients.get((target.record, target.output))
        if value is None and not allow_unused:
            raise JitgraphError(f"outputs do not depend on input {number}\n  hint: pass allow_unused=True to get None")
        results.append(None if value is None else wrap_as(value, xs[number]))
    return tuple(results)
