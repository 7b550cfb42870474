"""Methods of ``torch.Tensor`` that are no functions of ``torch``: writes in place, copies, casts by name."""

from jitgraph.runtime import stubs
from jitgraph.tensor.functions import method
from jitgraph.torch.tensors import Tensor

__getattr__, __dir__ = stubs.attach(__name__)
method.attach(stubs.of(__name__).marked("method"), Tensor, __name__)
