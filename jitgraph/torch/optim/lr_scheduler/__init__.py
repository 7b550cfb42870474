"""``torch.optim.lr_scheduler``: jitgraph's schedules, which have no tensors."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
