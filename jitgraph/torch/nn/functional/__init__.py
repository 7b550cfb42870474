"""``torch.nn.functional``: jitgraph's functions, whose results are ``torch.Tensor``."""

from jitgraph.torch import packages
from jitgraph.torch.adapters import torch_function

__getattr__, __dir__ = packages.attach(__name__, "jitgraph.nn.", torch_function)
