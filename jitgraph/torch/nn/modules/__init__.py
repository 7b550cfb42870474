"""``torch.nn.modules``: the layers of ``torch.nn``, by the names of PyTorch's own modules."""

from __future__ import annotations

import importlib.util
from typing import Any

from jitgraph.torch import nn


def layer(name: str) -> Any:
    """A name of ``torch.nn``, for the ``__getattr__`` of a module of PyTorch's layout."""
    if name.startswith("__"):  # what import and inspection ask of a module is not torch.nn's
        raise AttributeError(name)
    if name.islower() and importlib.util.find_spec(f"{__name__}.{name}") is not None:
        return importlib.import_module(f"{__name__}.{name}")
    return getattr(nn, name)


__getattr__ = layer
