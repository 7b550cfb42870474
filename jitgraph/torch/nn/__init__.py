"""``torch.nn``: jitgraph's modules in PyTorch's classes.

What the stub takes from ``jitgraph.nn`` is a layer of it, which becomes PyTorch's (``module.layer``).
"""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import stubs

_attribute, __dir__ = stubs.attach(__name__)


def __getattr__(name: str) -> Any:
    value = _attribute(name)
    if isinstance(value, type) and stubs.of(__name__).homes[name][0].startswith("jitgraph.nn."):
        from jitgraph.torch.nn.module import layer

        value = layer(value)
    setattr(sys.modules[__name__], name, value)
    return value
