"""``torch.cuda``: the names of ``jitgraph.cuda`` as PyTorch has them. All import, and some work, without a GPU."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
