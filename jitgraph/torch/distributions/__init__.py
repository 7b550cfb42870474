"""``torch.distributions``: densities and draws of distributions, over ``jitgraph.random`` and ``torch``'s functions."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
