"""The array functions of ``jg``; importing this package gives Tensor its methods, which load when first used."""

from jitgraph.runtime import stubs
from jitgraph.tensor.functions import method

__getattr__, __dir__ = stubs.attach(__name__)

method.attach(stubs.of(__name__).marked("method"))
