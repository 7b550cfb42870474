"""Functions of layers in PyTorch's names and argument order; ``dim`` may be written ``axis``, too."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
