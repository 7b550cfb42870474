"""``torch.nn.modules.dropout``; ``_DropoutNd`` is for isinstance."""

from jitgraph.nn.activations import Dropout as _DropoutNd
from jitgraph.torch.nn.modules import layer

__all__ = ["_DropoutNd"]

__getattr__ = layer
