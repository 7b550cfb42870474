"""``torch.nn.modules.activation``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
