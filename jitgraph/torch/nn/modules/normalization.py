"""``torch.nn.modules.normalization``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
