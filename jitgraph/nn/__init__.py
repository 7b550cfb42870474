"""Neural network modules, in PyTorch's names."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
