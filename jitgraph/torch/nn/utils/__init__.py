"""``torch.nn.utils``: jitgraph's tools for modules and their gradients."""

from jitgraph.torch import packages
from jitgraph.torch.adapters import torch_function

__getattr__, __dir__ = packages.attach(__name__, "jitgraph.nn.utils.", torch_function)
