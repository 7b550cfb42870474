"""``torch.nn.functional``: jitgraph's functions, whose results are ``torch.Tensor``."""

from __future__ import annotations

from typing import Any

from jitgraph.torch import packages


def _adapted(value: Any) -> Any:
    from jitgraph.torch.adapters import torch_function  # here, as it loads what tensors are made of

    return torch_function(value)


__getattr__, __dir__ = packages.attach(__name__, "jitgraph.nn.", _adapted)
