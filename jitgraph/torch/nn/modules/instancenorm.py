"""``torch.nn.modules.instancenorm``."""

from jitgraph.nn.normalization import _InstanceNorm as _InstanceNorm
from jitgraph.torch.nn.modules import layer

__all__ = ["_InstanceNorm"]

__getattr__ = layer
