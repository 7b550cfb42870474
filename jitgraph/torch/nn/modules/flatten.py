"""``torch.nn.modules.flatten``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
