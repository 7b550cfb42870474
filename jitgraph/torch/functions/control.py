"""Control flow by functions, whose conditions are values of tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jitgraph as jg
from jitgraph.torch.adapters import torch_function


@torch_function
def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()) -> Any:
    """``true_fn(*operands)`` where ``pred`` holds, else ``false_fn(*operands)``."""
    return jg.cond(pred, true_fn, false_fn, *operands)


@torch_function
def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Sequence[Any]) -> Any:
    """Repeat ``carried = body_fn(*carried)`` while ``cond_fn(*carried)`` holds."""
    return jg.while_loop(
        lambda carried: cond_fn(*carried), lambda carried: tuple(body_fn(*carried)), tuple(carried_inputs)
    )
