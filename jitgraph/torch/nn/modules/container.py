"""``torch.nn.modules.container``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
