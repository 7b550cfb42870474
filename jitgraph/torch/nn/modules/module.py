"""``torch.nn.modules.module``."""

from jitgraph.torch.nn.module import Module, _IncompatibleKeys

__all__ = ["Module", "_IncompatibleKeys"]
