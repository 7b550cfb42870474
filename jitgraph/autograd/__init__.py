"""Gradients of eager and traced tensors, in PyTorch's terms."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
