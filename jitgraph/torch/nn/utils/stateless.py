"""``torch.nn.utils.stateless``: calls of modules with other parameters."""

from __future__ import annotations

from typing import Any

import jitgraph as jg
from jitgraph.torch.tensors import adopted


def functional_call(
    module: Any,
    parameters_and_buffers: Any,
    args: Any = None,
    kwargs: Any = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """What a module gives with the parameters and buffers of a dict in place of its own."""
    positional = () if args is None else args if isinstance(args, tuple) else (args,)
    return adopted(jg.functional_call(module, parameters_and_buffers, positional, kwargs or {}))
