"""``torch.optim.lr_scheduler``: jitgraph's schedules, which have no tensors."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
