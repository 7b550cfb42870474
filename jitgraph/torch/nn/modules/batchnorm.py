"""``torch.nn.modules.batchnorm``."""

from jitgraph.nn.normalization import ChannelNorm as _BatchNorm
from jitgraph.nn.normalization import RunningNorm as _NormBase
from jitgraph.torch.nn.modules import layer

__all__ = ["_BatchNorm", "_NormBase"]

__getattr__ = layer
