"""``torch.utils.data``: jitgraph's datasets, samplers and loaders, whose batches are ``torch.Tensor``."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
