"""``torch.utils``: loading of data, and functions that are computed again for their gradient."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
