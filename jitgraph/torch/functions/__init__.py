"""PyTorch's functions by subject. Those that the stub marks are methods of ``Tensor``, too."""

from jitgraph.runtime import stubs
from jitgraph.tensor.functions import method
from jitgraph.torch.tensors import Tensor

__getattr__, __dir__ = stubs.attach(__name__)
method.attach(stubs.of(__name__).methods, Tensor, __name__)
