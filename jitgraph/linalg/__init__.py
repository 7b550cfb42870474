"""Linear algebra with the Array API's names and more with PyTorch's: matrices are the last two axes, after batches.

float32, float64 and complex numbers on the CPU, where NumPy's ``linalg`` computes them, also for compiled code.
LinAlgError where a matrix has no such inverse or decomposition.
"""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
