"""``torch.nn.modules.sparse``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
