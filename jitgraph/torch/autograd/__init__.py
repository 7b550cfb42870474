"""``torch.autograd``: gradients in PyTorch's terms, over jitgraph's tape and transforms."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
