"""``torch.nn.modules.transformer``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
