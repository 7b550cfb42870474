"""``torch.distributions``: densities, draws, entropies and divergences over the functions of ``torch``."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
