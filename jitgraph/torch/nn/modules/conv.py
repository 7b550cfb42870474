"""``torch.nn.modules.conv``; ``_ConvNd`` and ``_ConvTransposeNd`` are for isinstance."""

from jitgraph.nn.convolution import _Conv, _ConvTranspose
from jitgraph.torch.nn.modules import layer

_ConvNd = (_Conv, _ConvTranspose)
_ConvTransposeNd = _ConvTranspose
__getattr__ = layer
