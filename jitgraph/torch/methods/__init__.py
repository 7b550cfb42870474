"""Methods of ``torch.Tensor`` that are no functions of ``torch``: writes in place, copies, casts by name."""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
