"""``torch.nn.modules.rnn``."""

from jitgraph.torch.nn.modules import layer

__getattr__ = layer
