"""PyTorch's names over jitgraph: ``import jitgraph.torch as torch`` runs PyTorch programs as they are."""

from jitgraph.runtime import stubs
from jitgraph.torch import functions as functions
from jitgraph.torch import methods as methods

inf = float("inf")
nan = float("nan")
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None
__version__ = "2.13.0"

__getattr__, __dir__ = stubs.attach(__name__)
