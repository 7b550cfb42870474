"""``torch.func``: transforms of functions, over jitgraph's."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
