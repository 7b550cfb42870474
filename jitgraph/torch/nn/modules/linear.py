"""``torch.nn.modules.linear``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
