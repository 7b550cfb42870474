"""``torch.nn.modules.padding``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
