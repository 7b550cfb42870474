"""``torch.amp``: mixed precision, as jitgraph's."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
