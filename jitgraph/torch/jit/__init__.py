"""``torch.jit``: archives of TorchScript as modules, without PyTorch."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
