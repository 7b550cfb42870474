"""The public names of ``jitgraph.onnx``, and where each is defined."""

from jitgraph.onnx.exporting.writing import export as export
from jitgraph.onnx.loaded.module import load as load
