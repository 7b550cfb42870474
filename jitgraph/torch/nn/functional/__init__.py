"""``torch.nn.functional``: jitgraph's functions, whose results are ``torch.Tensor``."""

from __future__ import annotations

import sys
from typing import Any

from jitgraph.runtime import stubs
from jitgraph.torch.adapters import torch_function

_attribute, __dir__ = stubs.attach(__name__)


def __getattr__(name: str) -> Any:
    value = _attribute(name)
    if stubs.of(__name__).homes.get(name, ("", ""))[0].startswith("jitgraph.nn."):
        value = torch_function(value)
    setattr(sys.modules[__name__], name, value)
    return value
