"""``torch.optim``: jitgraph's optimisers in PyTorch's classes.

What the stub takes from ``jitgraph.optim`` is an optimiser of it, which becomes PyTorch's (``optimizer.optimizer``).
"""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import stubs

_attribute, __dir__ = stubs.attach(__name__)


def __getattr__(name: str) -> Any:
    value = _attribute(name)
    if isinstance(value, type) and stubs.of(__name__).homes[name][0].startswith("jitgraph.optim."):
        from jitgraph.torch.optim.optimizer import optimizer

        value = optimizer(value)
    setattr(sys.modules[__name__], name, value)
    return value
