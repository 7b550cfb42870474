"""ONNX models: ``load`` makes a module of one, and ``export`` writes a function as one.

Both need the package onnx (``pip install jitgraph[onnx]``), which is imported when one of them is called.
"""

from jitgraph.runtime import stubs

__getattr__, __dir__ = stubs.attach(__name__)
