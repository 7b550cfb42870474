"""``torch.nn``: jitgraph's modules in PyTorch's classes.

What the stub takes from ``jitgraph.nn`` is a layer of it, which becomes PyTorch's (``module.layer``).
"""

from __future__ import annotations

from typing import Any

from jitgraph.torch import packages


def _adapted(value: Any) -> Any:
    from jitgraph.torch.nn.module import layer  # here, as it loads what modules are made of

    return layer(value) if isinstance(value, type) else value


__getattr__, __dir__ = packages.attach(__name__, "jitgraph.nn.", _adapted)
