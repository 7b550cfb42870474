"""Blocks, which are decorators too, that say what of the ops in them is recorded for gradients and checked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jitgraph.ir import context


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
