"""``torch.optim``: jitgraph's optimisers in PyTorch's classes.

What the stub takes from ``jitgraph.optim`` is an optimiser of it, which becomes PyTorch's (``optimizer.optimizer``).
"""

from __future__ import annotations

from typing import Any

from jitgraph.torch import packages


def _adapted(value: Any) -> Any:
    from jitgraph.torch.optim.optimizer import optimizer  # here, as it loads what optimisers are made of

    return optimizer(value) if isinstance(value, type) else value


__getattr__, __dir__ = packages.attach(__name__, "jitgraph.optim.", _adapted)
