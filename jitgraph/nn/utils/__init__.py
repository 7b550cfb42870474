"""What PyTorch keeps in ``nn.utils``."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
