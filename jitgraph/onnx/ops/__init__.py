"""The operators of ONNX by family, each an adapter over jitgraph's functions. ``registry.py`` has their table."""
