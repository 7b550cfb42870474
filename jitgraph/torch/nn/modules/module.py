"""``torch.nn.modules.module``."""

from jitgraph.nn.module import Keys as _IncompatibleKeys
from jitgraph.torch.nn.module import Module

__all__ = ["Module", "_IncompatibleKeys"]
