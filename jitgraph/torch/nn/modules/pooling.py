"""``torch.nn.modules.pooling``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
