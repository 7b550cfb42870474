"""``torch.jit``: archives of TorchScript as modules, without PyTorch."""

from jitgraph.torch import packages

__getattr__, __dir__ = packages.attach(__name__)
